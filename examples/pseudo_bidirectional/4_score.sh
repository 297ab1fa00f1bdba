#!/usr/bin/env bash
# Words that are right, mean and deviation over the folds, and words per second; of gec, F0.5 of the
# edits of CoNLL-14 by MaxMatch. BEA-19 is scored where its organisers do it.
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
