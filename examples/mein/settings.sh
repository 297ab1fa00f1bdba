# shellcheck shell=bash disable=SC2034  # the steps use them
# Settings of this recipe and their defaults for each SCALE. Set them in the environment to override
# the defaults. Tables and sections refer to Kiyono (2022), chapter 3.
#
# SCALE     tiny   toy reviews: a smoke test of all steps, minutes on a CPU
#           small  rotten and pros, or imdb, in DATA_DIR, smaller networks, hours on two CPU cores
#           paper  elec, imdb, rotten and rcv1 in DATA_DIR, networks of table 3.2, one GPU per training
# TASKS     names of the data sets above. DATA_DIR has a folder for each, with train.tsv (label, tab,
#           text), dev.tsv (default: a part of train.tsv), test.tsv (the same), unlabelled.txt and, for
#           extra.N below, extra.txt
# EXPERTS   lstm; lm: initialized with a language model; adv: lm with adversarial training; vat: lm with
#           virtual adversarial training; bert: the pretrained encoder in the folder BERT
# KINDS     alone: the expert; imitators: the expert with imitators; random: the expert with random
#           vectors, table 3.3; lines.N: imitators trained on N unlabeled texts, figure 3.3; extra.N:
#           imitators trained on N texts, unlabelled.txt and extra.txt together, with the same expert;
#           windows.1-2: imitators of windows 1 and 2, figure 3.4 and table 3.5; continued: the expert
#           trained for as many updates without imitators, always included
# SEEDS     random seeds of all training runs except language models
# FLAGS     flags appended to every fairseq-train, which override others
# LM_FLAGS, EXPERT_FLAGS, IMITATOR_FLAGS, MIXTURE_FLAGS   the same for the training runs of one kind
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
CHOICES="TASKS EXPERTS KINDS SEEDS"
# shellcheck source=examples/common/recipe.sh
source "$HERE/../common/recipe.sh"
# shellcheck source=examples/common/launch.sh
source "$HERE/../common/launch.sh"

SCALE="${SCALE:-tiny}"
WORK="${WORK:-work/mein/$SCALE}"
expect SCALE "tiny small paper" "$SCALE"
prepared
case "$SCALE" in
  tiny)
    KNOWN=toy EXPERTS="${EXPERTS:-lm}" KINDS="${KINDS:-alone imitators random}" SEEDS="${SEEDS:-1}"
    WINDOWS="${WINDOWS:-1,2}" LAMBDA="${LAMBDA:-0 3}" PIECES="${PIECES:-1000}"
    DIM="${DIM:-32}" HIDDEN="${HIDDEN:-32}" IMITATOR_DIM="${IMITATOR_DIM:-32}"
    LM_EPOCHS="${LM_EPOCHS:-1}" EPOCHS="${EPOCHS:-8}" IMITATOR_EPOCHS="${IMITATOR_EPOCHS:-2}"
    FINE_EPOCHS="${FINE_EPOCHS:-3}" LR="${LR:-0.003}" IMITATOR_LR="${IMITATOR_LR:-0.003}"
    IMITATOR_INTERVAL="${IMITATOR_INTERVAL:-50}"
    ;;
  small)
    KNOWN="rotten pros imdb" TASKS="${TASKS:-rotten pros}"
    EXPERTS="${EXPERTS:-lstm lm adv}" SEEDS="${SEEDS:-1 2 3}" IMITATOR_INTERVAL="${IMITATOR_INTERVAL:-250}"
    DIM="${DIM:-128}" HIDDEN="${HIDDEN:-256}" IMITATOR_DIM="${IMITATOR_DIM:-256}"
    LM_EPOCHS="${LM_EPOCHS:-15}" EPOCHS="${EPOCHS:-12}" IMITATOR_EPOCHS="${IMITATOR_EPOCHS:-1}"
    FINE_EPOCHS="${FINE_EPOCHS:-6}"
    ;;
  paper)
    KNOWN="elec imdb rotten rcv1" EXPERTS="${EXPERTS:-lstm lm adv vat}" SEEDS="${SEEDS:-1 2 3 4 5}"
    ;;
esac
WINDOWS="${WINDOWS:-1,2,3,4}"                 # table 3.2: c = 1 to 4
TASKS="${TASKS:-$KNOWN}"
# shellcheck disable=SC2086  # split into words
expect TASKS "$KNOWN" $TASKS
# shellcheck disable=SC2086
expect EXPERTS "lstm lm adv vat bert" $EXPERTS
LM_TASK="${LM_TASK:-}"                        # task whose language model all experts start from (default: each
# its own)
[[ -z "$LM_TASK" ]] || expect LM_TASK "$KNOWN" "$LM_TASK"
if [[ " $EXPERTS " == *" bert "* && -z "${BERT:-}" && -z "${DRY_RUN:-}" ]]; then
  echo "BERT is not set. Expected the folder of a BERT or RoBERTa for the expert bert." >&2
  exit 2
