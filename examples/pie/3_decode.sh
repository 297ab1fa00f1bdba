#!/usr/bin/env bash
# Correct all held-out sets with all models, to SET.generate and as text to SET.txt. For grammar to
# SET.ROUNDS.txt, and with options tuned on valid to SET.ROUNDS.tuned.txt. Words/s are valid only with
# JOBS=1 on an idle machine.
# shellcheck source=examples/pie/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

# Tune the decoding options of a grammar model, or of the ensemble, on valid.
tune() { # MODEL
  local text="$WORK/text/gec/valid" models
  IFS=: read -ra models <<<"$(model gec "$1" tagger)"
  quietly "$(tuned "$1").log" into "$(tuned "$1")" fairseq-ssl edits tune "$text.src" "$text.trg" \
    --model "${models[@]}" --data-dir "$(data gec)" --iterations "${GEC_ROUNDS##* }"
}

decode() { # TASK FOLD KIND SET ROUNDS
  local out flags with=()
  out="$(output "$@")"
  if [[ "$5" == *.tuned ]]; then with=(xargs -a "$(tuned "$2")"); fi # appends them to the command
  if [[ "$3" != transformer ]]; then
    # shellcheck disable=SC2206  # words apart
    flags=(--task edit_labeling --edit-iterations "${5%.tuned}" ${DECODING_FLAGS:-})
  else
    flags=(--task translation --beam "$BEAM" --max-len-a 2 --max-len-b 10)
  fi
  quietly "$out.log" into "$out.generate" "${with[@]}" fairseq-generate "$(data "$@")" --user-dir "$USER_DIR" \
    --source-lang src --target-lang trg --path "$(model "$@")" --gen-subset "$4" \
    --batch-size "$DECODE_BATCH" "${flags[@]}"
  if [[ "$1" == gec ]]; then
    into "$out.pieces" fairseq-ssl postprocess "$out.generate" --fairseq-lines H
    SOURCE="$WORK/raw/$4.src" into "$out.txt" bash -c "$JOIN < $(printf %q "$out.pieces")"
  else
    into "$out.txt" fairseq-ssl postprocess "$out.generate" --fairseq-lines H
  fi
}

# Build a target of a model, or of the ensemble, which is built again if GEC_MODELS has changed.
build_for() { # FOLD TARGET COMMAND...
  if [[ "$1" == all ]]; then rebuild "${@:2}"; else build "${@:2}"; fi
}

if [[ " $TASKS " == *" gec "* && -n "$TUNE" ]]; then
  headline "3/4 gec: decoding options"
  for model in $GEC_MODELS all; do spawn build_for "$model" "$(tuned "$model")" tune "$model"; done
  settle
fi
headline "3/4 correcting"
for task in $TASKS; do
  for fold in $(folds "$task") $([[ "$task" == gec ]] && echo all); do
    for kind in $(kinds "$task"); do
      for set in $(sets "$task"); do
        for rounds in $(rounds "$task"); do
          cell=("$task" "$fold" "$kind" "$set" "$rounds")
          spawn build_for "$fold" "$(output "${cell[@]}").txt" decode "${cell[@]}"
        done
      done
    done
  done
done
settle
