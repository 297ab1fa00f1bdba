#!/usr/bin/env bash
# Convert the official archives of learner English to the folders conll and jfleg of DATA_DIR, which PoDA
# reads at SCALE=paper. Their licenses do not allow redistribution: get them from the pages in RESULTS.md.
#
# LANG8    folder with entries.train (lang-8-en-1.0), lang8.train.auto.bea19.m2 (lang8.bea19) or
#          lang-8-20111007-L1-v2.dat (lang-8-20111007-2.0); the first of them is read
# NUCLE    folder release3.2 or release3.3
# FCE      folder fce of fce_v2.1.bea19.tar.gz
# CONLL13  folder release2.3.1 of the test data of CoNLL-2013
# CONLL14  folder conll14st-test-data
# JFLEG    checkout of github.com/keisks/jfleg
# WORK     output folder, the DATA_DIR of the recipe                    (default: work/poda/data)
# CONLL13_M2, CONLL14_M2   gold edits in these folders
#                          (default: original/data/official-preprocessed.m2, noalt/official-2014.combined.m2)
#
# Steps, with the section of the paper; "ours" is not in the paper:
#   Lang-8   entries.train and .dat are tokenized by NLTK (3.3), with " in place of `` and '' as in the gold
#            edits (ours); the M2 file is already tokenized with spaCy. Each correction of a sentence is a pair
#            (ours), and pairs without edits are removed (3.3)
#   NUCLE    all sentences (3.3), tokenized by NLTK as released
#   FCE      all sentences (3.3) of its three parts (ours), tokenized with spaCy as released
#   train    the three corpora, for both tasks; pairs with an empty side are removed (ours)
#   valid    CoNLL-2013 for conll, JFLEG dev for jfleg (3.3)
#   test     CoNLL-2014, JFLEG test (3.3). The target side is the first annotator or reference (ours)
# The paper also corrects simple spelling errors first, with a program that is not public. This is left out.
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=examples/common/recipe.sh
source "$HERE/../../common/recipe.sh"
# shellcheck source=examples/common/archives.sh
source "$HERE/../../common/archives.sh"
SETTINGS_FILES=("$HERE/grammar.sh")

WORK="${WORK:-work/poda/data}"
LANG8="${LANG8:-}" NUCLE="${NUCLE:-}" FCE="${FCE:-}" CONLL13="${CONLL13:-}" CONLL14="${CONLL14:-}" JFLEG="${JFLEG:-}"
CONLL13_M2="${CONLL13_M2:-original/data/official-preprocessed.m2}"
CONLL14_M2="${CONLL14_M2:-noalt/official-2014.combined.m2}"
raw="$WORK/raw"
lang8="$LANG8/$(first_of "$LANG8" entries.train lang8.train.auto.bea19.m2 lang-8-20111007-L1-v2.dat)"
nucle="$NUCLE/$(first_of "$NUCLE" data/conll14st-preprocessed.m2 bea2019/nucle.train.gold.bea19.m2)"

archives() { run python "$HERE/archives.py" "$@"; } # COMMAND ARGUMENTS...

training_pairs() {
  local part
  edited "$raw/nucle" "$nucle" --drop-overlaps
  for part in train dev test; do edited "$raw/fce.$part" "$FCE/m2/fce.$part.gold.bea19.m2" --drop-overlaps; done
  archives join "$raw"/{lang8,nucle,fce.train,fce.dev,fce.test} -o "$WORK/conll/train"
}

jfleg_pairs() {
  local side set
  for side in src trg; do into "$WORK/jfleg/train.$side" cat "$WORK/conll/train.$side"; done
  jfleg "$WORK/jfleg/valid" dev
  jfleg "$WORK/jfleg/test" test
  for set in valid test; do into "$WORK/jfleg/$set.trg" cat "$WORK/jfleg/$set.ref0"; done
}

official LANG8 "lang-8-en-1.0, lang8.bea19 or lang-8-20111007-2.0" "${lang8#"$LANG8/"}"
official NUCLE "release3.2 or release3.3" "${nucle#"$NUCLE/"}"
official FCE "fce of fce_v2.1.bea19.tar.gz" m2/fce.{train,dev,test}.gold.bea19.m2
official CONLL13 release2.3.1 "$CONLL13_M2"
official CONLL14 conll14st-test-data "$CONLL14_M2"
official JFLEG "jfleg of github.com/keisks/jfleg" {dev/dev,test/test}.{src,ref0,ref1,ref2,ref3}
stop_if_missing

headline "training pairs"
build "$raw/lang8.src" archives lang8 "$lang8" -o "$raw/lang8"
build "$WORK/conll/train.src" training_pairs

headline "validation and test sets"
build "$WORK/conll/valid.m2" gold "$WORK/conll/valid" "$CONLL13/$CONLL13_M2"
build "$WORK/conll/test.m2" gold "$WORK/conll/test" "$CONLL14/$CONLL14_M2"
build "$WORK/jfleg" jfleg_pairs

count_lines "Lang-8" "$raw/lang8.src" 1,097,274
count_lines "NUCLE" "$raw/nucle.src" 57,113
count_lines "CLC FCE" "$raw"/fce.{train,dev,test}.src 32,073
count_lines "CoNLL-2013" "$WORK/conll/valid.src" 1,381
count_lines "JFLEG valid" "$WORK/jfleg/valid.src" 754
count_lines "CoNLL-2014" "$WORK/conll/test.src" 1,312
count_lines "JFLEG test" "$WORK/jfleg/test.src" 747
