#!/usr/bin/env bash
# Write text to WORK/text, binarized text with all words for pre-training to WORK/data/pretrain, raw
# pairs for each task and amount to WORK/data/TASK.AMOUNT, and held-out sets with their gold edits or
# references to WORK/held-out/TASK.SET.
# shellcheck source=examples/poda/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

DICTIONARY="$WORK/dictionary/dict.en.txt"

pairs_folder() { # TASK: folder of train, valid and the held-out sets
  case "$1" in
    learner) echo "$WORK/text/learner" ;;
    gec) echo "$DATA_DIR" ;;
    *) echo "$DATA_DIR/$1" ;;
  esac
}

pair_files() { # TASK PREFIX: names of its files in DATA_DIR, with the gold edits or references of SETS
  local set ending
  {
    printf "$2%s\n" {train,valid}.{src,trg}
    for set in $(sets "$1"); do
      for ending in src $(gold "$1" "$set"); do echo "$2$set.$ending"; done
    done
  } | sort -u
}

# Exit with an error that lists all files which TASKS and SETS need and DATA_DIR lacks.
check_data() {
  local what task files=()
  case "$known.$SCALE" in
    learner.tiny)
      # shellcheck disable=SC2046  # words apart
      expect SETS "valid test" $(sets learner)
      return
      ;;
    learner.small)
      # shellcheck disable=SC2046
      expect SETS "valid test jfleg" $(sets learner)
      what="multi30k, small_parallel_enja, rotten_tomatoes and jfleg"
      files=(multi30k/train.en.gz small_parallel_enja/train.en rotten_tomatoes/unlabelled.txt)
      [[ " $(sets learner) " != *" jfleg "* ]] || files+=(jfleg/dev.{src,ref0,ref1,ref2,ref3})
      ;;
    gec.small)
      what="the output of common/learner_text.sh"
      mapfile -t files < <(pair_files gec "")
      files+=(imdb.txt imdb.valid.txt)
      ;;
    *)
      what="wikipedia.txt, billion.txt and the files of each task, as in examples/poda/README.md"
      files=(wikipedia.txt billion.txt)
      for task in $TASKS; do mapfile -t -O "${#files[@]}" files < <(pair_files "$task" "$task/"); done
      ;;
  esac
  data_dir "$what" "${files[@]}"
}

# Clean sentences for pre-training, for training pairs, and for held-out sets.
sentences() {
  local clean="$WORK/text/clean"
  run mkdir -p "$clean"
  if [[ "$SCALE" == tiny ]]; then
    run python "$HERE/../common/toy_sentences.py" "$clean/all.txt" --seed "$SEED"
  else
    run python "$HERE/../common/small_text.py" "$DATA_DIR" "$clean/all.txt"
  fi
  run python "$HERE/split.py" "$clean/all.txt" "$clean" --seed "$SEED" \
    --lines "train=$TUNING_LINES" "valid=$HELD_OUT" "test=$HELD_OUT"
}

# Pairs of the task learner: noised and clean sentences.
learner() {
  local clean="$WORK/text/clean" pairs split
  pairs="$(pairs_folder learner)"
  run mkdir -p "$pairs"
  for split in train valid test; do
    run cp "$clean/$split.txt" "$pairs/$split.trg"
    run fairseq-ssl noise "$pairs/$split.trg" --method "$ERRORS" --seed "$SEED" \
      -o "$pairs/$split.src" ${FORCE:+--force}
  done
}

lower() { # TEXT OUTPUT
  into "$2" bash -c "tr '[:upper:]' '[:lower:]' < $(printf %q "$1")"
}

# Reject targets that fairseq would begin or end at a symbol of the text.
check_targets() { # TASK
  [[ -z "${DRY_RUN:-}" ]] || return 0
  if grep -qE '(^| )</?s>( |$)' "$DATA_DIR/$1"/{train,valid}.trg; then
    echo "DATA_DIR/$1 has <s> or </s>, with which fairseq begins and ends a target. Expected $SENTENCE_MARK between" \
      "sentences." >&2
    exit 2
  fi
}

# Dictionary of all words of the text for pre-training, which does not depend on TASKS. Its first entries
# are the vocabulary. SENTENCE_MARK occurs only in summaries, so it is added.
dictionary() {
  local counted="$WORK/text/counted"
  into "$WORK/text/all.en" cat "${MONOLINGUAL[@]}"
  run rm -rf "$counted"
  quietly "$WORK/preprocess.log" run fairseq-preprocess --only-source --source-lang en --dict-only \
    --thresholdsrc "$LEAST_COUNT" --trainpref "$WORK/text/all" --destdir "$counted" --workers "$(nproc)"
  # shellcheck disable=SC2016  # expanded by awk
  into "$DICTIONARY" awk -v mark="$SENTENCE_MARK" 'BEGIN { print mark, 0 } $1 != mark' "$counted/dict.en.txt"
}

pretraining() {
  local folder="$WORK/text/pretrain" data="$WORK/data/pretrain"
  local select=(python "$HERE/segments.py" --dictionary "$DICTIONARY" --vocabulary "$VOCABULARY"
    --least-words "$LEAST_WORDS" --most-unknown "$MOST_UNKNOWN" --segment "$SEGMENT")
  if [[ "$known" == gec ]]; then # its dev part is known
    into "$folder/valid.en" "${select[@]}" "$DATA_DIR/imdb.valid.txt"
    into "$folder/train.en" "${select[@]}" "${MONOLINGUAL[@]}"
  else
    into "$folder/train.en" "${select[@]}" "${MONOLINGUAL[@]}" \
      --sample "$folder/valid.en" --sample-lines "$HELD_OUT" --seed "$SEED"
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
  data="$(data "$@")" pairs="$(pairs_folder "$1")"
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

# Source and gold edits or references of a held-out set. They are apart from the pairs, so that other SETS do not
# change the inputs of a training run.
held_out_set() { # TASK SET
  local folder side ending pairs copy=(run cp)
  folder="$(held_out "$@")" pairs="$(pairs_folder "$1")/$2"
  if [[ "$1.$2" == learner.jfleg ]]; then pairs="$DATA_DIR/jfleg/dev" copy=(lower); fi
  run mkdir -p "$folder"
  for side in src trg; do run cp "$DICTIONARY" "$folder/dict.$side.txt"; done
  "${copy[@]}" "$pairs.src" "$folder/$2.src-trg.src"
  for ending in $(gold "$@"); do "${copy[@]}" "$pairs.$ending" "$folder/$2.$ending"; done
}

headline "1/6 text and data ($SCALE)"
check_data
case "$known" in
  learner)
    MONOLINGUAL=("$WORK/text/clean/rest.txt")
    build "$WORK/text/clean" sentences
    build "$(pairs_folder learner)" learner
    ;;
  gec) MONOLINGUAL=("$DATA_DIR/imdb.txt") ;;
  *)
    MONOLINGUAL=("$DATA_DIR/wikipedia.txt" "$DATA_DIR/billion.txt")
    for task in $TASKS; do check_targets "$task"; done
    ;;
esac
build "$WORK/dictionary" dictionary
build "$WORK/data/pretrain" pretraining
for task in $TASKS; do
  for amount in $AMOUNTS; do build "$(data "$task" "$amount")" pairs "$task" "$amount"; done
  for set in $(sets "$task"); do build "$(held_out "$task" "$set")" held_out_set "$task" "$set"; done
done
