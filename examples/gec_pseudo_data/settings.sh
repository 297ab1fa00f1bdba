# shellcheck shell=bash disable=SC2034  # the steps use them
# Every setting of this recipe. All can be given in the environment; what is set here is the
# default of the SCALE. Sections and tables are those of the thesis, chapter 4.
#
# SCALE     tiny   toy sentences, a CPU, two minutes: shows that all steps work
#           small  sentences of DATA_DIR, 10,000 pairs genuine, a CPU, hours
#           paper  BEA-2019 and Gigaword, 8 GPUs
# SYSTEMS   rows of the tables, each KIND-METHOD-CORPUS-AMOUNT, with -sse at the end for spelling
#           errors in its pseudo sources (4.4.5); or baseline
#           KIND    joint, upsample (joint, genuine data repeated), pretrain
#           METHOD  noisy (back-translation), direct, spell; noisy@3 and direct@0.5 have another
#                   beta_random or mu_mask (figures 4.2 and 4.3)
#           CORPUS  the seed corpus
#           AMOUNT  its first sentences, up to MOST
# FINAL     the system that has right-to-left models, ensembles and re-ranking; none: leave it out
# SYSTEMS SEEDS FINAL   narrow them to run one cell of a table, say in a Slurm array
# SHARD=I/N        with 3_pseudo.sh: back-translate that part of the seed corpora, and end
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=examples/common/recipe.sh
source "$HERE/../common/recipe.sh"
# shellcheck source=examples/common/launch.sh
source "$HERE/../common/launch.sh"

SCALE="${SCALE:-tiny}"
WORK="${WORK:-work/gec_pseudo_data/$SCALE}"
BEAM="${BEAM:-5}" LENGTH_PENALTY="${LENGTH_PENALTY:-1.0}" # tables 4.2 and 4.3
BETA="${BETA:-6}"                              # beta_random, figure 4.3
[[ "$SCALE" == small ]] && MASK="${MASK:-0.1}" KEEP="${KEEP:-0.8}" # see the README's results
MASK="${MASK:-0.3}" KEEP="${KEEP:-0.2}"        # mu_mask and mu_keep, 4.4.2
SSE_RATE="${SSE_RATE:-0.003}"                  # slips per character, 4.4.5
UPSAMPLE="${UPSAMPLE:-2}"                      # 4.4.4
METRICS="${METRICS:-m2 errant}"                # of the sets with edits
NBEST="${NBEST:-5}"                            # n of re-ranking, 4.4.5
[[ "$SCALE" == small ]] && DROPOUT="${DROPOUT:-0.1}" # 128 dimensions are few enough
DROPOUT="${DROPOUT:-0.3}"                      # tables 4.2 and 4.3, as the next two
LABEL_SMOOTHING="${LABEL_SMOOTHING:-0.1}"
CLIP_NORM="${CLIP_NORM:-1.0}"
PAUSE=()                                       # validation after each epoch
GENUINE_NOISE="${GENUINE_NOISE:-learner:listed=true:measured=true,spelling:rate=0.003}"

