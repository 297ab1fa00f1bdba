# shellcheck shell=bash disable=SC2034  # the steps use them
# Settings of this recipe and their defaults for each SCALE. Set them in the environment to override
# the defaults. Sections and tables refer to the paper.
#
# SCALE     tiny   toy words: a smoke test of all steps, a minute on a CPU
#           small  OCR and Twitter words in DATA_DIR, or grammar with the output of
#                  common/learner_text.sh; hours on two CPU cores
#           paper  the same on all ten folds; grammar with 60 million pairs, on eight GPUs
# TASKS     ocr, spell, and above the tiny scale gec
# FOLDS     splits of ocr and spell
# KINDS     transformer; pbd; augmented: pbd trained with additional synthetic errors, as in PIE's
#           recipe; no_future: pbd without the source as pseudo future; unshared: pbd with separate
#           layers for encoder and decoder (table 2). Only for gec: pretrained_transformer and
#           pretrained_pbd, trained on synthetic pairs first (table 1); all others are trained on real
#           pairs only. Only on request and not in the paper: aligned, pbd with
#           --pseudo-future-alignment prefix; augmented_transformer, augmented_aligned
# TRAIN_WORDS  number of training words, the first ones of a fold (default: all)
# DEPTHS    layers of the encoder, and of the decoder
# FLAGS     flags appended to every fairseq-train, which override others
# DECODING_FLAGS   flags appended to fairseq-generate
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
CHOICES="TASKS FOLDS KINDS DEPTHS GEC_DEPTHS SETS GEC_SETS MEASURED"
# shellcheck source=examples/common/recipe.sh
source "$HERE/../common/recipe.sh"
# shellcheck source=examples/common/launch.sh
source "$HERE/../common/launch.sh"
# shellcheck source=examples/common/grammar.sh
source "$HERE/../common/grammar.sh"
# shellcheck source=examples/common/words.sh
source "$HERE/../common/words.sh"

SCALE="${SCALE:-tiny}"
WORK="${WORK:-work/pseudo_bidirectional/$SCALE}"
TASKS="${TASKS:-ocr}"
KINDS="${KINDS:-transformer pbd augmented no_future unshared pretrained_transformer pretrained_pbd}"
SETS="${SETS:-valid test}"
SEED="${SEED:-1}"
LABEL_SMOOTHING="${LABEL_SMOOTHING:-0.1}"     # not in the paper
CLIP_NORM="${CLIP_NORM:-1}"                   # not in the paper
DECODE_BATCH="${DECODE_BATCH:-128}"           # decoding batch size in sentences
MEASURED="${MEASURED:-test}"                  # set on which words/s are measured

expect SCALE "tiny small paper" "$SCALE"
prepared
case "$SCALE" in
  tiny)
    FOLDS="${FOLDS:-0}" DEPTHS="${DEPTHS:-2}"
    DIM="${DIM:-64}" INNER_DIM="${INNER_DIM:-128}"
    LR="${LR:-0.005}" WARMUP="${WARMUP:-40}" MAX_TOKENS="${MAX_TOKENS:-1000}"
    UPDATES="${UPDATES:-120}"
    ;;
  small) FOLDS="${FOLDS:-0 1 2 3 4}" ;;
  paper) FOLDS="${FOLDS:-0 1 2 3 4 5 6 7 8 9}" ;; # of ocrpp
esac
# shellcheck disable=SC2086  # words apart
expect TASKS "ocr spell$([[ "$SCALE" == tiny ]] || echo " gec")" $TASKS
# shellcheck disable=SC2086
expect KINDS "transformer pbd augmented no_future unshared aligned augmented_transformer augmented_aligned \
pretrained_transformer pretrained_pbd" $KINDS
if [[ -n "${PRETRAIN:-}" ]]; then
  echo "PRETRAIN is not a setting. The KINDS pretrained_transformer and pretrained_pbd are pre-trained." >&2
  exit 2
fi
# shellcheck disable=SC2086
expect SETS "valid test" $SETS