fi
BERT="${BERT:-BERT}"
PIECES="${PIECES:-20000}"                     # 3.6.3, where it is the number of merges
LEAST_COUNT="${LEAST_COUNT:-2}"               # 3.6.3
DIM="${DIM:-256}" HIDDEN="${HIDDEN:-1024}"    # table 3.2: D and H
IMITATOR_DIM="${IMITATOR_DIM:-512}"           # table 3.2: embeddings and N
DROPOUT="${DROPOUT:-0.5}"                     # table 3.2
EMBED_STD="${EMBED_STD:-}"                    # standard deviation of the experts' initial embeddings (default:
# 1 for imdb and the paper's scale, 0.06 for the other tasks of the smaller scales, by their dev error)
LR="${LR:-0.001}" FINE_LR="${FINE_LR:-0.0001}" DECAY="${DECAY:-0.9998}" BATCH="${BATCH:-32}" # table 3.2
gpus 1
SHARE="$(divided "$BATCH" GPUS)"              # texts of the batch on each GPU
EPOCHS="${EPOCHS:-30}" FINE_EPOCHS="${FINE_EPOCHS:-30}" # table 3.2: maximum, the best on dev is used
IMITATOR_LR="${IMITATOR_LR:-0.001}" IMITATOR_DECAY="${IMITATOR_DECAY:-$DECAY}" # table 3.2
IMITATOR_EPOCHS="${IMITATOR_EPOCHS:-1}"       # over all unlabeled texts; equally many updates for lines.N
IMITATOR_UPDATES="${IMITATOR_UPDATES:-}"      # in place of epochs, for all kinds with extra.N
IMITATOR_INTERVAL="${IMITATOR_INTERVAL:-2000}" # updates between validations; the best on dev is used
LM_LR="${LM_LR:-0.001}" LM_EPOCHS="${LM_EPOCHS:-10}" LM_TOKENS="${LM_TOKENS:-100}" # tokens in a row
LAMBDA="${LAMBDA:-0 1 3}"                     # initial values; the best on dev is selected for each model
LAMBDA_RATE="${LAMBDA_RATE:-1}"               # learning rate of lambda relative to the other parameters
EPSILON="${EPSILON:-5}"                       # perturbation norm of adv and vat, Miyato et al. (2017)
NORMALIZE="${NORMALIZE---recurrent-normalize-embeddings}" # for all experts; NORMALIZE= to disable
BERT_LR="${BERT_LR:-0.00005}" BERT_FINE_LR="${BERT_FINE_LR:-0.00001}" BERT_EPOCHS="${BERT_EPOCHS:-3}"
PRECISION="${PRECISION:-}"                    # of all training runs: --amp for float16 on a GPU, bfloat16 on a CPU
LONGEST="${LONGEST:-400}"                     # max words of a text for the expert; earlier words are truncated
LABELS="${LABELS:-}"                          # number of labeled training texts; the others are unlabeled
# (default: 1,000 for pros, all for other tasks)
TEST_SHARE="${TEST_SHARE:-0.1}" DEV_SHARE="${DEV_SHARE:-0.1}" # without test.tsv or dev.tsv, at the
# small scale; the paper's scale has the sizes of table 3.1
SAMPLES="${SAMPLES:-1000}"                    # bootstrap samples

export THP_MEM_ALLOC_ENABLE="${THP_MEM_ALLOC_ENABLE:-1}" # LSTMs on a CPU, see ../README.md

# offline: label all unlabeled texts before the training of the imitators; online: label each batch in
# training, for imitators that read few of the texts (IMITATOR_UPDATES)
LABELING="${LABELING:-offline}"
expect LABELING "offline online" "$LABELING"

