#!/usr/bin/env bash
# Text in WORK/text, its edits, what they cover of the dev set in WORK/stats, binarised in WORK/data.
# shellcheck source=examples/pie/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

# Binarise WORK/text/NAME with the edits of WORK/text/EDITS.
binarise() { # NAME EDITS DICTIONARY-FLAGS...
  local text="$WORK/text/$1" edits="$WORK/text/$2" data="$WORK/data/$1" split side
  local test=(--testpref "$text/test")
  have "$data" && return
  [[ "$1" == gec* ]] && test=()
  run rm -rf "$data.tmp"
  run mkdir -p "$data.tmp"
  for split in train valid; do
    run fairseq-ssl edits label "$text/$split.src" "$text/$split.trg" \
      --dictionary "$edits/edits.txt" -o "$text/$split.edits"
  done
  quietly "$WORK/preprocess.log" run fairseq-preprocess --source-lang src --target-lang trg \
    "${@:3}" --trainpref "$text/train" --validpref "$text/valid" "${test[@]}" \
    --destdir "$data.tmp" --workers "$(nproc)"
  quietly "$WORK/preprocess.log" run fairseq-preprocess --source-lang edits --only-source \
    --srcdict "$edits/labels.txt" --trainpref "$text/train" --validpref "$text/valid" \
    --destdir "$data.tmp" --workers "$(nproc)"
  run cp "$edits/edits.txt" "$data.tmp"
  # Text that fairseq finds beside what is binarised comes first. In it unknown tokens are not
  # lost, so that the tagger can copy them.
  if [[ "$1" == gec ]]; then
    run cp "$text/test.src" "$data.tmp/test.src-None.src"
  elif [[ "$1" != gec.* ]]; then
    for split in valid test; do
      for side in src trg; do run cp "$text/$split.$side" "$data.tmp/$split.src-trg.$side"; done
    done
  fi
  run mv "$data.tmp" "$data"
}

# Count the edits of WORK/text/NAME, and tell what they cover before anybody trains.
count_edits() { # NAME FLAGS...
  local text="$WORK/text/$1"
  have "$WORK/stats/$1.json" && return
  run fairseq-ssl edits dictionary "$text/train.src" "$text/train.trg" -o "$text/edits.txt" \
    --size "$EDIT_SIZE" --longest "$EDIT_LONGEST" --label-dict "$text/labels.txt" "${@:2}"
  into "$WORK/stats/$1.json" fairseq-ssl edits stats "$text/valid.src" "$text/valid.trg" \
    --dictionary "$text/edits.txt" --format json
}

words() { # TASK FOLD
  local name="$1.$2" dictionary
  word_text "$1" "$2"
  count_edits "$name" --transforms none
  binarise "$name" "$name" --joined-dictionary
  if [[ " $KINDS " == *" augmented "* ]]; then
    more_words "$1" "$2" "$COPIES" "$SEED"
    dictionary="$WORK/data/$name/dict.src.txt"
    binarise "$name.augmented" "$name" --srcdict "$dictionary" --tgtdict "$dictionary"
  fi
}

pieces() { # INPUT OUTPUT
  into "$2" bash -c "$PIECES < $(printf %q "$1")"
}

grammar() {
  local split side number from text="$WORK/text/gec" raw="$WORK/raw"
  : "${BERT:?folder of a BERT as Hugging Face stores it}"
  data_dir "train.src, train.trg, valid.src, valid.trg, test.src, clean.txt" \
    {train,valid}.{src,trg} test.src clean.txt
  local vocabulary=(--srcdict "$text/dict.txt" --tgtdict "$text/dict.txt")
  if ! have "$text/done"; then
    for split in train valid; do
      for side in src trg; do pieces "$DATA_DIR/$split.$side" "$text/$split.$side"; done
    done
    if [[ -n "$SPELL_CHECK" ]]; then
      into "$raw/test.src" bash -c "$SPELL_CHECK < $(printf %q "$DATA_DIR/test.src")"
    else
      headline "no SPELL_CHECK is set: the test text stays as it is, where the paper mends it"
      into "$raw/test.src" cat "$DATA_DIR/test.src"
    fi
    pieces "$raw/test.src" "$text/test.src"
    run python "$HERE/wordpieces.py" dictionary "$BERT" "$text/dict.txt"
    into "$text/done" date
  fi
  count_edits gec --transforms english
  binarise gec gec "${vocabulary[@]}"
  if ! have "$raw/words.json"; then
    run fairseq-ssl learner-words "$DATA_DIR/train.src" "$DATA_DIR/train.trg" -o "$raw/words.json"
  fi
  for number in $GEC_MODELS; do
    headline "1/4 gec: synthetic errors for model $number"
    if ! have "$text.$number/done"; then
      from="$(((number - 1) * CLEAN_STEP))"
      into "$raw/clean.$number" awk "NR > $from + $CLEAN_LINES { exit } NR > $from" \
        "$DATA_DIR/clean.txt"
      run fairseq-ssl noise "$raw/clean.$number" --noise "$NOISE" --seed "$number" \
        --learner-words "$raw/words.json" -o "$raw/noisy.$number" ${FORCE:+--force}
      pieces "$raw/noisy.$number" "$text.$number/train.src"
      pieces "$raw/clean.$number" "$text.$number/train.trg"
      for side in src trg; do run cp "$text/valid.$side" "$text.$number"; done
      into "$text.$number/done" date
    fi
    binarise "gec.$number" gec "${vocabulary[@]}"
  done
}

for task in $TASKS; do
  if [[ "$task" == gec ]]; then
    headline "1/4 gec: real errors"
    grammar
    continue
  fi
  for fold in $FOLDS; do
    headline "1/4 $task, fold $fold ($SCALE): text, edits, binarised"
    words "$task" "$fold"
  done
done
