#!/usr/bin/env bash
# Words that are right, mean and deviation over the folds, and words per second; of gec, what the
# M2 scorer says.
# shellcheck source=examples/pie/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

headline "4/4 scoring"
words=()
for task in $TASKS; do
  if [[ "$task" != gec ]]; then
    words+=("$task")
    continue
  fi
  for model in $GEC_MODELS all; do
    score_m2 "$RUNS/gec.$model.tagger/test" "${DATA_DIR:-DATA_DIR}/test.m2"
  done
done
if ((${#words[@]})); then
  # shellcheck disable=SC2086  # words apart
  run python "$WORDS/right_words.py" "$WORK" --tasks "${words[@]}" --folds $FOLDS --sets $SETS \
    --models transformer tagger augmented --measured "$MEASURED"
fi
