# shellcheck shell=bash
# How corrected grammar is scored. To be sourced, after recipe.sh, by a recipe with the setting
# M2_SCORER, a command that takes corrected text and an M2 file, or nothing.
#
#   score_m2 OUT M2           scores OUT.txt into OUT.m2 and shows it, or says what to score

score_m2() { # OUT M2
  if [[ -n "$M2_SCORER" ]]; then
    into "$1.m2" bash -c "$M2_SCORER $(printf '%q %q' "$1.txt" "$2")"
    run cat "$1.m2"
  else
    headline "no M2_SCORER is set: score $1.txt with it"
  fi
}
