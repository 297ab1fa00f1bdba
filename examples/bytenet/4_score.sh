#!/usr/bin/env bash
# Digits: characters that are wrong, mean and deviation over the seeds. The others: BLEU.
# shellcheck source=examples/bytenet/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

# Characters of a hypothesis or a reference, as words again.
words() { # LETTER GENERATED
  # shellcheck disable=SC2016  # for the shell that runs it
  into "$2.$1" bash -c 'grep "^$1-" "$2" | LC_ALL=C sort -s -t- -k2n |
    sed -E "s/^H-[^\t]*\t[^\t]*\t//; s/^T-[^\t]*\t//; s/ //g; s/_/ /g"' words "$1" "$2"
}

for task in $TASKS; do
  headline "4/4 $task: scoring"
  case "$task" in
    digits)
      while read -ra setting; do
        for set in $SETS; do
          out="$(digit_run "${setting[@]}")/$set"
          have "$out.json" && continue
          into "$out.json" python "$HERE/misclassification.py" "$out.generate"
        done
      done < <(digit_runs)
      # shellcheck disable=SC2086  # words apart
      run python "$HERE/digits_table.py" "$RUNS/digits" --sets $SETS
      ;;
    memorise)
      for arch in $MEMORISE_ARCHS; do
        out="$RUNS/memorise/$arch/train.generate"
        words H "$out"
        words T "$out"
        run sacrebleu "$out.T" -i "$out.H" -m bleu -b -w 2
      done
      ;;
    text)
      for kind in $KINDS; do
        for seed in $SEEDS; do
          for set in valid test; do
            out="$RUNS/text/$kind.$seed/$set"
            have "$out.bleu.json" && continue
            if [[ "$kind" == bytenet ]]; then
              words H "$out.generate"
              run mv "$out.generate.H" "$out.txt"
            else
              into "$out.txt" fairseq-ssl detokenise "$out.generate" --field H \
                --subwords sentencepiece
            fi
            into "$out.bleu.json" sacrebleu "$WORK/raw/$set.$TARGET" -i "$out.txt" -w 2
          done
        done
      done
      published=()
      if [[ "$SCALE" == paper ]]; then published=(--published "bytenet=7.44"); fi
      # shellcheck disable=SC2086
      run python "$HERE/../common/bleu_table.py" "$RUNS/text" --heads kind --rows $KINDS \
        "${published[@]}"
      ;;
  esac
done
