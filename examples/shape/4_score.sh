#!/usr/bin/env bash
# Score all translations by detokenized sacreBLEU, and print the table with mean and standard deviation
# over seeds.
# shellcheck source=examples/shape/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

headline "4/5 scoring"
for set in $HELD_OUT; do
  for dataset in $DATASETS; do
    wanted="$WORK/raw/$set.$TARGET"
    if [[ "$dataset" == interpolate ]]; then # without separators, as in the translations
      wanted="$WORK/raw-joined/$set.$TARGET.plain"
      into "$wanted" sed "s/ $SEPARATOR / /g" "$WORK/raw-joined/$set.$TARGET"
    fi
    for kind in $KINDS; do
      for seed in $SEEDS; do
        out="$RUNS/$dataset.$kind.$seed/$set"
        into "$out.bleu.json" sacrebleu "$wanted" -i "$out.txt" -w 4
      done
    done
  done
done
rows=()
for dataset in vanilla extrapolate interpolate; do
  for kind in absolute shifted relative; do rows+=("$dataset.$kind"); done
done
run python "$HERE/../common/bleu_table.py" "$RUNS" --heads "data set" positions --rows "${rows[@]}"
