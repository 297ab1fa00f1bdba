#!/usr/bin/env bash
# Score the translations of step 8 by BLEU and chrF, and print tables 5.5 and 5.6: 9_rows.sh a b c d e f p,
# or some of these rows.
# shellcheck source=examples/wmt20/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
# shellcheck source=examples/wmt20/system.sh
source "$HERE/system.sh"
# shellcheck source=examples/wmt20/scoring.sh
source "$HERE/scoring.sh"

headline "9/9 scoring rows $ROWS"
for row in $ROWS; do
  [[ "$row" == e && -z "$R2L" ]] && continue
  for seed in $(seeds_of "$row"); do
    for set in $ROW_SETS; do score "$OUT/$row.$seed/$set" "$set"; done
  done
done
table "$OUT" row "$ROW_SETS" a b c d e f p
