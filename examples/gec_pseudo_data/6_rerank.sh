#!/usr/bin/env bash
# Decode n-best lists with the ensembles of FINAL, RUNS/ensembleN.SEEDS. Re-rank them by the sum of their
# score and the score of the right-to-left ensemble (4.4.5), RUNS/rerankedN.SEEDS.
# shellcheck source=examples/gec_pseudo_data/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

paths() { # SYSTEM SEED+SEED...: print the models with colons between
  local seed
  for seed in ${2//+/ }; do model "$1" "$seed"; done | paste -sd :
}

ensemble() { # SEEDS SET OUTPUT
  quietly "$3.log" into "$3.generate" fairseq-generate "$DATA/held-out/$2" --user-dir "$USER_DIR" \
    --task tagged_translation -s src -t trg --dataset-impl raw --gen-subset "$2" \
    --path "$(paths "$FINAL" "$1")" --max-tokens 4000 \
    --beam "$BEAM" --nbest "$NBEST" --lenpen "$LENGTH_PENALTY"
  quietly "$3.log" run fairseq-ssl rerank merge "l2r=$3.generate" --subwords none -o "$3.nbest"
  into "$3.txt" fairseq-ssl postprocess "$3.generate" --fairseq-lines H --subwords subword-nmt
}

rerank() { # SEEDS SET INPUT OUTPUT
  local models
  IFS=: read -ra models <<<"$(paths "$FINAL-r2l" "$1")"
  run mkdir -p "$(dirname "$4")"
  quietly "$4.log" run fairseq-ssl rerank features "$3.nbest" --name r2l \
    --translation "${models[@]}" --data-dir "$DATA/genuine" --source "$WORK/text/$2.src" \
    --lenpen "$LENGTH_PENALTY" -o "$4.nbest" ${FORCE:+--force}
  into "$4.subwords" fairseq-ssl rerank apply "$4.nbest" --weight l2r=1 --weight r2l=1
  into "$4.txt" fairseq-ssl postprocess "$4.subwords" --subwords subword-nmt
}

each_set() { # SEEDS SET
  local number one two
  number="$(tr + '\n' <<<"$1" | wc -l)"
  one="$RUNS/ensemble$number.$1/$2" two="$RUNS/reranked$number.$1/$2"
  build "$one.txt" ensemble "$1" "$2" "$one"
  build "$two.txt" rerank "$1" "$2" "$one" "$two"
}

[[ "$FINAL" == none ]] && exit
((NBEST <= BEAM)) || { echo "NBEST is $NBEST. Expected at most BEAM, $BEAM." >&2; exit 2; }
headline "6/8 re-ranking the $NBEST best of $FINAL: $ENSEMBLES"
for seeds in $ENSEMBLES; do
  for set in $SETS; do spawn each_set "$seeds" "$set"; done
done
settle