RUNS="$WORK/runs" # RUNS/TASK.lm, RUNS/TASK.EXPERT.SEED.KIND
imitators_of() { echo "$WORK/imitators/$1.$2.$3.$4"; } # TASK EXPERT SEED KIND
teacher_of() { echo "$WORK/teachers/$1.$2.$3"; } # TASK EXPERT SEED
data() { # TASK EXPERT: the data folder, which has subwords of the encoder for bert
  if [[ "${2:-}" == bert ]]; then echo "$WORK/data/$1.bert"; else echo "$WORK/data/$1"; fi
}
run_of() { echo "$RUNS/$1.$2.$3.$4"; }        # TASK EXPERT SEED KIND
criterion_of() { # EXPERT: set CRITERION to the flags of its loss, the same in all stages
  CRITERION=(--criterion classification_cross_entropy)
  case "$1" in
    adv) CRITERION=(--criterion adversarial_cross_entropy --adversarial-epsilon "$EPSILON") ;;
    vat) CRITERION=(--criterion virtual_adversarial_cross_entropy --adversarial-epsilon "$EPSILON"
      --classification-unlabeled-per-labeled 1) ;;
  esac
  if [[ "$1" == adv || "$1" == vat ]]; then CRITERION+=(--ddp-backend legacy_ddp); fi
}
expert_of() { # TASK EXPERT: set ARCHITECTURE to the flags of its network
  ARCHITECTURE=(--arch lstm_classifier "${SIZES[@]}" --recurrent-embed-std "$(embed_std "$1")")
  if [[ "$2" == bert ]]; then ARCHITECTURE=(--arch bert_classifier --classifier-bert "$BERT"); fi
  ARCHITECTURE+=(--classifier-mlp-dim "$(mlp "$1")")
}
SIZES=(--recurrent-embed-dim "$DIM" --recurrent-hidden-dim "$HIDDEN" --recurrent-dropout "$DROPOUT")
[[ -n "$NORMALIZE" ]] && SIZES+=("$NORMALIZE")
mlp() { if [[ "$1" == rcv1 ]]; then echo 128; else echo 30; fi; } # TASK: M of table 3.2
embed_std() { # TASK
  local default=0.06
  if [[ "$SCALE" == paper || "$1" == imdb ]]; then default=1; fi
  echo "${EMBED_STD:-$default}"
}
kinds() { # TASK: figure 3.3 needs lines.N of pros at the small scale, of elec and rcv1 at the paper's
  local found="${KINDS:-}" default="alone continued random imitators"
  local windows="$default windows.1 windows.1-2 windows.1-2-3"
  if [[ -z "$found" ]]; then
    case "$SCALE.$1" in
      small.pros) found="$default lines.5000 lines.10000 lines.20000" ;;
      paper.elec)
        found="$windows windows.2-3-4 windows.3-4 windows.4 windows.1-2-3-4-5 lines.5000 lines.20000"
        found+=" lines.50000 lines.100000"
        if has_extra elec; then found+=" extra.2000000 extra.4000000 extra.6000000"; fi
        ;;
      paper.imdb) found="$windows windows.1-2-3-4-5" ;;
      paper.rcv1) found="$windows lines.5000 lines.50000 lines.250000 lines.500000" ;;
      paper.*) found="$windows" ;;
      *) found="$default" ;;
    esac
  fi
  if [[ "$found" != alone && " $found " != *" continued "* ]]; then
    found="${found/#alone/alone continued}"
    [[ " $found " == *" continued "* ]] || found="continued $found"
  fi
  echo "$found"
}
folder() { # TASK: print its folder in DATA_DIR
  case "$1" in
    rotten) echo rotten_tomatoes ;;
    pros) echo pros_cons ;;
    *) echo "$1" ;;
  esac
}
has_extra() { # TASK: succeed if it has extra.txt; in a dry run without data, only elec has it
  [[ -e "${DATA_DIR:-}/$(folder "$1")/extra.txt" ||
    ("$1" == elec && -n "${DRY_RUN:-}" && -z "${RECORDING:-}") ]]
}

# shellcheck disable=SC2046  # split into words
for kind in $(for task in $TASKS; do kinds "$task"; done); do
  [[ "$kind" =~ ^(alone|continued|imitators|random|(lines|extra)\.[0-9]+|windows\.[0-9]+(-[0-9]+)*)$ ]] ||
    expect KINDS "alone continued imitators random lines.N extra.N windows.1-2" "$kind"
done

# Flags of all training runs of classifiers and imitators, after the data folder.
COMMON=(--user-dir "$USER_DIR" --task semi_supervised_classification
  --classification-max-length "$LONGEST" --optimizer adam --adam-betas "(0.9, 0.999)" --clip-norm 5
  --lr-scheduler step --lr-deacy-period 1 --batch-size "$SHARE" --no-epoch-checkpoints
  --log-format simple --log-interval 100)
[[ -n "$PRECISION" ]] && COMMON+=("$PRECISION")
BEST=(--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric)

each() { # FUNCTION: call it for each TASK EXPERT SEED
  local task expert seed
  for task in $TASKS; do
    for expert in $EXPERTS; do
      for seed in $SEEDS; do spawn "$1" "$task" "$expert" "$seed"; done
    done
  done
  settle
}
