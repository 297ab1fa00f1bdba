#!/usr/bin/env bash
# Pre-train a denoising model. PRETRAINED/start.1.pt has the averaged weights of the best epoch. With more
# than one start, start.N.pt has those of the N-th last epoch.
# shellcheck source=examples/poda/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

pretrain() {
  local until=()
  ((PRETRAIN_EPOCHS)) && until+=(--max-epoch "$PRETRAIN_EPOCHS")
  ((PRETRAIN_UPDATES)) && until+=(--max-update "$PRETRAIN_UPDATES")
  if [[ "$SCALE" == paper ]]; then # epochs take hours
    until+=(--save-interval-updates 5000 --keep-interval-updates 1)
  fi
  # shellcheck disable=SC2046,SC2086  # words apart
  quietly "$PRETRAINED/train.log" launch_train "$WORK/data/pretrain" --user-dir "$USER_DIR" $(common_flags) \
    --task denoising_pretraining --noise "$NOISE" --criterion denoising_cross_entropy \
    --denoise-keep-rate "$KEEP_RATE" "${until[@]}" \
    --warmup-updates "$WARMUP" --ema-decay "$EMA_DECAY" --keep-last-epochs "$(kept_epochs)" \
    --seed "$SEED" --save-dir "$PRETRAINED" ${PRETRAIN_FLAGS:-}
  if (($(kept_epochs) == 1)); then averaged checkpoint_best.pt 1; fi
}

averaged() { # CHECKPOINT START
  run fairseq-ssl average "$PRETRAINED/$1" --ema -o "$(start "$2")"
}

start_of_epoch() { # N
  local checkpoint
  checkpoint="$(checkpoint_of_start "$1")"
  averaged "$checkpoint" "$1"
}

headline "2/6 pre-training"
build "$PRETRAINED" pretrain
if (($(kept_epochs) > 1)); then
  for number in $(starts); do build "$(start "$number")" start_of_epoch "$number"; done
fi
