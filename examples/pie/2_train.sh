#!/usr/bin/env bash
# Train a model for each task, fold and kind, WORK/runs/TASK.FOLD.KIND/final.pt. Interrupted training runs
# resume.
# shellcheck source=examples/pie/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

# Set MODEL to the flags of a kind.
words_flags() { # TASK KIND
  local updates
  if [[ "$2" != transformer ]]; then
    updates="$(updates "$1" "$2")"
    MODEL=(--task edit_labeling --source-lang src --target-lang trg --arch edit_tagger_small
      --encoder-layers "$LAYERS" --encoder-embed-dim "$DIM"
      --encoder-ffn-embed-dim "$INNER_DIM" --encoder-attention-heads "$HEADS"
      --max-source-positions "$POSITIONS" --dropout "$DROPOUT" --attention-dropout "$DROPOUT"
      --criterion edit_cross_entropy --edit-copy-weight "$COPY_WEIGHT"
      --label-smoothing "$LABEL_SMOOTHING" --max-tokens "$MAX_TOKENS"
      --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm 1
      --lr "$LR" --lr-scheduler polynomial_decay --warmup-updates "$WARMUP"
      --max-update "$updates" --total-num-update "$updates"
      --best-checkpoint-metric exact --maximize-best-checkpoint-metric)
    # shellcheck disable=SC2206  # words apart
    MODEL+=($AUTOCAST ${TAGGER_FLAGS:-})
  else
    MODEL=(--task translation --source-lang src --target-lang trg
      --arch transformer --share-all-embeddings
      --encoder-normalize-before --decoder-normalize-before
      --encoder-layers "$ENCODER_LAYERS" --decoder-layers "$(decoder_layers "$1")"
      --encoder-embed-dim "$DIM" --encoder-ffn-embed-dim "$INNER_DIM"
      --decoder-embed-dim "$DIM" --decoder-ffn-embed-dim "$INNER_DIM"
      --encoder-attention-heads "$HEADS" --decoder-attention-heads "$HEADS"
      --dropout "$TRANSFORMER_DROPOUT"
      --criterion label_smoothed_cross_entropy --label-smoothing "$LABEL_SMOOTHING"
      --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm 1
      --max-tokens "$(transformer_tokens "$1")" --max-epoch "$(transformer_epochs "$1")"
      --lr "$TRANSFORMER_LR" --lr-scheduler inverse_sqrt --warmup-updates "$TRANSFORMER_WARMUP")
    # shellcheck disable=SC2206
    MODEL+=(${TRANSFORMER_FLAGS:-})
  fi
}

# Train a model and copy the best checkpoint on the dev set to final.pt.
train() { # TASK FOLD KIND
  local folder="$RUNS/$1.$2.$3" MODEL
  if [[ "$1" == gec && -n "$LAST_LEVELS" ]]; then
    starting_point "$2" last
    stage "$2" "$WORK/data/gec.last" "$WORK/text/gec.last/train.src" "$LAST_LINES" "$LAST_EPOCHS" "$LAST_LR" \
      "$folder" "${MODEL[@]}"
  elif [[ "$1" == gec ]]; then
    train_real "$2"
  else
    words_flags "$1" "$3"
    GPUS=1 LAUNCH=single quietly "$folder/train.log" launch_train "$(learned "$@")" \
      --user-dir "$USER_DIR" "${MODEL[@]}" --seed "$SEED" --save-dir "$folder" --no-epoch-checkpoints \
      --log-format simple --log-interval 50
  fi
  into "$(model "$@")" cat "$folder/checkpoint_best.pt"
}

# Train on grammar in stages: BERT, synthetic errors, real errors, those with LAST_LEVELS.
train_synthetic() { # MODEL
  local MODEL
  starting_point "$1" synthetic
  stage "$1" "$WORK/data/gec.$1" "$WORK/text/gec.$1/train.src" "$CLEAN_LINES" "$SYNTHETIC_EPOCHS" \
    "$SYNTHETIC_LR" "$(synthetic "$1")" "${MODEL[@]}"
}

train_real() { # MODEL
  local MODEL
  starting_point "$1" real
  stage "$1" "$WORK/data/gec" "$WORK/text/gec/train.src" "$REAL_LINES" "$GEC_EPOCHS" "$GEC_LR" "$(real "$1")" \
    "${MODEL[@]}"
}

# Set MODEL to the initialization of a stage.
starting_point() { # MODEL synthetic|real|last
  local continued=""
  [[ "$2" == real && -n "$SYNTHETIC" ]] && continued="$(synthetic "$1")/checkpoint_last.pt"
  [[ "$2" == last ]] && continued="$(real "$1")/checkpoint_best.pt"
  MODEL=(${continued:+--finetune-from-model "$continued"})
  if [[ "$GEC_UNIT" == word ]]; then MODEL+=(--edit-unit word); fi
  if [[ -n "$GEC_INIT" && ("$GEC_UNIT" == word || -z "$continued") ]]; then # also the sizes of the words' encoder
    MODEL+=(--edit-init "${BERT:?folder of a BERT as Hugging Face stores it}")
  elif [[ "$GEC_UNIT" == word ]]; then
    MODEL+=(--edit-tokenizer "${BERT:?folder of a BERT as Hugging Face stores it}")
  fi
}

stage() { # MODEL DATA TEXT LINES-IN-A-DRY-RUN EPOCHS LR FOLDER FLAGS...
  local lines="$4" updates
  if [[ -z "${DRY_RUN:-}" ]]; then
    await "$3"
    lines="$(wc -l <"$3")"
  fi
  updates="$(($5 * ((lines + GEC_BATCH - 1) / GEC_BATCH)))"
  # shellcheck disable=SC2086  # words apart
  quietly "$7/train.log" launch_train "$2" --user-dir "$USER_DIR" \
    --task edit_labeling --source-lang src --target-lang trg --arch "$GEC_ARCH" "${@:8}" \
    --criterion edit_cross_entropy --edit-copy-weight "$GEC_COPY_WEIGHT" --sentence-avg \
    --optimizer bert_adam --adam-betas "(0.9, 0.999)" --adam-eps 1e-6 --weight-decay 0.01 \
    --clip-norm 1 --batch-size "$GEC_SHARE" --skip-invalid-size-inputs-valid-test --max-epoch "$5" \
    --lr "$6" --lr-scheduler polynomial_decay --warmup-updates "$((updates / 10))" \
    --total-num-update "$updates" --best-checkpoint-metric f05 --maximize-best-checkpoint-metric \
    --seed "$1" --save-dir "$7" --no-epoch-checkpoints \
    --save-interval-updates 5000 --keep-interval-updates 1 \
    --log-format simple --log-interval 100 $AUTOCAST ${TAGGER_FLAGS:-}
}

headline "2/4 training: $TASKS; $KINDS"
if [[ " $TASKS " == *" gec "* && -n "$SYNTHETIC" ]]; then
  for fold in $GEC_MODELS; do spawn build "$(synthetic "$fold")" train_synthetic "$fold"; done
  settle
fi
if [[ " $TASKS " == *" gec "* && -n "$LAST_LEVELS" ]]; then
  for fold in $GEC_MODELS; do spawn build "$(real "$fold")" train_real "$fold"; done
  settle
fi
for task in $TASKS; do
  for fold in $(folds "$task"); do
    for kind in $(kinds "$task"); do
      spawn build "$RUNS/$task.$fold.$kind" train "$task" "$fold" "$kind"
    done
  done
done
settle
