#!/usr/bin/env bash
# Write the translations of table 5.5: 8_rerank.sh a b c d e f p, or some of these rows, to
# OUT/ROW.SEED/SET.txt.
# shellcheck source=examples/wmt20/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
# shellcheck source=examples/wmt20/system.sh
source "$HERE/system.sh"
# shellcheck source=examples/wmt20/translating.sh
source "$HERE/translating.sh"

# Ensembles and all that depends on them are built again if MEMBERS has changed.

# Decode the n-best list of the ensemble of one order. Row d is its first candidates (5.3.5).
best() { # SET l2r|r2l
  local kind=fine
  [[ "$2" == r2l ]] && kind=fine-r2l
  rebuild "$LISTS/$1.$2.generate" search "$LISTS/$1.$2" "$1" "$(ensemble "$kind")" --nbest "$NBEST"
}

ensembled() { # SET
  finish "$OUT/d.1/$1" "$1" "$LISTS/$1.l2r.generate" --fairseq-lines H
}

# Merge the n-best lists of both orders without duplicates, in the subwords of the models.
candidates() { # SET
  local lists=("l2r=$LISTS/$1.l2r.generate") turned=()
  [[ -n "$R2L" ]] && lists+=("r2l=$LISTS/$1.r2l.generate") turned=("${TURNED[@]}")
  quietly "$LISTS/$1.log" run fairseq-ssl rerank merge "${lists[@]}" "${turned[@]}" \
    --subwords none -o "$LISTS/$1.nbest"
}

# Score each candidate with a model, to LISTS/SET.NAME.nbest. Interrupted runs resume.
feature() { # SET NAME FLAGS...
  local out="$LISTS/$1.$2"
  rebuild "$out.nbest" quietly "$out.log" run fairseq-ssl rerank features "$LISTS/$1.nbest" --name "$2" \
    "${SCORING[@]}" "${@:3}" -o "$out.nbest" ${FORCE:+--force}
}

translation() { # SET NAME MODELS FLAGS...
  local models
  IFS=: read -ra models <<<"$3"
  feature "$1" "$2" --translation "${models[@]}" --data-dir "$DATA/genuine" \
    --source "$TEXT/$1.$SOURCE" "${@:4}"
}

# Merge scores, each of another model, into one list: those of both orders for row e, all of 5.3.7 for row f.
scored() { # SET both|all
  local name names=(s2t ${R2L:+s2t-r2l}) lists=()
  if [[ "$2" == all ]]; then names+=(t2s ${R2L:+t2s-r2l} lm mlm); fi
  for name in "${names[@]}"; do lists+=("$name=$LISTS/$1.$name.nbest"); done
  quietly "$LISTS/$1.log" run fairseq-ssl rerank merge "${lists[@]}" --subwords none \
    -o "$LISTS/$1.$2.nbest"
}

features_of() { # SET
  local set="$1"
  translation "$set" s2t "$(ensemble fine)"
  if [[ -n "$R2L" ]]; then translation "$set" s2t-r2l "$(ensemble fine-r2l)" --right-to-left; fi
  row "f|p" || return 0
  translation "$set" t2s "$REVERSE" --reverse
  if [[ -n "$R2L" ]]; then
    translation "$set" t2s-r2l "$REVERSE_R2L" --reverse --right-to-left
  fi
  feature "$set" lm --language-model "$(model lm 1)" --data-dir "$LM_DATA" \
    --unigrams "$LM_DATA/unigrams/dict.txt"
  feature "$set" mlm --masked-model "$(model mlm 1)" --data-dir "$LM_DATA"
}

# Select by the sum of the scores of both orders, among candidates of the left-to-right models (5.3.6).
both_orders() { # SET
  local out="$OUT/e.1/$1"
  into "$out.nbest" grep -E 'from=.* l2r( |$)' "$LISTS/$1.both.nbest"
  into "$out.subwords" fairseq-ssl rerank apply "$out.nbest" --weight s2t=1 --weight s2t-r2l=1
  finish "$out" "$1" "$out.subwords"
}

# Tune the weights of all scores on the set valid (5.3.7), and list the contribution of each score.
weights() {
  local tokens=() flags
  read -ra flags <<<"$TUNING"
  [[ "$TARGET" == ja ]] && tokens=(--tokenize ja-mecab)
  flags+=(--features "$FEATURES" --reference "$WORK/true/valid.$TARGET"
    --subwords sentencepiece "${tokens[@]}")
  [[ "$SCALE" == tiny ]] || flags+=(--report "$WORK/worth.txt" --figure "$WORK/worth.svg")
  rebuild "$WORK/weights.json" quietly "$WORK/tune.log" run fairseq-ssl rerank tune \
    "$LISTS/valid.all.nbest" "${flags[@]}" -o "$WORK/weights.json"
}

reranked() { # SET
  local out="$OUT/f.1/$1"
  into "$out.subwords" fairseq-ssl rerank apply "$LISTS/$1.all.nbest" --weights "$WORK/weights.json"
  finish "$out" "$1" "$out.subwords"
}

post_ensemble() { # SET
  local systems=("$OUT/f.1/$1.txt") tokens=()
  [[ -n "$R2L" ]] && systems+=("$OUT/e.1/$1.txt")
  systems+=("$OUT/d.1/$1.txt")
  [[ "$TARGET" == ja ]] && tokens=(--tokenize ja-mecab)
  into "$OUT/p.1/$1.txt" fairseq-ssl rerank post-ensemble "${systems[@]}" \
    --vectors "$WORK/words.$TARGET.vec" "${tokens[@]}"
}

if row "f|p" && [[ " $ROW_SETS " != *" valid "* && ! -e "$LISTS/valid.all.nbest" ]]; then
  echo "ROW_SETS is '$ROW_SETS', but rows f and p need weights that are tuned on valid. Add valid, or remove the rows." >&2
  exit 2
fi

headline "8/9 the translations of rows $ROWS"
for set in $ROW_SETS; do
  if row a; then spawn translated "$OUT/a.1/$set" "$set" "$(model base 1)"; fi
  for member in $MEMBERS; do
    if row b; then spawn translated "$OUT/b.$member/$set" "$set" "$(model "$SYSTEM" "$member")"; fi
    if row c; then spawn translated "$OUT/c.$member/$set" "$set" "$(model fine "$member")"; fi
  done
  if row "d|e|f|p"; then spawn best "$set" l2r; fi
  if row "e|f|p" && [[ -n "$R2L" ]]; then spawn best "$set" r2l; fi
done
settle
if row "d|p"; then
  for set in $ROW_SETS; do rebuild "$OUT/d.1/$set.txt" ensembled "$set"; done
fi

if row "e|f|p"; then
  headline "8/9 candidates and their scores"
  for set in $ROW_SETS; do
    rebuild "$LISTS/$set.nbest" candidates "$set"
    features_of "$set"
    if row "e|p" && [[ -n "$R2L" ]]; then
      rebuild "$LISTS/$set.both.nbest" scored "$set" both
      rebuild "$OUT/e.1/$set.txt" both_orders "$set"
    fi
    if row "f|p"; then rebuild "$LISTS/$set.all.nbest" scored "$set" all; fi
  done
fi
if row "f|p"; then
  headline "8/9 weights"
  weights
  for set in $ROW_SETS; do rebuild "$OUT/f.1/$set.txt" reranked "$set"; done
fi
if row p; then
  for set in $ROW_SETS; do rebuild "$OUT/p.1/$set.txt" post_ensemble "$set"; done
fi
