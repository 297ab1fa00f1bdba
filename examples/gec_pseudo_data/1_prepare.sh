#!/usr/bin/env bash
# Prepare genuine pairs, portions of the seed corpora, held-out sets with gold edits and subwords.
# Binarize the genuine pairs (4.4.1).
# shellcheck source=examples/gec_pseudo_data/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
words="$WORK/words" # train.src and train.trg; at smaller scales also valid, test and CORPUS.txt
corpora() { run python "$HERE/corpora.py" "$@"; }

# Add errors to clean sentences, in place of a learner corpus.
errors() { # TEXT...
  local set seed=0
  corpora split "$@" --to "$words" --genuine "$GENUINE" --held-out "$HELD_OUT"
  corpora learner-errors "$WORK/learner_errors.json"
  for set in train valid test; do
    seed=$((seed + 1))
    quietly "$WORK/prepare.log" run fairseq-ssl noise "$words/$set.clean" --method "$GENUINE_NOISE" \
      --learner-errors "$WORK/learner_errors.json" --seed "$seed" -o "$words/$set.all" --force
  done
  # training excludes pairs with equal sides (4.4.1)
  quietly "$WORK/prepare.log" run fairseq-ssl filter "$words/train.all" "$words/train.clean" \
    --filter identical -o "$words/train.src" "$words/train.trg" --force
}

tiny() {
  run mkdir -p "$WORK/raw"
  run python "$HERE/../common/toy_sentences.py" "$WORK/raw/toys.txt" --lines 1000
  errors "$WORK/raw/toys.txt"
}

small() {
  if [[ "$PAIRS" == genuine ]]; then
    corpora pairs "$DATA_DIR/train.m2" --to "$words/train"
    return
  fi
  run python "$HERE/../common/small_text.py" "$DATA_DIR" "$WORK/raw" --apart
  errors "$WORK/raw/captions.txt" "$WORK/raw/phrases.txt" "$WORK/raw/films.txt"
}

paper() {
  corpora pairs "$DATA_DIR"/train/*.m2 --to "$words/train"
}

# Print the sets in DATA_DIR as SET:FILE. FILE.m2 has edits, or for BLIND sets FILE.src has sentences.
own_sets() {
  local set
  for set in $(held_out); do
    case "$PAIRS-$SCALE-$set" in
      synthetic-*-valid | synthetic-*-test) ;;
      synthetic-small-jfleg) echo jfleg:jfleg/dev ;;
      genuine-paper-jfleg) echo jfleg:jfleg/test ;;
      genuine-paper-test) echo test:conll14 ;;
      *) echo "$set:$set" ;;
    esac
  done
}

# Files of DATA_DIR for this and all later steps.
check_data() {
  local pair files=() texts=() corpus
  case "$PAIRS-$SCALE" in
    genuine-small) files=(train.m2) ;;
    genuine-paper) files=(train) ;; # a folder of M2 files
    synthetic-small) files=(multi30k/train.en.gz small_parallel_enja/train.en rotten_tomatoes/unlabelled.txt) ;;
  esac
  for pair in $(own_sets); do
    if [[ "$pair" == jfleg* ]]; then
      texts+=("${pair#*:}.src") files+=("${pair#*:}".ref{0..3})
    elif is_blind "${pair%%:*}"; then
      texts+=("${pair#*:}.src")
    else
      files+=("${pair#*:}.m2")
    fi
  done
  if [[ "$PAIRS" == genuine ]]; then
    for corpus in $(seed_corpora); do texts+=("$corpus.txt"); done
  fi
  files+=("${texts[@]}")
  ((${#files[@]} == 0)) || data_dir "${files[*]}, see README" "${files[@]}"
  check_tokens "${texts[@]}"
}

set_of_data_dir() { # SET FILE
  local out
  out="$(held_out_set "$1")"
  if is_blind "$1"; then
    into "$out.src" cat "$DATA_DIR/$2.src"
  elif [[ "$1" == jfleg* ]]; then
    jfleg "$out" "$DATA_DIR/$2"
  else
    into "$out.m2" cat "$DATA_DIR/$2.m2"
    corpora pairs "$out.m2" --to "$out" --held-out
  fi
  if [[ -e "$DATA_DIR/$2.levels" ]]; then
    into "$out.levels" cat "$DATA_DIR/$2.levels"
  elif [[ "$SCALE-$1" == paper-valid ]]; then # sections of BEA-valid by proficiency (4.5.1)
    into "$out.levels" awk 'BEGIN {
      split("A 1037 B 1290 C 1069 N 988", w); for (i = 1; i < 8; i += 2)
      for (n = 0; n < w[i + 1]; n++) print w[i] }'
  fi
}

jfleg() { # OUTPUT INPUT
  local part command=(cat)
  [[ "$PAIRS-$SCALE" == synthetic-small ]] && command=(sed "s/.*/\L&/")
  for part in src ref0 ref1 ref2 ref3; do
    into "$1.$part.raw" "${command[@]}" "$2.$part"
    into "$1.$part" sed "s/ *$//" "$1.$part.raw"
  done
}

