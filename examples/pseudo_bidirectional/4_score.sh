#!/usr/bin/env bash
# Print the percentage of correct words, mean and standard deviation over folds, and words/s. For gec
# print the scores of sets with references. BEA-19 is scored by its organizers.
# shellcheck source=examples/pseudo_bidirectional/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

headline "4/4 scoring"
if [[ " $TASKS " == *" gec "* ]]; then
  for set in $GEC_SETS; do
    systems=()
    for model in $(models gec); do systems+=("$model=$RUNS/gec.all.$model/$set.txt"); done
    score_set "$set" "${systems[@]}"
  done
fi
# shellcheck disable=SC2046  # words apart
score_words $(models ocr)
