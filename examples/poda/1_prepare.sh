#!/usr/bin/env bash
# Write text to WORK/text, binarized text with all words for pre-training to WORK/data/pretrain, raw
# pairs for each task and amount to WORK/data/TASK.AMOUNT, and held-out sets to WORK/held-out/TASK.SET.
# shellcheck source=examples/poda/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

DICTIONARY="$WORK/dictionary/dict.en.txt"

# Clean sentences for pre-training, for training pairs, and for held-out sets.
sentences() {
  local clean="$WORK/text/clean"
  run mkdir -p "$clean"
  if [[ "$SCALE" == tiny ]]; then
    run python "$HERE/../common/toy_sentences.py" "$clean/all.txt" --seed "$SEED"
  else
    data_dir "multi30k, small_parallel_enja, rotten_tomatoes and jfleg" multi30k/train.en.gz \
      small_parallel_enja/train.en rotten_tomatoes/unlabelled.txt jfleg/dev.src
    run python "$HERE/../common/small_text.py" "$DATA_DIR" "$clean/all.txt"
  fi
  run python "$HERE/split.py" "$clean/all.txt" "$clean" --seed "$SEED" \
    --lines "train=$TUNING_LINES" "valid=$HELD_OUT" "test=$HELD_OUT"
}

# Pairs of the task learner: noised and clean sentences.
learner() {
  local clean="$WORK/text/clean" pairs split number
  pairs="$(text learner)"
  run mkdir -p "$pairs"
  for split in train valid test; do
    run cp "$clean/$split.txt" "$pairs/$split.trg"
    run fairseq-ssl noise "$pairs/$split.trg" --method "$ERRORS" --seed "$SEED" \
      -o "$pairs/$split.src" ${FORCE:+--force}
  done
  if [[ "$SCALE" == small ]]; then
    for number in 0 1 2 3; do
      lower "$DATA_DIR/jfleg/dev.ref$number" "$pairs/jfleg.ref$number"
    done
    lower "$DATA_DIR/jfleg/dev.src" "$pairs/jfleg.src"
    run cp "$pairs/jfleg.ref0" "$pairs/jfleg.trg"
  fi
}

lower() { # TEXT OUTPUT
  into "$2" bash -c "tr '[:upper:]' '[:lower:]' < $(printf %q "$1")"
}

# Pairs in DATA_DIR.
brought() { # TASK
  local pairs
  pairs="$(text "$1")"
  run mkdir -p "$pairs"
  data_dir "wikipedia.txt, billion.txt, cnndm, gigaword, conll, jfleg" "$1" wikipedia.txt billion.txt
  if [[ -z "${DRY_RUN:-}" ]] && grep -qE '(^| )</?s>( |$)' "$DATA_DIR/$1"/*.trg; then
    echo "DATA_DIR/$1 has <s> or </s>, with which fairseq begins and ends a target. Expected $SENTENCE_MARK between" \
      "sentences." >&2
    exit 2
  fi
  run cp -r "$DATA_DIR/$1/." "$pairs"
}

# Pairs of DATA_DIR, with the gold edits or references of the held-out sets.
learner_text() {
  local pairs set file sets=()
  pairs="$(text gec)"
  run mkdir -p "$pairs"
  for set in $(sets gec); do sets+=("$set.src"); done
  data_dir "the output of common/learner_text.sh" {train,valid}.{src,trg} "${MONOLINGUAL[@]##*/}" "${sets[@]}"
  for set in train valid $(sets gec); do
    for file in "$DATA_DIR/$set".{src,trg,m2,ref0,ref1,ref2,ref3}; do
      [[ ! -e "$file" ]] || into "$pairs/${file##*/}" cat "$file"
    done
    # fairseq needs a target side
    [[ -e "$DATA_DIR/$set.trg" ]] || into "$pairs/$set.trg" cat "$DATA_DIR/$set.src"
  done
}

# Joined dictionary of all words. Its first entries are the vocabulary.
dictionary() {
  local task all=("${MONOLINGUAL[@]}")
  for task in $TASKS; do all+=("$(text "$task")/train.src" "$(text "$task")/train.trg"); done
  into "$WORK/text/all.en" cat "${all[@]}"
  run rm -rf "$WORK/dictionary"
  quietly "$WORK/preprocess.log" run fairseq-preprocess --only-source --source-lang en --dict-only \
    --thresholdsrc "$LEAST_COUNT" --trainpref "$WORK/text/all" --destdir "$WORK/dictionary" \
    --workers "$(nproc)"
}

