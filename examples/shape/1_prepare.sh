#!/usr/bin/env bash
# Prepare the corpus, its subwords and the three data sets of section 6.3.1, and the lines of OCR words,
# binarized in WORK/data.
# shellcheck source=examples/shape/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

# WORK/raw: detokenized held-out text, the references. WORK/text: tokenized text. WORK/dict.txt: the
# dictionary, if the subword model has one.
tiny() {
  run python "$HERE/../common/number_words.py" "$WORK/text/translation" --numbers 12 --longest 8 \
    --trained-length 6 --train-lines 2000 --valid-lines 60 --test-lines 6
  run mkdir -p "$WORK/raw"
  for split in valid test; do
    run cp "$WORK/text/translation/$split.$SOURCE" "$WORK/text/translation/$split.$TARGET" "$WORK/raw"
  done
}

small() {
  local language pair
  data_dir "multi30k/train.en.gz, val.en.gz, test_2016_flickr.en.gz and the same in .de.gz" \
    multi30k/{train,val,test_2016_flickr}.{en,de}.gz
  for language in "$SOURCE" "$TARGET"; do
    into "$WORK/raw-train.$language" gzip -dc "$DATA_DIR/multi30k/train.$language.gz"
    for pair in $SETS; do
      into "$WORK/raw/${pair%:*}.$language" gzip -dc "$DATA_DIR/multi30k/${pair#*:}.$language.gz"
    done
  done
  # The separator is a separate subword, so that one dictionary covers all three data sets.
  quietly "$WORK/subwords.log" run fairseq-ssl subwords train "$WORK/raw-train.$SOURCE" \
    "$WORK/raw-train.$TARGET" -o "$WORK/bpe" --size "$VOCABULARY" --tags "$SEPARATOR" --force
  for language in "$SOURCE" "$TARGET"; do
    into "$WORK/text/translation/train.$language" \
      fairseq-ssl subwords encode "$WORK/bpe" "$WORK/raw-train.$language"
    for pair in $SETS; do
      into "$WORK/text/translation/${pair%:*}.$language" \
        fairseq-ssl subwords encode "$WORK/bpe" "$WORK/raw/${pair%:*}.$language"
    done
  done
  into "$WORK/dict.txt" fairseq-ssl subwords dictionary "$WORK/bpe"
}

# The corpus of Ott et al. is already in subwords. The README has its source.
paper() {
  local language pair files=(train.tok.clean.bpe.32000.{"$SOURCE","$TARGET"})
  for pair in $SETS; do files+=("${pair#*:}"{.tok.bpe.32000,}.{"$SOURCE","$TARGET"}); done
  data_dir "what is in wmt16_en_de.tar.gz, see README" "${files[@]}"
  for language in "$SOURCE" "$TARGET"; do
    into "$WORK/text/translation/train.$language" cat "$DATA_DIR/train.tok.clean.bpe.32000.$language"
    for pair in $SETS; do
      into "$WORK/text/translation/${pair%:*}.$language" cat "$DATA_DIR/${pair#*:}.tok.bpe.32000.$language"
      into "$WORK/raw/${pair%:*}.$language" cat "$DATA_DIR/${pair#*:}.$language"
    done
  done
}

prefixes() { # valid|test
  grep -o "$1[0-9]*" <<<"$HELD_OUT" | sed "s|^|$WORK/text/translation/|" | paste -sd ,
}

binarize() { # NAME FLAGS...
  local data="$WORK/data/$1"
  run rm -rf "$data.tmp"
  quietly "$WORK/preprocess.log" run fairseq-preprocess "${@:2}" \
    --destdir "$data.tmp" --workers "$(nproc)"
  run mv "$data.tmp" "$data"
}

vanilla() {
  local dictionary=(--joined-dictionary --nwordssrc 32768 --nwordstgt 32768)
  [[ "$SCALE" == small ]] && dictionary=(--srcdict "$WORK/dict.txt" --tgtdict "$WORK/dict.txt")
  binarize vanilla --source-lang "$SOURCE" --target-lang "$TARGET" "${dictionary[@]}" \
    --trainpref "$WORK/text/translation/train" --validpref "$(prefixes valid)" --testpref "$(prefixes test)"
}

lines() { # DATASET
  local words="$WORK/text/ocr.$FOLD" text="$WORK/text/$1" learned=1-4 tested=1-12 split from counts
  [[ "$1" == lines.interpolate ]] && learned=10-10 tested=10-10
  for split in "train train $learned" "valid valid $learned" "valid1 valid $tested" "test test $tested"; do
    read -r split from counts <<<"$split"
    run python "$HERE/../common/word_lines.py" "$words/$from.src" "$words/$from.trg" \
      "$text/$split.src" "$text/$split.trg" --words "$counts" --passes "$PASSES" \
      --separator "$SEPARATOR"
  done
}

binarized_lines() { # DATASET
  local text="$WORK/text/$1"
  binarize "$1" --source-lang src --target-lang trg --joined-dictionary \
    --trainpref "$text/train" --validpref "$text/valid,$text/valid1" --testpref "$text/test"
}

translation() {
  headline "1/5 the corpus ($SCALE)"
  build "$WORK/text/translation" "$SCALE"

  headline "1/5 vanilla: binarized, with one dictionary for both sides"
  build "$WORK/data/vanilla" vanilla

  headline "1/5 extrapolate: no training pair longer than $LIMIT on either side"
  build "$WORK/data/extrapolate" run fairseq-ssl position-data extrapolate "$WORK/data/vanilla" \
    "$WORK/data/extrapolate" --limit "$LIMIT" --force

  headline "1/5 interpolate: $SENTENCES neighbours in one"
  local join=(--sentences "$SENTENCES" --separator "$SEPARATOR" --force)
  build "$WORK/data/interpolate" run fairseq-ssl position-data interpolate \
    "$WORK/data/vanilla" "$WORK/data/interpolate" "${join[@]}"
  build "$WORK/raw-joined" run fairseq-ssl position-data interpolate \
    "$WORK/raw" "$WORK/raw-joined" "${join[@]}"
}

[[ -z "$TRANSLATED" ]] || translation
[[ -z "$CORRECTED" ]] || TASKS=ocr check_words "$FOLD"
for dataset in $CORRECTED; do
  headline "1/5 $dataset: text, binarized"
  word_text ocr "$FOLD"
  build "$WORK/text/$dataset" lines "$dataset"
  build "$WORK/data/$dataset" binarized_lines "$dataset"
done
