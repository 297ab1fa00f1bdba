#!/usr/bin/env bash
# Write text to WORK/text, label its edits, and binarize to WORK/data.
# shellcheck source=examples/pie/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

binarize() { build "$WORK/data/$1" build_data "$@"; } # NAME EDITS DICTIONARY-FLAGS...

# Binarize WORK/text/NAME with the edits of WORK/edits/EDITS.
build_data() { # NAME EDITS DICTIONARY-FLAGS...
  local text="$WORK/text/$1" edits="$WORK/edits/$2" data="$WORK/data/$1" split side
  local test=(--testpref "$text/test")
  [[ "$1" == gec* ]] && test=()
  run rm -rf "$data.tmp"
  run mkdir -p "$data.tmp"
  for split in train valid; do
    run fairseq-ssl edits label "$text/$split.src" "$text/$split.trg" \
      --dictionary "$edits/edits.txt" -o "$text/$split.edits" --force
  done
  quietly "$WORK/preprocess.log" run fairseq-preprocess --source-lang src --target-lang trg \
    "${@:3}" --trainpref "$text/train" --validpref "$text/valid" "${test[@]}" \
    --destdir "$data.tmp" --workers "$(nproc)"
  quietly "$WORK/preprocess.log" run fairseq-preprocess --source-lang edits --only-source \
    --srcdict "$edits/labels.txt" --trainpref "$text/train" --validpref "$text/valid" \
    --destdir "$data.tmp" --workers "$(nproc)"
  run cp "$edits/edits.txt" "$data.tmp"
  # fairseq prefers raw text to binarized text in the same folder. In raw text unknown tokens are not
  # lost, so that the tagger can copy them.
  for split in valid test; do
    [[ "$split" == test && "$1" == gec* ]] && continue
    for side in src trg; do run cp "$text/$split.$side" "$data.tmp/$split.src-trg.$side"; done
  done
  if [[ "$1" == gec ]]; then
    for split in $GEC_SETS; do
      [[ "$split" == valid ]] || run cp "$text/$split.src" "$data.tmp/$split.src-None.src"
    done
  fi
  run mv "$data.tmp" "$data"
}

# Extract the edits of WORK/text/NAME to WORK/edits/NAME.
count_edits() { # NAME FLAGS...
  local text="$WORK/text/$1" edits="$WORK/edits/$1"
  build "$edits" run fairseq-ssl edits dictionary "$text/train.src" "$text/train.trg" \
    -o "$edits/edits.txt" --max-ngram "$EDIT_LONGEST" \
    --label-dict "$edits/labels.txt" "${@:2}"
}

words() { # TASK FOLD
  local name="$1.$2" dictionary
  word_text "$1" "$2"
  count_edits "$name" --size "$EDIT_SIZE" --transforms none
  binarize "$name" "$name" --joined-dictionary
  if [[ " $KINDS " == *" augmented "* ]]; then
    more_words "$1" "$2" "$COPIES" "$SEED"
    dictionary="$WORK/data/$name/dict.src.txt"
    binarize "$name.augmented" "$name" --srcdict "$dictionary" --tgtdict "$dictionary"
  fi
}

# PIECES and SPELL_CHECK can be pipelines, so that braces are necessary for their input.
pieces() { # INPUT OUTPUT
  into "$2" bash -c "{ $PIECES; } < $(printf %q "$1")"
}

real_text() { # Write WORK/text/gec in word pieces. WORK/raw/SET.src is the text of WORK/text/gec/SET.src.
  local text="$WORK/text/gec" raw="$WORK/raw" side set
  for side in src trg; do pieces "$DATA_DIR/train.$side" "$text/train.$side"; done
  pieces "$DATA_DIR/valid.trg" "$text/valid.trg"
  # shellcheck disable=SC2086  # words apart
  for set in $(printf '%s\n' valid $GEC_SETS | awk '!seen[$0]++'); do
    into "$raw/$set.src" bash -c "{ ${SPELL_CHECK:-cat}; } < $(printf %q "$DATA_DIR/$set.src")"
    pieces "$raw/$set.src" "$text/$set.src"
  done
}

count_words() { # for the spell checker of the small scale
  [[ "$SPELL_CHECK" != *"$(printf %q "$WORK/raw/counts.gz")"* ]] || build "$WORK/raw/counts.gz" \
    run fairseq-ssl spelling count "$DATA_DIR/train.trg" "$DATA_DIR/$CLEAN" -o "$WORK/raw/counts.gz" --force
}

