#!/usr/bin/env bash
# A model that rebuilds text from what noise has left of it. PRETRAINED/start.1.pt has the averaged
# weights of its best epoch; with more STARTS, start.N.pt those of the newest epochs.
# shellcheck source=examples/poda/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

pretrain() {
  local until=() number newest
  have "$(start "$STARTS")" && return
  ((PRETRAIN_EPOCHS)) && until+=(--max-epoch "$PRETRAIN_EPOCHS")
  ((PRETRAIN_UPDATES)) && until+=(--max-update "$PRETRAIN_UPDATES")
  # shellcheck disable=SC2046,SC2086  # words apart
  quietly "$PRETRAINED/train.log" launch_train "$WORK/data/pretrain" $(common_flags) \
    --task denoising_pretraining --noise "$NOISE" --criterion touched_cross_entropy \
    --denoise-keep-rate "$KEEP_RATE" "${until[@]}" \
    --keep-last-epochs "$STARTS" --seed "$SEED" --save-dir "$PRETRAINED" \
    ${PRETRAIN_FLAGS:-}
  if ((STARTS == 1)); then
    run fairseq-ssl average "$PRETRAINED/checkpoint_best.pt" --ema -o "$(start 1)"
    return
  fi
  for ((number = 1; number <= STARTS; number++)); do
    newest="$PRETRAINED/checkpoint$((PRETRAIN_EPOCHS - number + 1)).pt"
    run fairseq-ssl average "$newest" --ema -o "$(start "$number")"
  done
}

headline "2/6 pre-training"
pretrain
