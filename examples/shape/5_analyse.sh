#!/usr/bin/env bash
# Run the analyses of the chapter on translations, each with a JSON file and a figure in WORK/analysis.
# shellcheck source=examples/shape/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
OUT="$WORK/analysis"
plain=(--subwords "$SUBWORDS" ${MOSES:+--moses "$MOSES"})

analyse() { # NAME KIND DATASET OPTIONS...
  local kind seed chosen=()
  for kind in $(kinds "$3"); do
    for seed in $SEEDS; do chosen+=(-c "$kind=$(model "$3" "$kind" "$seed")"); done
  done
  rebuild "$OUT/$1.json" run fairseq-ssl analyze "$2" "$WORK/data/$3" -o "$OUT/$1" "${chosen[@]}" "${@:4}"
}

for dataset in $TRANSLATED; do
  if [[ "$dataset" == interpolate ]]; then
    headline "5/5 the first sentence at its place and at the end (table 6.3)"
    analyse swapped swapped-bleu interpolate --lines "$SWAPPED_LINES" \
      --separator "$SEPARATOR" --beam "$BEAM" "${plain[@]}"
    lengths="$INTERPOLATE_LENGTH_ENDS" places="$INTERPOLATE_POSITION_ENDS"
    offsets="$INTERPOLATE_OFFSETS"
  else
    lengths="$LENGTH_ENDS" places="$POSITION_ENDS" offsets="$OFFSETS"
  fi
  headline "5/5 encoder states under shifts, $dataset (figure 6.3)"
  analyse "similarity.$dataset" shift-similarity "$dataset" --offsets "$offsets"
  headline "5/5 BLEU by length, $dataset (figure 6.4)"
  analyse "lengths.$dataset" length-bleu "$dataset" --subset "$LENGTH_SPLITS" --length-bounds "$lengths" \
    --separator "$SEPARATOR" --beam "$BEAM" "${plain[@]}"
  headline "5/5 gold tokens, $dataset (figure 6.5)"
  analyse "tokens.$dataset" token-wins "$dataset" --subset "$TOKEN_SPLITS" --rank-bounds "$RANK_ENDS" --position-bounds "$places"
done
