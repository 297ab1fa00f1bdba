#!/usr/bin/env bash
# FINAL's ensembles: the n best of its models together, and the best of these by the sum of their
# score and that of the right-to-left models together (4.4.5). RUNS/ensembleN.SEEDS, RUNS/rerankedN.SEEDS
# shellcheck source=examples/gec_pseudo_data/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

paths() { # SYSTEM SEED+SEED...
  local seed found=()
  for seed in ${2//+/ }; do found+=("$(model "$1" "$seed")"); done
  (IFS=: && echo "${found[*]}")
}

generate() { # OUT DATA SUBSET MODELS FLAGS...
  quietly "$1.log" into "$1.generate" fairseq-generate "$2" --user-dir "$USER_DIR" \
    --task tagged_translation -s src -t trg --path "$4" --gen-subset "$3" --max-tokens 4000 "${@:5}"
}

# Pairs of each source and each of its candidates, binarised.
candidates() { # OUT SOURCE
  into "$1.trg" sh -c "grep ^H- '$1.generate' | cut -c 3- | sort -s -n -k 1,1 | cut -f 3"
  into "$1.src" awk -v n="$NBEST" '{ for (i = 0; i < n; i++) print }' "$2"
  run rm -rf "$1.data"
  quietly "$1.log" run fairseq-preprocess -s src -t trg --srcdict "$WORK/dict.txt" \
    --tgtdict "$WORK/dict.txt" --testpref "$1" --destdir "$1.data"
}

rerank() { # SEEDS SET
  local number
  number="$(tr + '\n' <<<"$1" | wc -l)"
  local one="$RUNS/ensemble$number.$1/$2" two="$RUNS/reranked$number.$1/$2"
  have "$two.txt" && return
  generate "$one" "$DATA/genuine" "$(subset "$2")" "$(paths "$FINAL" "$1")" \
    --beam "$BEAM" --nbest "$NBEST" --lenpen "$LENGTH_PENALTY"
  into "$one.txt" fairseq-ssl detokenise "$one.generate" --field H --subwords subword-nmt
  candidates "$one" "$WORK/text/$2.src"
  generate "$two" "$one.data" test "$(paths "$FINAL-r2l" "$1")" --score-reference
  # the candidate k of sentence s was the pair s n + k
  # shellcheck disable=SC2016  # for awk
  into "$two.scored" awk -F '\t' -v OFS='\t' -v n="$NBEST" \
    '/^H-/ { $1 = "H-" int(substr($1, 3) / n); print }' "$two.generate"
  quietly "$two.log" run fairseq-ssl rerank merge "l2r=$one.generate" "r2l=$two.scored" \
    --right-to-left r2l --subwords subword-nmt -o "$two.nbest"
  into "$two.txt" fairseq-ssl rerank apply "$two.nbest" --weight l2r=1 --weight r2l=1
}

[[ "$FINAL" == none ]] && exit
((NBEST <= BEAM)) || { echo "NBEST is $NBEST; expected at most the BEAM, $BEAM." >&2; exit 2; }
headline "6/8 re-ranking the $NBEST best of $FINAL: $ENSEMBLES"
for seeds in $ENSEMBLES; do
  for set in $SETS; do spawn rerank "$seeds" "$set"; done
done
settle
