#!/usr/bin/env bash
# The corpora: genuine pairs, held-out sets and their gold, seed corpora in portions, subwords; the
# genuine pairs binarised (4.4.1).
# shellcheck source=examples/gec_pseudo_data/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
words="$WORK/words" # train and the held-out SETS, each .src and .trg; CORPUS.txt
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
}

paper() {
  data_dir "train/*.m2, the held-out sets and the seed corpora, see README" train
  corpora pairs "$DATA_DIR"/train/*.m2 --to "$words/train"
}

# A held-out set of DATA_DIR: edits of an m2 file, or sentences without gold.
held_out_set() { # SET FILE-WITHOUT-SUFFIX
  if is_blind "$1"; then
    data_dir "$2.src, tokenized, a sentence a line, for the set $1" "$2.src"
    into "$words/$1.src" cat "$DATA_DIR/$2.src"
    return
  fi
  data_dir "$2.m2, for the set $1" "$2.m2"
  run mkdir -p "$GOLD"
  run ln -sf "$DATA_DIR/$2.m2" "$GOLD/$1.m2"
  corpora pairs "$GOLD/$1.m2" --to "$words/$1" --held-out
}

held_out_sets() {
  local set
  for set in $(held_out); do
    have "$words/$set.src" && continue
    case "$SCALE-$set" in
      tiny-valid | tiny-test | small-valid | small-test) ;; # of the corpora
      small-jfleg) jfleg "$DATA_DIR/jfleg/dev" lower ;;
      paper-jfleg) jfleg "$DATA_DIR/jfleg/test" cased ;;
      paper-test) held_out_set test conll14 ;;
      *) held_out_set "$set" "$set" ;;
    esac
  done
  [[ "$SCALE" == paper ]] || return 0
  # the sections of BEA-valid, by proficiency (4.5.1)
  have "$GOLD/valid.levels" || into "$GOLD/valid.levels" awk 'BEGIN {
    split("A 1037 B 1290 C 1069 N 988", w); for (i = 1; i < 8; i += 2)
    for (n = 0; n < w[i + 1]; n++) print w[i] }'
}

jfleg() { # PREFIX lower|cased
  local part command=(cat)
  [[ "$2" == lower ]] && command=(sed "s/.*/\L&/")
  data_dir jfleg "jfleg/${1##*/}.src"
  for part in src ref0 ref1 ref2 ref3; do
    into "$GOLD/jfleg.$part" "${command[@]}" "$1.$part"
  done
  into "$words/jfleg.src" sed "s/ *$//" "$GOLD/jfleg.src"
}

# The first MOST sentences of a seed corpus in portions: what a part of the next steps reads.
portions() { # CORPUS
  local portions="$WORK/seeds/$1"
  have "$portions" && return
  if [[ "$SCALE" == paper ]]; then
    data_dir "$1.txt, tokenized, a sentence a line" "$1.txt"
    run ln -sf "$DATA_DIR/$1.txt" "$words/$1.txt"
  fi
  run rm -rf "$portions.tmp"
  run mkdir -p "$portions.tmp"
  # shellcheck disable=SC2016  # for the other shell to expand
  run bash -c 'head -n "$1" "$2" | split -l "$3" -d -a 5 --additional-suffix .txt - "$4"' \
    portions "$MOST" "$words/$1.txt" "$PORTION" "$portions.tmp/"
  run mv "$portions.tmp" "$portions"
}

headline "1/8 the corpora ($SCALE)"
run mkdir -p "$words"
held_out_sets
if ! have "$words/done"; then
  "$SCALE"
  into "$words/done" date
fi
for corpus in $(seed_corpora); do portions "$corpus"; done

headline "1/8 in $MERGES subwords, learned from the corrected side"
have "$WORK/bpe.codes" ||
  quietly "$WORK/prepare.log" run fairseq-ssl subwords train "$words/train.trg" -o "$WORK/bpe" \
    --kind subword-nmt --size "$MERGES" --tags "<mask>" --force
have "$WORK/dict.txt" || into "$WORK/dict.txt" fairseq-ssl subwords dictionary "$WORK/bpe"
encode() { # NAME: WORK/text/NAME of WORK/words/NAME
  have "$WORK/text/$1" || into "$WORK/text/$1" fairseq-ssl subwords encode "$WORK/bpe" "$words/$1"
}
for side in src trg; do
  encode "train.$side"
  encode "valid.$side"
done

headline "1/8 the genuine pairs, binarised; the held-out sets beside them as text"
if ! have "$DATA/genuine"; then
  run rm -rf "$DATA/genuine.tmp"
  quietly "$WORK/prepare.log" run fairseq-preprocess -s src -t trg --srcdict "$WORK/dict.txt" \
    --tgtdict "$WORK/dict.txt" --trainpref "$WORK/text/train" --validpref "$WORK/text/valid" \
    --destdir "$DATA/genuine.tmp" --workers "$(nproc)"
  run mv "$DATA/genuine.tmp" "$DATA/genuine"
fi
run mkdir -p "$DATA/held-out"
for side in src trg; do run cp "$WORK/dict.txt" "$DATA/held-out/dict.$side.txt"; done
for set in $(held_out); do
  encode "$set.src"
  run cp "$WORK/text/$set.src" "$DATA/held-out/$set.src-trg.src"
done
