#!/usr/bin/env bash
# Text in WORK/text, binarised with one dictionary for both languages in WORK/data; text without
# translations in WORK/data/NAME/mono.AMOUNT or mono.
# shellcheck source=examples/bytenet/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

binarise() { # DESTINATION DICTIONARY SOURCE TARGET FLAGS...
  quietly "$WORK/preprocess.log" run fairseq-preprocess -s "$3" -t "$4" --srcdict "$2" \
    --tgtdict "$2" --destdir "$1" "${@:5}"
}
binarise_alone() { # DESTINATION DICTIONARY LANGUAGE TEXT
  quietly "$WORK/preprocess.log" run fairseq-preprocess --only-source -s "$3" --srcdict "$2" \
    --trainpref "$4" --destdir "$1"
}

digits() { # LABELLED SEED
  local text="$WORK/text/digits.$1.$2" data amount
  data="$(digit_data "$1" "$2")"
  if ! have "$data/$(digit_split final).words-digits.words.idx"; then
    run python "$HERE/digits.py" "$text" --run "$2" --labelled "$1" --unlabelled 1024 --test "$TEST"
    run rm -rf "$data.tmp" "$data"
    binarise "$data.tmp" "$text/dict.txt" words digits --trainpref "$text/train" \
      --testpref "$text/test,$text/unseen,$text/final"
    run mv "$data.tmp" "$data"
  fi
  for amount in $UNLABELLED; do
    if [[ "$amount" == 0 ]] || have "$data/mono.$amount"; then continue; fi
    into "$text/mono.$amount.words" head -n "$amount" "$text/mono.words"
    run rm -rf "$data/mono.tmp" "$data/mono.$amount"
    binarise_alone "$data/mono.tmp" "$text/dict.txt" words "$text/mono.$amount"
    run mv "$data/mono.tmp" "$data/mono.$amount"
  done
}

# Characters, _ between words.
characters() { # FROM TO LINES
  # shellcheck disable=SC2016  # for the shell that runs it
  into "$2" bash -c 'gzip -dcf "$1" | head -n "$2" | tr " " "_" |
    LC_ALL=C.UTF-8 sed "s/./& /g; s/ $//"' characters "$1" "$3"
}

memorise() {
  local text="$WORK/text/memorise" language
  have "$DATA/memorise" && return
  data_dir "memorise.$SOURCE.gz and .$TARGET.gz, or with multi30k"
  for language in "$SOURCE" "$TARGET"; do
    local from="memorise.$language.gz"
    [[ -e "${DATA_DIR:-}/$from" || "$SCALE" == paper ]] || from="multi30k/train.$language.gz"
    data_dir "memorise.$SOURCE.gz and .$TARGET.gz, or with multi30k" "$from"
    characters "$DATA_DIR/$from" "$text/train.$language" "$MEMORISE_PAIRS"
  done
  run rm -rf "$DATA/memorise.tmp" "$DATA/memorise"
  quietly "$WORK/preprocess.log" run fairseq-preprocess -s "$SOURCE" -t "$TARGET" \
    --joined-dictionary --trainpref "$text/train" --destdir "$DATA/memorise.tmp"
  run mv "$DATA/memorise.tmp" "$DATA/memorise"
}

# Where the text is: pairs, and sentences whose translations are not looked at.
text_file() { # SPLIT LANGUAGE
  if [[ "$SCALE" == paper ]]; then echo "$1.$2.gz" && return; fi
  case "$1" in
    valid) echo "multi30k/val.$2.gz" ;;
    test) echo "multi30k/test_2016_flickr.$2.gz" ;;
    *) echo "multi30k/train.$2.gz" ;;
  esac
}

text() {
  local raw="$WORK/raw" out="$WORK/text/text" language split skip=1
  have "$DATA/text" && return
  if [[ "$SCALE" != paper ]]; then skip="$((PAIRS + 1))"; fi # what follows the pairs
  for language in "$SOURCE" "$TARGET"; do
    for split in train valid test mono; do
      data_dir "multi30k; or train, mono, valid and test, each .$SOURCE.gz and .$TARGET.gz" \
        "$(text_file "$split" "$language")"
      local first=1 most=1000000000
      if [[ "$split" == train ]]; then most="$PAIRS"; fi
      if [[ "$split" == mono ]]; then first="$skip" most="$MONO"; fi
      # shellcheck disable=SC2016
      into "$raw/$split.$language" bash -c 'gzip -dc "$1" | tail -n "+$2" | head -n "$3"' \
        text "$DATA_DIR/$(text_file "$split" "$language")" "$first" "$most"
    done
  done
  quietly "$WORK/subwords.log" run fairseq-ssl subwords train "$raw/train.$SOURCE" \
    "$raw/train.$TARGET" "$raw/mono.$SOURCE" "$raw/mono.$TARGET" -o "$WORK/bpe" \
    --size "$VOCABULARY" --force
  into "$WORK/dict.txt" fairseq-ssl subwords dictionary "$WORK/bpe"
  for split in train valid test mono; do
    for language in "$SOURCE" "$TARGET"; do
      into "$out/$split.$language" fairseq-ssl subwords encode "$WORK/bpe" "$raw/$split.$language"
    done
  done
  run rm -rf "$DATA/text.tmp" "$DATA/text"
  binarise "$DATA/text.tmp" "$WORK/dict.txt" "$SOURCE" "$TARGET" --trainpref "$out/train" \
    --validpref "$out/valid" --testpref "$out/test" --workers "$(nproc)"
  for language in "$SOURCE" "$TARGET"; do
    binarise_alone "$DATA/text.tmp/mono" "$WORK/dict.txt" "$language" "$out/mono"
  done
  run mv "$DATA/text.tmp" "$DATA/text"
}

# The same text in characters, for ByteNet.
text_characters() {
  local out="$WORK/text/characters" language split
  have "$DATA/characters" && return
  for language in "$SOURCE" "$TARGET"; do
    for split in train valid test; do
      characters "$WORK/raw/$split.$language" "$out/$split.$language" 1000000000
    done
  done
  run rm -rf "$DATA/characters.tmp" "$DATA/characters"
  quietly "$WORK/preprocess.log" run fairseq-preprocess -s "$SOURCE" -t "$TARGET" \
    --joined-dictionary --trainpref "$out/train" --validpref "$out/valid" --testpref "$out/test" \
    --destdir "$DATA/characters.tmp" --workers "$(nproc)"
  run mv "$DATA/characters.tmp" "$DATA/characters"
}

for task in $TASKS; do
  headline "1/4 $task ($SCALE): text, binarised"
  if [[ "$task" != digits ]]; then
    "$task"
    if [[ "$task" == text && " $KINDS " == *" bytenet "* ]]; then text_characters; fi
    continue
  fi
  for labelled in $LABELLED; do
    for seed in $SEEDS; do digits "$labelled" "$seed"; done
  done
done
