#!/usr/bin/env bash
# Decode the test sets with all models, to SET.generate in the folder of each model.
# shellcheck source=examples/bytenet/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

decode() { # FOLDER DATA SPLIT NAME SOURCE TARGET FLAGS...
  spawn build "$1/$4.generate" generate "$@"
}

generate() {
  # shellcheck disable=SC2086  # split into words
  quietly "$1/$4.log" into "$1/$4.generate" fairseq-generate "$2" --user-dir "$USER_DIR" \
    -s "$5" -t "$6" --path "$1/model.pt" --gen-subset "$3" "${@:7}" ${DECODING_FLAGS:-}
}

for task in $TASKS; do
  headline "3/4 $task: decoding"
  case "$task" in
    digits)
      while read -ra setting; do
        for set in $SETS; do
          decode "$(digit_run "${setting[@]}")" "$(digit_data "${setting[1]}" "${setting[4]}")" \
            "$(digit_split "$set")" "$set" words digits --beam 1 --batch-size 128
        done
      done < <(digit_runs)
      ;;
    memorize)
      # Greedy search: a beam search stops after as many finished hypotheses as the beam size, and
      # with such a confident model all hypotheses but the first are poor.
      for arch in $MEMORIZE_ARCHS; do
        decode "$RUNS/memorize/$arch" "$DATA/memorize" train train "$SOURCE" "$TARGET" \
          --beam 1 --batch-size 64 --max-len-a 2 --max-len-b 20
      done
      ;;
    text)
      for kind in $KINDS; do
        data=text flags=(--beam 5 --max-tokens 4000)
        if [[ "$kind" == bytenet ]]; then # sentences longer than in training too
          data=characters
          flags=(--batch-size 32 --max-len-a 2 --max-len-b 20 --max-source-positions 10000
            --max-target-positions 10000 --beam "$BYTENET_BEAM" --unnormalized)
        fi
        for model in $(text_models "$kind"); do
          for seed in $SEEDS; do
            for set in valid test; do
              decode "$RUNS/text/$model.$seed" "$DATA/$data" "$set" "$set" "$SOURCE" "$TARGET" \
                "${flags[@]}"
            done
          done
        done
      done
      ;;
  esac
  settle
done
