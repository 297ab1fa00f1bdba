#!/usr/bin/env bash
# Write text to WORK/text, and binarized text with a joined dictionary to WORK/data.
# shellcheck source=examples/pseudo_bidirectional/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

binarize() { build "$WORK/data/$1" build_data "$@"; } # NAME DICTIONARY-FLAGS...

# Binarize WORK/text/NAME: training pairs, dev set and, for words, test set.
build_data() { # NAME DICTIONARY-FLAGS...
  local text="$WORK/text/$1" data="$WORK/data/$1" test=()
  [[ "$1" == gec* ]] || test=(--testpref "$text/test")
  run rm -rf "$data.tmp"
  quietly "$WORK/preprocess.log" run fairseq-preprocess --source-lang src --target-lang trg \
    "${@:2}" --trainpref "$text/train" --validpref "$text/valid" "${test[@]}" \
    --destdir "$data.tmp" --workers "$(nproc)"
  run mv "$data.tmp" "$data"
}

subwords() { # TEXT OUTPUT
  into "$2" fairseq-ssl subwords encode "$WORK/bpe" "$1"
}

real_text() { # WORK/text/gec
  local text="$WORK/text/gec" split side
  for split in train valid; do
    for side in src trg; do subwords "$DATA_DIR/$split.$side" "$text/$split.$side"; done
  done
}

synthetic_text() { # WORK/text/gec.synthetic
  local more="$WORK/text/gec.synthetic" raw="$WORK/raw" side
  local other="${BACKTRANSLATED:+"$DATA_DIR/$BACKTRANSLATED"}"
  into "$raw/clean.trg" head -n "$CLEAN_LINES" "$DATA_DIR/$CLEAN"
  add_errors "$raw/clean.trg" "$raw/clean.src" "$SEED"
  for side in src trg; do into "$raw/$side" cat "$raw/clean.$side" ${other:+"$other.$side"}; done
  for side in src trg; do
    subwords "$raw/$side" "$more/train.$side"
    run cp "$WORK/text/gec/valid.$side" "$more"
  done
}

held_out_text() { # SET: copy it as text, for fairseq-generate
  local folder="$WORK/data/gec.$1" side
  subwords "$DATA_DIR/$1.src" "$folder/$1.src-trg.src"
  for side in src trg; do run cp "$WORK/dict.txt" "$folder/dict.$side.txt"; done
}

grammar() {
  local set dictionary=(--srcdict "$WORK/dict.txt" --tgtdict "$WORK/dict.txt")
  local texts=({train,valid}.{src,trg})
  if pretrains; then texts+=("$CLEAN" ${BACKTRANSLATED:+"$BACKTRANSLATED.src" "$BACKTRANSLATED.trg"}); fi
  grammar_data "train, valid .src and .trg, the GEC_SETS with their references, and to pre-train $CLEAN" "${texts[@]}"
  build "$WORK/bpe.model" quietly "$WORK/subwords.log" run fairseq-ssl subwords train \
    "$DATA_DIR/train.src" "$DATA_DIR/train.trg" -o "$WORK/bpe" --size "$VOCABULARY" --force
  build "$WORK/dict.txt" into "$WORK/dict.txt" fairseq-ssl subwords dictionary "$WORK/bpe"
  build "$WORK/text/gec" real_text
  binarize gec "${dictionary[@]}"
  for set in $GEC_SETS; do build "$WORK/data/gec.$set" held_out_text "$set"; done
  pretrains || return 0
  count_errors
  build "$WORK/text/gec.synthetic" synthetic_text
  binarize gec.synthetic "${dictionary[@]}"
}

# shellcheck disable=SC2086  # words apart
check_words $FOLDS
for task in $TASKS; do
  if [[ "$task" == gec ]]; then
    headline "1/4 gec: subwords, synthetic pairs, binarized"
    grammar
    continue
  fi
  for fold in $FOLDS; do
    headline "1/4 $task, fold $fold ($SCALE): text, binarized"
    word_text "$task" "$fold"
    binarize "$task.$fold" --joined-dictionary
    if [[ " $KINDS " == *" augmented"* ]]; then
      more_words "$task" "$fold" "$COPIES" "$SEED"
      words="$WORK/data/$task.$fold/dict.src.txt"
      binarize "$task.$fold.augmented" --srcdict "$words" --tgtdict "$words"
    fi
  done
done
