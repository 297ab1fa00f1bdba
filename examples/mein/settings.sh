# shellcheck shell=bash disable=SC2034  # the steps use them
# Every setting of this recipe. All can be given in the environment; what is set here is the
# default of the SCALE. Tables and sections are those of the thesis, chapter 3.
#
# SCALE     tiny   toy reviews, a CPU, minutes: shows that all steps work
#           small  rotten and pros in DATA_DIR, two CPU cores, hours: smaller networks
#           paper  elec, imdb, rotten and rcv1 in DATA_DIR at the sizes of table 3.2, a GPU each
# TASKS     which of those. DATA_DIR has for each a folder with train.tsv (a label, a tab, a text),
#           dev.tsv (or a part of train.tsv is taken), test.tsv (the same), unlabelled.txt and, for
#           extra.N below, extra.txt
# EXPERTS   lstm; lm: from a language model; adv: with adversarial training too; vat: virtual
# KINDS     alone: the expert; imitators: with those; random: with random vectors, table 3.3;
#           lines.N: imitators of N unlabeled texts, figure 3.3; extra.N: of all unlabeled texts
#           and texts of extra.txt, N together, with the expert unchanged; windows.1-2: of windows
#           1 and 2, figure 3.4 and table 3.5; continued: the expert, trained on for as many
#           updates without imitators, which is always among them
# SEEDS     of all trainings but the language models
# LM_FLAGS, EXPERT_FLAGS, IMITATOR_FLAGS, MIXTURE_FLAGS   more flags of fairseq-train, which come
#           last, so that they replace those set here
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=examples/common/recipe.sh
source "$HERE/../common/recipe.sh"
# shellcheck source=examples/common/launch.sh
source "$HERE/../common/launch.sh"

CHOICES="TASKS EXPERTS KINDS SEEDS"
SCALE="${SCALE:-tiny}"
WORK="${WORK:-work/mein/$SCALE}"
expect SCALE "tiny small paper" "$SCALE"
prepared
WINDOWS="${WINDOWS:-1,2,3,4}"                 # table 3.2: c = 1 to 4
case "$SCALE" in
  tiny)
    KNOWN=toy EXPERTS="${EXPERTS:-lm}" KINDS="${KINDS:-alone imitators random}" SEEDS="${SEEDS:-1}"
    WINDOWS="${TINY_WINDOWS:-1,2}" LAMBDA="${LAMBDA:-0 3}" PIECES="${PIECES:-1000}"
    DIM="${DIM:-32}" HIDDEN="${HIDDEN:-32}" IMITATOR_DIM="${IMITATOR_DIM:-32}"
    LM_EPOCHS="${LM_EPOCHS:-1}" EPOCHS="${EPOCHS:-8}" IMITATOR_EPOCHS="${IMITATOR_EPOCHS:-2}"
    FINE_EPOCHS="${FINE_EPOCHS:-3}" LR="${LR:-0.003}" IMITATOR_LR="${IMITATOR_LR:-0.003}"
    ;;
  small)
    KNOWN="rotten pros" EXPERTS="${EXPERTS:-lstm lm adv}" SEEDS="${SEEDS:-1 2 3}"
    DIM="${DIM:-128}" HIDDEN="${HIDDEN:-256}" IMITATOR_DIM="${IMITATOR_DIM:-256}"
    LM_EPOCHS="${LM_EPOCHS:-15}" EPOCHS="${EPOCHS:-12}" IMITATOR_EPOCHS="${IMITATOR_EPOCHS:-1}"
    FINE_EPOCHS="${FINE_EPOCHS:-6}"
    ;;
  paper)
    KNOWN="elec imdb rotten rcv1" EXPERTS="${EXPERTS:-lstm lm adv vat}" SEEDS="${SEEDS:-1 2 3 4 5}"
    ;;