# Words: ocr and spell, section 4.2. The paper reports only the sizes of these models.
DEPTHS="${DEPTHS:-2 4}"
DIM="${DIM:-200}" INNER_DIM="${INNER_DIM:-400}" HEADS="${HEADS:-4}"
LR="${LR:-0.002}" WARMUP="${WARMUP:-300}"     # to 0 at the last update
MAX_TOKENS="${MAX_TOKENS:-2000}"              # of a batch
DROPOUT="${DROPOUT:-0.1}"                     # selected on dev, see README
updates() { # TASK KIND: 20 and 80 epochs; for augmented 10 and 40 epochs over 1 + COPIES times as many words
  local number="${UPDATES:-$([[ "$1" == ocr ]] && echo 2500 || echo 700)}"
  if [[ "$2" == augmented* ]]; then number="$((number * 3))"; fi
  echo "$number"
}
COPIES="${COPIES:-5}"                         # copies of each word with new errors; not in the paper
TRAIN_WORDS="${TRAIN_WORDS:-}"
BEAM="${BEAM:-5}"

# Text: gec, section 4.1.
if [[ "$SCALE" == small ]]; then              # sizes and schedule: not tuned
  GEC_DEPTHS="${GEC_DEPTHS:-3}" GEC_SETS="${GEC_SETS:-valid dev jfleg}" METRICS="${METRICS:-m2 errant}"
  GEC_DIM="${GEC_DIM:-256}" GEC_INNER_DIM="${GEC_INNER_DIM:-1024}" GEC_HEADS="${GEC_HEADS:-4}"
  VOCABULARY="${VOCABULARY:-8000}" GEC_BEAM="${GEC_BEAM:-5}"
  GEC_BATCH_TOKENS="${GEC_BATCH_TOKENS:-${GEC_MAX_TOKENS:-5120}}"
  CLEAN="${CLEAN:-imdb.txt}" NOISE="${NOISE:-learner:listed=true:measured=true}" BACKTRANSLATED="${BACKTRANSLATED-}"
  PRETRAIN_LR="${PRETRAIN_LR:-1e-3}" PRETRAIN_WARMUP="${PRETRAIN_WARMUP:-1000}"
  PRETRAIN_UPDATES="${PRETRAIN_UPDATES:-10000}"
  GEC_LR="${GEC_LR:-1e-3}" GEC_WARMUP="${GEC_WARMUP:-400}" GEC_UPDATES="${GEC_UPDATES:-4000}"
  TUNING_LR="${TUNING_LR:-5e-4}" TUNING_WARMUP="${TUNING_WARMUP:-400}" TUNING_UPDATES="${TUNING_UPDATES:-4000}"
fi
METRICS="${METRICS:-m2}"                      # metrics of sets with gold edits: m2 and errant
# shellcheck disable=SC2086  # words apart
expect METRICS "m2 errant" $METRICS
CLEAN="${CLEAN:-news.txt}"                    # file of DATA_DIR to add NOISE to
CLEAN_LINES="${CLEAN_LINES:-30000000}"        # its first lines
BACKTRANSLATED="${BACKTRANSLATED-backtranslated}" # more pairs, DATA_DIR/NAME.src and .trg, or none
GEC_DEPTHS="${GEC_DEPTHS:-6 12}"
GEC_SETS="${GEC_SETS:-bea conll}"             # DATA_DIR/SET.src, with SET.m2 or SET.ref0, SET.ref1, ...
VOCABULARY="${VOCABULARY:-30000}"             # joint byte-pair encoding
NOISE="${NOISE:-shuffle}"                     # errors in CLEAN; not in the paper
if [[ " $TASKS " == *" gec "* ]]; then
  gpus "$([[ "$SCALE" == small ]] && echo 1 || echo 8)"
  GEC_BATCH_TOKENS="${GEC_BATCH_TOKENS:-40960}" # 8 GPUs with 5120
  if [[ "$SCALE" == small ]]; then GEC_MAX_TOKENS="${GEC_MAX_TOKENS:-$((GEC_BATCH_TOKENS / GPUS))}"; fi
  GEC_MAX_TOKENS="${GEC_MAX_TOKENS:-5120}"    # tokens of a batch on each GPU
  GEC_UPDATE_FREQ="$(divided "$GEC_BATCH_TOKENS" GPUS GEC_MAX_TOKENS)"
