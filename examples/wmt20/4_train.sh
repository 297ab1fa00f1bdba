#!/usr/bin/env bash
# Train a model for each system and seed, in WORK/runs/SYSTEM.SEED.
# shellcheck source=examples/wmt20/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

headline "4/9 training: $SYSTEMS; seeds $SEEDS"
for seed in $SEEDS; do
  for system in $SYSTEMS; do spawn trained "$system" "$seed" "$SOURCE" "$TARGET"; done
done
settle
