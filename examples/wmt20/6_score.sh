#!/usr/bin/env bash
# SacreBLEU of every translation, and the table: mean and deviation over the seeds.
# shellcheck source=examples/wmt20/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

headline "6/9 scoring"
tokens=() filtered=() tagged=()
for system in $SYSTEMS; do
  for kind in bt ft; do tagged+=("$system-as-$kind"); done
  if [[ "$system" == tagged@* ]]; then filtered+=("$system"); fi
done
[[ "$TARGET" == ja ]] && tokens=(--tokenize ja-mecab)
for set in $HELD_OUT; do
  for system in $SYSTEMS; do
    for seed in $SEEDS; do
      out="$(outputs "$system" "$seed")/$set"
      into "$out.bleu.json" sacrebleu "$WORK/raw/$set.$TARGET" -i "$out.txt" -w 4 "${tokens[@]}"
    done
  done
done
run python "$HERE/../common/bleu_table.py" "$RUNS" --heads system \
  --rows base bt tagged "${filtered[@]}" ft tagged-ft noisy deep "${tagged[@]}"
