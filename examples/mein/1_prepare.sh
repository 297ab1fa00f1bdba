#!/usr/bin/env bash
# The labelled and unlabelled texts of each task in both views, in WORK/data.
# shellcheck source=examples/mein/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

folder() { # TASK: in DATA_DIR
  case "$1" in
    rotten) echo rotten_tomatoes ;;
    pros) echo pros_cons ;;
    *) echo "$1" ;;
  esac
}

prepare() { # TASK
  local text="$WORK/text" labels="$LABELS" more=()
  have "$(data "$1")" && return
  if [[ "$1" != toy ]]; then
    data_dir "$(folder "$1")/train.tsv" "$(folder "$1")/train.tsv"
    text="$DATA_DIR/$(folder "$1")"
  elif ! have "$text"; then
    run python "$HERE/toy_reviews.py" "$text"
  fi
  if [[ -e "$text/dev.tsv" ]]; then more+=(--valid "$text/dev.tsv"); else more+=(--valid-share "$DEV_SHARE"); fi
  if [[ -e "$text/test.tsv" ]]; then more+=(--test "$text/test.tsv"); else more+=(--test-share "$TEST_SHARE"); fi
  if [[ -e "$text/unlabelled.txt" ]]; then more+=(--unlabelled "$text/unlabelled.txt"); fi
  if [[ "$1" == pros ]]; then labels="${LABELS:-1000}"; fi
  if [[ -n "$labels" ]]; then more+=(--train-lines "$labels"); fi
  quietly "$WORK/prepare.log" run fairseq-ssl classify prepare "$text/train.tsv" "${more[@]}" \
    --pieces "$PIECES" --least-count "$LEAST_COUNT" --lower --leaks drop --force -o "$(data "$1")"
}

headline "1/5 preparing: $TASKS"
for task in $TASKS; do prepare "$task"; done
