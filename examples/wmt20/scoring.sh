# shellcheck shell=bash
# Scoring of translations. To be sourced after settings.sh.
#
#   score OUT SET                  write BLEU and chrF of OUT.txt to OUT.scores.json; for Japanese, BLEU of
#                                  MeCab's words (table 5.5), and BLEU of characters in OUT.char.json (table 5.6)
#   table FOLDER HEAD SETS ROW...  print the tables of FOLDER/ROW.SEED with a column for each of SETS

score() { # OUT SET
  local tokens=() reference="$WORK/raw/$2.$TARGET"
  [[ "$TARGET" == ja ]] && tokens=(--tokenize ja-mecab)
  made "$1.txt"
  into "$1.scores.json" sacrebleu "$reference" -i "$1.txt" -m bleu chrf -w 4 "${tokens[@]}"
  if [[ "$TARGET" == ja ]]; then
    into "$1.char.json" sacrebleu "$reference" -i "$1.txt" -w 4 --tokenize char
  fi
}

table() { # FOLDER HEAD SETS ROW...
  local columns=() set pair
  for set in $3; do
    for pair in $SETS; do
      if [[ "$pair" == "$set:"* ]]; then columns+=("$set=${pair#*:}"); fi
    done
  done
  run python "$HERE/score_table.py" "$1" --head "$2" --columns "${columns[@]}" --rows "${@:4}"
}
