#!/usr/bin/env bash
# Correct all sets with all models, to text RUNS/SYSTEM.SEED/SET.txt (tables 4.2 and 4.3).
# shellcheck source=examples/gec_pseudo_data/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

decode() { # SYSTEM SEED SET
  local out="$RUNS/$1.$2/$3"
  quietly "$out.log" into "$out.generate" fairseq-generate "$DATA/held-out/$3" --user-dir "$USER_DIR" \
    --task tagged_translation -s src -t trg --dataset-impl raw --gen-subset "$3" \
    --path "$(model "$1" "$2")" --beam "$BEAM" --lenpen "$LENGTH_PENALTY" --max-tokens 4000
  into "$out.txt" fairseq-ssl postprocess "$out.generate" --fairseq-lines H --subwords subword-nmt
}

headline "5/8 correcting with a beam of $BEAM"
for set in $SETS; do
  uncorrected="$RUNS/uncorrected.1/$set.txt"
  build "$uncorrected" into "$uncorrected" cat "$(held_out_set "$set").src"
  for seed in $SEEDS; do
    for system in $SYSTEMS; do
      spawn build "$RUNS/$system.$seed/$set.txt" decode "$system" "$seed" "$set"
    done
  done
done
settle