esac
TASKS="${TASKS:-$KNOWN}"
# shellcheck disable=SC2086  # words apart
expect TASKS "$KNOWN" $TASKS
# shellcheck disable=SC2086
expect EXPERTS "lstm lm adv vat" $EXPERTS
PIECES="${PIECES:-20000}"                     # 3.6.3, where they are merges
LEAST_COUNT="${LEAST_COUNT:-2}"               # 3.6.3
DIM="${DIM:-256}" HIDDEN="${HIDDEN:-1024}"    # table 3.2: D and H
IMITATOR_DIM="${IMITATOR_DIM:-512}"           # table 3.2: embeddings and N
DROPOUT="${DROPOUT:-0.5}"                     # table 3.2
LR="${LR:-0.001}" FINE_LR="${FINE_LR:-0.0001}" DECAY="${DECAY:-0.9998}" BATCH="${BATCH:-32}" # table 3.2
EPOCHS="${EPOCHS:-30}" FINE_EPOCHS="${FINE_EPOCHS:-30}" # table 3.2: at most, the best on dev is taken
IMITATOR_LR="${IMITATOR_LR:-0.001}" IMITATOR_DECAY="${IMITATOR_DECAY:-$DECAY}" # table 3.2
IMITATOR_EPOCHS="${IMITATOR_EPOCHS:-1}"       # of all unlabeled texts, of lines.N as many updates
IMITATOR_UPDATES="${IMITATOR_UPDATES:-}"      # of all kinds, extra.N too, in place of epochs
LM_LR="${LM_LR:-0.001}" LM_EPOCHS="${LM_EPOCHS:-10}" LM_TOKENS="${LM_TOKENS:-100}" # in a row
LAMBDA="${LAMBDA:-0 1 3}"                     # initial values; the best on dev is chosen for each model
LAMBDA_RATE="${LAMBDA_RATE:-1}"               # learning rate of lambda, as a multiple of the others'
EPSILON="${EPSILON:-5}"                       # of adv and vat, Miyato et al. (2017)
NORMALIZE="${NORMALIZE---recurrent-normalize-embeddings}" # of all experts alike; NORMALIZE= : off
LONGEST="${LONGEST:-400}"                     # words of a text that an expert reads, the last ones
LABELS="${LABELS:-}"                          # that are kept, the other training texts are then unlabeled;
# without: 1,000 of pros, all of the other tasks
TEST_SHARE="${TEST_SHARE:-0.1}" DEV_SHARE="${DEV_SHARE:-0.1}" # where there is no test.tsv, no dev.tsv,
# at the small scale; the paper's scale takes as many texts as table 3.1 has
SAMPLES="${SAMPLES:-1000}"                    # of the bootstrap

RUNS="$WORK/runs" # RUNS/TASK.lm, RUNS/TASK.EXPERT.SEED.KIND
imitators_of() { echo "$WORK/imitators/$1.$2.$3.$4"; } # TASK EXPERT SEED KIND
teacher_of() { echo "$WORK/teachers/$1.$2.$3"; } # TASK EXPERT SEED
data() { echo "$WORK/data/$1"; }              # TASK
run_of() { echo "$RUNS/$1.$2.$3.$4"; }        # TASK EXPERT SEED KIND
criterion_of() { # EXPERT: the loss it is trained by, of each stage; it sets CRITERION
  CRITERION=(--criterion classification_cross_entropy)
  case "$1" in
    adv) CRITERION=(--criterion adversarial_cross_entropy --adversarial-epsilon "$EPSILON") ;;
    vat) CRITERION=(--criterion virtual_adversarial_cross_entropy --adversarial-epsilon "$EPSILON"
      --classification-unlabeled-per-labeled 1) ;;
  esac
  if [[ "$1" == adv || "$1" == vat ]]; then CRITERION+=(--ddp-backend legacy_ddp); fi
}
SIZES=(--recurrent-embed-dim "$DIM" --recurrent-hidden-dim "$HIDDEN" --recurrent-dropout "$DROPOUT")
[[ -n "$NORMALIZE" ]] && SIZES+=("$NORMALIZE")
mlp() { if [[ "$1" == rcv1 ]]; then echo 128; else echo 30; fi; } # TASK: M of table 3.2
kinds() { # TASK: figure 3.3 is drawn of pros at the small scale, of elec and rcv1 at the paper's
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
folder() { # TASK: in DATA_DIR
  case "$1" in
    rotten) echo rotten_tomatoes ;;
    pros) echo pros_cons ;;
    *) echo "$1" ;;
  esac
}
has_extra() { # TASK: in a dry run without data elec has them
  [[ -e "${DATA_DIR:-}/$(folder "$1")/extra.txt" ||
    ("$1" == elec && -n "${DRY_RUN:-}" && -z "${RECORDING:-}") ]]
}

# shellcheck disable=SC2046  # words apart
for kind in $(for task in $TASKS; do kinds "$task"; done); do
  [[ "$kind" =~ ^(alone|continued|imitators|random|(lines|extra)\.[0-9]+|windows\.[0-9]+(-[0-9]+)*)$ ]] ||
    expect KINDS "alone continued imitators random lines.N extra.N windows.1-2" "$kind"
done

# What all trainings of classifiers and imitators share; the data folder comes before it.
COMMON=(--user-dir "$USER_DIR" --task semi_supervised_classification
  --classification-max-length "$LONGEST" --optimizer adam --adam-betas "(0.9, 0.999)" --clip-norm 5
  --lr-scheduler step --lr-deacy-period 1 --batch-size "$BATCH" --no-epoch-checkpoints
  --log-format simple --log-interval 100)
BEST=(--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric)

each() { # FUNCTION: call it with each TASK EXPERT SEED
  local task expert seed
  for task in $TASKS; do
    for expert in $EXPERTS; do
      for seed in $SEEDS; do spawn "$1" "$task" "$expert" "$seed"; done
    done
  done
  settle
}
