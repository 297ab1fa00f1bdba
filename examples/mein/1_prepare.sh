#!/usr/bin/env bash
# Write the labeled and unlabeled texts of each task in both views to WORK/data.
# shellcheck source=examples/mein/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

# Sizes of held-out sets without a file, from table 3.1.
held_out() { # TASK SPLIT
  case "$SCALE.$1.$2" in
    paper.elec.valid) echo --valid-size 2500 ;;
    paper.imdb.valid) echo --valid-size 3754 ;;
    paper.rotten.valid) echo --valid-size 960 ;;
    paper.rotten.test) echo --test-size 1066 ;;
    paper.rcv1.valid) echo --valid-size 1557 ;;
    *.valid) echo --valid-size "$DEV_SHARE" ;;
    *.test) echo --test-size "$TEST_SHARE" ;;
  esac
}

prepare() { # TASK EXPERT
  local text="$WORK/text" labels="$LABELS" more=()
  if [[ "$1" != toy ]]; then text="$DATA_DIR/$(folder "$1")"; fi
  # shellcheck disable=SC2207  # split into words
  if [[ -e "$text/dev.tsv" ]]; then more+=(--valid "$text/dev.tsv"); else more+=($(held_out "$1" valid)); fi
  # shellcheck disable=SC2207
  if [[ -e "$text/test.tsv" ]]; then more+=(--test "$text/test.tsv"); else more+=($(held_out "$1" test)); fi
  if [[ -e "$text/unlabelled.txt" ]]; then more+=(--unlabeled "$text/unlabelled.txt"); fi
  if has_extra "$1"; then more+=(--extra-unlabeled "$text/extra.txt"); fi
  if [[ "$2" == bert ]]; then
    more+=(--tokenizer "bert:$BERT")
  else
    more+=(--min-count "$LEAST_COUNT")
  fi
  if [[ "$1" == pros ]]; then labels="${LABELS:-1000}"; fi
  if [[ -n "$labels" ]]; then more+=(--train-lines "$labels"); fi
  quietly "$WORK/prepare.log" run fairseq-ssl classify prepare "$text/train.tsv" "${more[@]}" \
    --subword-vocab-size "$PIECES" --lower --train-test-overlap drop --force -o "$(data "$@")"
}

# Files of DATA_DIR for all tasks. Texts of pros, or with LABELS of all tasks, become unlabeled.
check_data() {
  local task folder files=()
  for task in $TASKS; do
    [[ "$task" != toy ]] || continue
    folder="$(folder "$task")"
    files+=("$folder/train.tsv")
    [[ "$task" == pros || -n "$LABELS" || "$(kinds "$task")" == alone ]] || files+=("$folder/unlabelled.txt")
    [[ "$SCALE.$task" != paper.@(elec|imdb|rcv1) ]] || files+=("$folder/test.tsv")
    [[ " $(kinds "$task")" != *" extra."* ]] || files+=("$folder/extra.txt")
  done
  ((${#files[@]} == 0)) || data_dir "${files[*]}, see README" "${files[@]}"
}

headline "1/5 preparing: $TASKS"
check_data
for task in $TASKS; do
  if [[ "$task" == toy ]]; then
    build "$WORK/text" run python "$HERE/toy_reviews.py" "$WORK/text"
  fi
  # The LSTMs have one folder.
  for expert in $(tr ' ' '\n' <<<"$EXPERTS" | sed 's/^\(lm\|adv\|vat\)$/lstm/' | sort -u); do
    build "$(data "$task" "$expert")" prepare "$task" "$expert"
  done
done
