# shellcheck shell=bash disable=SC2034  # the steps use them
# Settings of the complete system: rows (a) to (f) of table 5.5, and p, the post-ensemble (5.3.9). To be
# sourced after settings.sh, with the rows of a step as arguments.
#
#   a   BASE                                        one model (5.3.1)
#   b   SYSTEM: tagged back-translation, deep       each of MEMBERS (5.3.3)
#   c   b, fine-tuned                               each of MEMBERS (5.3.4)
#   d   ensemble of MEMBERS of c                    (5.3.5)
#   e   d, re-ranked by right-to-left models        as many as MEMBERS (5.3.6)
#   f   both n-best lists, re-ranked                by eight scores, with weights tuned on valid (5.3.7)
#   p   post-ensemble of d, e and f                 by word vectors (5.3.9)
ROWS="${*:-$ROWS}"
R2L="${R2L-yes}"                       # empty: no right-to-left models and no row e
NBEST="${NBEST:-$BEAM}"                # n of 5.3.7; not in Kiyono (2022)
REVERSE="${REVERSE:-$RUNS/reverse.1/final.pt}"          # 5.3.7; an ensemble is PATH:PATH
REVERSE_R2L="${REVERSE_R2L:-$RUNS/reverse-r2l.1/final.pt}"
TUNING="${TUNING:---method mert}"      # Kiyono (2022) uses a grid, whose step it does not specify
# The task translation of fairseq prints outputs of right-to-left models with the last token first.
TURNED=(--right-to-left r2l)
FEATURES="s2t,${R2L:+s2t-r2l,}t2s,${R2L:+t2s-r2l,}lm,lm-slor,mlm,mlm-penlp"

# shellcheck disable=SC2086  # words apart
expect ROWS "a b c d e f p" $ROWS
case "$SCALE" in
  tiny)
    SYSTEM="${SYSTEM:-tagged}" MEMBERS="${MEMBERS:-1 2}"
    STAGES="${STAGES:-genuine:20}"
    FINE=(--lr 0.0001 --max-tokens "$(divided 1000 GPUS)")
    FINE_SAVE=3 FINE_AVERAGE=2
    LM=(--arch transformer_lm --decoder-layers 1 --decoder-embed-dim 32 --decoder-ffn-embed-dim 64
      --decoder-attention-heads 2 --optimizer adam --lr 0.003 --max-tokens "$(divided 1000 GPUS)"
      --max-update 60 --tokens-per-sample 64)
    MLM=(--arch roberta_base --encoder-layers 1 --encoder-embed-dim 32 --encoder-ffn-embed-dim 64
      --encoder-attention-heads 2 --optimizer adam --lr 0.003 --max-tokens "$(divided 1000 GPUS)"
      --max-update 60 --tokens-per-sample 64)
    SCORING=(--jobs 1)
    ;;
  small)
    SYSTEM="${SYSTEM:-tagged}" MEMBERS="${MEMBERS:-1 2 3 4}"
    STAGES="${STAGES:-genuine:200}"    # held-out sets are from the same corpus as the genuine pairs
    FINE=(--lr 0.0002 --max-tokens "$(divided 1000 GPUS)")
    FINE_SAVE=15 FINE_AVERAGE=8        # 5.3.4
    LM=(--arch transformer_lm --decoder-layers 3 --decoder-embed-dim 128
      --decoder-ffn-embed-dim 256 --decoder-attention-heads 4
      --share-decoder-input-output-embed --optimizer adam --adam-betas "(0.9, 0.98)"
      --lr 0.002 --lr-scheduler inverse_sqrt --warmup-updates 400 --dropout 0.1 --clip-norm 1.0
      --max-tokens "$(divided 2000 GPUS)" --max-update 4000 --tokens-per-sample 256 --save-interval-updates 500)
    MLM=(--arch roberta_base --encoder-layers 3 --encoder-embed-dim 128
      --encoder-ffn-embed-dim 256 --encoder-attention-heads 4
      --optimizer adam --adam-betas "(0.9, 0.98)"
      --lr 0.001 --lr-scheduler polynomial_decay --warmup-updates 400 --total-num-update 8000
      --dropout 0.1 --clip-norm 1.0 --weight-decay 0.01
      --max-tokens "$(divided 2000 GPUS)" --max-update 8000 --tokens-per-sample 256 --save-interval-updates 1000)
    SCORING=()
    ;;
  paper)
    SYSTEM="${SYSTEM:-deep}" MEMBERS="${MEMBERS:-1 2 3 4}"   # 5.3.5
    RATE=1e-5                                                # 5.3.4
    [[ "$SOURCE-$TARGET" == de-en ]] && RATE=1e-6
    FINE_TOKENS="${FINE_TOKENS:-2500}"                       # for one GPU, also the next
    FINE_UPDATE_FREQ="$(divided 20000 GPUS FINE_TOKENS)"     # 20k tokens a batch, 5.3.4
    BLOCKS=32 MLM_UPDATE_FREQ="$(divided 2048 GPUS BLOCKS)"
    FINE=(--lr "$RATE" --max-tokens "$FINE_TOKENS" --update-freq "$FINE_UPDATE_FREQ" --fp16
      --adam-betas "(0.9, 0.98)" --adam-eps 1e-8 --clip-norm 1.0
      --keep-interval-updates 8)
    FINE_SAVE=20 FINE_AVERAGE=8
    LM=(--arch transformer_lm_big --share-decoder-input-output-embed   # table 5.1
      --optimizer adam --adam-betas "(0.9, 0.98)" --adam-eps 1e-8 --clip-norm 1.0
      --lr 0.0005 --lr-scheduler inverse_sqrt --warmup-updates 4000 --dropout 0.1
      --weight-decay 0.0 --max-tokens "$MAX_TOKENS"
      --update-freq "$UPDATE_FREQ" --fp16
      --max-update 50000 --tokens-per-sample 512 --save-interval-updates 2000
      --keep-interval-updates 1)
    MLM=(--arch roberta_base                                           # table 5.1
      --optimizer adam --adam-betas "(0.9, 0.98)" --adam-eps 1e-8 --clip-norm 1.0
      --lr 0.0005 --lr-scheduler polynomial_decay --warmup-updates 10000
      --total-num-update 125000 --dropout 0.1 --weight-decay 0.01
      --batch-size "$BLOCKS" --update-freq "$MLM_UPDATE_FREQ" --fp16
      --max-update 125000 --tokens-per-sample 512 --save-interval-updates 5000
      --keep-interval-updates 1)
    SCORING=(--fp16)
    ;;
