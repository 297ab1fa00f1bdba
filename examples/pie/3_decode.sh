#!/usr/bin/env bash
# Correct all held-out sets with all models, to SET.generate and as text to SET.txt, or SET.ROUNDS.txt
# for grammar. Words/s are valid only with JOBS=1 on an idle machine.
# shellcheck source=examples/pie/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

decode() { # TASK FOLD KIND SET ROUNDS
  local out flags
  out="$(output "$@")"
  if [[ "$3" != transformer ]]; then
    # shellcheck disable=SC2206  # words apart
    flags=(--task edit_labeling --edit-iterations "$5" ${DECODING_FLAGS:-})
  else
    flags=(--task translation --beam "$BEAM" --max-len-a 2 --max-len-b 10)
  fi
  quietly "$out.log" into "$out.generate" fairseq-generate "$(data "$@")" --user-dir "$USER_DIR" \
    --source-lang src --target-lang trg --path "$(model "$@")" --gen-subset "$4" \
    --batch-size "$DECODE_BATCH" "${flags[@]}"
  if [[ "$1" == gec ]]; then
    into "$out.pieces" fairseq-ssl detokenize "$out.generate" --field H --subwords none
    SOURCE="$WORK/raw/$4.src" into "$out.txt" bash -c "$JOIN < $(printf %q "$out.pieces")"
  else
    into "$out.txt" fairseq-ssl detokenize "$out.generate" --field H --subwords none
  fi
}

headline "3/4 correcting"
for task in $TASKS; do
  for fold in $(folds "$task") $([[ "$task" == gec ]] && echo all); do
    for kind in $(kinds "$task"); do
      for set in $(sets "$task"); do
        for rounds in $(rounds "$task"); do
          cell=("$task" "$fold" "$kind" "$set" "$rounds")
          spawn build "$(output "${cell[@]}").txt" decode "${cell[@]}"
        done
      done
    done
  done
done
settle
