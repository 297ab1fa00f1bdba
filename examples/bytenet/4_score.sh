#!/usr/bin/env bash
# Score digits by the character error rate, mean and standard deviation over seeds, and the other tasks
# by BLEU. Plot learning curves in WORK/figures and print a table of sizes and speeds of the models.
# shellcheck source=examples/bytenet/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

# Join the characters of hypotheses or references to words.
words() { # LETTER GENERATED OUTPUT
  # shellcheck disable=SC2016  # expanded by the inner shell
  into "$3" bash -c 'grep "^$1-" "$2" | LC_ALL=C sort -s -t- -k2n |
    sed -E "s/^H-[^\t]*\t[^\t]*\t//; s/^T-[^\t]*\t//; s/ //g; s/_/ /g"' words "$1" "$2"
}

memorize() { # ARCH
  local out="$RUNS/memorize/$1/train"
  made "$out.generate"
  words H "$out.generate" "$out.txt"
  words T "$out.generate" "$out.reference"
  into "$out.bleu.json" sacrebleu "$out.reference" -i "$out.txt" -m bleu -w 2
}

text() { # KIND FOLDER SET
  local out="$2/$3"
  made "$out.generate"
  if [[ "$1" == bytenet ]]; then
    words H "$out.generate" "$out.txt"
  else
    into "$out.txt" fairseq-ssl postprocess "$out.generate" --fairseq-lines H --subwords sentencepiece
  fi
  into "$out.bleu.json" sacrebleu "$WORK/raw/$3.$TARGET" -i "$out.txt" -w 2
}

curves() { # TASK FLAGS...
  run python "$HERE/learning_curves.py" "$RUNS/$1" "$FIGURES/$1.png" "${@:2}"
}

for task in $TASKS; do
  headline "4/4 $task: scoring"
  case "$task" in
    digits)
      while read -ra setting; do
        for set in $SETS; do
          out="$(digit_run "${setting[@]}")/$set"
          made "$out.generate"
          build "$out.json" into "$out.json" python "$HERE/misclassification.py" "$out.generate"
        done
      done < <(digit_runs)
      # shellcheck disable=SC2086  # split into words
      run python "$HERE/digits_table.py" "$RUNS/digits" --sets $SETS
      curves digits
      ;;
    memorize)
      for arch in $MEMORIZE_ARCHS; do
        build "$RUNS/memorize/$arch/train.bleu.json" memorize "$arch"
      done
      curves memorize --bleu train.bleu.json
      ;;
    text)
      rows=()
      for kind in $KINDS; do
        for model in $(text_models "$kind"); do
          rows+=("$model")
          for seed in $SEEDS; do
            for set in valid test; do
              folder="$RUNS/text/$model.$seed"
              build "$folder/$set.bleu.json" text "$kind" "$folder" "$set"
            done
          done
        done
      done
      published=()
      if [[ "$SCALE" == paper ]]; then published=(--published bytenet=7.44 bytenet_simplified=0.55); fi
      run python "$HERE/../common/bleu_table.py" "$RUNS/text" --heads model --rows "${rows[@]}" \
        "${published[@]}"
      curves text --bleu test.bleu.json
      ;;
  esac
done