esac
# shellcheck disable=SC2086  # words apart
expect SYSTEM "tagged deep bt ft tagged-ft noisy base" $SYSTEM

# Each stage has a folder of its name, and averages the last checkpoints.
for stage in $STAGES; do
  if [[ ! "$stage" =~ ^[^:/]+:[1-9][0-9]{0,8}$ ]]; then
    echo "STAGES has '$stage'. Expected NAME:UPDATES." >&2
    exit 2
  elif ((${stage#*:} / FINE_SAVE < FINE_AVERAGE)); then
    echo "STAGES has '$stage'. Expected $((FINE_SAVE * FINE_AVERAGE)) updates or more, which save $FINE_AVERAGE checkpoints." >&2
    exit 2
  elif [[ " $STAGES" == *" ${stage%:*}:"*" ${stage%:*}:"* ]]; then
    echo "STAGES has several stages of the name ${stage%:*}. Expected different names." >&2
    exit 2
  fi
done
# Rows must be tuned and scored on sets that are not in the training data of a stage.
for stage in $STAGES; do
  for set in $ROW_SETS; do
    for name in $(stage_files "${stage%:*}"); do
      if [[ " $SETS " == *" $set:${name%.orig-*} "* ]]; then
        echo "ROW_SETS has '$set', which is ${name%.orig-*}, but stage $stage is trained on $name." \
          "Expected sets that no stage is trained on." >&2
        exit 2
      fi
    done
  done
done

OUT="$WORK/rows"     # OUT/ROW.SEED/SET.txt; SEED is 1 for ensembles
LISTS="$WORK/nbest"  # LISTS/SET.nbest, LISTS/SET.both.nbest, LISTS/SET.all.nbest
LM_DATA="$DATA/lm"

row() { [[ " $ROWS " =~ \ ($1)\  ]]; } # ROW|ROW...

# Print the members of an ensemble, with colons between.
ensemble() { # KIND
  local member
  for member in $MEMBERS; do model "$1" "$member"; done | paste -sd :
}
seeds_of() { if [[ "$1" == [bc] ]]; then echo "$MEMBERS"; else echo 1; fi; } # ROW