fi
PRETRAIN_LR="${PRETRAIN_LR:-5e-4}" PRETRAIN_WARMUP="${PRETRAIN_WARMUP:-8000}"
PRETRAIN_UPDATES="${PRETRAIN_UPDATES:-200000}"
GEC_DROPOUT="${GEC_DROPOUT:-0.2}"
TUNING_LR="${TUNING_LR:-1e-4}" TUNING_WARMUP="${TUNING_WARMUP:-4000}" TUNING_UPDATES="${TUNING_UPDATES:-50000}"
# Training on real pairs only. The paper has no schedule for it: here it is that of pre-training, for as many
# updates as fine-tuning.
GEC_LR="${GEC_LR:-$PRETRAIN_LR}" GEC_WARMUP="${GEC_WARMUP:-$PRETRAIN_WARMUP}" GEC_UPDATES="${GEC_UPDATES:-50000}"
GEC_BEAM="${GEC_BEAM:-12}"

RUNS="$WORK/runs" # RUNS/TASK.FOLD.KIND-LAYERS
folds() { if [[ "$1" == gec ]]; then echo all; else echo "$FOLDS"; fi; }             # TASK
depths() { if [[ "$1" == gec ]]; then echo "$GEC_DEPTHS"; else echo "$DEPTHS"; fi; } # TASK
kinds() { # TASK
  local kind
  for kind in $KINDS; do
    case "$1.$kind" in
      gec.augmented* | ocr.pretrained_* | spell.pretrained_*) ;;
      *) echo "$kind" ;;
    esac
  done
}
pretrains() { [[ " $KINDS" == *" pretrained_"* ]]; }
data() { if [[ "$1" == gec ]]; then echo "$WORK/data/gec"; else echo "$WORK/data/$1.$2"; fi; }
learned() { # TASK FOLD KIND: training data
  if [[ "$3" == augmented* ]]; then echo "$(data "$1" "$2").augmented"; else data "$1" "$2"; fi
}
model() { echo "$RUNS/$1.$2.$3-$4/final.pt"; } # TASK FOLD KIND LAYERS
models() { # TASK: all kinds with all depths
  local kind depth
  for depth in $(depths "$1"); do
    for kind in $(kinds "$1"); do echo "$kind-$depth"; done
  done
}

# Set ARCH to the flags of a model. Small models use pre-normalization, as in the recipe of PIE.
architecture() { # TASK KIND LAYERS
  local sizes=()
  local DIM="$DIM" INNER_DIM="$INNER_DIM" HEADS="$HEADS"
  if [[ "$1$SCALE" == gecsmall ]]; then DIM="$GEC_DIM" INNER_DIM="$GEC_INNER_DIM" HEADS="$GEC_HEADS"; fi
  local kind="$2"
  kind="${kind#augmented_}" kind="${kind#pretrained_}"
  if [[ "$kind" == transformer ]]; then
    if [[ "$1$SCALE" == gecpaper ]]; then
      ARCH=(--arch transformer_vaswani_wmt_en_de_big)
    else
      ARCH=(--arch transformer --encoder-normalize-before --decoder-normalize-before)
      sizes=(--encoder-embed-dim "$DIM" --encoder-ffn-embed-dim "$INNER_DIM"
        --encoder-attention-heads "$HEADS" --decoder-embed-dim "$DIM"
        --decoder-ffn-embed-dim "$INNER_DIM" --decoder-attention-heads "$HEADS")
    fi
    ARCH+=(--share-all-embeddings --encoder-layers "$3" --decoder-layers "$3" "${sizes[@]}")
    return
  fi
  if [[ "$1$SCALE" == gecpaper ]]; then
    ARCH=(--arch pseudo_bidirectional_transformer_big)
  else
    ARCH=(--arch pseudo_bidirectional_transformer_small --encoder-normalize-before)
    sizes=(--encoder-embed-dim "$DIM" --encoder-ffn-embed-dim "$INNER_DIM"
      --encoder-attention-heads "$HEADS")
  fi
  ARCH+=(--encoder-layers "$3" "${sizes[@]}")
  case "$kind" in
    aligned) ARCH+=(--pseudo-future-alignment prefix) ;;
    no_future) ARCH+=(--no-pseudo-future) ;;
    unshared) ARCH+=(--no-share-encoder-decoder) ;;
  esac
}
