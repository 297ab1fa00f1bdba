#!/usr/bin/env bash
# Words that are right, mean and deviation over the folds, and words per second; of gec, F0.5 of its
# edits by MaxMatch.
# shellcheck source=examples/pie/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

headline "4/4 scoring"
if [[ " $TASKS " == *" gec "* && " $SETS " == *" test "* ]]; then
  systems=()
  for model in $GEC_MODELS all; do systems+=("$model=$RUNS/gec.$model.tagger/test.txt"); done
  data_dir test.m2 test.m2
  score_m2 "$DATA_DIR/test.m2" "${systems[@]}"
fi
score_words transformer tagger augmented
