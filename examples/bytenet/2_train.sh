#!/usr/bin/env bash
# Every model, in a folder of WORK/runs. Killed, it goes on from its last checkpoint.
# shellcheck source=examples/bytenet/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

train() { # DATA FOLDER FLAGS...
  # shellcheck disable=SC2086  # words apart
  quietly "$2/train.log" launch_train "$1" --user-dir "$USER_DIR" --save-dir "$2" \
    --optimizer adam "${@:3}" --no-epoch-checkpoints --log-format simple --log-interval 50 \
    ${FLAGS:-}
}

# Both directions learn, with text or without: what is compared differs in the text alone.
digits() { # ARCH LABELLED UNLABELLED WEIGHT SEED
  local data folder text=()
  data="$(digit_data "$2" "$5")" folder="$(digit_run "$@")"
  have "$folder/model.pt" && return
  [[ "$3" == 0 ]] || text=(--reconstruction-source-text "$data/mono.$3/train"
    --reconstruction-beam "$BEAM" --reconstruction-weight "$4")
  # shellcheck disable=SC2086
  train "$data" "$folder" --task reconstruction_translation -s words -t digits \
    --criterion reconstruction_loss "${text[@]}" --reconstruction-mixed-lengths \
    --arch "$1" $ARCH_FLAGS --lr "$LR" --batch-size "$BATCH" --max-epoch "$EPOCHS" --seed "$5" \
    --disable-validation --save-interval "$(save_interval "$EPOCHS")" --num-workers 0
  run fairseq-ssl export "$folder/checkpoint_last.pt" --to translation -s words -t digits \
    -o "$folder/model.pt" ${FORCE:+--force}
}

memorise() { # ARCH
  local folder="$RUNS/memorise/$1" rate=(--lr-scheduler fixed --lr "$MEMORISE_LR") dim="$MEMORISE_DIM"
  have "$folder/model.pt" && return
  [[ -z "$MEMORISE_ANNEAL" ]] || rate+=(--force-anneal "$MEMORISE_ANNEAL" --lr-shrink 0.8)
  if [[ -n "$dim" && "$1" == bytenet_simplified ]]; then dim="$((dim / 2))"; fi
  # shellcheck disable=SC2086
  train "$DATA/memorise" "$folder" --task translation -s "$SOURCE" -t "$TARGET" --arch "$1" \
    ${dim:+--bytenet-dim $dim} $MEMORISE_FLAGS --criterion cross_entropy --sentence-avg "${rate[@]}" \
    --batch-size "$MEMORISE_BATCH" --max-epoch "$MEMORISE_EPOCHS" --disable-validation \
    --save-interval "$(save_interval "$MEMORISE_EPOCHS")" --update-epoch-batch-itr True --clip-norm 10
  into "$folder/model.pt" cat "$folder/checkpoint_last.pt"
}

COMMON=(--lr "$TEXT_LR" --lr-scheduler inverse_sqrt --warmup-updates "$WARMUP"
  --adam-betas "(0.9, 0.98)" --max-tokens "$MAX_TOKENS" --max-update "$UPDATES" --clip-norm 5
  --label-smoothing "$LABEL_SMOOTHING")

# The author's training: the mean over sentences, no warm-up.
bytenet() { # ARCH SEED
  local folder="$RUNS/text/$1.$2"
  have "$folder/model.pt" && return
  # shellcheck disable=SC2086
  train "$DATA/characters" "$folder" --task translation -s "$SOURCE" -t "$TARGET" --arch "$1" \
    $BYTENET_FLAGS --criterion cross_entropy --sentence-avg --lr "$BYTENET_LR" --clip-norm 10 \
    --batch-size "$BYTENET_BATCH" --update-freq "$BYTENET_UPDATE_FREQ" --max-epoch "$BYTENET_EPOCHS" \
    --max-source-positions "$BYTENET_LONGEST" --max-target-positions "$BYTENET_LONGEST" \
    --skip-invalid-size-inputs-valid-test --update-epoch-batch-itr True --seed "$2"
  into "$folder/model.pt" cat "$folder/checkpoint_best.pt"
}

both_ways() { # KIND SEED
  local folder="$RUNS/text/$1.$2" flags=()
  have "$folder/model.pt" && return
  [[ "$1" == supervised ]] || flags=(--reconstruction-source-text "$DATA/text/mono/train"
    --reconstruction-target-text "$DATA/text/mono/train" --reconstruction-beam "$TEXT_BEAM"
    --reconstruction-weight "$TEXT_WEIGHT" --reconstruction-start-update "$START")
  # shellcheck disable=SC2086
  train "$DATA/text" "$folder" --task reconstruction_translation -s "$SOURCE" -t "$TARGET" \
    --criterion reconstruction_loss "${flags[@]}" --arch "$TEXT_ARCH" $TEXT_FLAGS "${COMMON[@]}" \
    --best-checkpoint-metric forward_loss --seed "$2"
  run fairseq-ssl export "$folder/checkpoint_best.pt" --to fairseq -s "$SOURCE" -t "$TARGET" \
    -o "$folder/model.pt" ${FORCE:+--force}
}

backtranslation() { # SEED
  local folder="$RUNS/text/backtranslation.$1" more="$DATA/text.backtranslated.$1"
  have "$folder/model.pt" && return
  both_ways supervised "$1"
  if ! have "$more"; then
    run fairseq-ssl export "$RUNS/text/supervised.$1/checkpoint_best.pt" --to fairseq \
      -s "$TARGET" -t "$SOURCE" -o "$folder/reverse.pt" --force
    quietly "$folder/translate.log" run fairseq-ssl back-translate "$WORK/text/text/mono.$TARGET" \
      --model "$folder/reverse.pt" --data-dir "$DATA/text" -s "$TARGET" -t "$SOURCE" --beam 5 \
      -o "$folder/made.$SOURCE" --given "$folder/made.$TARGET" --force
    run rm -rf "$more.tmp"
    quietly "$WORK/preprocess.log" run fairseq-preprocess -s "$SOURCE" -t "$TARGET" \
      --srcdict "$WORK/dict.txt" --tgtdict "$WORK/dict.txt" --trainpref "$folder/made" \
      --destdir "$more.tmp"
    run mv "$more.tmp" "$more"
  fi
  # sentence means and the loss of a word to choose by, as reconstruction_loss has them
  # shellcheck disable=SC2086
  train "$DATA/text" "$folder" --task tagged_translation -s "$SOURCE" -t "$TARGET" \
    --mix-weights "train=1,../${more##*/}/train=1" --criterion label_smoothed_cross_entropy \
    --sentence-avg --best-checkpoint-metric nll_loss --arch "$TEXT_ARCH" $TEXT_FLAGS \
    "${COMMON[@]}" --seed "$1"
  into "$folder/model.pt" cat "$folder/checkpoint_best.pt"
}

for task in $TASKS; do
  headline "2/4 $task: training"
  case "$task" in
    digits)
      while read -ra setting; do spawn digits "${setting[@]}"; done < <(digit_runs)
      ;;
    memorise) for arch in $MEMORISE_ARCHS; do spawn memorise "$arch"; done ;;
    text)
      for kind in $KINDS; do
        for seed in $SEEDS; do
          case "$kind" in
            bytenet) for arch in $BYTENET_ARCHS; do spawn bytenet "$arch" "$seed"; done ;;
            backtranslation) spawn backtranslation "$seed" ;;
            *) spawn both_ways "$kind" "$seed" ;;
          esac
        done
        settle # back-translation takes the supervised models
      done
      ;;
  esac
  settle
done
