#!/usr/bin/env bash
# Filter and truecase the corpora, apply subwords, and binarize the genuine pairs (5.2, 5.3.2).
# shellcheck source=examples/wmt20/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

# WORK/raw: genuine.L, mono.L, subwords.L (training text of subwords) and the held-out sets.
tiny() {
  run python "$HERE/../common/number_words.py" "$WORK/corpus" --numbers 12 --longest 6 \
    --trained-length 6 --train-lines "$TOY_LINES" --valid-lines 60 --test-lines 6
  for language in "$SOURCE" "$TARGET"; do
    for set in valid test; do into "$WORK/raw/$set.$language" cat "$WORK/corpus/$set.$language"; done
  done
  split_off "$WORK/corpus/train" cat
}

small() {
  if ! together; then
    small_japanese
    return
  fi
  data_dir "multi30k/train.en.gz, val.en.gz, test_2016_flickr.en.gz, and .de.gz" \
    multi30k/{train,val,test_2016_flickr}.{en,de}.gz
  for language in "$SOURCE" "$TARGET"; do
    for pair in $SETS; do
      into "$WORK/raw/${pair%:*}.$language" gzip -dc "$DATA_DIR/multi30k/${pair#*:}.$language.gz"
    done
  done
  split_off "$DATA_DIR/multi30k/train" "gzip -dc" .gz
}

# The corpus is tokenized. English is detokenized with Moses, and Japanese loses its spaces.
small_japanese() {
  data_dir "small_parallel_enja/train.en, dev.en, and .ja" small_parallel_enja/{train,dev}.{en,ja}
  local corpus="$DATA_DIR/small_parallel_enja" own="$WORK/corpus" language pair
  for language in "$SOURCE" "$TARGET"; do
    plain "$language" "$corpus/train.$language" "$own/train.$language"
    plain "$language" "$corpus/dev.$language" "$own/dev.$language"
    if [[ -e "$corpus/test.$language" ]]; then
      plain "$language" "$corpus/test.$language" "$own/test.$language"
    else
      into "$own/test.$language" tail -n 500 "$own/train.$language"
      into "$own/others.$language" head -n -500 "$own/train.$language"
      run mv "$own/others.$language" "$own/train.$language"
    fi
    for pair in $SETS; do
      into "$WORK/raw/${pair%:*}.$language" cat "$own/${pair#*:}.$language"
    done
  done
  split_off "$own/train" cat
}

plain() { # LANGUAGE FILE OUTPUT
  if [[ "$1" == ja ]]; then
    into "$3" sed 's/ //g' "$2"
  else
    into "$3" fairseq-ssl postprocess "$2" --moses "$1"
  fi
}

# The first pairs are genuine. The sides of the other pairs are monolingual text, without lines of the
# held-out sets: a paraphrase of a held-out sentence would reveal its reference.
split_off() { # PREFIX READER SUFFIX
  local language set known
  for language in "$SOURCE" "$TARGET"; do
    known=()
    for set in $HELD_OUT; do known+=("-f '$WORK/raw/$set.$language'"); done
    into "$WORK/raw/genuine.$language" sh -c "$2 '$1.$language${3:-}' | sed '${GENUINE}q'"
    into "$WORK/raw/mono.$language" bash -o pipefail -c "$2 '$1.$language${3:-}' | sed '1,${GENUINE}d' | grep -vxF ${known[*]}" ||
      { echo "GENUINE is $GENUINE, so no line of $1.$language${3:-} is left for monolingual text." >&2; exit 2; }
    into "$WORK/raw/subwords.$language" cat "$WORK/raw/genuine.$language"
  done
}

# Files of DATA_DIR, in both languages, for this and all later steps.
check_corpora() {
  local set stage name names=(train mono subwords) files=()
  for set in $SETS; do names+=("${set#*:}"); done
  # shellcheck disable=SC2206  # words apart
  if needs "tagged@[0-9]+"; then names+=($FILTER_CLEAN); fi
  if [[ " $ROWS " == *" "[c-fp]" "* ]]; then
    for stage in $STAGES; do
      # shellcheck disable=SC2207
      [[ "$stage" == genuine:* ]] || names+=($(stage_files "${stage%:*}"))
    done
  fi
  for name in $(printf '%s\n' "${names[@]}" | awk '!seen[$0]++'); do files+=("$name".{"$SOURCE","$TARGET"}); done
  data_dir "the corpora in both languages that the README lists; only rows c to p of ROWS need those of STAGES" \
    "${files[@]}"
}

