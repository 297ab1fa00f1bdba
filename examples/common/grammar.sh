# shellcheck shell=bash
# Scoring of grammatical error correction. To be sourced after recipe.sh.
#
#   score_m2 M2 NAME=TEXT...  print precision, recall and F0.5 of each system by MaxMatch, with the gold
#                             edits of an M2 file

score_m2() { # M2 NAME=TEXT...
  run fairseq-ssl score m2 "${@:2}" --gold "$1" --jobs "$JOBS"
}
