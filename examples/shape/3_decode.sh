#!/usr/bin/env bash
# Translate or correct all held-out sets with all models, to SET.generate and detokenized to SET.txt.
# shellcheck source=examples/shape/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

decode() { # DATASET KIND SEED SET
  local out beam="$BEAM" text=(--subwords "$SUBWORDS" ${MOSES:+--moses "$MOSES"} --drop "$SEPARATOR")
  [[ "$1" == lines.* ]] && beam="$LINES_BEAM" text=()
  out="$(folder "$1" "$2" "$3")/$4"
  quietly "$out.log" into "$out.generate" fairseq-generate "$WORK/data/$1" --user-dir "$USER_DIR" \
    --path "$(model "$1" "$2" "$3")" --gen-subset "$4" --beam "$beam" \
    --max-len-a 1.5 --max-len-b 20 --max-tokens 4000
  into "$out.txt" fairseq-ssl postprocess "$out.generate" --fairseq-lines H "${text[@]}"
}

headline "3/5 decoding"
for dataset in $TRANSLATED $CORRECTED; do
  for seed in $SEEDS; do
    for kind in $(kinds "$dataset"); do
      for set in $(held_out "$dataset"); do
        spawn build "$(folder "$dataset" "$kind" "$seed")/$set.txt" decode "$dataset" "$kind" "$seed" "$set"
      done
    done
  done
done
settle
