# shellcheck shell=bash disable=SC2034  # the steps use them
# Settings of this recipe and their defaults for each SCALE. Set them in the environment to override
# the defaults. Sections and tables refer to the paper.
#
# SCALE     tiny   toy words: a smoke test of all steps, a minute on a CPU
#           small  OCR and Twitter words in DATA_DIR, or grammar with the output of
#                  common/learner_text.sh and a small BERT; hours on two CPU cores
#           paper  the same on all ten folds; grammar with 1.2 million sentences and BERT, on GPUs
# TASKS     ocr, spell, and above the tiny scale gec
# FOLDS     splits of ocr and spell
# KINDS     tagger: PIE; augmented: PIE trained with additional synthetic errors; transformer: the
#           sequence-to-sequence baseline (not for gec)
# FLAGS     flags appended to every fairseq-train, which override others
# TAGGER_FLAGS, TRANSFORMER_FLAGS   the same for the training runs of one kind
# DECODING_FLAGS   flags appended to fairseq-generate with a tagger
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
CHOICES="TASKS FOLDS KINDS SETS GEC_MODELS GEC_ROUNDS"
# shellcheck source=examples/common/recipe.sh
source "$HERE/../common/recipe.sh"
# shellcheck source=examples/common/launch.sh
source "$HERE/../common/launch.sh"
# shellcheck source=examples/common/grammar.sh
source "$HERE/../common/grammar.sh"
# shellcheck source=examples/common/words.sh
source "$HERE/../common/words.sh"

SCALE="${SCALE:-tiny}"
WORK="${WORK:-work/pie/$SCALE}"
TASKS="${TASKS:-ocr}"
SETS="${SETS:-valid test}"
SEED="${SEED:-1}"
EDIT_SIZE="${EDIT_SIZE:-1000}"                # M, section 3.1; 3.2 has all characters of the data
EDIT_LONGEST="${EDIT_LONGEST:-2}"             # q, as in the authors' code
BEAM="${BEAM:-5}"                             # of the transformer; not in the paper
LABEL_SMOOTHING="${LABEL_SMOOTHING:-0.1}"     # for words; not in the paper
COPIES="${COPIES:-5}"                         # for augmented: copies of each word with new errors
DECODE_BATCH="${DECODE_BATCH:-128}"           # decoding batch size in sentences, for both kinds
MEASURED="${MEASURED:-test}"                  # set on which words/s are measured
AUTOCAST="${AUTOCAST---amp}"                  # AUTOCAST= for single precision

expect SCALE "tiny small paper" "$SCALE"
prepared
case "$SCALE" in
  tiny)
    FOLDS="${FOLDS:-0}"
    LAYERS="${LAYERS:-2}" DIM="${DIM:-64}" INNER_DIM="${INNER_DIM:-128}"
    KINDS="${KINDS:-tagger augmented transformer}"
    UPDATES="${UPDATES:-200}" WARMUP="${WARMUP:-40}" LR="${LR:-0.005}"
    MAX_TOKENS="${MAX_TOKENS:-1000}" MAX_EPOCH="${MAX_EPOCH:-10}"
    TRANSFORMER_LR="${TRANSFORMER_LR:-0.005}" TRANSFORMER_WARMUP="${TRANSFORMER_WARMUP:-40}"
    TRANSFORMER_MAX_TOKENS="${TRANSFORMER_MAX_TOKENS:-1000}"
    ;;
  small) FOLDS="${FOLDS:-0 1 2 3 4}" KINDS="${KINDS:-tagger augmented transformer}" ;;
  paper) FOLDS="${FOLDS:-0 1 2 3 4 5 6 7 8 9}" KINDS="${KINDS:-tagger transformer}" ;; # of ocrpp
esac
# shellcheck disable=SC2086  # words apart
expect TASKS "ocr spell$([[ "$SCALE" == tiny ]] || echo " gec")" $TASKS
# shellcheck disable=SC2086
expect KINDS "tagger augmented transformer" $KINDS
# shellcheck disable=SC2086
expect SETS "valid test" $SETS

