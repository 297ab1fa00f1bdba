#!/usr/bin/env bash
# Translate all held-out sets with all models, detokenized to SET.txt (5.3.8).
# shellcheck source=examples/wmt20/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
# shellcheck source=examples/wmt20/translating.sh
source "$HERE/translating.sh"

# Print the flags that prepend a tag to each source of a set.
tagged() { # SET
  case "$READ_AS" in
    bt) echo --task tagged_translation --source-tags "$1=$BT" ;;
    ft) echo --task tagged_translation --source-tags "$1=$FT" ;;
  esac
}

with_subwords_of() { # SYSTEM COMMAND...
  local TEXT DATA
  TEXT="$(root_of "$1")/text" DATA="$(root_of "$1")/data"
  "${@:2}"
}

headline "5/9 translating with a beam of $BEAM${READ_AS:+, sources tagged as $READ_AS}"
for seed in $SEEDS; do
  for system in $SYSTEMS; do
    for set in $HELD_OUT; do
      read -ra flags <<<"$(tagged "$set")"
      spawn with_subwords_of "$system" translated "$(outputs "$system" "$seed")/$set" "$set" \
        "$(model "$system" "$seed")" "${flags[@]}"
    done
  done
done
settle
