# shellcheck shell=bash disable=SC2034  # the steps use them
# Settings of this recipe and their defaults for each SCALE. Set them in the environment to override
# the defaults. Values missing in the slides are from the author's code and results.
#
# SCALE     tiny   few digits: a smoke test of all steps, minutes on a CPU
#           small  the slides' experiment with digits, unchanged; memorization and translation with
#                  Multi30k in DATA_DIR; hours on two CPU cores
#           paper  Europarl and WMT, German to English, GPUs
# TASKS     digits    numbers of 2 or 3 digits in words to digits: parallel and monolingual data
#           memorize  memorized pairs: BLEU on the training set
#           text      few pairs and much monolingual data; ByteNet with pairs only
# FLAGS     flags appended to every fairseq-train, which override others
# DECODING_FLAGS   flags appended to fairseq-generate
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
CHOICES="TASKS KINDS SEEDS ARCHS LABELED UNLABELED WEIGHTS SETS MEMORIZE_ARCHS BYTENET_ARCHS"
# shellcheck source=examples/common/recipe.sh
source "$HERE/../common/recipe.sh"
# shellcheck source=examples/common/launch.sh
source "$HERE/../common/launch.sh"

SCALE="${SCALE:-tiny}"
WORK="${WORK:-work/bytenet/$SCALE}"
SOURCE="${SOURCE:-de}" TARGET="${TARGET:-en}"  # for memorize and text
expect SCALE "tiny small paper" "$SCALE"
prepared
case "$SCALE" in
  tiny)
    TASKS="${TASKS:-digits}" LABELED="${LABELED:-16}" UNLABELED="${UNLABELED:-0 16}"
    WEIGHTS="${WEIGHTS:-0.2}" SEEDS="${SEEDS:-1}" EPOCHS="${EPOCHS:-3}" TEST="${TEST:-32}"
    DECODING_FLAGS="${DECODING_FLAGS---max-len-b 10}" # barely trained models do not generate </s>
    ;;
  small)
    TASKS="${TASKS:-digits memorize text}" SEEDS="${SEEDS:-1 2 3 4 5}"
    MEMORIZE_ARCHS="${MEMORIZE_ARCHS:-bytenet}" MEMORIZE_DIM="${MEMORIZE_DIM:-128}"
    MEMORIZE_LR="${MEMORIZE_LR:-1e-3}"
    MEMORIZE_EPOCHS="${MEMORIZE_EPOCHS:-50}" MEMORIZE_ANNEAL="${MEMORIZE_ANNEAL-36}"
    PAIRS="${PAIRS:-2000}" MONO="${MONO:-20000}"
    VOCABULARY="${VOCABULARY:-2000}" TEXT_ARCH="${TEXT_ARCH:-transformer_tiny}"
    TEXT_FLAGS="${TEXT_FLAGS---encoder-embed-dim 128 --decoder-embed-dim 128
      --encoder-ffn-embed-dim 256 --decoder-ffn-embed-dim 256 --encoder-attention-heads 4
      --decoder-attention-heads 4 --encoder-normalize-before --decoder-normalize-before
      --dropout 0.3 --share-all-embeddings}"
    TEXT_LR="${TEXT_LR:-2e-3}" WARMUP="${WARMUP:-400}" MAX_TOKENS="${MAX_TOKENS:-1000}"
    UPDATES="${UPDATES:-2000}" START="${START:-1000}"
    ;;
  paper)
    TASKS="${TASKS:-memorize text}" SEEDS="${SEEDS:-1 2 3}"
    KINDS="${KINDS:-bytenet supervised backtranslation reconstruction}"
    MEMORIZE_BATCH="${MEMORIZE_BATCH:-64}" MEMORIZE_SHARE="${MEMORIZE_SHARE:-16}" # 4 x 16 in the author's code
    ;;
esac
# shellcheck disable=SC2086  # split into words
expect TASKS "digits memorize text" $TASKS
gpus 1

