#!/usr/bin/env bash
# Step 3 of algorithm 1: continue the training of each expert with the same loss, with its imitators,
# with random vectors, or alone. With imitators or random vectors, each initial lambda has a training run.
# The model with the best dev accuracy is copied to RUNS/TASK.EXPERT.SEED.KIND/final.pt, and
# lambda.json in this folder has the selected lambda.
# shellcheck source=examples/mein/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

fine() { # FOLDER TASK EXPERT SEED FLAGS...: training with the common flags of this step
  local rate="$FINE_LR"
  if [[ "$3" == bert ]]; then rate="$BERT_FINE_LR"; fi
  # shellcheck disable=SC2086  # split into words
  quietly "$1/train.log" launch_train "$(data "$2" "$3")" "${COMMON[@]}" "${BEST[@]}" "${CRITERION[@]}" \
    --lr "$rate" --lr-decay "$DECAY" --max-epoch "$FINE_EPOCHS" --seed "$4" --save-dir "$1" \
    "${@:5}" ${MIXTURE_FLAGS:-}
}

continued() { # TASK EXPERT SEED
  local folder
  folder="$(run_of "$@" continued)"
  expert_of "$1" "$2"
  fine "$folder" "$@" --classification-stage supervised "${ARCHITECTURE[@]}" \
    --finetune-from-model "$(run_of "$@" alone)/final.pt"
  into "$folder/final.pt" cat "$folder/checkpoint_best.pt"
}

with_imitators() { # TASK EXPERT SEED KIND
  local folder start parts
  folder="$(run_of "$@")"
  parts=(--mixture-imitators "$(imitators_of "$@")/final.pt")
  if [[ "$4" == random ]]; then parts=(--mixture-random "$(tr , '\n' <<<"$WINDOWS" | wc -l)"); fi
  for start in $LAMBDA; do
    fine "$folder/lambda.$start" "$1" "$2" "$3" --classification-stage mixture \
      --arch expert_and_imitators --mixture-expert "$(run_of "$1" "$2" "$3" alone)/final.pt" \
      "${parts[@]}" --mixture-lambda "$start" --mixture-lambda-rate "$LAMBDA_RATE"
  done
  # shellcheck disable=SC2086  # split into words
  run python "$HERE/choose_lambda.py" "$folder" $LAMBDA
}

mixture() { # TASK EXPERT SEED
  local kind
  criterion_of "$2"
  for kind in $(kinds "$1"); do
    case "$kind" in
      alone) ;;
      continued) build "$(run_of "$@" continued)" continued "$@" ;;
      *) build "$(run_of "$@" "$kind")" with_imitators "$@" "$kind" ;;
    esac
  done
}

headline "4/5 experts with imitators"
each mixture
