#!/usr/bin/env bash
# Train the reverse model, from corrected sentences to learner sentences (4.3.1).
# shellcheck source=examples/gec_pseudo_data/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
# shellcheck source=examples/gec_pseudo_data/training.sh
source "$HERE/training.sh"

headline "2/8 the reverse model"
if [[ $'\n'"$(pseudo_data)" == *$'\n'noisy* ]]; then
  build "$RUNS/reverse.1" train reverse 1
fi
