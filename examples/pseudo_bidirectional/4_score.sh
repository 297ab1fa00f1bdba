#!/usr/bin/env bash
# Words that are right, mean and deviation over the folds, and words per second; of gec, F0.5 of the
# edits of CoNLL-14 by MaxMatch. BEA-19 is scored where its organisers do it.
# shellcheck source=examples/pseudo_bidirectional/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

headline "4/4 scoring"
words=()
for task in $TASKS; do
  if [[ "$task" != gec ]]; then
    words+=("$task")
    continue
  fi
  [[ " $GEC_SETS " == *" conll "* ]] || continue
  systems=()
  for model in $(models gec); do systems+=("$model=$RUNS/gec.all.$model/conll.txt"); done
  score_m2 "${DATA_DIR:?folder with conll.m2}/conll.m2" "${systems[@]}"
done
if ((${#words[@]})); then
  # shellcheck disable=SC2046,SC2086  # words apart
  run python "$WORDS/right_words.py" "$WORK" --tasks "${words[@]}" --folds $FOLDS --sets $SETS \
    --models $(models ocr) --measured "$MEASURED"
fi
