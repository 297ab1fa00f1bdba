#!/usr/bin/env bash
# The model that makes errors: from corrected sentences to those of learners (4.3.1).
# shellcheck source=examples/gec_pseudo_data/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

headline "2/8 the reverse model"
# shellcheck disable=SC2046  # words apart
if [[ "$(systems)" == *-noisy* ]]; then train reverse 1; fi
