#!/usr/bin/env bash
# Synthetic pairs: back-translations of the monolingual target, plain and noisy, and
# forward-translations of the source; filtered, binarised (5.3.3, 5.5.2, 4.3.1).
# shellcheck source=examples/wmt20/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

# Translations of MONO by MODEL, beside what they are of: WORK/synthetic/NAME.made and .given
generate() { # NAME MONO MODEL FLAGS...
  local out="$WORK/synthetic/$1"
  quietly "$out.log" run fairseq-ssl back-translate "$WORK/text/$2" --model "$3" \
    --data-dir "$DATA/genuine" --beam "$BEAM" --lenpen "$LENGTH_PENALTY" "${LENGTHS[@]}" "${@:4}" \
    ${SHARD:+--shard "$SHARD"} -o "$out.made" --given "$out.given" ${FORCE:+--force}
}

# Pairs without those that are too long, too short or too unlike, WORK/kept/NAME.
clean() { # NAME SIDE-OF-SOURCE SIDE-OF-TARGET
  local out="$WORK/synthetic/$1" kept="$WORK/kept/$1" filters
  read -ra filters <<<"$(pair_filters synthetic | paste -sd ' ')"
  quietly "$out.log" run fairseq-ssl filter "$out.$2" "$out.$3" "${filters[@]}" \
    -o "$kept.$SOURCE" "$kept.$TARGET" ${FORCE:+--force}
}

# WORK/kept/NAME as DATA/NAME.
binarise() { # NAME
  local out="$WORK/synthetic/$1" kept="$WORK/kept/$1"
  run rm -rf "$DATA/$1.tmp"
  quietly "$out.log" run fairseq-preprocess -s "$SOURCE" -t "$TARGET" \
    --srcdict "$DATA/genuine/dict.$SOURCE.txt" --tgtdict "$DATA/genuine/dict.$TARGET.txt" \
    --trainpref "$kept" --destdir "$DATA/$1.tmp" --workers "$(nproc)"
  run mv "$DATA/$1.tmp" "$DATA/$1"
}

synthesise() { # NAME MONO MODEL SIDE-OF-SOURCE SIDE-OF-TARGET FLAGS...
  have "$DATA/$1" && return
  if [[ -z "${SHARD:-}" ]]; then
    joined "$WORK/synthetic/$1.made"
    joined "$WORK/synthetic/$1.given"
  fi
  [[ -e "$WORK/synthetic/$1.given" && -z "${FORCE:-}" ]] || generate "$1" "$2" "$3" "${@:6}"
  if [[ -z "${SHARD:-}" ]]; then clean "$1" "$4" "$5" && binarise "$1"; fi
}

# What tells clean pairs from noised ones by PHSIC of word vectors, and by the cross-entropy under
# the model of the other direction than the one that made the pairs (5.5.1).
learned_filter() {
  local language words=() counts=() tokens=() subwords=() genuine=() clean=()
  for language in "$SOURCE" "$TARGET"; do
    word_vectors "$language"
    words+=("$WORK/words.$language.vec") counts+=("$WORK/words.$language.vec.counts")
    subwords+=("$(subword_model "$language")")
    genuine+=("$WORK/true/genuine.$language")
    clean+=("$WORK/true/valid.$language")
    if [[ "$language" == ja ]]; then tokens+=(ja-mecab); else tokens+=(none); fi
  done
  have "$WORK/filter" ||
    quietly "$WORK/filter.log" run fairseq-ssl filter learned fit "${genuine[@]}" \
      --clean "${clean[@]}" --vectors "${words[@]}" --counts "${counts[@]}" \
      --tokenizers "${tokens[@]}" \
      --translation "$(model base 1)" --data-dir "$DATA/genuine" -s "$SOURCE" -t "$TARGET" \
      --subwords "${subwords[@]}" -o "$WORK/filter" ${FORCE:+--force}
}

# The best PERCENT of the back-translated pairs, DATA/bt@PERCENT (table 5.7).
best_of() { # PERCENT
  local name="bt@$1" language all=() best=()
  have "$DATA/$name" && return
  for language in "$SOURCE" "$TARGET"; do
    all+=("$WORK/true/bt.$language") best+=("$WORK/true/$name.$language")
    have "${all[-1]}" || into "${all[-1]}" fairseq-ssl detokenise "$WORK/kept/bt.$language" \
      --subwords sentencepiece
  done
  quietly "$WORK/filter.log" run fairseq-ssl filter learned apply "$WORK/filter" "${all[@]}" \
    --keep "$1" --scores "$WORK/filter.scores" -o "${best[@]}"
  for language in "$SOURCE" "$TARGET"; do
    into "$WORK/kept/$name.$language" \
      fairseq-ssl subwords encode "$(subword_model "$language")" "$WORK/true/$name.$language"
  done
  binarise "$name"
}

if needs "bt|tagged|tagged@[0-9]+|tagged-ft|deep"; then
  headline "3/9 back-translation"
  synthesise bt "mono.$TARGET" "$(model reverse 1)" made given "${ENGINE[@]}" -s "$TARGET" -t "$SOURCE"
fi
if needs noisy; then
  headline "3/9 noisy back-translation, beta $BETA"
  synthesise noisy "mono.$TARGET" "$(model reverse 1)" made given "${NOISY_ENGINE[@]}" \
    --noisy-beam-beta "$BETA" -s "$TARGET" -t "$SOURCE"
fi
if needs "ft|tagged-ft"; then
  headline "3/9 forward-translation"
  synthesise ft "mono.$SOURCE" "$(model base 1)" given made "${ENGINE[@]}" -s "$SOURCE" -t "$TARGET"
fi
if needs "tagged@[0-9]+" && [[ -z "${SHARD:-}" ]]; then
  headline "3/9 the best of the back-translated pairs"
  learned_filter
  for system in $SYSTEMS; do
    if [[ "$system" == tagged@* ]]; then best_of "${system#*@}"; fi
  done
fi
