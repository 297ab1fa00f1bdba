#!/usr/bin/env bash
# Classify the test texts with all models. Write error rates over seeds, compared with the expert
# alone, to WORK/scores. Print the table, and plot figures 3.3 and 3.4 if their models exist.
# shellcheck source=examples/mein/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

predict() { # TASK EXPERT SEED
  local kind folder
  for kind in $(kinds "$1"); do
    folder="$(run_of "$@" "$kind")"
    build "$folder/test.txt" quietly "$folder/predict.log" run fairseq-ssl classify predict --split test \
      --model "$folder/final.pt" --data-dir "$(data "$1" "$2")" -o "$folder/test.txt"
  done
}

score() { # TASK EXPERT
  local kind seed systems=() baseline
  for kind in $(kinds "$1"); do
    for seed in $SEEDS; do systems+=("$kind=$(run_of "$1" "$2" "$seed" "$kind")/test.txt"); done
  done
  for baseline in alone continued; do
    [[ " ${systems[*]}" == *" $baseline="* ]] || continue
    into "$WORK/scores/$baseline/$1.$2.json" fairseq-ssl classify score "$(data "$1" "$2")/text/test.tsv" \
      "${systems[@]}" --baseline "$baseline" --resamples "$SAMPLES" --format json
  done
}

headline "5/5 scoring"
each predict
for task in $TASKS; do
  for expert in $EXPERTS; do score "$task" "$expert"; done
done
run python "$HERE/table.py" "$WORK/scores" --data "$WORK/data" --runs "$RUNS" \
  --figures "$WORK/figures" --windows "$WINDOWS"
