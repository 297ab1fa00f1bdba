#!/usr/bin/env bash
# Step 3 of algorithm 1: each expert is trained on beside its imitators, or beside random vectors,
# by the loss it was trained with. RUNS/TASK.EXPERT.SEED.KIND/final.pt is complete in itself.
# shellcheck source=examples/mein/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

mixture() { # TASK EXPERT SEED
  local kind folder parts
  criterion_of "$2"
  for kind in $(kinds "$1"); do
    folder="$(run_of "$@" "$kind")"
    [[ "$kind" == alone ]] && continue
    have "$folder/final.pt" && continue
    parts=(--mixture-imitators "$folder/imitators.pt")
    if [[ "$kind" == random ]]; then parts=(--mixture-random "$(tr , '\n' <<<"$WINDOWS" | wc -l)"); fi
    # shellcheck disable=SC2086  # words apart
    quietly "$folder/train.log" launch_train "$(data "$1")" "${COMMON[@]}" "${BEST[@]}" \
      --classification-stage mixture --arch expert_and_imitators \
      --mixture-expert "$(run_of "$1" "$2" "$3" alone)/final.pt" "${parts[@]}" \
      --mixture-lambda "$LAMBDA" --mixture-lambda-rate "$LAMBDA_RATE" "${CRITERION[@]}" \
      --lr "$FINE_LR" --lr-decay "$DECAY" --max-epoch "$FINE_EPOCHS" --seed "$3" \
      --save-dir "$folder" ${MIXTURE_FLAGS:-}
    into "$folder/final.pt" cat "$folder/checkpoint_best.pt"
  done
}

headline "4/5 experts with imitators"
each mixture
