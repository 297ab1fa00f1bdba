# shellcheck shell=bash disable=SC2034  # the steps use them
# Every setting of this recipe. All can be given in the environment; what is set here is the
# default of the SCALE. What the slides do not tell is from their author's code and results.
#
# SCALE     tiny   few digits, a CPU, minutes: shows that all steps work
#           small  the slides' experiment with digits, as it was; memorising, and captions of Multi30k
#                  in DATA_DIR; two CPU cores, hours
#           paper  Europarl and WMT, German to English, GPUs
# TASKS     digits    words of 2 or 3 digits to digits: pairs, and words alone
#           memorise  pairs learned by heart: BLEU on what was trained on
#           text      few pairs and much text without translation; ByteNet on the pairs alone
# FLAGS, DECODING_FLAGS   more flags of fairseq-train and fairseq-generate; they come last
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=examples/common/recipe.sh
source "$HERE/../common/recipe.sh"
# shellcheck source=examples/common/launch.sh
source "$HERE/../common/launch.sh"

CHOICES="TASKS KINDS SEEDS ARCHS LABELED UNLABELED WEIGHTS SETS MEMORISE_ARCHS BYTENET_ARCHS"
SCALE="${SCALE:-tiny}"
WORK="${WORK:-work/bytenet/$SCALE}"
SOURCE="${SOURCE:-de}" TARGET="${TARGET:-en}"  # of memorise and text
expect SCALE "tiny small paper" "$SCALE"
prepared
case "$SCALE" in
  tiny)
    TASKS="${TASKS:-digits}" LABELED="${LABELED:-16}" UNLABELED="${UNLABELED:-0 16}"
    WEIGHTS="${WEIGHTS:-0.2}" SEEDS="${SEEDS:-1}" EPOCHS="${EPOCHS:-3}" TEST="${TEST:-32}"
    ;;
  small)
    TASKS="${TASKS:-digits memorise text}" SEEDS="${SEEDS:-1 2 3 4 5}"
    MEMORISE_ARCHS="${MEMORISE_ARCHS:-bytenet}" MEMORISE_DIM="${MEMORISE_DIM:-128}"
    MEMORISE_LR="${MEMORISE_LR:-1e-3}"
    MEMORISE_EPOCHS="${MEMORISE_EPOCHS:-50}" MEMORISE_ANNEAL="${MEMORISE_ANNEAL-36}"
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
    TASKS="${TASKS:-memorise text}" SEEDS="${SEEDS:-1 2 3}"
    KINDS="${KINDS:-bytenet supervised backtranslation reconstruction}"
    ;;
esac
# shellcheck disable=SC2086  # words apart
expect TASKS "digits memorise text" $TASKS

# Digits. The grid, d = 20, batches of 8, Adam at 1e-3, 300 epochs, greedy search: the author's.
ARCHS="${ARCHS:-bytenet_digits}"              # of any kind; their flags in ARCH_FLAGS
ARCH_FLAGS="${ARCH_FLAGS:-}"
LABELED="${LABELED:-64 128 256}"
UNLABELED="${UNLABELED:-0 512 1024}"
WEIGHTS="${WEIGHTS:-0.01 0.1 0.2}"            # lambda
EPOCHS="${EPOCHS:-300}" BATCH="${BATCH:-8}" LR="${LR:-0.001}" BEAM="${BEAM:-5}"
TEST="${TEST:-1024}"
SETS="${SETS:-final test unseen}"             # final: what his numbers are of; test: what he looked
# at in training; unseen: strings that are in no training text
# shellcheck disable=SC2086
expect SETS "final test unseen" $SETS
for amount in $UNLABELED; do
  if [[ ! "$amount" =~ ^[0-9]+$ ]] || ((amount > 1024)); then
    echo "UNLABELED has '$amount'; expected 0 to 1024, for \`unseen\` knows of no more." >&2
    exit 2
  fi
done

