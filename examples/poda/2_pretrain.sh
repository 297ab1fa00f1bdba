#!/usr/bin/env bash
# A model that rebuilds text from what noise has left of it. PRETRAINED/start.1.pt has the averaged
# weights of its best epoch; with more STARTS, start.N.pt those of the newest epochs.
# shellcheck source=examples/poda/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

# The checkpoints of the newest epochs, the newest first; in a dry run, of those there would be.
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
  # shellcheck disable=SC2046,SC2086  # words apart
  quietly "$PRETRAINED/train.log" launch_train "$WORK/data/pretrain" $(common_flags) \
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
    echo "$PRETRAINED has ${#checkpoints[@]} checkpoints of whole epochs; expected $STARTS, one" \
      "for each start. Give fewer STARTS, or train longer." >&2
    return 1
  fi
  for ((number = 1; number <= STARTS; number++)); do
    run fairseq-ssl average "${checkpoints[number - 1]}" --ema -o "$(start "$number")"
  done
}

headline "2/6 pre-training"
build "$PRETRAINED" pretrain
