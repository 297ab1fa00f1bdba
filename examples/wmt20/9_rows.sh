#!/usr/bin/env bash
# Table 5.5: 9_rows.sh a b c d e f p, or some of these rows; sacreBLEU of what step 8 has written.
# shellcheck source=examples/wmt20/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
# shellcheck source=examples/wmt20/system.sh
source "$HERE/system.sh"

headline "9/9 scoring rows $ROWS"
tokens=()
[[ "$TARGET" == ja ]] && tokens=(--tokenize ja-mecab)
for row in $ROWS; do
  [[ "$row" == e && -z "$R2L" ]] && continue
  for seed in $(seeds_of "$row"); do
    for set in $HELD_OUT; do
      out="$OUT/$row.$seed/$set"
      into "$out.bleu.json" sacrebleu "$WORK/raw/$set.$TARGET" -i "$out.txt" -w 4 "${tokens[@]}"
    done
  done
done
run python "$HERE/../common/bleu_table.py" "$OUT" --heads row --rows a b c d e f p