# Digits. As in the author's code: the grid, d = 20, batch size 8, Adam with 1e-3, 300 epochs, greedy
# search.
ARCHS="${ARCHS:-bytenet_digits}"              # any architectures; ARCH_FLAGS are added
ARCH_FLAGS="${ARCH_FLAGS:-}"
LABELED="${LABELED:-64 128 256}"
UNLABELED="${UNLABELED:-0 512 1024}"
WEIGHTS="${WEIGHTS:-0.01 0.1 0.2}"            # lambda
EPOCHS="${EPOCHS:-300}" BATCH="${BATCH:-8}" LR="${LR:-0.001}" BEAM="${BEAM:-5}"
TEST="${TEST:-1024}"
SETS="${SETS:-final test unseen}"             # final: set of the published results; test: set
# monitored in training; unseen: strings that are not in any training text
# shellcheck disable=SC2086
expect SETS "final test unseen" $SETS
for amount in $UNLABELED; do
  if [[ ! "$amount" =~ ^[0-9]+$ ]] || ((amount > 1024)); then
    echo "UNLABELED has '$amount'. Expected 0 to 1024, since \`unseen\` excludes 1024 strings." >&2
    exit 2
  fi
done
for weight in $WEIGHTS; do
  if [[ ! "$weight" =~ ^[0-9]*\.?[0-9]+$ ]]; then # names of runs have a hyphen after the weight
    echo "WEIGHTS has '$weight'. Expected numbers without exponent, such as 0.001." >&2
    exit 2
  fi
done

# Memorization of 3,003 pairs of newstest2014 in characters, 120 epochs. The four variants of the slides
# are also compared in speed, in the table of step 4.
MEMORIZE_ARCHS="${MEMORIZE_ARCHS:-bytenet bytenet_simplified bytenet_no_norm bytenet_selu}"
MEMORIZE_DIM="${MEMORIZE_DIM:-}"              # d, halved for bytenet_simplified (default: 400)
MEMORIZE_FLAGS="${MEMORIZE_FLAGS:-}"          # flags added to these training runs
MEMORIZE_PAIRS="${MEMORIZE_PAIRS:-3003}" MEMORIZE_EPOCHS="${MEMORIZE_EPOCHS:-120}"
MEMORIZE_LR="${MEMORIZE_LR:-3e-4}" MEMORIZE_BATCH="${MEMORIZE_BATCH:-16}"
MEMORIZE_ANNEAL="${MEMORIZE_ANNEAL:-}"        # from this epoch the learning rate is multiplied by 0.8 in each

# Text: a Transformer in place of ByteNet, as concluded in the slides; and `bytenet`, supervised from
# German to English on characters, as long as the author's: 13 epochs on 4 GPUs, 16 pairs each.
KINDS="${KINDS:-supervised backtranslation reconstruction}"
# shellcheck disable=SC2086
expect KINDS "bytenet supervised backtranslation reconstruction" $KINDS
PAIRS="${PAIRS:-1920209}" MONO="${MONO:-10000000}" VOCABULARY="${VOCABULARY:-32000}"
TEXT_ARCH="${TEXT_ARCH:-transformer}"
# Pairs with longer sentences are skipped. Without --share-all-embeddings, the embeddings are separate.
TEXT_FLAGS="${TEXT_FLAGS---share-all-embeddings --max-source-positions 1000 --max-target-positions 1000}"
TEXT_LR="${TEXT_LR:-5e-4}" WARMUP="${WARMUP:-1000}" MAX_TOKENS="${MAX_TOKENS:-4000}"
UPDATES="${UPDATES:-100000}"
START="${START:-$((UPDATES / 3))}"            # first update with reconstruction
TEXT_WEIGHT="${TEXT_WEIGHT:-0.1}" TEXT_BEAM="${TEXT_BEAM:-4}"
LABEL_SMOOTHING="${LABEL_SMOOTHING:-0.1}"