expect SCALE "tiny small paper" "$SCALE"
prepared
# shellcheck disable=SC2086  # words apart
expect METRICS "m2 errant" $METRICS
case "$SCALE" in
  tiny)
    CORPORA="toys" MOST="${MOST:-600}" GENUINE="${GENUINE:-300}" HELD_OUT="${HELD_OUT:-30}"
    SEEDS="${SEEDS:-1}" SETS="${SETS:-valid test}"
    SYSTEMS="${SYSTEMS:-baseline upsample-noisy-toys-300 pretrain-spell-toys-600-sse}"
    FINAL="${FINAL:-pretrain-spell-toys-600-sse}" ENSEMBLES="${ENSEMBLES:-1}"
    MERGES="${MERGES:-60}"
    SIZE=(--arch transformer_tiny --share-all-embeddings)
    ADAM=(--optimizer adam --lr 0.003 --lr-scheduler inverse_sqrt --warmup-updates 20
      --max-tokens 1000)
    JOINT=(--max-update "${UPDATES:-30}" --save-interval-updates 10) CHOSEN="${CHOSEN:-best}"
    PAUSE=(--validate-interval 100000)
    PRETRAINING=(--max-update "${PRETRAIN_UPDATES:-20}")
    TUNING=(--optimizer adafactor --lr 0.001 --lr-scheduler fixed --max-tokens 1000
      --max-update "${TUNING_UPDATES:-10}")
    ERRANT=(--untyped)
    NOISY=(--beam 2)
    ;;
  small)
    CORPORA="captions phrases films all" MOST="${MOST:-100000}"
    GENUINE="${GENUINE:-10000}" HELD_OUT="${HELD_OUT:-1200}"
    SEEDS="${SEEDS:-1 2 3}" SETS="${SETS:-valid test jfleg}"
    SYSTEMS="${SYSTEMS:-baseline joint-noisy-all-20000 joint-direct-all-20000 joint-spell-all-20000
      pretrain-noisy-all-20000 pretrain-direct-all-20000
      joint-noisy-all-100000 joint-direct-all-100000
      upsample-noisy-all-100000 upsample-direct-all-100000
      pretrain-noisy-all-100000 pretrain-direct-all-100000 pretrain-noisy-all-100000-sse}"
    FINAL="${FINAL:-pretrain-noisy-all-100000-sse}" ENSEMBLES="${ENSEMBLES:-1 2 3 1+2+3}"
    MERGES="${MERGES:-2000}"
    UPDATES="${UPDATES:-4000}"                 # as many in all for each kind of system
    PRETRAIN_UPDATES="${PRETRAIN_UPDATES:-3000}" TUNING_UPDATES="${TUNING_UPDATES:-1000}"
    SIZE=(--arch transformer_tiny --share-all-embeddings
      --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 --encoder-attention-heads 4
      --decoder-embed-dim 128 --decoder-ffn-embed-dim 256 --decoder-attention-heads 4
      --encoder-normalize-before --decoder-normalize-before)
    ADAM=(--optimizer adam --adam-betas "(0.9, 0.98)" --lr 0.005
      --lr-scheduler polynomial_decay --warmup-updates 400 --max-tokens 1000)
    JOINT=(--max-update "$UPDATES" --total-num-update "$UPDATES" --save-interval-updates 500)
    CHOSEN="${CHOSEN:-best}"                   # few pairs are soon known by heart
    PRETRAINING=(--max-update "$PRETRAIN_UPDATES" --total-num-update "$PRETRAIN_UPDATES"
      --save-interval-updates 1000)
    TUNING=(--optimizer adafactor --lr "${TUNING_LR:-0.0005}" --lr-scheduler fixed --max-tokens 1000
      --max-update "$TUNING_UPDATES" --save-interval-updates 250)
    PAUSE=(--validate-interval 100000 --keep-interval-updates 1)
    ERRANT=(--untyped)
    NOISY=(--beam "${NOISY_BEAM:-5}")
    ;;
  paper)
    CORPORA="gigaword wikipedia simplewiki" MOST="${MOST:-70000000}"
    GENUINE="${GENUINE:-561410}"               # table 4.1; in a dry run, otherwise counted
    SEEDS="${SEEDS:-1 2 3 4 5}" SETS="${SETS:-valid test jfleg}" # 4.4.1
    SYSTEMS="${SYSTEMS:-$(bash "$HERE/systems.sh")}"
    FINAL="${FINAL:-pretrain-noisy-gigaword-70000000-sse}" ENSEMBLES="${ENSEMBLES:-1+2+3+4}" # 4.4.5
    MERGES="${MERGES:-8000}"                   # 4.4.1
    gpus 8
    MAX_TOKENS="${MAX_TOKENS:-4000}"
    BATCH_TOKENS="${BATCH_TOKENS:-32000}"      # the thesis does not tell
    UPDATE_FREQ="$(divided "$BATCH_TOKENS" GPUS MAX_TOKENS)"
    SIZE=(--arch transformer_vaswani_wmt_en_de_big --share-all-embeddings --fp16)
    batch=(--max-tokens "$MAX_TOKENS" --update-freq "$UPDATE_FREQ")
    # The rate is that of Vaswani et al. (2017), 5.3: (1024 x 4000)^-0.5 at its highest.
    ADAM=(--optimizer adam --adam-betas "(0.9, 0.98)" --adam-eps 1e-8 --lr 0.000494
      --lr-scheduler inverse_sqrt --warmup-updates 4000 "${batch[@]}")
    JOINT=(--max-epoch 40 --keep-last-epochs 20) CHOSEN="${CHOSEN:-20}" # table 4.2
    PRETRAINING=(--max-epoch 10)               # table 4.3, and the next
    TUNING=(--optimizer adafactor --lr 3e-5 --lr-scheduler fixed --max-epoch 30 "${batch[@]}")
    ERRANT=(--model "${SPACY_MODEL:-en_core_web_sm}")
    NOISY=(--beam "${NOISY_BEAM:-5}" --compute-type float16)
    ;;
esac

RUNS="$WORK/runs"                              # RUNS/SYSTEM.SEED
DATA="$WORK/data"                              # DATA/genuine, DATA/METHOD-CORPUS-AMOUNT
model() { echo "$RUNS/$1.$2/final.pt"; }       # SYSTEM SEED
GOLD="$WORK/gold"                              # GOLD/SET.m2; JFLEG's SET.src, SET.ref0, ...

