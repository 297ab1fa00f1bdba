#!/usr/bin/env bash
# What every model makes of every held-out set: SET.generate, and as text SET.txt.
# Words per second count only where nothing else runs: then JOBS=1 and an idle machine.
# shellcheck source=examples/pie/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

decode() { # TASK FOLD KIND SET
  local out="$RUNS/$1.$2.$3/$4" flags iterations="$ITERATIONS"
  have "$out.txt" && return
  [[ "$1" == gec ]] && iterations="$GEC_ITERATIONS"
  if [[ "$3" != transformer ]]; then
    # shellcheck disable=SC2206  # words apart
    flags=(--task edit_labelling --edit-iterations "$iterations" ${DECODING_FLAGS:-})
  else
    flags=(--task translation --beam "$BEAM" --max-len-a 2 --max-len-b 10)
  fi
  quietly "$out.log" into "$out.generate" fairseq-generate "$(data "$@")" --user-dir "$USER_DIR" \
    --source-lang src --target-lang trg --path "$(model "$@")" --gen-subset "$4" \
    --batch-size "$DECODE_BATCH" "${flags[@]}"
  if [[ "$1" == gec ]]; then
    into "$out.pieces" fairseq-ssl detokenise "$out.generate" --field H --subwords none
    into "$out.txt" sed 's/ ##//g' "$out.pieces"
  else
    into "$out.txt" fairseq-ssl detokenise "$out.generate" --field H --subwords none
  fi
}

headline "3/4 correcting"
for task in $TASKS; do
  for fold in $(folds "$task") $([[ "$task" == gec ]] && echo all); do
    for kind in $(kinds "$task"); do
      for set in $SETS; do spawn decode "$task" "$fold" "$kind" "$set"; done
    done
  done
done
settle
