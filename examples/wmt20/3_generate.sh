#!/usr/bin/env bash
# Generate synthetic pairs: back-translations of monolingual target text, with and without noise, and
# forward-translations of source text. Filter, sample and binarize them (5.3.3, 5.5.2, 4.3.1).
# shellcheck source=examples/wmt20/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

# Translate MONO with MODEL to FOLDER/made, with the sources in FOLDER/given, both folders of parts. Shards
# write their parts to FOLDER.parts. Without SHARD, missing parts are written, and the folder is renamed.
generate() { # FOLDER MONO MODEL FLAGS...
  local longest=()
  # Japanese is filtered by characters. The filter drops longer translations, but not truncated ones.
  [[ "$2" == mono.ja ]] && longest=(--max-source-tokens 500 --max-len-b 500)
  quietly "$1.log" run fairseq-ssl back-translate "$TEXT/$2" --model "$3" \
    --data-dir "$DATA/genuine" --beam "$BEAM" --lenpen "$LENGTH_PENALTY" "${LENGTHS[@]}" "${longest[@]}" "${@:4}" \
    ${SHARD:+--shard "$SHARD"} -o "$1.parts/made/" --source-output "$1.parts/given/"
  [[ -n "${SHARD:-}" ]] || run mv "$1.parts" "$1"
}

# Filter pairs by length and length ratio, to WORK/kept/NAME.
clean() { # NAME SIDE-OF-SOURCE SIDE-OF-TARGET
  local out="$WORK/synthetic/$1" kept="$WORK/kept/$1/train" filters
  read -ra filters <<<"$(pair_filters synthetic | paste -sd ' ')"
  quietly "$out.log" run fairseq-ssl filter "$out/$2" "$out/$3" "${filters[@]}" \
    -o "$kept.$SOURCE" "$kept.$TARGET"
}

# Sample SAMPLE of these pairs, to WORK/sampled/NAME.
sampled() { # NAME
  local all="$WORK/kept/$1/train" some="$WORK/sampled/$1/train"
  quietly "$WORK/synthetic/$1.log" run python "$HERE/sample_pairs.py" "$all.$SOURCE" "$all.$TARGET" \
    -o "$some.$SOURCE" "$some.$TARGET" --count "$SAMPLE"
}
pairs_of() { if [[ -n "$SAMPLE" ]]; then echo "$WORK/sampled/$1/train"; else echo "$WORK/kept/$1/train"; fi; }

# Binarize pairs in subwords, PREFIX.L, as DATA/NAME.
binarize() { # NAME PREFIX
  run rm -rf "$DATA/$1.tmp"
  quietly "$WORK/synthetic/$1.log" run fairseq-preprocess -s "$SOURCE" -t "$TARGET" \
    --srcdict "$DATA/genuine/dict.$SOURCE.txt" --tgtdict "$DATA/genuine/dict.$TARGET.txt" \
    --trainpref "$2" --destdir "$DATA/$1.tmp" --workers "$(cores)"
  run mv "$DATA/$1.tmp" "$DATA/$1"
}

synthesize() { # NAME MONO MODEL SIDE-OF-SOURCE SIDE-OF-TARGET FLAGS...
  local out="$WORK/synthetic/$1"
  if [[ -n "${SHARD:-}" ]]; then
    [[ -z "${DRY_RUN:-}" && -e "$out" ]] || generate "$out" "$2" "$3" "${@:6}"
    return
  fi
  build "$out" generate "$out" "$2" "$3" "${@:6}"
  build "$WORK/kept/$1" clean "$1" "$4" "$5"
  [[ -z "$SAMPLE" ]] || build "$WORK/sampled/$1" sampled "$1"
  build "$DATA/$1" binarize "$1" "$(pairs_of "$1")"
}

# Write the clean pairs of the learned filter to WORK/filter-clean/L: earlier test sets (5.5.1), or valid.
filter_clean() {
  local language name files
  for language in "$SOURCE" "$TARGET"; do
    files=()
    for name in $FILTER_CLEAN; do files+=("$DATA_DIR/$name.$language"); done
    into "$WORK/filter-clean/raw.$language" cat "${files[@]}"
    truecased "$language" "$WORK/filter-clean/raw.$language" "$WORK/filter-clean/$language"
  done
}

