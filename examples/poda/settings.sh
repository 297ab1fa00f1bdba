# shellcheck shell=bash disable=SC2034  # the steps use them
# Settings of this recipe and their defaults for each SCALE. Set them in the environment to override
# the defaults. Sections and tables refer to the paper.
#
# SCALE     tiny   toy sentences: a smoke test of all steps, two minutes on a CPU
#           small  139,000 English sentences in DATA_DIR, or the output of common/learner_text.sh;
#                  hours on a CPU or a GPU
#           paper  Wikipedia and the Billion Word Benchmark, weeks on 4 GPUs
# TASKS     learner: correct synthetic learner errors; gec: correct learner text, if DATA_DIR is the output
#           of common/learner_text.sh; at the paper scale cnndm, gigaword, conll, jfleg
# AMOUNTS   numbers of training pairs, or all
# KINDS     scratch; pretrained; encoder_only and decoder_only, with one pre-trained side (table 9);
#           untuned, the pre-trained model without fine-tuning (tables 6 and 7); afterN, fine-tuned from the
#           checkpoint after N updates of pre-training, a multiple of KEEP_UPDATES (figure 2)
# STARTS    number of pre-training's last epochs to fine-tune from; start N is of seeds N, N + STARTS, ...
# SEEDS     random seeds of fine-tuning; ENSEMBLE=1 also decodes with an ensemble of all
# FLAGS     flags appended to every fairseq-train, which override others
# PRETRAIN_FLAGS, FINETUNE_FLAGS, DECODING_FLAGS   the same for the commands of one step
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
CHOICES="TASKS AMOUNTS KINDS SEEDS SETS ENSEMBLE"
# shellcheck source=examples/common/recipe.sh
source "$HERE/../common/recipe.sh"
# shellcheck source=examples/common/launch.sh
source "$HERE/../common/launch.sh"
# shellcheck source=examples/common/grammar.sh
source "$HERE/../common/grammar.sh"

SCALE="${SCALE:-tiny}"
WORK="${WORK:-work/poda/$SCALE}"
SEED="${SEED:-1}"                             # random seed of the data and of pre-training
NOISE="${NOISE:-shuffle}"                     # algorithm 1, with the rates of section 2.2
ERRORS="${ERRORS:-learner}"                   # noise of the task learner
CLIP_NORM="${CLIP_NORM:-2}"                   # section 3.1
DROPOUT="${DROPOUT:-0.2}"                     # of embeddings and sublayers, section 3.1
SEGMENT="${SEGMENT:-128}"                     # words of a segment, section 2.3
LEAST_WORDS="${LEAST_WORDS:-3}"               # words of a paragraph, section 2.3
MOST_UNKNOWN="${MOST_UNKNOWN:-0.3}"           # share of its words, section 2.3
DECODE_BATCH="${DECODE_BATCH:-64}"            # decoding batch size in sentences

