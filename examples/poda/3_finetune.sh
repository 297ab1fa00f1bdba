#!/usr/bin/env bash
# Fine-tune a model for each task, amount, kind and seed. final.pt has the averaged weights of the epoch
# with the lowest loss on the dev set. Interrupted training runs resume.
# shellcheck source=examples/poda/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

finetune() { # TASK AMOUNT KIND SEED
  local final folder from=()
  final="$(model "$@")" folder="$(dirname "$(model "$@")")"
  case "$3" in
    untuned)
      into "$final" cat "$(start 1)"
      return
      ;;
    pretrained) from=(--finetune-from-model "$(start "$4")") ;;
    after*) from=(--finetune-from-model "$PRETRAINED/$3.pt") ;;
    encoder_only | decoder_only) from=("--init-${3%_only}-only" "$(start "$4")") ;;
  esac
  if [[ "$1" == cnndm ]]; then # summaries are only truncated in training, so some exceed a batch of few tokens
    from+=(--truncate-source-words 800 --truncate-target-words 130 --max-tokens-valid 3000)
  fi
  # shellcheck disable=SC2046,SC2086  # words apart
  quietly "$folder/train.log" launch_train "$(data "$1" "$2")" --user-dir "$USER_DIR" $(common_flags) \
    $(schedule "$1" "$2") --dataset-impl raw --task copying_translation --source-lang src --target-lang trg \
    --criterion cross_entropy "${from[@]}" --seed "$4" --save-dir "$folder" \
    --no-epoch-checkpoints --skip-invalid-size-inputs-valid-test ${FINETUNE_FLAGS:-}
  run fairseq-ssl average "$folder/checkpoint_best.pt" --ema -o "$final"
}

headline "3/6 fine-tuning: $TASKS; $KINDS; $AMOUNTS"
build_model() { build "$(dirname "$(model "$@")")" finetune "$@"; } # TASK AMOUNT KIND SEED
each_model spawn build_model
settle