# Train a classifier of clean and noised pairs, with PHSIC of word vectors and the cross-entropy of the
# model in the opposite direction of the generating model (5.5.1).
learned_filter() {
  local name language words=() counts=() tokens=() subwords=() genuine=() clean=()
  if [[ -n "$FILTER_CLEAN" ]]; then
    for name in $FILTER_CLEAN; do clean+=("$name.$SOURCE" "$name.$TARGET"); done
    data_dir "the clean pairs of the learned filter, FILTER_CLEAN" "${clean[@]}"
    clean=()
    build "$WORK/filter-clean" filter_clean
  fi
  for language in "$SOURCE" "$TARGET"; do
    word_vectors "$language"
    words+=("$WORK/words.$language.vec") counts+=("$WORK/words.$language.vec.counts")
    subwords+=("$(subword_model "$language")")
    genuine+=("$WORK/true/genuine.$language")
    if [[ -n "$FILTER_CLEAN" ]]; then
      clean+=("$WORK/filter-clean/$language")
    else
      clean+=("$WORK/true/valid.$language")
    fi
    if [[ "$language" == ja ]]; then tokens+=(ja-mecab); else tokens+=(none); fi
  done
  build "$WORK/filter" quietly "$WORK/filter.log" run fairseq-ssl learned-filter fit "${genuine[@]}" \
    --clean "${clean[@]}" --vectors "${words[@]}" --counts "${counts[@]}" --tokenize "${tokens[@]}" \
    --translation "$(model base 1)" --data-dir "$DATA/genuine" -s "$SOURCE" -t "$TARGET" \
    --subwords "${subwords[@]}" -o "$WORK/filter" --force
}

# Keep the best PERCENT of the back-translated pairs, DATA/bt@PERCENT (table 5.7).
best_of() { # PERCENT
  local name="bt@$1" language all=()
  for language in "$SOURCE" "$TARGET"; do
    all+=("$WORK/best/bt.$language")
    build "${all[-1]}" into "${all[-1]}" fairseq-ssl postprocess "$(pairs_of bt).$language" \
      --subwords sentencepiece
  done
  build "$WORK/best/$name" best "$1" "${all[@]}"
  build "$DATA/$name" binarize "$name" "$WORK/best/$name/train"
}

best() { # PERCENT SOURCE TARGET
  local out="$WORK/best/bt@$1" language
  quietly "$WORK/filter.log" run fairseq-ssl learned-filter apply "$WORK/filter" "${@:2}" \
    --keep "$1" --scores "$out/scores" -o "$out/true.$SOURCE" "$out/true.$TARGET"
  for language in "$SOURCE" "$TARGET"; do
    into "$out/train.$language" \
      fairseq-ssl subwords encode "$(subword_model "$language")" "$out/true.$language"
  done
}

if needs "$BACK_TRANSLATED"; then
  headline "3/9 back-translation"
  synthesize bt "mono.$TARGET" "$(model reverse 1)" made given "${ENGINE[@]}" -s "$TARGET" -t "$SOURCE"
fi
if needs noisy; then
  headline "3/9 noisy back-translation, beta $BETA"
  synthesize noisy "mono.$TARGET" "$(model reverse 1)" made given "${NOISY_ENGINE[@]}" \
    --noisy-beam-beta "$BETA" -s "$TARGET" -t "$SOURCE"
fi
if needs "ft|tagged-ft"; then
  headline "3/9 forward-translation"
  synthesize ft "mono.$SOURCE" "$(model base 1)" given made "${ENGINE[@]}" -s "$SOURCE" -t "$TARGET"
fi
if needs "tagged@[0-9]+" && [[ -z "${SHARD:-}" ]]; then
  headline "3/9 the best of the back-translated pairs"
  learned_filter
  for system in $SYSTEMS; do
    if [[ "$system" == tagged@* ]]; then best_of "${system#*@}"; fi
  done
fi
