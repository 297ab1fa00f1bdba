# shellcheck shell=bash disable=SC2034  # the steps use them
# Settings of this recipe and their defaults for each SCALE. Set them in the environment to override
# the defaults. Tables and sections refer to Kiyono (2022), chapter 4.
#
# SCALE     tiny   toy sentences: a smoke test of all steps, two minutes on a CPU
#           small  the output of common/learner_text.sh in DATA_DIR, or other sentences, to which errors are
#                  added; hours on a CPU
#           paper  BEA-2019 and Gigaword, 8 GPUs
# SYSTEMS   rows of the tables: baseline, or KIND-PSEUDO
#           KIND    joint; upsample (joint, genuine pairs repeated UPSAMPLE times) or upsample@4 (4
#                   times); pretrain
#           PSEUDO  METHOD-CORPUS-AMOUNT, with the suffix -sse for spelling errors in the pseudo
#                   sources (4.4.5); pretrain-PSEUDO+PSEUDO fine-tunes on the genuine pairs and the
#                   second pseudo data (4.4.5)
#           METHOD  noisy (back-translation), direct, spell; noisy@3 has beta_random 3, direct@0.5
#                   mu_mask 0.5, direct@0.1/0.8 also mu_keep 0.8 (figures 4.2 and 4.3). File names
#                   have an underscore in place of the slash
#           CORPUS  the seed corpus
#           AMOUNT  number of its first sentences to use, up to MOST; at most 5% above the sentences it has
# FINAL     the system with right-to-left models, ensembles and re-ranking, or none
# PAIRS     genuine: training pairs and held-out sets are those of DATA_DIR; synthetic: clean sentences and
#           errors of a list take their place, valid, test and jfleg are part of the SCALE
# SETS      held-out sets. NAME is DATA_DIR/NAME.m2, or for BLIND sets DATA_DIR/NAME.src
# ANALYZED  the set of step 8
# BLIND     the SETS without public references: step 7 writes a file to submit for each model
# CHOSEN    checkpoint of joint training: best on the validation set, or the number of last epochs to average
# FLAGS     flags appended to every fairseq-train, which override others
# SYSTEMS SEEDS FINAL   restrict them to run one cell of a table, for example in a Slurm array
# SHARD=I/N        with 3_pseudo.sh: back-translate every N-th portion of the seed corpora, then exit
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
CHOICES="SYSTEMS FINAL ENSEMBLES SEEDS SETS BLIND METRICS"
# shellcheck source=examples/common/recipe.sh
source "$HERE/../common/recipe.sh"
# shellcheck source=examples/common/launch.sh
source "$HERE/../common/launch.sh"
# shellcheck source=examples/common/grammar.sh
source "$HERE/../common/grammar.sh"

SCALE="${SCALE:-tiny}"
WORK="${WORK:-work/gec_pseudo_data/$SCALE}"
if [[ "$SCALE" == paper ]] || { [[ "$SCALE" == small ]] && has_learner_text; }; then
  PAIRS="${PAIRS:-genuine}"
fi
PAIRS="${PAIRS:-synthetic}"
BEAM="${BEAM:-5}" LENGTH_PENALTY="${LENGTH_PENALTY:-1.0}" # tables 4.2 and 4.3
BETA="${BETA:-6}"                              # beta_random, figure 4.3
[[ "$SCALE" == small ]] && MASK="${MASK:-0.1}" KEEP="${KEEP:-0.8}" # see the README's results
MASK="${MASK:-0.3}" KEEP="${KEEP:-0.2}"        # mu_mask and mu_keep, 4.4.2
SSE_RATE="${SSE_RATE:-0.003}"                  # spelling errors per character, 4.4.5
UPSAMPLE="${UPSAMPLE:-2}"                      # 4.4.4, the best of 1, 2, 4, 8, 16 and 25
# Filter of pseudo pairs, as in fairseq-ssl filter, or none. Kiyono (2022) and the paper do not
# mention one.
PSEUDO_FILTER="${PSEUDO_FILTER:-clean:min=1:max=250:ratio=9.0}"
METRICS="${METRICS:-m2 errant}"                # metrics of sets with edits
BLIND="${BLIND:-bea}"
NBEST="${NBEST:-5}"                            # n of re-ranking, 4.4.5
[[ "$SCALE" == small ]] && DROPOUT="${DROPOUT:-0.1}" # the small network needs less
DROPOUT="${DROPOUT:-0.3}"                      # tables 4.2 and 4.3, also the next two
LABEL_SMOOTHING="${LABEL_SMOOTHING:-0.1}"
CLIP_NORM="${CLIP_NORM:-1.0}"
PAUSE=()                                       # validation after each epoch
GENUINE_NOISE="${GENUINE_NOISE:-learner:listed=true:measured=true,characters:rate=0.003}"