# Words: ocr and spell.
LAYERS="${LAYERS:-4}" DIM="${DIM:-200}" INNER_DIM="${INNER_DIM:-400}" HEADS="${HEADS:-4}" # table 12
POSITIONS="${POSITIONS:-40}"                  # table 12
COPY_WEIGHT="${COPY_WEIGHT:-1}"               # table 12
DROPOUT="${DROPOUT:-0.1}"                     # table 12, of states and of attention
LR="${LR:-0.001}" WARMUP="${WARMUP:-400}"     # not in the paper, also the next two
MAX_TOKENS="${MAX_TOKENS:-2000}"
ITERATIONS="${ITERATIONS:-1}"                 # rounds, section 3.2
ENCODER_LAYERS="${ENCODER_LAYERS:-2}"         # table 13; DECODER_LAYERS: see layers below
TRANSFORMER_DROPOUT="${TRANSFORMER_DROPOUT:-0.2}" # not in the paper, also the next three
TRANSFORMER_LR="${TRANSFORMER_LR:-0.001}" TRANSFORMER_WARMUP="${TRANSFORMER_WARMUP:-400}"
# About 2,000 updates; smaller batches for the task with a tenth of the words.
transformer_tokens() { # TASK
  echo "${TRANSFORMER_MAX_TOKENS:-$([[ "$1" == ocr ]] && echo 6000 || echo 2000)}"
}
transformer_epochs() { # TASK
  echo "${MAX_EPOCH:-$([[ "$1" == ocr ]] && echo 40 || echo 120)}"
}
decoder_layers() { # TASK: table 13 has one layer for OCR and two layers for spelling
  echo "${DECODER_LAYERS:-$([[ "$1" == ocr ]] && echo 1 || echo 2)}"
}
updates() { # TASK KIND: updates of a tagger; not in the paper
  case "$1.$2" in
    ocr.tagger) echo "${UPDATES:-2160}" ;;
    ocr.augmented) echo "${UPDATES:-4050}" ;;
    # As many epochs as the Transformer: 120 over 4,049 words, or 31,172 (paper), in batches of about 2,000 tokens.
    *) echo "${UPDATES:-$([[ "$SCALE" == paper ]] && echo 15400 || echo 2000)}" ;;
  esac
}

# Text: gec.
if [[ "$SCALE" == small ]]; then
  GEC_SETS="${GEC_SETS:-valid dev jfleg}" METRICS="${METRICS:-m2 errant}"
  GEC_UNIT="${GEC_UNIT:-word}" CLEAN="${CLEAN:-imdb.txt}"
  GEC_MODELS="${GEC_MODELS:-1 2 3}"
  CLEAN_LINES="${CLEAN_LINES:-500000}" CLEAN_STEP="${CLEAN_STEP:-300000}" REAL_LINES="${REAL_LINES:-58000}"
  GEC_EDIT_SIZE="${GEC_EDIT_SIZE:-2500}" EDIT_GROUPS="${EDIT_GROUPS:-all}"
  SYNTHETIC_EPOCHS="${SYNTHETIC_EPOCHS:-1}" GEC_EPOCHS="${GEC_EPOCHS:-4}"
  GEC_LR="${GEC_LR:-5e-4}"                    # with 1e-4, MiniLM predicted no edit
  # Its sizes are those of the encoder in BERT, with random weights those of BERT base.
  GEC_ARCH="${GEC_ARCH:-edit_tagger}"
  NOISE="${NOISE:-learner:listed=true:measured=true}" TUNE="${TUNE-yes}"
  SPELL_CHECK="${SPELL_CHECK-fairseq-ssl spelling correct --counts $(printf %q "$WORK/raw/counts.gz")}"
