#!/usr/bin/env bash
# What every model makes of every held-out set: SET.generate, and as text SET.txt.
# shellcheck source=examples/poda/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

decode() { # TASK AMOUNT KIND SEED; SEED all: the models of all seeds together
  local folder="$RUNS/$1.$2.$3.$4" paths=() seed set lengths=(--max-len-a 1.5 --max-len-b 10)
  if [[ "$4" == all ]]; then
    for seed in $SEEDS; do paths+=("$(model "$1" "$2" "$3" "$seed")"); done
  else
    paths=("$(model "$@")")
  fi
  if [[ "$1" == cnndm ]]; then
    lengths=(--truncate-source-words 800 --max-len-a 0 --max-len-b 130)
  fi
  for set in $(sets "$1"); do
    have "$folder/$set.txt" && continue
    # shellcheck disable=SC2086  # words apart
    quietly "$folder/$set.log" into "$folder/$set.generate" fairseq-generate "$(data "$1" "$2")" \
      --user-dir "$USER_DIR" --dataset-impl raw --task copying_translation \
      --source-lang src --target-lang trg --path "$(IFS=: && echo "${paths[*]}")" \
      --gen-subset "$set" --batch-size "$DECODE_BATCH" --beam "$BEAM" "${lengths[@]}" \
      ${DECODING_FLAGS:-}
    into "$folder/$set.txt" fairseq-ssl detokenise "$folder/$set.generate" --field H --subwords none
  done
}

together() { # TASK AMOUNT KIND SEED
  [[ "$ENSEMBLE" == 1 && "$3" != untuned && "$4" == "${SEEDS%% *}" ]] || return 0
  spawn decode "$1" "$2" "$3" all
}

headline "4/6 decoding"
each_model spawn decode
each_model together
settle
