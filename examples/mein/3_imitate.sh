#!/usr/bin/env bash
# Step 2 of algorithm 1: each expert labels the unlabelled texts once, WORK/teachers, and
# imitators learn that, RUNS/TASK.EXPERT.SEED.KIND/imitators.pt.
# shellcheck source=examples/mein/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

label() { # TASK EXPERT SEED
  local folder="$WORK/teachers/$1.$2.$3" split splits=(unlabelled valid)
  if [[ " $(kinds "$1") " == *" extra."* ]]; then splits+=(extra); fi
  for split in "${splits[@]}"; do
    have "$folder/$split.npy" && continue
    quietly "$folder/label.log" run fairseq-ssl classify label --split "$split" \
      --model "$(run_of "$@" alone)/final.pt" --data "$(data "$1")" -o "$folder"
  done
}

imitate() { # TASK EXPERT SEED
  local kind folder windows lines ends
  label "$@"
  for kind in $(kinds "$1"); do
    [[ "$kind" == alone || "$kind" == continued || "$kind" == random ]] && continue
    folder="$(run_of "$@" "$kind")"
    have "$folder/imitators.pt" && continue
    windows="$WINDOWS" lines=()
    [[ "$kind" == windows.* ]] && windows="${kind#windows.}"
    case "$kind" in
      lines.*) lines=(--classification-unlabelled-lines "${kind#lines.}" --classification-full-epochs) ;;
      extra.*) lines=(--classification-unlabelled-lines "${kind#extra.}"
        --classification-unlabelled unlabelled:extra) ;;
    esac
    ends=(--max-epoch "$IMITATOR_EPOCHS")
    [[ -z "$IMITATOR_UPDATES" ]] || ends=(--max-update "$IMITATOR_UPDATES")
    # shellcheck disable=SC2086  # words apart
    quietly "$folder/imitate.log" launch_train "$(data "$1")" "${COMMON[@]}" \
      --classification-stage imitate --imitator-teacher "$WORK/teachers/$1.$2.$3" "${lines[@]}" \
      --arch imitators --imitator-windows "${windows//-/,}" \
      --imitator-embed-dim "$IMITATOR_DIM" --imitator-channels "$IMITATOR_DIM" \
      --criterion imitation_cross_entropy --lr "$IMITATOR_LR" \
      --lr-decay "$IMITATOR_DECAY" "${ends[@]}" --seed "$3" --save-dir "$folder/imitate" ${IMITATOR_FLAGS:-}
    into "$folder/imitators.pt" cat "$folder/imitate/checkpoint_best.pt"
  done
}

headline "3/5 imitators"
each imitate
