#!/usr/bin/env bash
# Translations of every held-out set by every model, as plain text: SET.txt (5.3.8).
# shellcheck source=examples/wmt20/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
# shellcheck source=examples/wmt20/translating.sh
source "$HERE/translating.sh"

headline "5/9 translating with a beam of $BEAM"
for seed in $SEEDS; do
  for system in $SYSTEMS; do
    for set in $HELD_OUT; do
      spawn translate "$RUNS/$system.$seed/$set" "$set" "$(model "$system" "$seed")"
    done
  done
done
settle
