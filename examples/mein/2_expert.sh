#!/usr/bin/env bash
# Step 1 of algorithm 1: train a language model for each task, if an expert is initialized with it, and
# all experts, RUNS/TASK.EXPERT.SEED.alone/final.pt. Interrupted training runs resume.
# shellcheck source=examples/mein/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

language_model() { # TASK
  local folder="$RUNS/$1.lm"
  # shellcheck disable=SC2086  # split into words
  quietly "$folder/train.log" launch_train "$(data "$1")/lm" --user-dir "$USER_DIR" \
    --task language_modeling --sample-break-mode none --tokens-per-sample "$LM_TOKENS" \
    --arch recurrent_lm "${SIZES[@]}" --criterion adaptive_loss --ddp-backend legacy_ddp \
    --optimizer adam --clip-norm 5 --lr "$LM_LR" --batch-size "$SHARE" --max-epoch "$LM_EPOCHS" \
    --seed 1 --save-dir "$folder" --no-epoch-checkpoints --log-format simple --log-interval 100 \
    $PRECISION ${LM_FLAGS:-}
  into "$folder/final.pt" cat "$folder/checkpoint_best.pt"
}

expert() { # TASK EXPERT SEED
  local folder start=() rate="$LR" epochs="$EPOCHS" lm="${LM_TASK:-$1}"
  folder="$(run_of "$@" alone)"
  case "$2" in
    lstm) ;;
    bert) rate="$BERT_LR" epochs="$BERT_EPOCHS" ;;
    *) start=(--classifier-lm "$RUNS/$lm.lm/final.pt" --classifier-lm-dict "$(data "$lm")/lm/dict.txt") ;;
  esac
  criterion_of "$2"
  expert_of "$1" "$2"
  # shellcheck disable=SC2086  # split into words
  quietly "$folder/train.log" launch_train "$(data "$1" "$2")" "${COMMON[@]}" "${BEST[@]}" \
    --classification-stage supervised "${ARCHITECTURE[@]}" "${start[@]}" "${CRITERION[@]}" \
    --lr "$rate" --lr-decay "$DECAY" --max-epoch "$epochs" --seed "$3" --save-dir "$folder" \
    ${EXPERT_FLAGS:-}
  into "$folder/final.pt" cat "$folder/checkpoint_best.pt"
}

build_expert() { build "$(run_of "$@" alone)" expert "$@"; } # TASK EXPERT SEED

headline "2/5 experts: $EXPERTS; of $TASKS"
if [[ " $EXPERTS " =~ " "(lm|adv|vat)" " ]]; then
  for task in ${LM_TASK:-$TASKS}; do
    made "$(data "$task")/lm/dict.txt"
    spawn build "$RUNS/$task.lm" language_model "$task"
  done
  settle
fi
each build_expert
