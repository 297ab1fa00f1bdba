#!/usr/bin/env bash
# Words that are right, mean and deviation over the folds, and words per second; of gec, what the
# M2 scorer says of CoNLL-14. BEA-19 is scored where its organisers do it.
# shellcheck source=examples/pseudo_bidirectional/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

headline "4/4 scoring"
words=()
for task in $TASKS; do
  if [[ "$task" != gec ]]; then
    words+=("$task")
    continue
  fi
  for model in $(models gec); do
    score_m2 "$RUNS/gec.all.$model/conll" "${DATA_DIR:-DATA_DIR}/conll.m2"
  done
done
if ((${#words[@]})); then
  # shellcheck disable=SC2046,SC2086  # words apart
  run python "$WORDS/right_words.py" "$WORK" --tasks "${words[@]}" --folds $FOLDS --sets $SETS \
    --models $(models ocr) --measured "$MEASURED"
fi
