#!/usr/bin/env bash
# Step 2 of algorithm 1: label the unlabeled texts with each expert, to WORK/teachers, and train
# imitators on these labels, WORK/imitators/TASK.EXPERT.SEED.KIND/final.pt. With LABELING=online, the
# expert labels each batch in the training of the imitators.
# shellcheck source=examples/mein/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

label() { # TASK EXPERT SEED
  local folder split splits=(unlabeled valid)
  folder="$(teacher_of "$@")"
  if has_extra "$1"; then splits+=(extra); fi
  for split in "${splits[@]}"; do
    quietly "$folder/label.log" run fairseq-ssl classify label --split "$split" \
      --model "$(run_of "$@" alone)/final.pt" --data-dir "$(data "$1" "$2")" -o "$folder"
  done
}

imitators() { # TASK EXPERT SEED KIND
  local folder teacher windows="$WINDOWS" lines=() ends=(--max-epoch "$IMITATOR_EPOCHS")
  folder="$(imitators_of "$@")"
  teacher="$(teacher_of "$1" "$2" "$3")"
  if [[ "$LABELING" == online ]]; then teacher="$(run_of "$1" "$2" "$3" alone)/final.pt"; fi
  case "$4" in
    windows.*) windows="${4#windows.}" ;;
    lines.*) lines=(--classification-unlabeled-lines "${4#lines.}" --classification-full-epochs) ;;
    extra.*) lines=(--classification-unlabeled-lines "${4#extra.}"
      --classification-unlabeled unlabeled:extra) ;;
  esac
  if [[ -n "$IMITATOR_UPDATES" ]]; then ends=(--max-update "$IMITATOR_UPDATES"); fi
  # shellcheck disable=SC2086  # split into words
  quietly "$folder/train.log" launch_train "$(data "$1" "$2")" "${COMMON[@]}" \
    --classification-stage imitate --imitator-teacher "$teacher" "${lines[@]}" \
    --arch imitators --imitator-windows "${windows//-/,}" \
    --imitator-embed-dim "$IMITATOR_DIM" --imitator-channels "$IMITATOR_DIM" \
    --criterion imitation_cross_entropy --lr "$IMITATOR_LR" --lr-decay "$IMITATOR_DECAY" \
    --save-interval-updates "$IMITATOR_INTERVAL" --keep-interval-updates 1 \
    "${ends[@]}" --seed "$3" --save-dir "$folder" ${IMITATOR_FLAGS:-}
  into "$folder/final.pt" cat "$folder/checkpoint_best.pt"
}

imitate() { # TASK EXPERT SEED
  local kind
  [[ "$LABELING" == online ]] || build "$(teacher_of "$@")" label "$@"
  for kind in $(kinds "$1"); do
    case "$kind" in
      alone | continued | random) ;;
      *) build "$(imitators_of "$@" "$kind")" imitators "$@" "$kind" ;;
    esac
  done
}

headline "3/5 imitators"
each imitate