set_of_errors() { # SET
  local out
  out="$(held_out_set "$1")"
  into "$out.src" cat "$words/$1.all"
  into "$out.trg" cat "$words/$1.clean"
  into "$out.levels" cat "$words/$1.levels"
  corpora gold "$out"
}

# Split the first MOST sentences of a seed corpus into portions.
portions() { # CORPUS
  local out="$WORK/seeds/$1" text="$words/$1.txt"
  if [[ "$PAIRS" == genuine ]]; then
    text="$DATA_DIR/$1.txt"
  fi
  run rm -rf "$out.tmp" "$out"
  run mkdir -p "$out.tmp"
  # shellcheck disable=SC2016  # expanded by the inner shell
  run bash -c 'head -n "$1" "$2" | split -l "$3" -d -a 5 --additional-suffix .txt - "$4"' \
    portions "$MOST" "$text" "$PORTION" "$out.tmp/"
  run mv "$out.tmp" "$out"
}

# AMOUNT may be rounded: 1.4 million sentences are all 1,369,460 of SimpleWiki (table 4.1).
check_amounts() {
  local pseudo method value corpus amount sse lines
  for pseudo in $(pseudo_data); do
    pseudo_parts "$pseudo"
    lines="$(cat "$WORK/seeds/$corpus"/*.txt | wc -l)"
    if ((lines < amount * 95 / 100)); then
      echo "SYSTEMS has $pseudo, but the seed corpus $corpus has only $lines sentences." >&2
      exit 2
    fi
  done
}

encode() { # TEXT WORDS
  build "$WORK/text/$1" into "$WORK/text/$1" fairseq-ssl subwords encode "$WORK/bpe" "$2"
}

genuine() {
  run rm -rf "$DATA/genuine.tmp" "$DATA/genuine"
  quietly "$WORK/prepare.log" run fairseq-preprocess -s src -t trg --srcdict "$WORK/dict.txt" \
    --tgtdict "$WORK/dict.txt" --trainpref "$WORK/text/train" --validpref "$WORK/text/valid" \
    --destdir "$DATA/genuine.tmp" --workers "$(nproc)"
  run mv "$DATA/genuine.tmp" "$DATA/genuine"
}

decodable() { # SET: copy it as text, for fairseq-generate
  local folder="$DATA/held-out/$1" side
  run mkdir -p "$folder"
  for side in src trg; do run cp "$WORK/dict.txt" "$folder/dict.$side.txt"; done
  run cp "$WORK/text/$1.src" "$folder/$1.src-trg.src"
}

headline "1/8 the corpora ($SCALE)"
check_data
build "$words" "$SCALE"
for pair in $(own_sets); do
  build "$WORK/sets/${pair%%:*}" set_of_data_dir "${pair%%:*}" "${pair#*:}"
done
if [[ "$PAIRS" == synthetic ]]; then
  for set in valid test; do build "$WORK/sets/$set" set_of_errors "$set"; done
fi
for corpus in $(seed_corpora); do build "$WORK/seeds/$corpus" portions "$corpus"; done
[[ -n "${DRY_RUN:-}$OTHER_NODE" ]] || check_amounts

headline "1/8 in $MERGES subwords, learned from the corrected side"
build "$WORK/bpe.codes" quietly "$WORK/prepare.log" run fairseq-ssl subwords train \
  "$words/train.trg" -o "$WORK/bpe" --kind subword-nmt --size "$MERGES" --tags "<mask>" --force
build "$WORK/dict.txt" into "$WORK/dict.txt" fairseq-ssl subwords dictionary "$WORK/bpe"
for side in src trg; do
  encode "train.$side" "$words/train.$side"
  encode "valid.$side" "$(held_out_set valid).$side"
done
for set in $(held_out); do
  [[ "$set" == valid ]] || encode "$set.src" "$(held_out_set "$set").src"
done

headline "1/8 the genuine pairs, binarized; the held-out sets as text"
build "$DATA/genuine" genuine
for set in $(held_out); do build "$DATA/held-out/$set" decodable "$set"; done
