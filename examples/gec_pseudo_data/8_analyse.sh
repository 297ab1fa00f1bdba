#!/usr/bin/env bash
# Plot the analyses of 4.5 on the set ANALYZED, and the curves of 4.4 on the validation set, to
# WORK/figures, each with its data as JSON. Figures without systems in SYSTEMS are skipped.
# shellcheck source=examples/gec_pseudo_data/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
figures="$WORK/figures"
analyzed="$(held_out_set "$ANALYZED")"

# Print the systems that match a pattern, in the order of SYSTEMS.
matching() { # PATTERN
  # shellcheck disable=SC2086  # split into words
  printf '%s\n' $SYSTEMS | grep -Ex -e "$1" || true
}

# Plot F of systems by error type or level.
compare() { # NAME type|level SYSTEM...
  local system seed outputs=() levels=()
  (($# > 2)) || return 0
  for system in "${@:3}"; do
    for seed in $SEEDS; do outputs+=("$system=$RUNS/$system.$seed/$ANALYZED.txt"); done
  done
  [[ "$2" == level ]] && levels=(--levels "$analyzed.levels")
  rebuild "$figures/$1.json" into "$figures/$1.json" fairseq-ssl score errant "${outputs[@]}" --gold "$analyzed.m2" \
    "${ERRANT[@]}" --by "$2" "${levels[@]}" --figure "$figures/$1.png" --format json
}

headline "8/8 analyses"
run mkdir -p "$figures"
mapfile -t corpora < <(matching 'joint-direct-[^-]+-[0-9]+' | sort -t - -s -k 4,4n | awk -F - \
  'NR == 1 { least = $4 } $4 == least')
mapfile -t amounts < <(matching baseline
  matching 'pretrain-noisy-[^-]+-[0-9]+' | sort -t - -s -k 3,3 -k 4,4n) # sorted by amount
final="${FINAL//+/[+]}" # + is part of a name
mapfile -t strong < <(matching "(baseline|$final|${final%-sse})")
if [[ "${ERRANT[0]}" != --untyped ]]; then
  compare types-of-corpora type "${corpora[@]}" # figure 4.5
  compare types-of-final type "${strong[@]}"    # figure 4.9
  build "$figures/shares.json" into "$figures/shares.json" fairseq-ssl score errant \
    "$RUNS/uncorrected.1/$ANALYZED.txt" --gold "$analyzed.m2" "${ERRANT[@]}" --by share \
    --levels "$analyzed.levels" --figure "$figures/shares.png" --format json # figure 4.6
fi
compare levels-of-corpora level "${corpora[@]}" # figure 4.7
compare levels-of-amounts level "${amounts[@]}" # figure 4.10
# figures 4.2 to 4.4, and the search for the up-sampling rate (4.4.4)
run python "$HERE/figures.py" "$RUNS" "$figures" --beta "$BETA" --mask "$MASK" --keep "$KEEP" \
  --upsample "$UPSAMPLE"
