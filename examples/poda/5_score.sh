#!/usr/bin/env bash
# Score all models, to SET.json, and print a table with mean and standard deviation over seeds.
# shellcheck source=examples/poda/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

score() { # TASK SET OUTPUT-WITHOUT-SUFFIX
  local folder references=() ending
  folder="$(held_out "$1" "$2")"
  for ending in $(gold "$1" "$2"); do references+=(--reference "$folder/$2.$ending"); done
  case "$1.$2.$(gold "$1" "$2")" in
    cnndm.*) rouge "$3" "${references[@]}" --sentence-mark "$SENTENCE_MARK" ;;
    gigaword.*) rouge "$3" "${references[@]}" ;;
    *.m2) edits "$3" "$folder/$2.m2" ;;
    *) gleu "$3" "$folder/$2.src-trg.src" "${references[@]}" ;;
  esac
}

rouge() { # OUTPUT FLAGS...
  into "$1.json" fairseq-ssl score rouge "$1.txt" --stem "${@:2}" --format json
}

edits() { # OUTPUT M2
  into "$1.json" fairseq-ssl score m2 "$1.txt" --gold "$2" --jobs "$JOBS" --format json
}

gleu() { # OUTPUT SOURCE FLAGS...
  into "$1.json" fairseq-ssl score gleu "$1.txt" --source "$2" "${@:3}" --format json
}

build_score() { build "$3.json" score "$@"; } # TASK SET OUTPUT-WITHOUT-SUFFIX

each_set() { # TASK AMOUNT KIND SEED
  local set
  for set in $(sets "$1"); do
    build_score "$1" "$set" "$RUNS/$1.$2.$3.$4/$set"
    if [[ "$ENSEMBLE" == 1 && "$3" != untuned && "$4" == "${SEEDS%% *}" ]]; then
      rebuild "$RUNS/$1.$2.$3.all/$set.json" score "$1" "$set" "$RUNS/$1.$2.$3.all/$set"
    fi
  done
}

uncorrected() { # TASK: unchanged source
  local set out
  for set in $(sets "$1"); do
    out="$RUNS/$1.0.uncorrected.1/$set"
    build "$out.txt" into "$out.txt" cat "$(held_out "$1" "$set")/$set.src-trg.src"
    build_score "$1" "$set" "$out"
  done
}

headline "5/6 scoring"
for task in $TASKS; do
  if [[ "$task" == learner || "$task" == gec || "$task" == jfleg ]]; then uncorrected "$task"; fi
done
each_model each_set
run python "$HERE/scores.py" "$RUNS"
