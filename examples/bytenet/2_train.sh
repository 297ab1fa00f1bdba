#!/usr/bin/env bash
# Train all models, each in a folder of WORK/runs. Interrupted training runs resume.
# shellcheck source=examples/bytenet/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

train() { # DATA FOLDER FLAGS...
  quietly "$2/train.log" launch_train "$1" --user-dir "$USER_DIR" --save-dir "$2" \
    --optimizer adam "${@:3}" --no-epoch-checkpoints --log-format simple --log-interval 50
}

# Train both directions, with or without monolingual text, so that runs differ only in this text.
digits() { # ARCH LABELED UNLABELED WEIGHT SEED
  local data folder text=()
  data="$(digit_data "$2" "$5")" folder="$(digit_run "$@")"
  [[ "$3" == 0 ]] || text=(--reconstruction-source-text "$(digit_mono "$2" "$5" "$3")/train"
    --reconstruction-beam "$BEAM" --reconstruction-weight "$4")
  # shellcheck disable=SC2086
  train "$data" "$folder" --task reconstruction_translation -s words -t digits \
    --criterion reconstruction_loss "${text[@]}" --reconstruction-mixed-lengths \
    --arch "$1" $ARCH_FLAGS --lr "$LR" --batch-size "$DIGITS_SHARE" --max-epoch "$EPOCHS" --seed "$5" \
    --disable-validation --save-interval "$(save_interval "$EPOCHS")" --num-workers 0
  run fairseq-ssl export "$folder/checkpoint_last.pt" --to translation -s words -t digits \
    -o "$folder/model.pt" --force
}

memorize() { # ARCH
  local folder="$RUNS/memorize/$1" rate=(--lr-scheduler fixed --lr "$MEMORIZE_LR") dim="$MEMORIZE_DIM"
  ((MEMORIZE_UPDATE_FREQ == 1)) || rate+=(--update-freq "$MEMORIZE_UPDATE_FREQ")
  [[ -z "$MEMORIZE_ANNEAL" ]] || rate+=(--force-anneal "$MEMORIZE_ANNEAL" --lr-shrink 0.8)
  if [[ -n "$dim" && "$1" == bytenet_simplified ]]; then dim="$((dim / 2))"; fi
  # shellcheck disable=SC2086
  train "$DATA/memorize" "$folder" --task translation -s "$SOURCE" -t "$TARGET" --arch "$1" \
    ${dim:+--bytenet-dim $dim} $MEMORIZE_FLAGS --criterion cross_entropy --sentence-avg "${rate[@]}" \
    --batch-size "$MEMORIZE_SHARE" --max-epoch "$MEMORIZE_EPOCHS" --disable-validation \
    --save-interval "$(save_interval "$MEMORIZE_EPOCHS")" --update-epoch-batch-itr True --clip-norm 10
  into "$folder/model.pt" cat "$folder/checkpoint_last.pt"
}

COMMON=(--lr "$TEXT_LR" --lr-scheduler inverse_sqrt --warmup-updates "$WARMUP"
  --adam-betas "(0.9, 0.98)" --max-tokens "$TEXT_SHARE" --max-update "$UPDATES" --clip-norm 5
  --label-smoothing "$LABEL_SMOOTHING")

# Training as in the author's code: loss averaged over sentences, no warm-up.
bytenet() { # ARCH SEED
  local folder="$RUNS/text/$1.$2"
  # shellcheck disable=SC2086
  train "$DATA/characters" "$folder" --task translation -s "$SOURCE" -t "$TARGET" --arch "$1" \
    $BYTENET_FLAGS --criterion cross_entropy --sentence-avg --lr "$BYTENET_LR" --clip-norm 10 \
    --batch-size "$BYTENET_SHARE" --update-freq "$BYTENET_UPDATE_FREQ" --max-epoch "$BYTENET_EPOCHS" \
    --max-source-positions "$BYTENET_LONGEST" --max-target-positions "$BYTENET_LONGEST" \
    --skip-invalid-size-inputs-valid-test --update-epoch-batch-itr True --seed "$2"
  into "$folder/model.pt" cat "$folder/checkpoint_best.pt"
}

