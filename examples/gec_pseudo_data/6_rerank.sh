#!/usr/bin/env bash
# FINAL's ensembles: the n best of its models together, and the best of these by the sum of their
# score and that of the right-to-left models together (4.4.5). RUNS/ensembleN.SEEDS, RUNS/rerankedN.SEEDS
# shellcheck source=examples/gec_pseudo_data/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

paths() { # SYSTEM SEED+SEED... SEPARATOR
  local seed found=()
  for seed in ${2//+/ }; do found+=("$(model "$1" "$seed")"); done
  (IFS="$3" && echo "${found[*]}")
}

rerank() { # SEEDS SET
  local number models=()
  number="$(tr + '\n' <<<"$1" | wc -l)"
  local one="$RUNS/ensemble$number.$1/$2" two="$RUNS/reranked$number.$1/$2"
  have "$two.txt" && return
  have "$one.generate" ||
    quietly "$one.log" into "$one.generate" fairseq-generate "$DATA/held-out" --user-dir "$USER_DIR" \
      --task tagged_translation -s src -t trg --dataset-impl raw --gen-subset "$2" \
      --path "$(paths "$FINAL" "$1" :)" --max-tokens 4000 \
      --beam "$BEAM" --nbest "$NBEST" --lenpen "$LENGTH_PENALTY"
  into "$one.txt" fairseq-ssl detokenise "$one.generate" --field H --subwords subword-nmt
  quietly "$one.log" run fairseq-ssl rerank merge "l2r=$one.generate" --subwords none -o "$one.nbest"
  read -ra models <<<"$(paths "$FINAL-r2l" "$1" " ")"
  quietly "$two.log" run fairseq-ssl rerank features "$one.nbest" --name r2l \
    --translation "${models[@]}" --data-dir "$DATA/genuine" --source "$WORK/text/$2.src" \
    --lenpen "$LENGTH_PENALTY" -o "$two.nbest"
  into "$two.subwords" fairseq-ssl rerank apply "$two.nbest" --weight l2r=1 --weight r2l=1
  into "$two.txt" fairseq-ssl detokenise "$two.subwords" --subwords subword-nmt
}

[[ "$FINAL" == none ]] && exit
((NBEST <= BEAM)) || { echo "NBEST is $NBEST; expected at most the BEAM, $BEAM." >&2; exit 2; }
headline "6/8 re-ranking the $NBEST best of $FINAL: $ENSEMBLES"
for seeds in $ENSEMBLES; do
  for set in $SETS; do spawn rerank "$seeds" "$set"; done
done
settle
