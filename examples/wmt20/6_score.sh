#!/usr/bin/env bash
# Score all translations by BLEU and chrF, and print tables 5.2, 5.4, 5.7 and 5.8 with a column for each
# held-out set, mean and standard deviation over seeds.
# shellcheck source=examples/wmt20/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
# shellcheck source=examples/wmt20/scoring.sh
source "$HERE/scoring.sh"

headline "6/9 scoring"
rows=(base)
add() { # PATTERN: print matching systems in order
  local system
  for system in $SYSTEMS; do
    # shellcheck disable=SC2053  # a pattern
    if [[ "$system" == $1 ]]; then rows+=("$system"); fi
  done
}
add "base@*"
rows+=(bt tagged)
add "tagged@*"
rows+=(ft tagged-ft noisy deep)
add "deep@*"
for system in $SYSTEMS; do rows+=("$system-as-bt" "$system-as-ft"); done
for set in $HELD_OUT; do
  for system in $SYSTEMS; do
    for seed in $SEEDS; do score "$(outputs "$system" "$seed")/$set" "$set"; done
  done
done
# shellcheck disable=SC2086  # words apart
table "$RUNS" system "$HELD_OUT" "${rows[@]}"