both_ways() { # KIND SEED
  local folder="$RUNS/text/$1.$2" flags=()
  [[ "$1" == supervised ]] || flags=(--reconstruction-source-text "$DATA/text/mono/train"
    --reconstruction-target-text "$DATA/text/mono/train" --reconstruction-beam "$TEXT_BEAM"
    --reconstruction-weight "$TEXT_WEIGHT" --reconstruction-start-update "$START")
  # shellcheck disable=SC2086
  train "$DATA/text" "$folder" --task reconstruction_translation -s "$SOURCE" -t "$TARGET" \
    --criterion reconstruction_loss "${flags[@]}" --arch "$TEXT_ARCH" $TEXT_FLAGS "${COMMON[@]}" \
    --best-checkpoint-metric forward_loss --seed "$2"
  run fairseq-ssl export "$folder/checkpoint_best.pt" --to translation -s "$SOURCE" -t "$TARGET" \
    -o "$folder/model.pt" --force
}

backtranslation() { # SEED
  local folder="$RUNS/text/backtranslation.$1"
  build "$RUNS/text/supervised.$1" both_ways supervised "$1"
  build "$DATA/text.backtranslated.$1" backtranslated_text "$1"
  build "$folder" trained_on_backtranslated "$1"
}

backtranslated_text() { # SEED
  local made="$WORK/backtranslated.$1"
  # A target of its own, since a translation resumes only with the same file.
  build "$made/reverse.pt" run fairseq-ssl export "$RUNS/text/supervised.$1/checkpoint_best.pt" --to translation \
    -s "$TARGET" -t "$SOURCE" -o "$made/reverse.pt" --force
  quietly "$made/translate.log" run fairseq-ssl back-translate "$WORK/subwords/mono.$TARGET" \
    --model "$made/reverse.pt" --data-dir "$DATA/text" -s "$TARGET" -t "$SOURCE" --beam 5 \
    -o "$made/train.$SOURCE" --source-output "$made/train.$TARGET" ${FORCE:+--force}
  quietly "$WORK/preprocess.log" run fairseq-preprocess -s "$SOURCE" -t "$TARGET" \
    --srcdict "$WORK/subwords/dict.txt" --tgtdict "$WORK/subwords/dict.txt" --trainpref "$made/train" \
    --destdir "$DATA/text.backtranslated.$1"
}

# Loss averaged over sentences, and the best checkpoint by loss per token, as in reconstruction_loss.
trained_on_backtranslated() { # SEED
  local folder="$RUNS/text/backtranslation.$1"
  # shellcheck disable=SC2086
  train "$DATA/text" "$folder" --task tagged_translation -s "$SOURCE" -t "$TARGET" \
    --mix-weights "train=1,../text.backtranslated.$1/train=1" \
    --criterion label_smoothed_cross_entropy --sentence-avg --best-checkpoint-metric nll_loss \
    --arch "$TEXT_ARCH" $TEXT_FLAGS "${COMMON[@]}" --seed "$1"
  into "$folder/model.pt" cat "$folder/checkpoint_best.pt"
}

train_text() { # KIND SEED
  case "$1" in
    bytenet) for arch in $BYTENET_ARCHS; do build "$RUNS/text/$arch.$2" bytenet "$arch" "$2"; done ;;
    backtranslation) backtranslation "$2" ;;
    *) build "$RUNS/text/$1.$2" both_ways "$1" "$2" ;;
  esac
}

for task in $TASKS; do
  headline "2/4 $task: training"
  case "$task" in
    digits)
      while read -ra setting; do
        spawn build "$(digit_run "${setting[@]}")" digits "${setting[@]}"
      done < <(digit_runs)
      ;;
    memorize)
      for arch in $MEMORIZE_ARCHS; do spawn build "$RUNS/memorize/$arch" memorize "$arch"; done
      ;;
    text)
      for kind in $KINDS; do
        for seed in $SEEDS; do spawn train_text "$kind" "$seed"; done
        settle # back-translation uses the supervised models
      done
      ;;
  esac
  settle
done
