#!/usr/bin/env bash
# Train a model for each task, fold, kind and depth. WORK/runs/TASK.FOLD.KIND-LAYERS/final.pt is the best
# epoch by perplexity on the dev set. Interrupted training runs resume.
# shellcheck source=examples/pseudo_bidirectional/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

train() { # TASK FOLD KIND LAYERS
  local folder="$RUNS/$1.$2.$3-$4" last ARCH
  architecture "$1" "$3" "$4"
  if [[ "$1" == gec ]]; then
    grammar "$folder" "$3"
  else
    last="$(updates "$1" "$3")"
    GPUS=1 LAUNCH=single stage "$(learned "$@")" "$folder" --max-tokens "$MAX_TOKENS" --max-update "$last" \
      --lr "$LR" --lr-scheduler polynomial_decay --warmup-updates "$WARMUP" --total-num-update "$last" \
      --dropout "$DROPOUT"
  fi
  into "$(model "$@")" cat "$folder/checkpoint_best.pt"
}

synthetic() { # FOLDER FLAGS...
  stage "$WORK/data/gec.synthetic" "$@" --lr "$PRETRAIN_LR" \
    --warmup-updates "$PRETRAIN_WARMUP" --max-update "$PRETRAIN_UPDATES"
}

# Train on real pairs, or on synthetic pairs and then on real pairs.
grammar() { # FOLDER KIND
  local flags batch=(--dropout "$GEC_DROPOUT" --lr-scheduler inverse_sqrt
    --max-tokens "$GEC_MAX_TOKENS" --update-freq "$GEC_UPDATE_FREQ"
    --save-interval-updates 5000 --keep-interval-updates 1)
  flags=(--lr "$GEC_LR" --warmup-updates "$GEC_WARMUP" --max-update "$GEC_UPDATES")
  if [[ "$2" == pretrained_* ]]; then
    build "$1/synthetic" synthetic "$1/synthetic" "${batch[@]}"
    flags=(--lr "$TUNING_LR" --warmup-updates "$TUNING_WARMUP" --max-update "$TUNING_UPDATES"
      --finetune-from-model "$1/synthetic/checkpoint_best.pt")
  fi
  stage "$WORK/data/gec" "$1" "${batch[@]}" "${flags[@]}"
}

# Select by nll_loss, the logarithm of the perplexity, which fairseq rounds less.
stage() { # DATA FOLDER FLAGS...
  quietly "$2/train.log" launch_train "$1" --user-dir "$USER_DIR" --task translation \
    --source-lang src --target-lang trg "${ARCH[@]}" \
    --criterion label_smoothed_cross_entropy --label-smoothing "$LABEL_SMOOTHING" \
    --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm "$CLIP_NORM" \
    "${@:3}" --seed "$SEED" --save-dir "$2" --no-epoch-checkpoints \
    --best-checkpoint-metric nll_loss --log-format simple --log-interval 50
}

headline "2/4 training: $TASKS; $KINDS"
for task in $TASKS; do
  for fold in $(folds "$task"); do
    for depth in $(depths "$task"); do
      for kind in $(kinds "$task"); do
        spawn build "$RUNS/$task.$fold.$kind-$depth" train "$task" "$fold" "$kind" "$depth"
      done
    done
  done
done
settle