# Memorising: 3,003 pairs of newstest2014, 120 epochs; characters. The slides' four variants, whose
# speeds are in the table of step 4.
MEMORISE_ARCHS="${MEMORISE_ARCHS:-bytenet bytenet_simplified bytenet_no_norm bytenet_selu}"
MEMORISE_DIM="${MEMORISE_DIM:-}"              # d; half of it for bytenet_simplified. Without: 400
MEMORISE_FLAGS="${MEMORISE_FLAGS:-}"          # more flags of these trainings
MEMORISE_PAIRS="${MEMORISE_PAIRS:-3003}" MEMORISE_EPOCHS="${MEMORISE_EPOCHS:-120}"
MEMORISE_LR="${MEMORISE_LR:-3e-4}" MEMORISE_BATCH="${MEMORISE_BATCH:-16}"
MEMORISE_ANNEAL="${MEMORISE_ANNEAL:-}"        # from this epoch on the rate falls by a fifth in each

# Text: the slides' conclusion, a Transformer in the place of ByteNet; and `bytenet`, supervised from
# German to English on characters, for as long as the author's: 13 epochs on 4 GPUs, 16 pairs each.
KINDS="${KINDS:-supervised backtranslation reconstruction}"
# shellcheck disable=SC2086
expect KINDS "bytenet supervised backtranslation reconstruction" $KINDS
PAIRS="${PAIRS:-1920209}" MONO="${MONO:-10000000}" VOCABULARY="${VOCABULARY:-32000}"
TEXT_ARCH="${TEXT_ARCH:-transformer}"
TEXT_FLAGS="${TEXT_FLAGS---share-all-embeddings}" # TEXT_FLAGS= for one that shares none
TEXT_LR="${TEXT_LR:-5e-4}" WARMUP="${WARMUP:-1000}" MAX_TOKENS="${MAX_TOKENS:-4000}"
UPDATES="${UPDATES:-100000}"
START="${START:-$((UPDATES / 3))}"            # reconstruction begins here
TEXT_WEIGHT="${TEXT_WEIGHT:-0.1}" TEXT_BEAM="${TEXT_BEAM:-4}"
LABEL_SMOOTHING="${LABEL_SMOOTHING:-0.1}"

BYTENET_ARCHS="${BYTENET_ARCHS:-bytenet}"      # variants trained for the kind bytenet
BYTENET_LR="${BYTENET_LR:-3e-4}" BYTENET_EPOCHS="${BYTENET_EPOCHS:-13}"
BYTENET_BATCH="${BYTENET_BATCH:-16}" BYTENET_UPDATE_FREQ="${BYTENET_UPDATE_FREQ:-4}" # 1 on 4 GPUs
BYTENET_LONGEST="${BYTENET_LONGEST:-500}"     # characters of a sentence to train on, its end too
BYTENET_FLAGS="${BYTENET_FLAGS:-}"            # as --bytenet-dim 128; without, d is 400

# How often to save: so that the last epoch is among those saved.
save_interval() { # EPOCHS
  local every
  for every in 50 10 1; do
    if (($1 % every == 0)); then echo "$every" && return; fi
  done
}

# The models of a kind of the task text: names of folders, without the seed.
text_models() { # KIND
  if [[ "$1" == bytenet ]]; then echo "$BYTENET_ARCHS"; else echo "$1"; fi
}

DATA="$WORK/data" RUNS="$WORK/runs" FIGURES="$WORK/figures"
digit_data() { echo "$DATA/digits.$1.$2"; } # LABELED SEED
digit_mono() { echo "$(digit_data "$1" "$2").mono.$3"; } # LABELED SEED AMOUNT
# All settings of digits, one a line: ARCH LABELED UNLABELED WEIGHT SEED. Without text there is no
# lambda.
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
digit_split() { # SET: what fairseq-preprocess calls it
  case "$1" in
    test) echo test ;;
    unseen) echo test1 ;;
    final) echo test2 ;;
  esac
}
digit_run() { echo "$RUNS/digits/$1-$2-$3-$4-$5"; } # as in a line of digit_runs
