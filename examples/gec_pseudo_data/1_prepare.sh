#!/usr/bin/env bash
# The corpora: genuine pairs and what they are held against, seed corpora, subwords; the genuine
# pairs binarised (4.4.1).
# shellcheck source=examples/gec_pseudo_data/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
words="$WORK/words" # train, valid, test, jfleg, each .src and .trg; CORPUS.txt
corpora() { run python "$HERE/corpora.py" "$@"; }

# Errors put into clean sentences stand for those of learners.
errors() { # TEXT...
  local set seed=0
  corpora split "$@" --to "$words" --genuine "$GENUINE" --held-out "$HELD_OUT"
  corpora learner-words "$WORK/learner_words.json"
  for set in train valid test; do
    seed=$((seed + 1))
    quietly "$WORK/prepare.log" run fairseq-ssl noise "$words/$set.clean" --noise "$GENUINE_NOISE" \
      --learner-words "$WORK/learner_words.json" --seed "$seed" -o "$words/$set.all" --force
  done
  # pairs of equal sides are left out of training (4.4.1)
  quietly "$WORK/prepare.log" run fairseq-ssl filter "$words/train.all" "$words/train.clean" \
    --filter identical -o "$words/train.src" "$words/train.trg" --force
  for set in valid test; do
    into "$words/$set.src" cat "$words/$set.all"
    into "$words/$set.trg" cat "$words/$set.clean"
    corpora gold "$words/$set"
    into "$GOLD/$set.m2" cat "$words/$set.m2"
    into "$GOLD/$set.levels" cat "$words/$set.levels"
  done
}

tiny() {
  run mkdir -p "$WORK/raw"
  run python "$HERE/../common/toy_sentences.py" "$WORK/raw/toys.txt" --lines 1000
  errors "$WORK/raw/toys.txt"
}

small() {
  data_dir "multi30k, small_parallel_enja, rotten_tomatoes and jfleg, see README" \
    multi30k/train.en.gz small_parallel_enja/train.en rotten_tomatoes/unlabelled.txt jfleg/dev.src
  run python "$HERE/../common/small_text.py" "$DATA_DIR" "$WORK/raw" --apart
  errors "$WORK/raw/captions.txt" "$WORK/raw/phrases.txt" "$WORK/raw/films.txt"
  jfleg "$DATA_DIR/jfleg/dev" lower
}

paper() {
  data_dir "train/*.m2, valid.m2, conll14.m2, jfleg and the seed corpora, see README" \
    train valid.m2 conll14.m2 jfleg
  local corpus
  corpora pairs "$DATA_DIR"/train/*.m2 --to "$words/train"
  for set in valid:valid test:conll14; do
    run mkdir -p "$GOLD"
    run ln -sf "$DATA_DIR/${set#*:}.m2" "$GOLD/${set%:*}.m2"
    corpora pairs "$GOLD/${set%:*}.m2" --to "$words/${set%:*}" --held-out
  done
  # the sections of BEA-valid, by proficiency (4.5.1)
  into "$GOLD/valid.levels" awk 'BEGIN {
    split("A 1037 B 1290 C 1069 N 988", w); for (i = 1; i < 8; i += 2)
    for (n = 0; n < w[i + 1]; n++) print w[i] }'
  jfleg "$DATA_DIR/jfleg/test" cased
  for corpus in $CORPORA; do run ln -sf "$DATA_DIR/$corpus.txt" "$words/$corpus.txt"; done
}

jfleg() { # PREFIX lower|cased
  local part command=(cat)
  [[ "$2" == lower ]] && command=(sed "s/.*/\L&/")
  for part in src ref0 ref1 ref2 ref3; do
    into "$GOLD/jfleg.$part" "${command[@]}" "$1.$part"
  done
  into "$words/jfleg.src" sed "s/ *$//" "$GOLD/jfleg.src"
  into "$words/jfleg.trg" sed "s/ *$//" "$GOLD/jfleg.ref0"
}

headline "1/8 the corpora ($SCALE)"
if ! have "$words/done"; then
  run mkdir -p "$words"
  "$SCALE"
  into "$words/done" date
fi

headline "1/8 in $MERGES subwords, learned from the corrected side"
have "$WORK/bpe.codes" ||
  quietly "$WORK/prepare.log" run fairseq-ssl subwords train "$words/train.trg" -o "$WORK/bpe" \
    --kind subword-nmt --size "$MERGES" --tags "<mask>" --force
have "$WORK/dict.txt" || into "$WORK/dict.txt" fairseq-ssl subwords dictionary "$WORK/bpe"
for set in train $SETS; do
  for side in src trg; do
    have "$WORK/text/$set.$side" ||
      into "$WORK/text/$set.$side" fairseq-ssl subwords encode "$WORK/bpe" "$words/$set.$side"
  done
done

headline "1/8 the genuine pairs, binarised"
if ! have "$DATA/genuine"; then
  tests=()
  for set in $SETS; do [[ "$set" == valid ]] || tests+=("$WORK/text/$set"); done
  run rm -rf "$DATA/genuine.tmp"
  quietly "$WORK/prepare.log" run fairseq-preprocess -s src -t trg --srcdict "$WORK/dict.txt" \
    --tgtdict "$WORK/dict.txt" --trainpref "$WORK/text/train" --validpref "$WORK/text/valid" \
    --testpref "$(IFS=, && echo "${tests[*]}")" --destdir "$DATA/genuine.tmp" --workers "$(nproc)"
  run mv "$DATA/genuine.tmp" "$DATA/genuine"
fi
