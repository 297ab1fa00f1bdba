#!/usr/bin/env bash
# Train a model for each data set, kind of positions and seed, in WORK/runs/DATASET.KIND.SEED.
# Interrupted training runs resume.
# shellcheck source=examples/shape/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

train() { # DATASET KIND SEED
  local folder last flags more=()
  folder="$(folder "$@")" last="$(updates "$1")"
  read -ra flags <<<"$(positions "$1" "$2")"
  [[ "$1" == lines.* ]] && more=("${LINES_TRAINING[@]}")
  if [[ "$1" == interpolate && -n "${INTERPOLATE_FROM:-}" ]]; then
    more=(--lr "$INTERPOLATE_LR"
      --finetune-from-model "$(model "$INTERPOLATE_FROM" "$2" "$3")")
  fi
  if [[ -n "${SHIFT_FROM:-}" && "$2" == @(apart|shared)* ]]; then
    more+=(--finetune-from-model "$(model "$1" "$SHIFT_FROM" "$3")")
  fi
  [[ "$SCALE" == small ]] && more+=(--total-num-update "$last")
  quietly "$folder/train.log" launch_train "$WORK/data/$1" --user-dir "$USER_DIR" \
    "${TRAINING[@]}" \
    --criterion label_smoothed_cross_entropy --label-smoothing "$LABEL_SMOOTHING" \
    --max-update "$last" --seed "$3" --save-dir "$folder" \
    --no-epoch-checkpoints --ignore-unused-valid-subsets --validate-interval 100000 \
    --validate-interval-updates "$((last < 5000 ? last : 5000))" \
    --log-format simple --log-interval 50 "${more[@]}" "${flags[@]}"
  local chosen=("$folder/checkpoint_last.pt")
  ((AVERAGE > 1)) && chosen=("$folder" --last "$AVERAGE" --by update)
  quietly "$folder/train.log" run fairseq-ssl average "${chosen[@]}" -o "$(model "$@")"
}

headline "2/5 training: $TASKS; seeds $SEEDS"
# Data sets and kinds that others may be initialized from come first.
for dataset in $TRANSLATED $CORRECTED; do
  for kind in $(kinds "$dataset"); do
    for seed in $SEEDS; do
      spawn build "$(folder "$dataset" "$kind" "$seed")" train "$dataset" "$kind" "$seed"
    done
    [[ "$kind" != "${SHIFT_FROM:-}" ]] || settle
  done
  settle
done
