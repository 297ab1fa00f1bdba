# shellcheck shell=bash
# Data of word correction (OCR and spelling), with two files per split. To be sourced after recipe.sh
# by a recipe with the settings SCALE, WORK and DATA_DIR.
#
#   check_words FOLD...       exit with an error that lists the files of ocr and spell in TASKS that DATA_DIR does not have
#   word_text TASK FOLD       build WORK/text/TASK.FOLD/{train,valid,test}.{src,trg} for ocr or spell, from
#                             toy words at SCALE=tiny, else from ocrpp in DATA_DIR; with TRAIN_WORDS,
#                             from as many of the first training words
#   more_words TASK FOLD COPIES SEED
#                             build WORK/text/TASK.FOLD.augmented: the same words, and COPIES copies of
#                             the training words with new errors of the same distribution
#   score_words MODEL...      print the accuracy on words of TASKS, SETS and FOLDS, and the speed on the
#                             set MEASURED
WORDS="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

prefix_of() { if [[ "$1" == ocr ]]; then echo "ocr/klk.$2"; else echo "spell/twitter.$2"; fi; } # TASK FOLD

check_words() { # FOLD...
  local task fold files=()
  for task in $TASKS; do
    [[ "$SCALE" != tiny && "$task" == @(ocr|spell) ]] || continue
    for fold in "$@"; do files+=("$(prefix_of "$task" "$fold")".{train,dev,test}); done
  done
  ((${#files[@]} == 0)) || data_dir "ocr/klk.0.train, .dev, .test, spell/twitter.0.train, ..." "${files[@]}"
}

word_text() { build "$WORK/text/$1.$2" build_words "$@"; } # TASK FOLD

build_words() { # TASK FOLD
  local text="$WORK/text/$1.$2" prefix folder="${DATA_DIR:-}" split first
  prefix="$(prefix_of "$@")"
  if [[ "$SCALE" == tiny ]]; then
    folder="$WORK/toy"
    run python "$WORDS/toy_words.py" "$folder/$prefix" --seed "$2"
  fi
  for split in train:train dev:valid test:test; do
    first=()
    if [[ "$split" == train:* && -n "${TRAIN_WORDS:-}" ]]; then first=(--first "$TRAIN_WORDS"); fi
    run python "$WORDS/words.py" "$folder/$prefix.${split%:*}" \
      "$text/${split#*:}.src" "$text/${split#*:}.trg" "${first[@]}"
  done
}

more_words() { build "$WORK/text/$1.$2.augmented" build_more_words "$@"; } # TASK FOLD COPIES SEED

build_more_words() { # TASK FOLD COPIES SEED
  local text="$WORK/text/$1.$2" more="$WORK/text/$1.$2.augmented" split side
  run python "$WORDS/synthetic_words.py" "$text/train.src" "$text/train.trg" \
    "$more/train.src" "$more/train.trg" --copies "$3" --seed "$4"
  for split in valid test; do
    for side in src trg; do run cp "$text/$split.$side" "$more"; done
  done
}

score_words() { # MODEL...
  local task named=()
  for task in $TASKS; do
    if [[ "$task" != gec ]]; then named+=("$task"); fi
  done
  ((${#named[@]})) || return 0
  # shellcheck disable=SC2086  # split into words
  run python "$WORDS/right_words.py" "$WORK" --tasks "${named[@]}" --folds $FOLDS --sets $SETS \
    --models "$@" --measured "$MEASURED"
}
