#!/usr/bin/env bash
# Decode all held-out sets with all models, to SET.generate and as text to SET.txt. Words/s are valid
# only with JOBS=1 on an idle machine.
# shellcheck source=examples/pseudo_bidirectional/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

decode() { # TASK FOLD MODEL SET
  local out="$RUNS/$1.$2.$3/$4" beam="$BEAM" subwords=none form=() data
  data="$(data "$1" "$2")"
  if [[ "$1" == gec ]]; then
    data+=".$4"
    beam="$GEC_BEAM" subwords=sentencepiece form=(--dataset-impl raw) # the held-out sets are raw text
  fi
  # shellcheck disable=SC2086  # words apart
  quietly "$out.log" into "$out.generate" fairseq-generate "$data" \
    --user-dir "$USER_DIR" "${form[@]}" --task local_transduction --source-lang src --target-lang trg \
    --path "$RUNS/$1.$2.$3/final.pt" --gen-subset "$4" --batch-size "$DECODE_BATCH" \
    --beam "$beam" --max-len-a 2 --max-len-b 10 ${DECODING_FLAGS:-}
  into "$out.txt" fairseq-ssl postprocess "$out.generate" --fairseq-lines H --subwords "$subwords"
}

headline "3/4 correcting"
for task in $TASKS; do
  if [[ "$task" == gec ]]; then sets="$GEC_SETS"; else sets="$SETS"; fi
  for fold in $(folds "$task"); do
    for model in $(models "$task"); do
      for set in $sets; do
        spawn build "$RUNS/$task.$fold.$model/$set.txt" decode "$task" "$fold" "$model" "$set"
      done
    done
  done
done
settle