expect SCALE "tiny small paper" "$SCALE"
case "$SCALE" in
  tiny) expect PAIRS synthetic "$PAIRS" ;;
  small) expect PAIRS "genuine synthetic" "$PAIRS" ;;
  paper) expect PAIRS genuine "$PAIRS" ;;
esac
prepared
[[ "$SCALE" == paper ]] || gpus 1
# shellcheck disable=SC2086  # split into words
expect METRICS "m2 errant" $METRICS
case "$SCALE" in
  tiny)
    CORPORA="toys" MOST="${MOST:-600}" PORTION="${PORTION:-300}"
    GENUINE="${GENUINE:-300}" HELD_OUT="${HELD_OUT:-30}"
    SEEDS="${SEEDS:-1}" SETS="${SETS:-valid test}"
    SYSTEMS="${SYSTEMS:-baseline upsample-noisy-toys-300 pretrain-spell-toys-600-sse}"
    FINAL="${FINAL:-pretrain-spell-toys-600-sse}" ENSEMBLES="${ENSEMBLES:-1}"
    MERGES="${MERGES:-60}"
    SIZE=(--arch transformer_tiny --share-all-embeddings)
    ADAM=(--optimizer adam --lr 0.003 --lr-scheduler inverse_sqrt --warmup-updates 20
      --max-tokens "$(divided 1000 GPUS)")
    JOINT=(--max-update "${UPDATES:-30}" --save-interval-updates 10) CHOSEN="${CHOSEN:-best}"
    REVERSE=("${JOINT[@]}")
    PAUSE=(--validate-interval 100000)
    PRETRAINING=(--max-update "${PRETRAIN_UPDATES:-20}")
    TUNING=(--optimizer adafactor --lr 0.001 --lr-scheduler fixed --max-tokens "$(divided 1000 GPUS)"
      --max-update "${TUNING_UPDATES:-10}")
    ERRANT=(--untyped)
    NOISY=(--beam 2)
    ;;
  small)
    if [[ "$PAIRS" == genuine ]]; then         # sizes and schedule: not tuned
      CORPORA="imdb" MOST="${MOST:-1000000}" GENUINE="${GENUINE:-40000}"
      SEEDS="${SEEDS:-1}" SETS="${SETS:-valid dev jfleg}" ANALYZED="${ANALYZED:-dev}"
      SYSTEMS="${SYSTEMS:-baseline
        $(printf '%s\n' {joint,pretrain}-{noisy,direct,spell}-imdb-{100000,1000000})
        pretrain-noisy-imdb-1000000-sse}"
      FINAL="${FINAL:-pretrain-noisy-imdb-1000000-sse}" ENSEMBLES="${ENSEMBLES:-1}"
      MERGES="${MERGES:-8000}" LAYERS="${LAYERS:-3}" DIM="${DIM:-256}" INNER_DIM="${INNER_DIM:-1024}"
      MAX_TOKENS="${MAX_TOKENS:-4000}" LR="${LR:-0.001}"
      UPDATES="${UPDATES:-8000}" REVERSE_UPDATES="${REVERSE_UPDATES:-4000}"
      PRETRAIN_UPDATES="${PRETRAIN_UPDATES:-6000}" TUNING_UPDATES="${TUNING_UPDATES:-2000}"
      CONFUSION_LINES="${CONFUSION_LINES:-100000}"
      ERRANT=(--spacy-model "${SPACY_MODEL:-en_core_web_sm}")
    fi
    CORPORA="${CORPORA:-captions phrases films all}" MOST="${MOST:-100000}" PORTION="${PORTION:-20000}"
    GENUINE="${GENUINE:-10000}" HELD_OUT="${HELD_OUT:-1200}"
    SEEDS="${SEEDS:-1 2 3}" SETS="${SETS:-valid test jfleg}"
    SYSTEMS="${SYSTEMS:-baseline joint-noisy-all-20000 joint-direct-all-20000 joint-spell-all-20000
      pretrain-noisy-all-20000 pretrain-direct-all-20000
      joint-noisy-all-100000 joint-direct-all-100000
      upsample-noisy-all-100000 upsample-direct-all-100000
      pretrain-noisy-all-100000 pretrain-direct-all-100000 pretrain-noisy-all-100000-sse}"
    FINAL="${FINAL:-pretrain-noisy-all-100000-sse}" ENSEMBLES="${ENSEMBLES:-1 2 3 1+2+3}"
    MERGES="${MERGES:-2000}" LAYERS="${LAYERS:-2}" DIM="${DIM:-128}" INNER_DIM="${INNER_DIM:-256}"
    MAX_TOKENS="${MAX_TOKENS:-1000}" LR="${LR:-0.005}"
    UPDATES="${UPDATES:-4000}"                 # equal total updates for each kind of system
    PRETRAIN_UPDATES="${PRETRAIN_UPDATES:-3000}" TUNING_UPDATES="${TUNING_UPDATES:-1000}"
    TOKEN_SHARE="$(divided "$MAX_TOKENS" GPUS)"
    SIZE=(--arch transformer_tiny --share-all-embeddings
      --encoder-layers "$LAYERS" --encoder-embed-dim "$DIM" --encoder-ffn-embed-dim "$INNER_DIM"
      --decoder-layers "$LAYERS" --decoder-embed-dim "$DIM" --decoder-ffn-embed-dim "$INNER_DIM"
      --encoder-attention-heads 4 --decoder-attention-heads 4
      --encoder-normalize-before --decoder-normalize-before)
    ADAM=(--optimizer adam --adam-betas "(0.9, 0.98)" --lr "$LR"
      --lr-scheduler polynomial_decay --warmup-updates 400 --max-tokens "$TOKEN_SHARE")
    JOINT=(--max-update "$UPDATES" --total-num-update "$UPDATES" --save-interval-updates 500)
    CHOSEN="${CHOSEN:-best}"                   # models overfit early on few pairs
    REVERSE_UPDATES="${REVERSE_UPDATES:-3000}"
    REVERSE=(--max-update "$REVERSE_UPDATES" --total-num-update "$REVERSE_UPDATES"
      --save-interval-updates 500)
    PRETRAINING=(--max-update "$PRETRAIN_UPDATES" --total-num-update "$PRETRAIN_UPDATES"
      --save-interval-updates 1000)
    TUNING=(--optimizer adafactor --lr "${TUNING_LR:-0.0005}" --lr-scheduler fixed
      --max-tokens "$TOKEN_SHARE" --max-update "$TUNING_UPDATES" --save-interval-updates 250)
    PAUSE=(--validate-interval 100000 --keep-interval-updates 1)
    [[ -n "${ERRANT+set}" ]] || ERRANT=(--untyped)
    NOISY=(--beam "${NOISY_BEAM:-5}")
    ;;
  paper)
    CORPORA="gigaword wikipedia simplewiki" MOST="${MOST:-70000000}" PORTION="${PORTION:-700000}"
    GENUINE="${GENUINE:-561410}"               # table 4.1, for dry runs; otherwise counted
    SEEDS="${SEEDS:-1 2 3 4 5}" SETS="${SETS:-valid test jfleg bea}" # 4.4.1
    SYSTEMS="${SYSTEMS:-$(bash "$HERE/systems.sh")}"
    FINAL="${FINAL:-pretrain-noisy-gigaword-70000000-sse}" ENSEMBLES="${ENSEMBLES:-1+2+3+4}" # 4.4.5
    MERGES="${MERGES:-8000}"                   # 4.4.1
    CONFUSION_LINES="${CONFUSION_LINES:-1400000}"
    gpus 8
    MAX_TOKENS="${MAX_TOKENS:-4000}"
    BATCH_TOKENS="${BATCH_TOKENS:-32000}"      # not reported in Kiyono (2022)
    UPDATE_FREQ="$(divided "$BATCH_TOKENS" GPUS MAX_TOKENS)"
    SIZE=(--arch transformer_vaswani_wmt_en_de_big --share-all-embeddings --fp16)
    batch=(--max-tokens "$MAX_TOKENS" --update-freq "$UPDATE_FREQ")
    # The learning rate follows Vaswani et al. (2017), 5.3: its maximum is (1024 x 4000)^-0.5.
    ADAM=(--optimizer adam --adam-betas "(0.9, 0.98)" --adam-eps 1e-8 --lr 0.000494
      --lr-scheduler inverse_sqrt --warmup-updates 4000 "${batch[@]}")
    resume=(--save-interval-updates 5000 --keep-interval-updates 1) # epochs take hours
    CHOSEN="${CHOSEN:-20}"                     # table 4.2, also the next
    [[ "$CHOSEN" == best ]] || enough_checkpoints CHOSEN 40
    JOINT=(--max-epoch 40 --keep-last-epochs "${CHOSEN/best/20}" "${resume[@]}")
    REVERSE=("${JOINT[@]}")
    PRETRAINING=(--max-epoch 10 "${resume[@]}") # table 4.3, also the next
    TUNING=(--optimizer adafactor --lr 3e-5 --lr-scheduler fixed --max-epoch 30 "${batch[@]}")
    ERRANT=(--spacy-model "${SPACY_MODEL:-en_core_web_sm}")
    NOISY=(--beam "${NOISY_BEAM:-5}" --compute-type float16)
    ;;
