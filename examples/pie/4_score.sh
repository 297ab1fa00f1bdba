#!/usr/bin/env bash
# Print the percentage of correct words, mean and standard deviation over folds, and words/s. For gec
# print F0.5 with MaxMatch.
# shellcheck source=examples/pie/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

# Print systems NAME=FILE of a set: the spell checker alone, each model after the last round, and the
# ensemble after each round.
systems() { # SET
  local model last="${GEC_ROUNDS##* }" rounds
  [[ -z "$SPELL_CHECK" ]] || echo "spelling=$WORK/raw/$1.src"
  for rounds in $(rounds gec); do
    [[ "${rounds%.tuned}" == "$last" ]] || continue
    for model in $GEC_MODELS; do
      echo "$model${rounds#"$last"}=$(output gec "$model" tagger "$1" "$rounds").txt"
    done
  done
  for rounds in $(rounds gec); do echo "all@$rounds=$(output gec all tagger "$1" "$rounds").txt"; done
}

# Print the number of sentences that each round changed, as in the first row of table 4.
changed() { # SET
  local before="$WORK/raw/$1.src" rounds after
  for rounds in $GEC_ROUNDS; do
    after="$(output gec all tagger "$1" "$rounds").txt"
    paste -d '\n' "$before" "$after" |
      awk -v rounds="$rounds" 'NR % 2 {line = $0; next} $0 != line {n++}
        END {printf "sentences of all@%s unlike those before: %d of %d\n", rounds, n, NR / 2}'
    before="$after"
  done
}

headline "4/4 scoring"
if [[ " $TASKS " == *" gec "* ]]; then
  data_dir "test.m2, and of other sets SET.m2 or SET.ref0, SET.ref1, ..."
  for set in $GEC_SETS; do
    mapfile -t named < <(systems "$set")
    score_set "$set" "${named[@]}"
    [[ -n "${DRY_RUN:-}$OTHER_NODE" ]] || changed "$set"
  done
fi
score_words transformer tagger augmented
