#!/usr/bin/env bash
# Prepare the corpus, its subwords and the three data sets of section 6.3.1, binarized in WORK/data.
# shellcheck source=examples/shape/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

# WORK/raw: detokenized held-out text, the references. WORK/text: tokenized text. WORK/dict.txt: the
# dictionary, if the subword model has one.
tiny() {
  run python "$HERE/../common/number_words.py" "$WORK/text" --numbers 12 --longest 8 \
    --trained-length 6 --train-lines 2000 --valid-lines 60 --test-lines 6
  run mkdir -p "$WORK/raw"
  for split in valid test; do
    run cp "$WORK/text/$split.$SOURCE" "$WORK/text/$split.$TARGET" "$WORK/raw"
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
    into "$WORK/text/train.$language" \
      fairseq-ssl subwords encode "$WORK/bpe" "$WORK/raw-train.$language"
    for pair in $SETS; do
      into "$WORK/text/${pair%:*}.$language" \
        fairseq-ssl subwords encode "$WORK/bpe" "$WORK/raw/${pair%:*}.$language"
    done
  done
  into "$WORK/dict.txt" fairseq-ssl subwords dictionary "$WORK/bpe"
}

# The corpus of Ott et al. is already in subwords. The README has its source.
paper() {
  local language pair
  data_dir "what is in wmt16_en_de.tar.gz, see README" \
    train.tok.clean.bpe.32000.{"$SOURCE","$TARGET"}
  for language in "$SOURCE" "$TARGET"; do
    into "$WORK/text/train.$language" cat "$DATA_DIR/train.tok.clean.bpe.32000.$language"
    for pair in $SETS; do
      into "$WORK/text/${pair%:*}.$language" cat "$DATA_DIR/${pair#*:}.tok.bpe.32000.$language"
      into "$WORK/raw/${pair%:*}.$language" cat "$DATA_DIR/${pair#*:}.$language"
    done
  done
}

prefixes() { # valid|test
  grep -o "$1[0-9]*" <<<"$HELD_OUT" | sed "s|^|$WORK/text/|" | paste -sd ,
}

vanilla() {
  local dictionary=(--joined-dictionary --nwordssrc 32768 --nwordstgt 32768) data="$WORK/data/vanilla"
  [[ "$SCALE" == small ]] && dictionary=(--srcdict "$WORK/dict.txt" --tgtdict "$WORK/dict.txt")
  run rm -rf "$data.tmp"
  quietly "$WORK/preprocess.log" run fairseq-preprocess \
    --source-lang "$SOURCE" --target-lang "$TARGET" "${dictionary[@]}" \
    --trainpref "$WORK/text/train" \
    --validpref "$(prefixes valid)" \
    --testpref "$(prefixes test)" \
    --destdir "$data.tmp" --workers "$(nproc)"
  run mv "$data.tmp" "$data"
}

headline "1/5 the corpus ($SCALE)"
build "$WORK/text" "$SCALE"

headline "1/5 vanilla: binarized, with one dictionary for both sides"
build "$WORK/data/vanilla" vanilla

headline "1/5 extrapolate: no training pair longer than $LIMIT on either side"
build "$WORK/data/extrapolate" run fairseq-ssl position-data extrapolate "$WORK/data/vanilla" \
  "$WORK/data/extrapolate" --limit "$LIMIT" ${FORCE:+--force}

headline "1/5 interpolate: $SENTENCES neighbours in one"
join=(--sentences "$SENTENCES" --separator "$SEPARATOR" ${FORCE:+--force})
build "$WORK/data/interpolate" run fairseq-ssl position-data interpolate \
  "$WORK/data/vanilla" "$WORK/data/interpolate" "${join[@]}"
build "$WORK/raw-joined" run fairseq-ssl position-data interpolate \
  "$WORK/raw" "$WORK/raw-joined" "${join[@]}"