esac
ANALYZED="${ANALYZED:-valid}"
CONFUSION_LINES="${CONFUSION_LINES:-$MOST}"    # lines of a seed corpus whose words get confusion sets

RUNS="$WORK/runs"                              # RUNS/SYSTEM.SEED
DATA="$WORK/data"                              # DATA/genuine, DATA/PSEUDO, DATA/held-out
held_out_set() { echo "$WORK/sets/$1/$1"; }    # SET: .src, .trg; .m2 or .ref0, .ref1, ...; .levels
model() { echo "$RUNS/$1.$2/final.pt"; }       # SYSTEM SEED
# shellcheck disable=SC2086  # split into words
held_out() { printf '%s\n' valid $SETS | awk '!seen[$0]++'; } # all SETS, and valid for training
is_blind() { [[ " $BLIND " == *" $1 "* ]]; }   # SET

# Parse a system into kind, times (repetitions of the genuine pairs), first (its pseudo data), second
# (pseudo data of fine-tuning) and direction (-r2l or empty).
parts() { # SYSTEM
  direction="" second="" times=1
  IFS=- read -r kind first <<<"${1%-r2l}"
  [[ "$1" == *-r2l ]] && direction="-r2l"
  [[ "$first" == *+* ]] && second="${first#*+}" first="${first%%+*}"
  [[ "$kind" == upsample ]] && times="$UPSAMPLE"
  [[ "$kind" == upsample@* ]] && times="${kind#*@}" kind=upsample
  return 0
}
# Parse pseudo data into method, value (after @), corpus, amount and sse (-sse or empty).
pseudo_parts() { # PSEUDO
  IFS=- read -r method corpus amount sse <<<"$1"
  value="" sse="${sse:+-$sse}"
  [[ "$method" == *@* ]] && value="${method#*@}" method="${method%%@*}"
  return 0
}
systems() { # systems with left-to-right models
  # shellcheck disable=SC2086  # split into words
  printf '%s\n' $SYSTEMS | grep -vxF "$FINAL" || true
  [[ "$FINAL" == none ]] || echo "$FINAL"
}
pseudo_data() { # pseudo data of all systems, without duplicates
  local system kind times first second direction
  for system in $(systems); do
    parts "$system"
    printf '%s\n' "$first" "$second"
  done | awk 'NF && !seen[$0]++'
}
seed_corpora() { # seed corpora of all systems, without duplicates
  local pseudo method value corpus amount sse
  for pseudo in $(pseudo_data); do
    pseudo_parts "$pseudo"
    echo "$corpus"
  done | awk '!seen[$0]++'
}

