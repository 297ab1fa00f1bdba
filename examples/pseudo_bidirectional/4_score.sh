#!/usr/bin/env bash
# Print the percentage of correct words, mean and standard deviation over folds, and words/s. For gec
# print F0.5 on CoNLL-14 by MaxMatch. BEA-19 is scored by its organizers.
# shellcheck source=examples/pseudo_bidirectional/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

headline "4/4 scoring"
if [[ " $TASKS " == *" gec "* && " $GEC_SETS " == *" conll "* ]]; then
  systems=()
  for model in $(models gec); do systems+=("$model=$RUNS/gec.all.$model/conll.txt"); done
  data_dir conll.m2 conll.m2
  score_m2 "$DATA_DIR/conll.m2" "${systems[@]}"
fi
# shellcheck disable=SC2046  # words apart
score_words $(models ocr)