fi
METRICS="${METRICS:-m2}"                      # metrics of sets with gold edits: m2 and errant
CLEAN="${CLEAN:-clean.txt}"                   # file of DATA_DIR to add synthetic errors to
# word: edits of words, which the encoder in BERT splits into its own subwords; subword: edits of BERT's
# subwords, as in 3.1
GEC_UNIT="${GEC_UNIT:-subword}"
expect GEC_UNIT "word subword" "$GEC_UNIT"
# shellcheck disable=SC2086  # words apart
expect METRICS "m2 errant" $METRICS
GEC_SETS="${GEC_SETS:-$SETS}"                 # valid and other sets, DATA_DIR/SET.src, such as jfleg
TRANSFORMS="${TRANSFORMS:-english}"           # table 10; none: table 6, row 5
GEC_EDIT_SIZE="${GEC_EDIT_SIZE:-$EDIT_SIZE}"
EDIT_GROUPS="${EDIT_GROUPS:-none}"            # groups of transforms of words, not in the paper
SYNTHETIC="${SYNTHETIC-yes}"                  # empty: only real errors, table 6, row 2
GEC_INIT="${GEC_INIT-bert}"                   # empty: random weights, table 6, row 6
GEC_MODELS="${GEC_MODELS:-1 2 3 4 5}"         # models of the ensemble, section 3.1.1
NOISE="${NOISE:-learner}"                     # A.3; learner:measured uses statistics of the data
CLEAN_LINES="${CLEAN_LINES:-8865347}"         # lines for each model, as in the authors' first part
CLEAN_STEP="${CLEAN_STEP:-5000000}"           # offset in lines between the data of two models
REAL_LINES="${REAL_LINES:-1200000}"           # 3.1, for dry runs; otherwise counted
GEC_EPOCHS="${GEC_EPOCHS:-2}"                 # 3.1, on real errors
SYNTHETIC_EPOCHS="${SYNTHETIC_EPOCHS:-2}"     # 3.1
GEC_BATCH="${GEC_BATCH:-64}"                  # 3.1, sentences
gpus 1
GEC_SHARE="$(divided "$GEC_BATCH" GPUS)"      # sentences of the batch on each GPU
GEC_LR="${GEC_LR:-2e-5}"                      # 3.1
SYNTHETIC_LR="${SYNTHETIC_LR:-$GEC_LR}"
# Not in the paper: a last stage on the pairs with these levels in train.levels, such as "A B C" for W&I.
LAST_LEVELS="${LAST_LEVELS:-}"
LAST_EPOCHS="${LAST_EPOCHS:-3}" LAST_LR="${LAST_LR:-2e-4}"
LAST_LINES="${LAST_LINES:-32000}"             # for dry runs; otherwise counted
GEC_COPY_WEIGHT="${GEC_COPY_WEIGHT:-0.4}"     # table 12
GEC_ARCH="${GEC_ARCH:-edit_tagger_large}"     # 3.1; table 12 also has edit_tagger_base
GEC_ROUNDS="${GEC_ROUNDS:-4}"                 # rounds of correction; several as in table 4: "1 2 3 4"
TUNE="${TUNE:-}"                              # yes: also correct with options tuned on valid; not in the paper
SPELL_CHECK="${SPELL_CHECK:-}"                # for the SETS, from stdin to stdout; 3.1 does not name it
# Commands that split text into BERT's word pieces, and join them to text, from stdin to stdout. SOURCE
# is the text before splitting.
if [[ "$GEC_UNIT" == word ]]; then PIECES="${PIECES:-cat}" JOIN="${JOIN:-cat}"; fi
PIECES="${PIECES:-$(printf 'python %q split %q' "$HERE/wordpieces.py" "${BERT:-}")}"
# shellcheck disable=SC2016  # SOURCE is for the shell that runs it
JOIN="${JOIN:-$(printf 'python %q join %q --source "$SOURCE"' "$HERE/wordpieces.py" "${BERT:-}")}"

# Models of a task, and their training data in WORK/data.
RUNS="$WORK/runs" # RUNS/TASK.FOLD.KIND
folds() { if [[ "$1" == gec ]]; then echo "$GEC_MODELS"; else echo "$FOLDS"; fi; } # TASK
kinds() { if [[ "$1" == gec ]]; then echo tagger; else echo "$KINDS"; fi; }        # TASK
sets() { if [[ "$1" == gec ]]; then echo "$GEC_SETS"; else echo "$SETS"; fi; }      # TASK
rounds() { # TASK: numbers of rounds, with the suffix .tuned for tuned options
  if [[ "$1" != gec ]]; then echo "$ITERATIONS"; return; fi
  # shellcheck disable=SC2086  # words apart
  echo $GEC_ROUNDS ${TUNE:+$(printf '%s.tuned ' $GEC_ROUNDS)}
}
tuned() { echo "$RUNS/gec.$1.tagger/tuned.txt"; } # MODEL: its tuned options
output() { # TASK FOLD KIND SET ROUNDS: path of the corrections, without .txt
  echo "$RUNS/$1.$2.$3/$4$([[ "$1" == gec ]] && echo ".$5")"
}
learned() { # TASK FOLD KIND: training data
  if [[ "$3" == augmented ]]; then echo "$WORK/data/$1.$2.augmented"; else data "$1" "$2"; fi
}
synthetic() { echo "$RUNS/gec.$1.synthetic"; } # MODEL: grammar model trained on synthetic errors
real() { # MODEL: grammar model trained on all real errors
  if [[ -n "$LAST_LEVELS" ]]; then echo "$RUNS/gec.$1.real"; else echo "$RUNS/gec.$1.tagger"; fi
}
data() { if [[ "$1" == gec ]]; then echo "$WORK/data/gec"; else echo "$WORK/data/$1.$2"; fi; }
model() { # TASK FOLD KIND; for gec, the fold all is the ensemble
  local paths=() fold
  if [[ "$2" == all ]]; then
    for fold in $GEC_MODELS; do paths+=("$(model gec "$fold" "$3")"); done
    (IFS=: && echo "${paths[*]}")
  else
    echo "$RUNS/$1.$2.$3/final.pt"
  fi
}