expect SCALE "tiny small paper" "$SCALE"
prepared
[[ "$SCALE" == paper ]] || gpus 1
case "$SCALE" in
  tiny)
    AMOUNTS="${AMOUNTS:-200 all}" KINDS="${KINDS:-scratch pretrained}" SEEDS="${SEEDS:-1}"
    TUNING_LINES="${TUNING_LINES:-400}" HELD_OUT="${HELD_OUT:-100}" VOCABULARY="${VOCABULARY:-100}"
    LAYERS="${LAYERS:-1}" DIM="${DIM:-64}" INNER_DIM="${INNER_DIM:-128}" HEADS="${HEADS:-2}"
    PRETRAIN_EPOCHS="${PRETRAIN_EPOCHS:-4}"
    EPOCHS="${EPOCHS:-4}" LEAST_UPDATES="${LEAST_UPDATES:-10}" # see schedule below
    LR="${LR:-3e-3}" WARMUP="${WARMUP:-20}" EMA_DECAY="${EMA_DECAY:-0.9}"
    KEEP_RATE="${KEEP_RATE:-1}"               # with less, such a short training does not learn to copy
    ;;
  small)
    if has_learner_text; then
      TASKS="${TASKS:-gec}" TUNING_LINES="${TUNING_LINES:-58000}" PRETRAIN_EPOCHS="${PRETRAIN_EPOCHS:-2}"
    fi
    AMOUNTS="${AMOUNTS:-1000 10000 all}" SEEDS="${SEEDS:-1 2 3}"
    KINDS="${KINDS:-scratch pretrained encoder_only decoder_only untuned}"
    TUNING_LINES="${TUNING_LINES:-30000}" HELD_OUT="${HELD_OUT:-1000}"
    VOCABULARY="${VOCABULARY:-8000}"
    LAYERS="${LAYERS:-2}" DIM="${DIM:-128}" INNER_DIM="${INNER_DIM:-512}" HEADS="${HEADS:-4}"
    PRETRAIN_EPOCHS="${PRETRAIN_EPOCHS:-10}"
    EPOCHS="${EPOCHS:-30}" LEAST_UPDATES="${LEAST_UPDATES:-1500}" # see schedule below
    LR="${LR:-1e-3}" WARMUP="${WARMUP:-400}" EMA_DECAY="${EMA_DECAY:-0.995}"
    ;;
  paper)
    TASKS="${TASKS:-cnndm gigaword conll jfleg}"
    AMOUNTS="${AMOUNTS:-all}" SEEDS="${SEEDS:-1 2 3 4}" ENSEMBLE="${ENSEMBLE:-1}"
    KINDS="${KINDS:-scratch pretrained encoder_only decoder_only untuned}"
    HELD_OUT="${HELD_OUT:-10000}" VOCABULARY="${VOCABULARY:-50000}" # section 3.1
    LEAST_COUNT="${LEAST_COUNT:-3}"           # weight of changed words, not in the paper
    LAYERS="${LAYERS:-6}" DIM="${DIM:-512}" INNER_DIM="${INNER_DIM:-4096}" HEADS="${HEADS:-8}"
    PRETRAIN_UPDATES="${PRETRAIN_UPDATES:-5000000}" # section 2.3, 14 to 19 epochs
    SAVE_UPDATES="${SAVE_UPDATES:-5000}" KEEP_UPDATES="${KEEP_UPDATES:-250000}"
    EPOCHS="${EPOCHS:-0}" LEAST_UPDATES="${LEAST_UPDATES:-0}" # until the learning rate reaches STOP_LR
    OPTIMIZER="${OPTIMIZER:-nag}"             # section 3.1, also the next three
    LR="${LR:-2e-3}" STOP_LR="${STOP_LR:-1e-4}" WARMUP="${WARMUP:-0}" WARMUP_LR="${WARMUP_LR:-$LR}"
    EMA_DECAY="${EMA_DECAY:-0.9995}" INNER_DROPOUT="${INNER_DROPOUT:-0.2}"
    gpus 4
    MAX_TOKENS="${MAX_TOKENS:-3000}"          # section 2.3, on each of 4 GPUs
    # A text that is longer than a batch is an error in fairseq.
    if [[ " $TASKS " == *" cnndm "* ]] && ((MAX_TOKENS < 801 || 12000 / GPUS < 801)); then
      echo "GPUS=$GPUS MAX_TOKENS=$MAX_TOKENS: sources of cnndm have up to 801 tokens, which must fit into the part of a" \
        "batch on a GPU. Expected 12 GPUs or fewer, and MAX_TOKENS of 801 or more." >&2
      exit 2
    fi
    UPDATE_FREQ="$(divided 12000 GPUS MAX_TOKENS)" TOKEN_SHARE="$MAX_TOKENS"
    STARTS="${STARTS:-4}"                     # number of checkpoints to fine-tune from, 3.1
    ;;