paper() {
  local data language pair
  data="$(realpath -ms "$DATA_DIR")" # the target of a link is relative to the link
  for language in "$SOURCE" "$TARGET"; do
    run mkdir -p "$WORK/raw"
    for part in train:genuine mono:mono subwords:subwords; do
      run ln -sf "$data/${part%:*}.$language" "$WORK/raw/${part#*:}.$language"
    done
    for pair in $SETS; do
      run ln -sf "$data/${pair#*:}.$language" "$WORK/raw/${pair%:*}.$language"
    done
  done
}

# WORK/filtered: filtered WORK/raw. Held-out sets are not filtered.
filtered() {
  local out="$WORK/filtered" filters language set
  read -ra filters <<<"$(pair_filters genuine | paste -sd ' ')"
  quietly "$WORK/filter.log" run fairseq-ssl filter "$WORK/raw/genuine.$SOURCE" "$WORK/raw/genuine.$TARGET" \
    "${filters[@]}" -o "$out/genuine.$SOURCE" "$out/genuine.$TARGET"
  for language in "$SOURCE" "$TARGET"; do
    filters=(--filter "encoding,clean")
    [[ "$SCALE" != tiny ]] && filters+=(--filter "duplicates,langid:source=$language") # 5.2.2
    quietly "$WORK/filter.log" run fairseq-ssl filter "$WORK/raw/mono.$language" \
      "${filters[@]}" -o "$out/mono.$language"
    for set in subwords $HELD_OUT; do
      into "$out/$set.$language" cat "$WORK/raw/$set.$language"
    done
  done
}

# Subwords of size VOCABULARY, or SIZE for base@SIZE (5.3.2): models, text and binarized genuine pairs.
in_subwords() { # SYSTEM
  local VOCABULARY="$VOCABULARY" TEXT DATA text="$WORK/true/subwords" language set
  TEXT="$(root_of "$1")/text" DATA="$(root_of "$1")/data"
  [[ "$1" == base@* ]] && VOCABULARY="${1#*@}"
  if together; then
    learn "$(subword_model "$SOURCE")" 1.0 "$text.$SOURCE" "$text.$TARGET"
  else
    for language in "$SOURCE" "$TARGET"; do
      learn "$(subword_model "$language")" "$(coverage "$language")" "$text.$language"
    done
  fi
  for language in "$SOURCE" "$TARGET"; do
    for set in genuine mono $HELD_OUT; do
      [[ "$1" == base@* && "$set" == mono ]] && continue
      build "$TEXT/$set.$language" into "$TEXT/$set.$language" \
        fairseq-ssl subwords encode "$(subword_model "$language")" "$WORK/true/$set.$language"
    done
  done
  build "$DATA/genuine" genuine
}

learn() { # MODEL CHARACTER-COVERAGE TEXT...
  build "$1.model" quietly "$WORK/vocabulary.log" run fairseq-ssl subwords train "${@:3}" \
    -o "$1" --size "$VOCABULARY" --character-coverage "$2" --force
}

prefixes() { # valid|test
  grep -o "$1[0-9]*" <<<"$HELD_OUT" | sed "s|^|$TEXT/|" | paste -sd ,
}

genuine() {
  local out="$DATA/genuine.tmp" tag
  run rm -rf "$out"
  quietly "$WORK/preprocess.log" run fairseq-preprocess -s "$SOURCE" -t "$TARGET" \
    --trainpref "$TEXT/genuine" --validpref "$(prefixes valid)" \
    --testpref "$(prefixes test)" --destdir "$out" --workers "$(cores)"
  for tag in "$BT" "$FT"; do
    quietly "$WORK/preprocess.log" run fairseq-ssl tag "$tag" \
      --dictionary "$out/dict.$SOURCE.txt" "$out/dict.$TARGET.txt"
  done
  run mv "$out" "$DATA/genuine"
}

headline "1/9 the corpora ($SCALE)"
[[ "$SCALE" != paper ]] || check_corpora
build "$WORK/raw" "$SCALE"

headline "1/9 filtered"
build "$WORK/filtered" filtered

headline "1/9 truecased"
for language in "$SOURCE" "$TARGET"; do
  if cased "$language"; then
    build "$WORK/case.$language" quietly "$WORK/case.log" run fairseq-ssl tokenize \
      "$WORK/filtered/genuine.$language" --train-truecase "$WORK/case.$language"
  fi
  for set in genuine mono subwords $HELD_OUT; do
    build "$WORK/true/$set.$language" truecased "$language" "$WORK/filtered/$set.$language" \
      "$WORK/true/$set.$language"
  done
done

headline "1/9 in subwords, binarized"
in_subwords ''
for system in $SYSTEMS; do
  if [[ "$system" == base@* ]]; then in_subwords "$system"; fi
done
