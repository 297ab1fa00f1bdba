#!/usr/bin/env bash
# Decode all held-out sets with all models, to SET.generate and as text to SET.txt.
# shellcheck source=examples/poda/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

decode() { # TASK AMOUNT KIND SEED SET; SEED all: ensemble of all seeds
  local out="$RUNS/$1.$2.$3.$4/$5" paths=() seed lengths=(--max-len-a 1.5 --max-len-b 10)
  if [[ "$4" == all ]]; then
    for seed in $SEEDS; do paths+=("$(model "$1" "$2" "$3" "$seed")"); done
  else
    paths=("$(model "$1" "$2" "$3" "$4")")
  fi
  if [[ "$1" == cnndm ]]; then
    lengths=(--truncate-source-words 800 --max-len-a 0 --max-len-b 130)
  fi
  # shellcheck disable=SC2086  # words apart
  quietly "$out.log" into "$out.generate" fairseq-generate "$(held_out "$1" "$5")" \
    --user-dir "$USER_DIR" --dataset-impl raw --task copying_translation \
    --source-lang src --target-lang trg --path "$(IFS=: && echo "${paths[*]}")" \
    --gen-subset "$5" --batch-size "$DECODE_BATCH" --beam "$BEAM" "${lengths[@]}" \
    ${DECODING_FLAGS:-}
  into "$out.txt" fairseq-ssl postprocess "$out.generate" --fairseq-lines H
}

each_set() { # TASK AMOUNT KIND SEED
  local set command=build
  if [[ "$4" == all ]]; then command=rebuild; fi # if SEEDS has changed
  for set in $(sets "$1"); do "$command" "$RUNS/$1.$2.$3.$4/$set.txt" decode "$@" "$set"; done
}

together() { # TASK AMOUNT KIND SEED
  [[ "$ENSEMBLE" == 1 && "$3" != untuned && "$4" == "${SEEDS%% *}" ]] || return 0
  spawn each_set "$1" "$2" "$3" all
}

headline "4/6 decoding"
each_model spawn each_set
each_model together
settle