pretraining() {
  local folder="$WORK/text/pretrain" data="$WORK/data/pretrain"
  local select=(python "$HERE/segments.py" --dictionary "$DICTIONARY" --vocabulary "$VOCABULARY"
    --least-words "$LEAST_WORDS" --most-unknown "$MOST_UNKNOWN")
  into "$folder/all.en" "${select[@]}" "${MONOLINGUAL[@]}" --segment "$SEGMENT"
  if [[ "$TASKS" == gec ]]; then # its dev part is known
    into "$folder/valid.en" "${select[@]}" "$DATA_DIR/imdb.valid.txt" --segment "$SEGMENT"
    into "$folder/train.en" cat "$folder/all.en"
  else
    into "$folder/valid.en" head -n "$HELD_OUT" "$folder/all.en"
    into "$folder/train.en" tail -n "+$((HELD_OUT + 1))" "$folder/all.en"
  fi
  run rm -rf "$data.tmp"
  quietly "$WORK/preprocess.log" run fairseq-preprocess --only-source --source-lang en \
    --srcdict "$DICTIONARY" --trainpref "$folder/train" --validpref "$folder/valid" \
    --destdir "$data.tmp" --workers "$(nproc)"
  run mv "$data.tmp" "$data"
}

# Write AMOUNT random lines of a file. Files with as many lines give the same lines.
sample() { # OUTPUT FILE AMOUNT
  # shellcheck disable=SC2016  # expanded by awk and the inner shell
  local numbered='BEGIN { srand(seed) } { printf "%.12f\t%s\n", rand(), $0 }' \
    command='awk -v seed="$3" "$4" "$1" | LC_ALL=C sort -s -k 1,1 | sed -n "1,$2p" | cut -f 2-'
  into "$1" bash -c "$command" sample "$2" "$3" "$SEED" "$numbered"
}

# AMOUNT training pairs and all validation pairs. The pairs of the smaller scales are in random order.
pairs() { # TASK AMOUNT
  local data pairs side
  data="$(data "$@")" pairs="$(text "$1")"
  run rm -rf "$data.tmp"
  run mkdir -p "$data.tmp"
  for side in src trg; do
    run cp "$DICTIONARY" "$data.tmp/dict.$side.txt"
    if [[ "$2" == all ]]; then
      run cp "$pairs/train.$side" "$data.tmp/train.src-trg.$side"
    elif [[ "$SCALE" == paper ]]; then # section 4.4
      sample "$data.tmp/train.src-trg.$side" "$pairs/train.$side" "$2"
    else
      into "$data.tmp/train.src-trg.$side" head -n "$2" "$pairs/train.$side"
    fi
    run cp "$pairs/valid.$side" "$data.tmp/valid.src-trg.$side"
  done
  run mv "$data.tmp" "$data"
}

# Pairs of a held-out set.
held_out_pairs() { # TASK SET
  local folder side
  folder="$(held_out "$@")"
  run mkdir -p "$folder"
  for side in src trg; do
    run cp "$DICTIONARY" "$folder/dict.$side.txt"
    run cp "$(text "$1")/$2.$side" "$folder/$2.src-trg.$side"
  done
}

MONOLINGUAL=("$WORK/text/clean/rest.txt") # text for pre-training
if [[ "$SCALE" == paper ]]; then
  MONOLINGUAL=("${DATA_DIR:-}/wikipedia.txt" "${DATA_DIR:-}/billion.txt")
elif [[ "$TASKS" == gec ]]; then
  MONOLINGUAL=("$DATA_DIR/imdb.txt")
fi

headline "1/6 text and data ($SCALE)"
for task in $TASKS; do
  if [[ "$task" == gec ]]; then
    build "$(text gec)" learner_text
  elif [[ "$task" == learner ]]; then
    build "$WORK/text/clean" sentences
    build "$(text learner)" learner
  else
    build "$(text "$task")" brought "$task"
  fi
done
build "$WORK/dictionary" dictionary
build "$WORK/data/pretrain" pretraining
for task in $TASKS; do
  for amount in $AMOUNTS; do build "$(data "$task" "$amount")" pairs "$task" "$amount"; done
  for set in $(sets "$task"); do build "$(held_out "$task" "$set")" held_out_pairs "$task" "$set"; done
done
