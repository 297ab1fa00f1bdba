#!/usr/bin/env bash
# Train the models that generate synthetic pairs on genuine pairs: the reverse model, and the first of
# BASE if there are forward-translations or filtered pairs.
# shellcheck source=examples/wmt20/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

headline "2/9 models of the genuine pairs"
if needs "$BACK_TRANSLATED|noisy"; then spawn trained reverse 1 "$TARGET" "$SOURCE"; fi
if needs "ft|tagged-ft|tagged@[0-9]+"; then spawn trained base 1 "$SOURCE" "$TARGET"; fi
settle