esac
TASKS="${TASKS:-learner}"
KEEP_RATE="${KEEP_RATE:-0.03}"                # share of unchanged words in the loss, section 2.2
ENSEMBLE="${ENSEMBLE:-0}"
STARTS="${STARTS:-1}"
OPTIMIZER="${OPTIMIZER:-adam}"
STOP_LR="${STOP_LR:-5e-5}"
WARMUP_LR="${WARMUP_LR:-1e-4}"                # initial learning rate; must be above STOP_LR
MAX_TOKENS="${MAX_TOKENS:-3000}"
UPDATE_FREQ="${UPDATE_FREQ:-1}"
TOKEN_SHARE="${TOKEN_SHARE:-$(divided "$MAX_TOKENS" GPUS)}" # on each GPU
PRETRAIN_UPDATES="${PRETRAIN_UPDATES:-0}"     # max updates of pre-training, 0: no maximum
PRETRAIN_EPOCHS="${PRETRAIN_EPOCHS:-0}"       # max epochs of pre-training, 0: no maximum
SAVE_UPDATES="${SAVE_UPDATES:-0}"             # updates between checkpoints within an epoch, 0: none
KEEP_UPDATES="${KEEP_UPDATES:-0}"             # keep those after multiples of KEEP_UPDATES, 0: keep the last one
INNER_DROPOUT="${INNER_DROPOUT:-0}"           # of attention weights and within feed-forward networks
LEAST_COUNT="${LEAST_COUNT:-1}"
COPY_HEADS="${COPY_HEADS:-1}"                 # of the copy attention; not in the paper
BEAM="${BEAM:-5}"                             # not in the paper
SENTENCE_MARK="${SENTENCE_MARK:-<q>}"         # separator between the sentences of a summary of cnndm
PROMPTS="${PROMPTS:-the best university in the world .|the meaning of life is .}" # table 12

known=learner
if [[ "$SCALE" == paper ]]; then
  known="cnndm gigaword conll jfleg"
elif [[ "$SCALE" == small ]] && has_learner_text; then
  known=gec
fi
# shellcheck disable=SC2086  # words apart
expect TASKS "$known" $TASKS
for kind in $KINDS; do
  [[ "$kind" =~ ^after[1-9][0-9]*$ ]] ||
    expect KINDS "scratch pretrained encoder_only decoder_only untuned afterN" "$kind"
done
if [[ " <s> <pad> </s> <unk> " == *" $SENTENCE_MARK "* ]]; then
  echo "SENTENCE_MARK is '$SENTENCE_MARK', a special symbol of fairseq. Expected a different word, such as <q>." >&2
  exit 2
fi
((!PRETRAIN_EPOCHS)) || enough_checkpoints STARTS "$PRETRAIN_EPOCHS"
most="${TUNING_LINES:-999999999}"
for amount in $AMOUNTS; do
  [[ "$amount" == all ]] && continue
  if [[ ! "$amount" =~ ^[1-9][0-9]{0,8}$ ]] || ((amount > most)); then
    echo "AMOUNTS has '$amount'. Expected all, or a number of pairs, at most $most." >&2
    exit 2
  fi
done