BYTENET_ARCHS="${BYTENET_ARCHS:-bytenet}"      # variants of the kind bytenet
BYTENET_LR="${BYTENET_LR:-3e-4}" BYTENET_EPOCHS="${BYTENET_EPOCHS:-13}"
BYTENET_BATCH="${BYTENET_BATCH:-64}" BYTENET_SHARE="${BYTENET_SHARE:-16}" # pairs of an update, on a GPU
BYTENET_LONGEST="${BYTENET_LONGEST:-500}"     # max training length in characters, with </s>
BYTENET_BEAM="${BYTENET_BEAM:-12}"            # with scores that are not divided by the length
BYTENET_FLAGS="${BYTENET_FLAGS:-}"            # such as --bytenet-dim 128 (default: d is 400)

# Parts of the batch on each GPU
DIGITS_SHARE="$BATCH" TEXT_SHARE="$MAX_TOKENS" MEMORIZE_UPDATE_FREQ=1 BYTENET_UPDATE_FREQ=1
for task in $TASKS; do
  case "$task" in
    digits) DIGITS_SHARE="$(divided "$BATCH" GPUS)" ;;
    memorize)
      MEMORIZE_SHARE="${MEMORIZE_SHARE:-$(divided "$MEMORIZE_BATCH" GPUS)}"
      MEMORIZE_UPDATE_FREQ="$(divided "$MEMORIZE_BATCH" GPUS MEMORIZE_SHARE)"
      ;;
    text)
      TEXT_SHARE="$(divided "$MAX_TOKENS" GPUS)"
      # A sentence that is longer than a batch is an error in fairseq.
      if [[ "$SCALE" == paper && "$KINDS" != bytenet ]] && ((TEXT_SHARE < 1000)); then
        echo "GPUS is $GPUS, so each GPU reads $TEXT_SHARE tokens of a batch, but sentences have up to 1,000." \
          "Expected $((MAX_TOKENS / 1000)) GPUs or fewer for the task text." >&2
        exit 2
      fi
      [[ " $KINDS " != *" bytenet "* ]] || BYTENET_UPDATE_FREQ="$(divided "$BYTENET_BATCH" GPUS BYTENET_SHARE)"
      ;;
  esac
done

# Print an interval in epochs for saving checkpoints that includes the last epoch.
save_interval() { # EPOCHS
  local every
  for every in 50 10 1; do
    if (($1 % every == 0)); then echo "$every" && return; fi
  done
}

# Print the folder names, without the seed, of the models of a kind of the task text.
text_models() { # KIND
  if [[ "$1" == bytenet ]]; then echo "$BYTENET_ARCHS"; else echo "$1"; fi
}

DATA="$WORK/data" RUNS="$WORK/runs" FIGURES="$WORK/figures"
digit_data() { echo "$DATA/digits.$1.$2"; } # LABELED SEED
digit_mono() { echo "$(digit_data "$1" "$2").mono.$3"; } # LABELED SEED AMOUNT
# Print the settings of all digit runs, one per line: ARCH LABELED UNLABELED WEIGHT SEED. Without
# monolingual text the weight lambda is 0.
digit_runs() {
  local arch labeled unlabeled weight seed
  for arch in $ARCHS; do
    for labeled in $LABELED; do
      for unlabeled in $UNLABELED; do
        for weight in $([[ "$unlabeled" == 0 ]] && echo 0 || echo "$WEIGHTS"); do
          for seed in $SEEDS; do echo "$arch $labeled $unlabeled $weight $seed"; done
        done
      done
    done
  done
}
digit_split() { # SET: name of the split for fairseq-preprocess
  case "$1" in
    test) echo test ;;
    unseen) echo test1 ;;
    final) echo test2 ;;
  esac
}
digit_run() { echo "$RUNS/digits/$1-$2-$3-$4-$5"; } # ARCH LABELED UNLABELED WEIGHT SEED
