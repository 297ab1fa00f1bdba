#!/usr/bin/env bash
# Write text to WORK/text and binarized text with a joined dictionary to WORK/data. Monolingual text is
# in WORK/data/NAME.mono.AMOUNT or NAME/mono.
# shellcheck source=examples/bytenet/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

binarize() { # DESTINATION DICTIONARY SOURCE TARGET FLAGS...
  quietly "$WORK/preprocess.log" run fairseq-preprocess -s "$3" -t "$4" --srcdict "$2" \
    --tgtdict "$2" --destdir "$1" "${@:5}"
}
binarize_alone() { # DESTINATION DICTIONARY LANGUAGE TEXT
  quietly "$WORK/preprocess.log" run fairseq-preprocess --only-source -s "$3" --srcdict "$2" \
    --trainpref "$4" --destdir "$1"
}

digits() { # LABELED SEED
  local text="$WORK/text/digits.$1.$2" data amount
  data="$(digit_data "$1" "$2")"
  build "$text" run python "$HERE/digits.py" "$text" --run "$2" --labeled "$1" --unlabeled 1024 \
    --test "$TEST"
  build "$data" digits_pairs "$text" "$data"
  for amount in $UNLABELED; do
    if ((amount)); then
      build "$(digit_mono "$1" "$2" "$amount")" digits_text "$text" "$(digit_mono "$1" "$2" "$amount")" "$amount"
    fi
  done
}

digits_pairs() { # TEXT DESTINATION
  binarize "$2" "$1/dict.txt" words digits --trainpref "$1/train" \
    --testpref "$1/test,$1/unseen,$1/final"
}

digits_text() { # TEXT DESTINATION AMOUNT
  into "$1.mono.$3.words" head -n "$3" "$1/mono.words"
  binarize_alone "$2" "$1/dict.txt" words "$1.mono.$3"
}

# Split text into characters, with _ between words.
characters() { # FROM TO LINES
  # shellcheck disable=SC2016  # expanded by the inner shell
  into "$2" bash -o pipefail -c 'gzip -dcf "$1" | sed -n "1,$2p" | tr " " "_" |
    LC_ALL=C.UTF-8 sed "s/./& /g; s/ $//"' characters "$1" "$3"
}

# Files of DATA_DIR for all tasks.
check_data() {
  local task language split files=()
  for task in $TASKS; do
    for language in "$SOURCE" "$TARGET"; do
      case "$task" in
        memorize) files+=("$(memorized_file "$language")") ;;
        text) for split in train valid test mono; do files+=("$(text_file "$split" "$language")"); done ;;
      esac
    done
  done
  ((${#files[@]} == 0)) ||
    data_dir "multi30k; or memorize, train, mono, valid and test, each .$SOURCE.gz and .$TARGET.gz" "${files[@]}"
}

memorized_file() { # LANGUAGE
  if [[ -e "${DATA_DIR:-}/memorize.$1.gz" || "$SCALE" == paper ]]; then
    echo "memorize.$1.gz"
  else
    echo "multi30k/train.$1.gz"
  fi
}

memorize() {
  local text="$WORK/text/memorize" language
  for language in "$SOURCE" "$TARGET"; do
    characters "$DATA_DIR/$(memorized_file "$language")" "$text/train.$language" "$MEMORIZE_PAIRS"
  done
  run rm -rf "$DATA/memorize" # fairseq-preprocess does not replace a dictionary
  quietly "$WORK/preprocess.log" run fairseq-preprocess -s "$SOURCE" -t "$TARGET" \
    --joined-dictionary --trainpref "$text/train" --destdir "$DATA/memorize"
}

# Print the file of a split. At small scale both sides of the same pairs are monolingual text.
# Back-translation reads one side. Reconstruction reads both, each in its own order.
text_file() { # SPLIT LANGUAGE
  if [[ "$SCALE" == paper ]]; then echo "$1.$2.gz" && return; fi
  case "$1" in
    valid) echo "multi30k/val.$2.gz" ;;
    test) echo "multi30k/test_2016_flickr.$2.gz" ;;
    *) echo "multi30k/train.$2.gz" ;;
  esac
}

raw() {
  local raw="$WORK/raw" language split first most skip=1
  if [[ "$SCALE" != paper ]]; then skip="$((PAIRS + 1))"; fi # the lines after the pairs
  for language in "$SOURCE" "$TARGET"; do
    for split in train valid test mono; do
      first=1 most=1000000000
      if [[ "$split" == train ]]; then most="$PAIRS"; fi
      if [[ "$split" == mono ]]; then first="$skip" most="$MONO"; fi
      # shellcheck disable=SC2016
      into "$raw/$split.$language" bash -o pipefail -c 'gzip -dc "$1" | tail -n "+$2" | sed -n "1,$3p"' \
        text "$DATA_DIR/$(text_file "$split" "$language")" "$first" "$most"
    done
  done
}

subwords() {
  local raw="$WORK/raw" subwords="$WORK/subwords" language split
  quietly "$WORK/subwords.log" run fairseq-ssl subwords train "$raw/train.$SOURCE" \
    "$raw/train.$TARGET" "$raw/mono.$SOURCE" "$raw/mono.$TARGET" -o "$subwords/bpe" \
    --size "$VOCABULARY" --force
  into "$subwords/dict.txt" fairseq-ssl subwords dictionary "$subwords/bpe"
  for split in train valid test mono; do
    for language in "$SOURCE" "$TARGET"; do
      into "$subwords/$split.$language" fairseq-ssl subwords encode "$subwords/bpe" "$raw/$split.$language"
    done
  done
}

text() {
  local text="$WORK/subwords" language
  binarize "$DATA/text" "$text/dict.txt" "$SOURCE" "$TARGET" --trainpref "$text/train" \
    --validpref "$text/valid" --testpref "$text/test" --workers "$(nproc)"
  for language in "$SOURCE" "$TARGET"; do
    binarize_alone "$DATA/text/mono" "$text/dict.txt" "$language" "$text/mono"
  done
}

# The same text as characters, for ByteNet.
text_characters() {
  local out="$WORK/text/characters" language split
  for language in "$SOURCE" "$TARGET"; do
    for split in train valid test; do
      characters "$WORK/raw/$split.$language" "$out/$split.$language" 1000000000
    done
  done
  run rm -rf "$DATA/characters"
  quietly "$WORK/preprocess.log" run fairseq-preprocess -s "$SOURCE" -t "$TARGET" \
    --joined-dictionary --trainpref "$out/train" --validpref "$out/valid" --testpref "$out/test" \
    --destdir "$DATA/characters" --workers "$(nproc)"
}

check_data
for task in $TASKS; do
  headline "1/4 $task ($SCALE): text, binarized"
  case "$task" in
    digits)
      for labeled in $LABELED; do
        for seed in $SEEDS; do digits "$labeled" "$seed"; done
      done
      ;;
    memorize) build "$DATA/memorize" memorize ;;
    text)
      build "$WORK/raw" raw
      build "$WORK/subwords" subwords
      build "$DATA/text" text
      if [[ " $KINDS " == *" bytenet "* ]]; then build "$DATA/characters" text_characters; fi
      ;;
  esac
done