# Dictionary of BERT's word pieces, or of all words in the real pairs and in CLEAN.
vocabulary() {
  local folder="$WORK/dictionary" text="$WORK/text/gec"
  run rm -rf "$folder" # fairseq-preprocess does not replace the dictionary of a killed step
  run mkdir -p "$folder"
  if [[ "$GEC_UNIT" == subword ]]; then
    run python "$HERE/wordpieces.py" dictionary "$BERT" --output "$folder/dict.src.txt"
    return
  fi
  into "$WORK/raw/words.src" cat "$text"/train.{src,trg} ${SYNTHETIC:+"$DATA_DIR/$CLEAN"}
  quietly "$WORK/preprocess.log" run fairseq-preprocess --source-lang src --only-source --dict-only \
    --trainpref "$WORK/raw/words" --destdir "$folder" --workers "$(nproc)"
}

synthetic_text() { # MODEL: WORK/text/gec.MODEL
  local text="$WORK/text/gec" raw="$WORK/raw" from side
  from="$((($1 - 1) * CLEAN_STEP))"
  into "$raw/clean.$1" awk "NR > $from + $CLEAN_LINES { exit } NR > $from" "$DATA_DIR/$CLEAN"
  add_errors "$raw/clean.$1" "$raw/noisy.$1" "$1"
  pieces "$raw/noisy.$1" "$text.$1/train.src"
  pieces "$raw/clean.$1" "$text.$1/train.trg"
  for side in src trg; do run cp "$text/valid.$side" "$text.$1"; done
}

last_text() { # WORK/text/gec.last: the pairs with LAST_LEVELS
  local text="$WORK/text/gec" side
  # shellcheck disable=SC2016  # a program of awk
  local program='BEGIN { split(levels, words); for (i in words) wanted[words[i]] }
    FNR == NR { kept[FNR] = $1 in wanted; next }
    kept[FNR]'
  for side in src trg; do
    into "$text.last/train.$side" awk -v levels="$LAST_LEVELS" "$program" "$DATA_DIR/train.levels" "$text/train.$side"
    run cp "$text/valid.$side" "$text.last"
  done
  if [[ -z "${DRY_RUN:-}$OTHER_NODE" && ! -s "$text.last/train.src" ]]; then
    echo "LAST_LEVELS is '$LAST_LEVELS'. $DATA_DIR/train.levels has $(sort -u "$DATA_DIR/train.levels" | paste -s -d ' ')." >&2
    exit 2
  fi
}

grammar() {
  local number text="$WORK/text/gec" needed=()
  if [[ -z "${BERT:-}" || (-z "${DRY_RUN:-}" && ! -d "$BERT") ]]; then
    echo "BERT is '${BERT:-}'. Expected the folder of a BERT in Hugging Face format." >&2
    exit 2
  fi
  [[ -z "$SYNTHETIC$SPELL_CHECK" ]] || needed+=("$CLEAN")
  [[ -z "$LAST_LEVELS" ]] || needed+=(train.levels)
  grammar_data "train.src, train.trg, valid.src, valid.trg, $CLEAN and the SETS, such as test.src and test.m2" \
    {train,valid}.{src,trg} "${needed[@]}"
  local words="$WORK/dictionary/dict.src.txt"
  local dictionary=(--srcdict "$words" --tgtdict "$words")
  [[ -n "$SPELL_CHECK" ]] || headline "no SPELL_CHECK is set: unlike in the paper, the sets are not spell-checked"
  count_words
  build "$text" real_text
  count_edits gec --size "$GEC_EDIT_SIZE" --transforms "$TRANSFORMS" --groups "$EDIT_GROUPS"
  build "$WORK/dictionary" vocabulary
  binarize gec gec "${dictionary[@]}"
  if [[ -n "$LAST_LEVELS" ]]; then
    build "$text.last" last_text
    binarize gec.last gec "${dictionary[@]}"
  fi
  [[ -n "$SYNTHETIC" ]] || return 0
  count_errors
  for number in $GEC_MODELS; do
    headline "1/4 gec: synthetic errors for model $number"
    build "$text.$number" synthetic_text "$number"
    binarize "gec.$number" gec "${dictionary[@]}"
  done
}

# shellcheck disable=SC2086  # words apart
check_words $FOLDS
for task in $TASKS; do
  if [[ "$task" == gec ]]; then
    headline "1/4 gec: real errors"
    grammar
    continue
  fi
  for fold in $FOLDS; do
    headline "1/4 $task, fold $fold ($SCALE): text, edits, binarized"
    words "$task" "$fold"
  done
done
