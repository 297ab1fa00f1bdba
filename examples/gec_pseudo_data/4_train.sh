#!/usr/bin/env bash
# Train a model for each system and seed, WORK/runs/SYSTEM.SEED. For the ensembles of FINAL, also train
# a right-to-left model for each left-to-right model.
# shellcheck source=examples/gec_pseudo_data/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
# shellcheck source=examples/gec_pseudo_data/training.sh
source "$HERE/training.sh"

has() { [[ " ${*:2} " == *" $1 "* ]]; } # WORD WORDS...
each_model() { # COMMAND...: call it once for each model with SYSTEM SEED FLAGS...
  local seed system
  for seed in $SEEDS; do
    # shellcheck disable=SC2086  # split into words
    for system in $SYSTEMS; do "$@" "$system" "$seed"; done
  done
  [[ "$FINAL" != none ]] || return 0
  for seed in $(tr -s '+[:space:]' '\n' <<<"$ENSEMBLES" | sort -nu); do
    # shellcheck disable=SC2086
    if ! has "$FINAL" $SYSTEMS || ! has "$seed" $SEEDS; then "$@" "$FINAL" "$seed"; fi
    "$@" "$FINAL-r2l" "$seed" --right-to-left
  done
}

declare -A pretrainings
first_stage() { # SYSTEM SEED FLAGS...: systems that differ only in fine-tuning share a pretraining
  local folder
  if [[ "$1" != pretrain-* ]]; then
    spawn build "$RUNS/$1.$2" train "$@"
    return
  fi
  folder="$(pretrained "$1" "$2")"
  if [[ -z "${pretrainings[$folder]:-}" ]]; then spawn build "$folder" pretrain "$@"; fi
  pretrainings[$folder]=begun
}

second_stage() { # SYSTEM SEED FLAGS...
  if [[ "$1" == pretrain-* ]]; then spawn build "$RUNS/$1.$2" train "$@"; fi
}

headline "4/8 training the systems, seeds $SEEDS; of FINAL both directions: $FINAL"
each_model first_stage
settle
headline "4/8 fine-tuning"
each_model second_stage
settle
