#!/usr/bin/env bash
# Translations of every held-out set by every model, as plain text: SET.txt (5.3.8).
# shellcheck source=examples/wmt20/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

# What a target language asks for (5.3.8).
postprocessing() { # SET
  case "$SOURCE-$TARGET" in
    *-ja) echo --japanese-punctuation ;;
    ja-*) echo --unknown-to "|" --detruecase ;;
    words-digits) ;;
    *)
      echo --copy-unknown --source "$WORK/text/$1.$SOURCE" --source-dict "$DATA/genuine/dict.$SOURCE.txt" \
        --target-dict "$DATA/genuine/dict.$TARGET.txt" --detruecase
      ;;
  esac
}

decode() { # SYSTEM SEED SET
  local out="$RUNS/$1.$2/$3" flags
  have "$out.txt" && return
  read -ra flags <<<"$(postprocessing "$3")"
  quietly "$out.log" into "$out.generate" fairseq-generate "$DATA/genuine" --user-dir "$USER_DIR" \
    -s "$SOURCE" -t "$TARGET" --path "$(model "$1" "$2")" --gen-subset "$3" \
    --beam "$BEAM" --lenpen "$LENGTH_PENALTY" --max-tokens 4000
  into "$out.subwords" fairseq-ssl detokenise "$out.generate" --field H --subwords none
  into "$out.txt" fairseq-ssl postprocess "$out.subwords" --subwords sentencepiece "${flags[@]}"
}

headline "5/6 translating with a beam of $BEAM"
for seed in $SEEDS; do
  for system in $SYSTEMS; do
    for set in $HELD_OUT; do spawn decode "$system" "$seed" "$set"; done
  done
done
settle
