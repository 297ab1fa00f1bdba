# shellcheck shell=bash
# Data and scoring of grammatical error correction. To be sourced after recipe.sh.
#
#   has_learner_text              succeed if DATA_DIR is the output of learner_text.sh
#   grammar_data WHAT FILE...     exit with an error unless DATA_DIR has all FILEs and GEC_SETS with references, the
#                                 text is tokenized, and SET.src has the sentences of SET.m2
#   check_tokens FILE...          exit with an error if a text of DATA_DIR is not tokenized
#   count_errors                  count the learner errors in DATA_DIR/train.src and .trg, if NOISE needs them
#   add_errors TEXT OUTPUT SEED   write TEXT with NOISE to OUTPUT
#   score_m2 M2 NAME=TEXT...      print precision, recall and F0.5 of each system with MaxMatch, for the
#                                 gold edits of an M2 file
#   score_set SET NAME=TEXT...    print the scores of DATA_DIR/SET.m2 by the METRICS m2 and errant, or GLEU of
#                                 DATA_DIR/SET.src, SET.ref0, ...; sets with neither are skipped
#
# SPACY_MODEL   spaCy pipeline of ERRANT (default: en_core_web_sm)

one_line METRICS

has_learner_text() { [[ -e "${DATA_DIR:-}/learner_text.json" ]]; }

grammar_data() { # WHAT FILE...
  local set line files=() sources=()
  for set in $GEC_SETS; do
    sources+=("$set.src")
    case "$set" in
      conll | test) [[ -e "${DATA_DIR:-}/$set.ref0" ]] || files+=("$set.m2") ;;
      jfleg*) files+=("$set.ref0") ;;
    esac
  done
  data_dir "$1" "${@:2}" "${sources[@]}" "${files[@]}"
  check_tokens "${@:2}" "${sources[@]}"
  [[ -z "${DRY_RUN:-}$OTHER_NODE" ]] || return 0
  for set in $GEC_SETS; do
    [[ -e "$DATA_DIR/$set.m2" ]] || continue
    line="$(_first_difference "$DATA_DIR/$set.m2" "$DATA_DIR/$set.src")"
    if [[ -n "$line" ]]; then
      echo "DATA_DIR: line $line of $DATA_DIR/$set.src is not sentence $line of $set.m2. Expected the sentences that" \
        "\`fairseq-ssl m2 to-text $set.m2 -o $set\` writes." >&2
      exit 2
    fi
  done
}

# Untokenized sentences end with a period that follows a letter.
check_tokens() { # FILE...
  local file
  [[ -z "${DRY_RUN:-}$OTHER_NODE" ]] || return 0
  for file in "$@"; do
    if head -n 10000 "$DATA_DIR/$file" | awk '/[[:alpha:]][.?!]$/ { joined++ } / [.?!]$/ { apart++ }
      END { exit joined <= apart }'; then
      echo "DATA_DIR: $DATA_DIR/$file is not tokenized. Expected the tokens of the M2 files, separated by spaces." >&2
      exit 2
    fi
  done
}

# Print the number of the first sentence of an M2 file that is not the line of the text with this number.
_first_difference() { # M2 TEXT
  awk '{ $1 = $1 }
    NR == FNR { if ($1 == "S") gold[++sentences] = substr($0, 3); next }
    $0 != gold[FNR] { print FNR; differs = 1; exit }
    END { if (!differs && FNR < sentences) print FNR + 1 }' "$1" "$2"
}

count_errors() {
  [[ "$NOISE" != *learner* ]] || build "$WORK/raw/words.json" run fairseq-ssl learner-errors \
    "$DATA_DIR/train.src" "$DATA_DIR/train.trg" -o "$WORK/raw/words.json"
}

add_errors() { # TEXT OUTPUT SEED
  local counts=()
  if [[ "$NOISE" == *learner* ]]; then counts=(--learner-errors "$WORK/raw/words.json"); fi
  run fairseq-ssl noise "$1" --method "$NOISE" --seed "$3" "${counts[@]}" -o "$2" --force
}

score_m2() { # M2 NAME=TEXT...
  run fairseq-ssl score m2 "${@:2}" --gold "$1" --jobs "$JOBS"
}

score_set() { # SET NAME=TEXT...
  data_dir "$1.src" "$1.src"
  local set="$DATA_DIR/$1" references=("$DATA_DIR/$1".ref[0-9])
  if [[ -e "$set.m2" || (-n "${DRY_RUN:-}" && ! -e "$set.src") ]]; then # a dry run without data
    [[ " $METRICS " != *" m2 "* ]] || score_m2 "$set.m2" "${@:2}"
    [[ " $METRICS " != *" errant "* ]] || run fairseq-ssl score errant "${@:2}" --gold "$set.m2" \
      --spacy-model "${SPACY_MODEL:-en_core_web_sm}"
  elif [[ -e "${references[0]}" ]]; then # JFLEG is scored by GLEU
    run fairseq-ssl score gleu "${@:2}" --source "$set.src" "${references[@]/#/--reference=}"
  fi
}
