#!/usr/bin/env bash
# Score translations by detokenized sacreBLEU, and lines by their correct words by source length. Print
# tables with mean and standard deviation over seeds.
# shellcheck source=examples/shape/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

headline "4/5 scoring"
for set in $HELD_OUT; do
  for dataset in $TRANSLATED; do
    wanted="$WORK/raw/$set.$TARGET"
    made "$wanted"
    if [[ "$dataset" == interpolate ]]; then # without separators, as in the translations
      wanted="$WORK/raw-joined/$set.$TARGET.plain"
      into "$wanted" sed "s/ $SEPARATOR / /g" "$WORK/raw-joined/$set.$TARGET"
    fi
    for kind in $(kinds "$dataset"); do
      for seed in $SEEDS; do
        out="$RUNS/$dataset.$kind.$seed/$set"
        made "$out.txt"
        into "$out.bleu.json" sacrebleu "$wanted" -i "$out.txt" -w 4
      done
    done
  done
done
rows=()
for dataset in vanilla extrapolate interpolate; do
  for kind in absolute apart shared relative; do rows+=("$dataset.$kind"); done
done
[[ -z "$TRANSLATED" ]] || run python "$HERE/../common/bleu_table.py" "$RUNS" \
  --heads "data set" positions --rows "${rows[@]}"
if [[ -n "$CORRECTED" ]]; then
  # shellcheck disable=SC2046,SC2086  # words apart
  run python "$HERE/../common/word_lines_table.py" "$WORK" --data $CORRECTED --sets $LINES_SETS \
    --models $(kinds lines.extrapolate) --seeds $SEEDS --ends $LINES_ENDS --separator "$SEPARATOR"
fi
