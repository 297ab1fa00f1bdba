# shellcheck shell=bash
# How corrected grammar is scored. To be sourced, after recipe.sh.
#
#   score_m2 M2 NAME=TEXT...  shows precision, recall and F0.5 of the edits of each system, by
#                             MaxMatch, against those of an M2 file

score_m2() { # M2 NAME=TEXT...
  run fairseq-ssl score m2 "${@:2}" --gold "$1" --jobs "$JOBS"
}
