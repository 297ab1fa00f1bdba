# shellcheck shell=bash
# Data of word correction (OCR and spelling), with two files per split. To be sourced after recipe.sh
# by a recipe with the settings SCALE, WORK and DATA_DIR.
#
#   word_text TASK FOLD       build WORK/text/TASK.FOLD/{train,valid,test}.{src,trg} for ocr or spell, from
#                             toy words at SCALE=tiny, else from ocrpp in DATA_DIR; with TRAIN_WORDS,
#                             from as many of the first training words
#   more_words TASK FOLD COPIES SEED
#                             build WORK/text/TASK.FOLD.augmented: the same words, and COPIES copies of
#                             the training words with new errors of the same distribution
#   score_words MODEL...      print the accuracy on words of TASKS, SETS and FOLDS, and the speed on the
#                             set MEASURED
WORDS="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

word_text() { build "$WORK/text/$1.$2" build_words "$@"; } # TASK FOLD

build_words() { # TASK FOLD
  local text="$WORK/text/$1.$2" prefix folder split first
  [[ "$1" == ocr ]] && prefix="klk.$2" || prefix="twitter.$2"
  if [[ "$SCALE" == tiny ]]; then
    folder="$WORK/toy"
    run python "$WORDS/toy_words.py" "$folder/$1/$prefix" --seed "$2"
  else
    data_dir "ocr/klk.0.train, .dev, .test, spell/twitter.0.train, ..." "$1/$prefix".{train,dev,test}
    folder="$DATA_DIR"
  fi
  for split in train:train dev:valid test:test; do
    first=()
    if [[ "$split" == train:* && -n "${TRAIN_WORDS:-}" ]]; then first=(--first "$TRAIN_WORDS"); fi
    run python "$WORDS/words.py" "$folder/$1/$prefix.${split%:*}" \
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
