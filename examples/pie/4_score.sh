#!/usr/bin/env bash
# Words that are right, mean and deviation over the folds, and words per second; of gec, F0.5 of its
# edits by MaxMatch.
# shellcheck source=examples/pie/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

headline "4/4 scoring"
words=()
for task in $TASKS; do
  if [[ "$task" != gec ]]; then
    words+=("$task")
    continue
  fi
  [[ " $SETS " == *" test "* ]] || continue
  systems=()
  for model in $GEC_MODELS all; do systems+=("$model=$RUNS/gec.$model.tagger/test.txt"); done
  score_m2 "${DATA_DIR:?folder with test.m2}/test.m2" "${systems[@]}"
done
if ((${#words[@]})); then
  # shellcheck disable=SC2086  # words apart
  run python "$WORDS/right_words.py" "$WORK" --tasks "${words[@]}" --folds $FOLDS --sets $SETS \
    --models transformer tagger augmented --measured "$MEASURED"
fi
