#!/usr/bin/env bash
# Pre-train a denoising model. PRETRAINED/start.1.pt has the averaged weights of the best epoch. With more
# than one start, start.N.pt has those of the N-th last epoch. afterN.pt has those after N updates.
# shellcheck source=examples/poda/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

pretrain() {
  local until=()
  ((PRETRAIN_EPOCHS)) && until+=(--max-epoch "$PRETRAIN_EPOCHS")
  ((PRETRAIN_UPDATES)) && until+=(--max-update "$PRETRAIN_UPDATES")
  ((SAVE_UPDATES)) && until+=(--save-interval-updates "$SAVE_UPDATES" --keep-interval-updates 1)
  ((KEEP_UPDATES)) && until+=(--keep-interval-updates-pattern "$KEEP_UPDATES")
  # shellcheck disable=SC2046,SC2086  # words apart
  quietly "$PRETRAINED/train.log" launch_train "$WORK/data/pretrain" --user-dir "$USER_DIR" $(common_flags) \
    --task denoising_pretraining --noise "$NOISE" --criterion denoising_cross_entropy \
    --denoise-keep-rate "$KEEP_RATE" "${until[@]}" \
    --warmup-updates "$WARMUP" --ema-decay "$EMA_DECAY" --keep-last-epochs "$(kept_epochs)" \
    --seed "$SEED" --save-dir "$PRETRAINED" ${PRETRAIN_FLAGS:-}
  if (($(kept_epochs) == 1)); then averaged checkpoint_best.pt "$(start 1)"; fi
}

averaged() { # CHECKPOINT OUTPUT
  run fairseq-ssl average "$PRETRAINED/$1" --ema -o "$2"
}

# Print the names of the checkpoints, the last one first.
checkpoints() { # PATTERN
  find "$PRETRAINED" -name "$1" -printf '%f\n' | sort --version-sort --reverse
}

start_of_epoch() { # N
  local checkpoint="checkpoint.last-$(($1 - 1)).pt" # in a dry run
  if [[ -z "${DRY_RUN:-}$OTHER_NODE" ]]; then checkpoint="$(checkpoints 'checkpoint[0-9]*.pt' | sed -n "$1p")"; fi
  if [[ -z "$checkpoint" ]]; then
    echo "STARTS is $STARTS, but $PRETRAINED has fewer than $1 checkpoints of complete epochs. Lower STARTS." >&2
    return 1
  fi
  averaged "$checkpoint" "$(start "$1")"
}

start_after() { # UPDATES
  local checkpoint="checkpoint_epoch_$1.pt" # in a dry run
  if [[ -z "${DRY_RUN:-}$OTHER_NODE" ]]; then checkpoint="$(checkpoints "checkpoint_*_$1.pt")"; fi
  if [[ -z "$checkpoint" ]]; then
    echo "KINDS has after$1, but $PRETRAINED has no checkpoint after $1 updates. Expected a multiple of" \
      "KEEP_UPDATES, $KEEP_UPDATES." >&2
    return 1
  fi
  averaged "$checkpoint" "$PRETRAINED/after$1.pt"
}

headline "2/6 pre-training"
build "$PRETRAINED" pretrain
if (($(kept_epochs) > 1)); then
  for number in $(starts); do build "$(start "$number")" start_of_epoch "$number"; done
fi
for kind in $KINDS; do
  if [[ "$kind" == after* ]]; then build "$PRETRAINED/$kind.pt" start_after "${kind#after}"; fi
done
