#!/usr/bin/env bash
# Pre-train a denoising model. PRETRAINED/start.1.pt has the averaged weights of the best epoch. With more
# STARTS, start.N.pt has those of the last epochs.
# shellcheck source=examples/poda/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

# Print the checkpoints of the last epochs, the last epoch first. In a dry run print all expected ones.
newest() { # COUNT
  local epoch
  if [[ -n "${DRY_RUN:-}" ]]; then
    for ((epoch = PRETRAIN_EPOCHS; epoch > PRETRAIN_EPOCHS - $1; epoch--)); do
      echo "$PRETRAINED/checkpoint$epoch.pt"
    done
  else
    find "$PRETRAINED" -name 'checkpoint[0-9]*.pt' | sort --version-sort --reverse | sed "$1q"
  fi
}

pretrain() {
  local until=() checkpoints number
  ((PRETRAIN_EPOCHS)) && until+=(--max-epoch "$PRETRAIN_EPOCHS")
  ((PRETRAIN_UPDATES)) && until+=(--max-update "$PRETRAIN_UPDATES")
  if [[ "$SCALE" == paper ]]; then # epochs take hours
    until+=(--save-interval-updates 5000 --keep-interval-updates 1)
  fi
  # shellcheck disable=SC2046,SC2086  # words apart
  quietly "$PRETRAINED/train.log" launch_train "$WORK/data/pretrain" --user-dir "$USER_DIR" $(common_flags) \
    --task denoising_pretraining --noise "$NOISE" --criterion denoising_cross_entropy \
    --denoise-keep-rate "$KEEP_RATE" "${until[@]}" \
    --warmup-updates "$WARMUP" --ema-decay "$EMA_DECAY" --keep-last-epochs "$STARTS" \
    --seed "$SEED" --save-dir "$PRETRAINED" ${PRETRAIN_FLAGS:-}
  if ((STARTS == 1)); then
    run fairseq-ssl average "$PRETRAINED/checkpoint_best.pt" --ema -o "$(start 1)"
    return
  fi
  mapfile -t checkpoints < <(newest "$STARTS")
  if ((${#checkpoints[@]} < STARTS)); then
    echo "$PRETRAINED has ${#checkpoints[@]} checkpoints of complete epochs. Expected $STARTS, one" \
      "for each start. Set fewer STARTS, or train longer." >&2
    return 1
  fi
  for ((number = 1; number <= STARTS; number++)); do
    run fairseq-ssl average "${checkpoints[number - 1]}" --ema -o "$(start "$number")"
  done
}

headline "2/6 pre-training"
build "$PRETRAINED" pretrain
