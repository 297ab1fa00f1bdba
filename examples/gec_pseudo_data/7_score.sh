#!/usr/bin/env bash
# Score sets of edits with MaxMatch and ERRANT, and JFLEG with GLEU. Print the table with mean and
# standard deviation over seeds. Pack BLIND sets for submission, RUNS/SYSTEM.SEED/SET.zip.
# shellcheck source=examples/gec_pseudo_data/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

score() { # FOLDER SET
  local out="$1/$2" set metric flags number
  set="$(held_out_set "$2")"
  if is_blind "$2"; then
    build "$out.zip" run python "$HERE/submission.py" "$out.txt" --source "$set.src" -o "$out.zip"
  elif [[ "$2" == jfleg* ]]; then
    flags=(--source "$set.src")
    for number in 0 1 2 3; do flags+=(--reference "$set.ref$number"); done
    build "$out.gleu.json" into "$out.gleu.json" fairseq-ssl score gleu "$out.txt" "${flags[@]}" \
      --format json
  else
    for metric in $METRICS; do
      flags=()
      [[ "$metric" == errant ]] && flags=("${ERRANT[@]}")
      build "$out.$metric.json" into "$out.$metric.json" fairseq-ssl score "$metric" "$out.txt" \
        --gold "$set.m2" "${flags[@]}" --format json
    done
  fi
}

headline "7/8 scoring"
folders=("$RUNS/uncorrected.1")
for seed in $SEEDS; do
  # shellcheck disable=SC2086  # split into words
  for system in $SYSTEMS; do folders+=("$RUNS/$system.$seed"); done
done
if [[ "$FINAL" != none ]]; then
  for seeds in $ENSEMBLES; do
    number="$(tr + '\n' <<<"$seeds" | wc -l)"
    folders+=("$RUNS/ensemble$number.$seeds" "$RUNS/reranked$number.$seeds")
  done
fi
for folder in "${folders[@]}"; do
  for set in $SETS; do spawn score "$folder" "$set"; done
done
settle
# shellcheck disable=SC2086  # split into words
run python "$HERE/results.py" "$RUNS" --rows uncorrected $SYSTEMS --sets $SETS
