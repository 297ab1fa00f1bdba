#!/usr/bin/env bash
# A model for each system and seed, in WORK/runs/SYSTEM.SEED; and of FINAL, for each ensemble, one
# from right to left for every one from left to right.
# shellcheck source=examples/gec_pseudo_data/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

headline "4/8 training the systems; seeds $SEEDS"
for seed in $SEEDS; do
  # shellcheck disable=SC2086  # words apart
  for system in $SYSTEMS; do spawn train "$system" "$seed"; done
done
settle
if [[ "$FINAL" != none ]]; then
  headline "4/8 training: $FINAL, in both directions"
  for seed in $(tr -s '+[:space:]' '\n' <<<"$ENSEMBLES" | sort -nu); do
    spawn train "$FINAL" "$seed"
    spawn train "$FINAL-r2l" "$seed" --right-to-left
  done
  settle
fi