# Models are RUNS/TASK.AMOUNT.KIND.SEED/final.pt.
RUNS="$WORK/runs"
PRETRAINED="$WORK/pretrained" # PRETRAINED/start.N.pt
data() { echo "$WORK/data/$1.$2"; }           # TASK AMOUNT
held_out() { echo "$WORK/held-out/$1.$2"; }   # TASK SET: folder with SET.src-trg.src and the files of gold
gold() { # TASK SET: endings of the files that a held-out set is scored with
  case "$1.$2" in
    jfleg.* | *.jfleg*) echo ref0 ref1 ref2 ref3 ;;
    conll.* | gec.*) echo m2 ;;
    *) echo trg ;;
  esac
}
model() { echo "$RUNS/$1.$2.$3.$4/final.pt"; } # TASK AMOUNT KIND SEED
starts() { seq "$STARTS"; }
# Print how many epochs pre-training keeps. The number is the same for 2 to 4 starts, so that STARTS can be
# lowered after pre-training that ended early. Step 2 does not name STARTS, since its targets would be rejected.
kept_epochs() { echo "$((STARTS == 1 || STARTS > 4 ? STARTS : 4))"; }
start() { echo "$PRETRAINED/start.$((($1 - 1) % STARTS + 1)).pt"; } # SEED
sets() { # TASK: sets to decode
  case "$1.$SCALE" in
    learner.small) echo "${SETS:-valid test jfleg}" ;;
    gec.*) echo "${SETS:-valid dev jfleg}" ;;
    learner.tiny) echo "${SETS:-test}" ;;
    *) echo "${SETS:-test}" ;;
  esac
}
seeds() { # KIND: seeds; untuned has one model
  if [[ "$1" == untuned ]]; then echo 1; else echo "$SEEDS"; fi
}
each_model() { # COMMAND...: call it with TASK AMOUNT KIND SEED of each model
  local task amount kind seed
  for task in $TASKS; do
    for amount in $AMOUNTS; do
      for kind in $KINDS; do
        for seed in $(seeds "$kind"); do "$@" "$task" "$amount" "$kind" "$seed"; done
      done
    done
  done
}

# Flags of pre-training and fine-tuning.
common_flags() {
  echo "--copy-vocabulary $VOCABULARY --copy-attention-heads $COPY_HEADS" \
    "--encoder-layers $LAYERS --encoder-embed-dim $DIM --encoder-ffn-embed-dim $INNER_DIM" \
    "--encoder-attention-heads $HEADS --decoder-layers $LAYERS --decoder-embed-dim $DIM" \
    "--decoder-ffn-embed-dim $INNER_DIM --decoder-attention-heads $HEADS --dropout $DROPOUT" \
    "--attention-dropout $INNER_DROPOUT --activation-dropout $INNER_DROPOUT" \
    "--arch pointer_transformer --optimizer $OPTIMIZER --clip-norm $CLIP_NORM --lr $LR" \
    "--lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5 --lr-threshold 0" \
    "--stop-min-lr $STOP_LR --warmup-init-lr $WARMUP_LR --store-ema" \
    "--max-tokens $TOKEN_SHARE --update-freq $UPDATE_FREQ --log-format simple --log-interval 100"
}

# Print the flags of the length of a fine-tuning. Few pairs have few updates per epoch, so it has at least
# LEAST_UPDATES updates. Warm-up takes the first tenth. Then the average of the weights starts, over
# about a twentieth of the updates. With LEAST_UPDATES=0 warm-up and average are as in pre-training.
schedule() { # TASK AMOUNT
  local updates first
  if ((!LEAST_UPDATES)); then
    echo "--warmup-updates $WARMUP --ema-decay $EMA_DECAY"
    if ((EPOCHS)); then echo "--max-epoch $EPOCHS"; fi
    return
  fi
  updates=$((EPOCHS * $(tokens "$@") / (GPUS * TOKEN_SHARE * UPDATE_FREQ)))
  if ((updates < LEAST_UPDATES)); then updates="$LEAST_UPDATES"; fi
  first=$((updates / 10))
  echo "--max-update $updates --warmup-updates $first --ema-start-update $first" \
    "--ema-decay $(awk "BEGIN { print 1 - 1 / (1 + $updates / 20) }")"
}
tokens() { # TASK AMOUNT: count source tokens with </s>, or estimate them in a dry run
  local sources pairs="${2/all/$TUNING_LINES}"
  sources="$(data "$@")/train.src-trg.src"
  await "$sources"
  if [[ -e "$sources" ]]; then
    wc -lw <"$sources" | awk '{ print $1 + $2 }'
  else
    echo "$((14 * pairs))"
  fi
}