# A system in parts: kind, method, corpus, amount, and spelling errors and direction as suffixes.
parts() { # SYSTEM
  IFS=- read -r kind method corpus amount suffix <<<"$1"
  sse=""
  [[ "$suffix" == sse* ]] && sse="-sse"
  return 0
}
systems() { # all of which there are runs from left to right
  # shellcheck disable=SC2086  # words apart
  printf '%s\n' $SYSTEMS | grep -vxF "$FINAL" || true
  [[ "$FINAL" == none ]] || echo "$FINAL"
}
check_systems() {
  local system kind method corpus amount suffix sse
  for system in $(systems); do
    [[ "$system" == baseline ]] && continue
    parts "$system"
    expect SYSTEMS "baseline joint upsample pretrain" "$kind"
    expect "SYSTEMS, in $system," "noisy direct spell" "${method%@*}"
    expect "SYSTEMS, in $system," "$CORPORA" "$corpus"
    if [[ ! "$amount" =~ ^[1-9][0-9]*$ ]] || ((amount > MOST)); then
      echo "SYSTEMS has '$system'; expected KIND-METHOD-CORPUS-AMOUNT, at most $MOST." >&2
      exit 2
    fi
    expect "SYSTEMS, in $system," "sse" "${suffix:-sse}"
  done
}
check_systems

# The number of fairseq's split: JFLEG is a second test set.
subset() { if [[ "$1" == jfleg ]]; then echo test1; else echo "$1"; fi; } # SET

lines_of() { # FILE NUMBER-IN-A-DRY-RUN
  if [[ -n "${DRY_RUN:-}" ]]; then echo "$2"; else wc -l <"$1"; fi
}

# What a system is trained on beside genuine pairs, as flags: all pairs together, once in an epoch;
# with upsample the genuine ones more often. Pretraining has pseudo pairs alone.
mixture() { # KIND PSEUDO AMOUNT
  local genuine pseudo="../$2/train=" times=1
  genuine="$(lines_of "$WORK/text/train.trg" "$GENUINE")"
  [[ "$1" == upsample ]] && times="$UPSAMPLE"
  pseudo+="$(lines_of "$WORK/pseudo/$2.trg" "$3")"
  if [[ "$1" == pretraining ]]; then
    echo --mix-weights "$pseudo"
  else
    echo --mix-weights "train=$((genuine * times)),$pseudo"
  fi
}

# fairseq-train on the genuine pairs, with what belongs to all models.
fit() { # FOLDER SEED FLAGS...
  quietly "$1/train.log" launch_train "$DATA/genuine" --user-dir "$USER_DIR" \
    --task tagged_translation "${SIZE[@]}" --dropout "$DROPOUT" --clip-norm "$CLIP_NORM" \
    --criterion label_smoothed_cross_entropy --label-smoothing "$LABEL_SMOOTHING" \
    --best-checkpoint-metric ppl --seed "$2" --save-dir "$1" \
    --log-format simple --log-interval 100 "${PAUSE[@]}" "${@:3}"
}

# The model of SYSTEM and SEED; killed, it goes on. FLAGS may say --right-to-left, or languages.
train() { # SYSTEM SEED FLAGS...
  local folder="$RUNS/$1.$2" kind method corpus amount suffix sse flags=() first
  have "$(model "$1" "$2")" && return
  parts "$1"
  local pseudo="$method-$corpus-$amount$sse" languages=(-s src -t trg)
  [[ "$kind" == reverse ]] && languages=(-s trg -t src)
  if [[ "$kind" == pretrain ]]; then
    first="$RUNS/pretraining-${1#pretrain-}.$2"
    pretrain "$first" "$pseudo" "$amount" "$2" "${@:3}"
    fit "$folder" "$2" "${languages[@]}" "${TUNING[@]}" --no-epoch-checkpoints \
      --finetune-from-model "$first/checkpoint_last.pt" "${@:3}"
    choose "$folder" best
    return
  fi
  [[ "$kind" == joint || "$kind" == upsample ]] &&
    read -ra flags <<<"$(mixture "$kind" "$pseudo" "$amount")"
  [[ "$CHOSEN" == best ]] && flags+=(--no-epoch-checkpoints)
  fit "$folder" "$2" "${languages[@]}" "${ADAM[@]}" "${JOINT[@]}" "${flags[@]}" "${@:3}"
  choose "$folder" "$CHOSEN"
}

pretrain() { # FOLDER PSEUDO AMOUNT SEED FLAGS...
  local flags
  have "$1/done" && return
  read -ra flags <<<"$(mixture pretraining "$2" "$3")"
  fit "$1" "$4" -s src -t trg "${ADAM[@]}" "${PRETRAINING[@]}" --no-epoch-checkpoints \
    "${flags[@]}" "${@:5}"
  into "$1/done" date
}

choose() { # FOLDER best|NUMBER
  if [[ "$2" == best ]]; then
    into "$1/final.pt" cat "$1/checkpoint_best.pt"
  else
    quietly "$1/train.log" run fairseq-ssl average "$1" --last "$2" -o "$1/final.pt"
  fi
}
