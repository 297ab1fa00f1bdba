#!/usr/bin/env bash
# Convert the official archives of learner corpora to the text that the grammar recipes read, at
# SCALE=small with DATA_DIR=WORK. The text is cased, and tokenized with spaCy as in BEA-2019.
#
# WI_LOCNESS   folder wi+locness of wi+locness_v2.1.bea19.tar.gz
# FCE          folder fce of fce_v2.1.bea19.tar.gz: m2 if it has M2 files, else json
# JFLEG        optional: checkout of github.com/keisks/jfleg
# CONLL14      optional: folder conll14st-test-data
# IMDB         optional: folder aclImdb of aclImdb_v1.tar.gz, for monolingual text
# WORK         output folder                                        (default: work/learner_text)
# SPACY_MODEL  name or folder of a spaCy pipeline, for FCE as JSON  (default: en_core_web_sm)
# VALID        sentences to hold out of the training pairs and of IMDB          (default: 2000)
# IMDB_LINES   max number of monolingual sentences                           (default: 1200000)
# REVIEWS      filter of monolingual sentences, as in fairseq-ssl filter
# JOBS         number of processes                                (default: one for each core)
#
# Output:
#   train, valid               .m2, .src and .trg: pairs of W&I and FCE, and those held out by a hash
#   train.levels, valid.levels A, B, C or fce for each pair
#   dev                        BEA-dev: .m2, .src, .trg, and .levels with A, B, C or N for each sentence
#   bea                        BEA-test: .src
#   jfleg, jfleg_test          .src, and .ref0 to .ref3
#   conll                      CoNLL-14: .m2 and .src
#   imdb.txt, imdb.valid.txt   monolingual sentences in random order, and those held out
#   learner_text.json          counts
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
JOBS="${JOBS:-$(nproc)}"
# shellcheck source=examples/common/recipe.sh
source "$HERE/recipe.sh"
# shellcheck source=examples/common/archives.sh
source "$HERE/archives.sh"
SETTINGS_FILES=("$HERE/learner_text.sh")

WORK="${WORK:-work/learner_text}"
WI_LOCNESS="${WI_LOCNESS:-}" FCE="${FCE:-}" JFLEG="${JFLEG:-}" CONLL14="${CONLL14:-}" IMDB="${IMDB:-}"
SPACY_MODEL="${SPACY_MODEL:-en_core_web_sm}"
VALID="${VALID:-2000}"
IMDB_LINES="${IMDB_LINES:-1200000}"
REVIEWS="${REVIEWS:-encoding,clean:min=3:max=80:max-word-length=30,duplicates}"
raw="$WORK/raw" log="$WORK/raw/log"

text() { run python "$HERE/learner_text.py" "$@"; } # STEP ARGUMENTS...

check_archives() {
  official WI_LOCNESS "wi+locness of wi+locness_v2.1.bea19.tar.gz" test/ABCN.test.bea19.orig \
    m2/{A,B,C}.train.gold.bea19.m2 m2/{A,B,C,N,ABCN}.dev.gold.bea19.m2
  official FCE "fce of fce_v2.1.bea19.tar.gz" "$(fce_file)"
  [[ -z "$JFLEG" ]] ||
    official JFLEG "jfleg of github.com/keisks/jfleg" "$(jfleg_file dev)".{src,ref0,ref1,ref2,ref3}
  [[ -z "$CONLL14" ]] || official CONLL14 conll14st-test-data noalt/official-2014.combined.m2
  [[ -z "$IMDB" ]] ||
    official IMDB "aclImdb of aclImdb_v1.tar.gz" train/{pos,neg,unsup} test/{pos,neg}
  stop_if_missing
}

fce_file() { # M2, or JSON, whose name differs between releases
  first_of "$FCE" m2/fce.train.gold.bea19.m2 json/{fce-train,fce.train}.json
}

fce() {
  local file
  file="$FCE/$(fce_file)"
  if [[ "$file" == *.m2 ]]; then
    into "$raw/fce.m2" cat "$file"
  else
    into "$raw/fce.m2" python "$HERE/bea_json.py" "$file" --spacy-model "$SPACY_MODEL" --jobs "$JOBS"
  fi
}

dev() {
  local level levels=()
  gold "$WORK/dev" "$WI_LOCNESS/m2/ABCN.dev.gold.bea19.m2"
  for level in A B C N; do levels+=("level=$level" "$WI_LOCNESS/m2/$level.dev.gold.bea19.m2"); done
  # shellcheck disable=SC2016  # a field of awk
  into "$WORK/dev.levels" awk '$1 == "S" { print level }' "${levels[@]}"
}

hold_out() { # SET FILE...: add the files of a set to HELD_OUT
  local file
  for file in "${@:2}"; do HELD_OUT+=("$1=$WORK/$file"); done
}
HELD_OUT=()

pairs() {
  local set
  text pairs "$WI_LOCNESS"/m2/{A,B,C}.train.gold.bea19.m2 "$raw/fce.m2" --size "$VALID" -o "$WORK" \
    --held-out "${HELD_OUT[@]}"
  for set in train valid; do
    edited "$WORK/$set" "$WORK/$set.m2"
  done
}

reviews() {
  quietly "$log" run fairseq-ssl filter "$raw/imdb.txt" --filter "$REVIEWS" --jobs "$JOBS" \
    -o "$raw/imdb.clean.txt" --force
}

headline "held-out sets"
check_archives
build "$WORK/dev.m2" dev
hold_out dev dev.src dev.trg
build "$WORK/bea.src" into "$WORK/bea.src" cat "$WI_LOCNESS/test/ABCN.test.bea19.orig"
hold_out bea bea.src
for part in dev test; do
  name="jfleg${part/dev/}" name="${name/test/_test}"
  [[ -n "$JFLEG" ]] || continue
  [[ -e "$JFLEG/$(jfleg_file "$part").src" || (-n "${DRY_RUN:-}" && "$part" == dev) ]] || continue
  build "$WORK/$name.src" jfleg "$WORK/$name" "$part"
  hold_out "$name" "$name".{src,ref0,ref1,ref2,ref3}
done
if [[ -n "$CONLL14" ]]; then
  build "$WORK/conll.m2" gold "$WORK/conll" "$CONLL14/noalt/official-2014.combined.m2" --annotator all
  hold_out conll conll.{src,trg.0,trg.1}
fi

headline "pairs"
build "$raw/fce.m2" fce
build "$WORK/train.m2" pairs
hold_out valid valid.src valid.trg

texts=("$WORK/train")
if [[ -n "$IMDB" ]]; then
  headline "monolingual text"
  build "$raw/imdb.txt" into "$raw/imdb.txt" python "$HERE/learner_text.py" sentences "$IMDB"/train/{pos,neg,unsup} \
    "$IMDB"/test/{pos,neg} --jobs "$JOBS"
  build "$raw/imdb.clean.txt" reviews
  build "$WORK/imdb.txt" text monolingual "$raw/imdb.clean.txt" --size "$VALID" --lines "$IMDB_LINES" \
    -o "$WORK/imdb" --training "$WORK"/train.{src,trg} --held-out "${HELD_OUT[@]}"
  hold_out imdb.valid imdb.valid.txt
  texts+=("$WORK/imdb")
fi

headline "sentences of held-out sets in the text"
build "$WORK/learner_text.json" into "$WORK/learner_text.md" python "$HERE/learner_text.py" report "${texts[@]}" \
  -o "$WORK/learner_text.json" --held-out "${HELD_OUT[@]}"
run cat "$WORK/learner_text.md"