reject() { # WORD EXPECTED
  echo "SYSTEMS has '$1'. Expected $2." >&2
  exit 2
}
check_systems() {
  local system kind times first second direction
  for system in $(systems); do
    [[ "$system" == baseline ]] && continue
    parts "$system"
    expect SYSTEMS "baseline joint upsample pretrain" "$kind"
    [[ "$times" =~ ^[1-9][0-9]{0,2}$ ]] || reject "$system" "upsample@NUMBER, 1 to 999"
    check_pseudo "$system" "$first"
    [[ -z "$second" ]] && continue
    [[ "$kind" == pretrain ]] || reject "$system" "one kind of pseudo data, since only pretrain takes two"
    check_pseudo "$system" "$second"
  done
}
check_pseudo() { # SYSTEM PSEUDO
  local method value corpus amount sse share='(0|1|0?\.[0-9]+)'
  pseudo_parts "$2"
  expect "SYSTEMS, in $1," "noisy direct spell" "$method"
  case "$method$value" in
    noisy?*) [[ "$value" =~ ^[0-9]+(\.[0-9]+)?$ ]] || reject "$1" "noisy@BETA" ;;
    direct?*) [[ "$value" =~ ^$share(_$share)?$ ]] || reject "$1" "direct@MASK or direct@MASK/KEEP" ;;
    spell?*) reject "$1" "spell without a value" ;;
  esac
  expect "SYSTEMS, in $1," "$CORPORA" "$corpus"
  if [[ ! "$amount" =~ ^[1-9][0-9]*$ ]] || ((amount > MOST)); then
    reject "$1" "KIND-METHOD-CORPUS-AMOUNT, at most $MOST"
  fi
  sse="${sse#-}"
  expect "SYSTEMS, in $1," "sse" "${sse:-sse}"
}
SYSTEMS="${SYSTEMS//\//_}" FINAL="${FINAL//\//_}"
check_systems
