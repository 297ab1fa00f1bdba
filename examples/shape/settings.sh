# shellcheck shell=bash disable=SC2034  # the steps use them
# Settings of this recipe and their defaults for each SCALE. Set them in the environment to override
# the defaults. Sections and tables refer to Kiyono (2022), chapter 6.
#
# SCALE     tiny   the bundled toy corpus: a smoke test of all steps, two minutes on a CPU
#           small  Multi30k English to German, hours on two CPU cores or minutes on a GPU
#           paper  WMT'16 English-German, 8 GPUs
# TASKS     translation, as in Kiyono (2022); lines: lines of misread words and their correction,
#           with fewer words in training than in the test. Not in Kiyono (2022), and not at the paper scale
# KINDS     absolute, apart, shared, relative: positions. apart draws the shifts of source and target
#           separately, as in Kiyono (2022). shared draws one shift for both, which is ours
# SHIFT_FROM    kind whose model apart and shared continue from (default: none, from scratch)
# AVERAGE   number of most recent checkpoints to average
# FLAGS     flags appended to every fairseq-train, which override others
# SHIFT_FLAGS   the same for apart and shared only, such as --shape-shift-warmup 1000
# ANALYZED  splits of figures 6.4 and 6.5, such as valid,test (default: all, and the validation sets)
# DATASETS LINES_DATASETS KINDS SEEDS    restrict them to run one cell of the table, for example in a
#           Slurm array
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
CHOICES="TASKS DATASETS LINES_DATASETS LINES_SETS KINDS SHIFTS SEEDS TRANSLATED CORRECTED"
# shellcheck source=examples/common/recipe.sh
source "$HERE/../common/recipe.sh"
# shellcheck source=examples/common/launch.sh
source "$HERE/../common/launch.sh"
# shellcheck source=examples/common/words.sh
source "$HERE/../common/words.sh"

SCALE="${SCALE:-tiny}"
WORK="${WORK:-work/shape/$SCALE}"
TASKS="${TASKS:-translation}"
SEPARATOR="<sep>"                                      # 6.3.1 (iii)
RELATIVE_LIMIT="${RELATIVE_LIMIT:-16}"                 # table 6.2
BEAM="${BEAM:-4}"                                      # table 6.2
LABEL_SMOOTHING="${LABEL_SMOOTHING:-0.1}"              # table 6.2

expect SCALE "tiny small paper" "$SCALE"
# shellcheck disable=SC2086  # words apart
expect TASKS "translation$([[ "$SCALE" == paper ]] || echo " lines")" $TASKS
prepared
[[ "$SCALE" == paper ]] || gpus 1
case "$SCALE" in
  tiny)
    SOURCE=words TARGET=digits SUBWORDS=none MOSES=
    DATASETS="${DATASETS:-interpolate}"
    SEEDS="${SEEDS:-1}"
    SETS="valid:valid test:test"
    LIMIT="${LIMIT:-4}"
    SENTENCES="${SENTENCES:-3}"
    MAX_SHIFT="${MAX_SHIFT:-8}"
    UPDATES="${UPDATES:-100}"
    INTERPOLATE_UPDATES="${INTERPOLATE_UPDATES:-$UPDATES}"
    SWAPPED_LINES="${SWAPPED_LINES:-25}"
    OFFSETS="${OFFSETS:-0,2,4,8}" INTERPOLATE_OFFSETS="${INTERPOLATE_OFFSETS:-0,2,4,8}"
    LENGTH_ENDS="${LENGTH_ENDS:-2,4,6,8}"
    INTERPOLATE_LENGTH_ENDS="${INTERPOLATE_LENGTH_ENDS:-8,12,16}"
    RANK_ENDS="${RANK_ENDS:-6}"
    POSITION_ENDS="${POSITION_ENDS:-2,4}"
    INTERPOLATE_POSITION_ENDS="${INTERPOLATE_POSITION_ENDS:-4,8,12}"
    AVERAGE="${AVERAGE:-2}" interval=33
    TRAINING=(--arch shape_transformer_tiny --share-all-embeddings
      --encoder-normalize-before --decoder-normalize-before
      --optimizer adam --lr 0.003 --lr-scheduler inverse_sqrt --warmup-updates 50
      --max-tokens "$(divided 400 GPUS)" --save-interval-updates "$interval" --keep-interval-updates "$AVERAGE")
    PASSES="${PASSES:-1}" SHIFTS="${SHIFTS:-8}" LINES_UPDATES="${LINES_UPDATES:-$UPDATES}"
    LINES_TRAINING=()
    ;;
  small)
    SOURCE=en TARGET=de SUBWORDS=sentencepiece MOSES=
    DATASETS="${DATASETS:-vanilla extrapolate interpolate}"
    SEEDS="${SEEDS:-1 2 3}"
    SETS="valid:val test:test_2016_flickr"
    VOCABULARY="${VOCABULARY:-2000}"
    LIMIT="${LIMIT:-17}"               # 43% of the training pairs; 54% of the test set is longer
    SENTENCES="${SENTENCES:-10}"
    MAX_SHIFT="${MAX_SHIFT:-20}"       # selected on the validation set, see RESULTS.md
    EXTRAPOLATE_RELATIVE_LIMIT="${EXTRAPOLATE_RELATIVE_LIMIT:-5}"  # in proportion to Kiyono (2022): 16 for 50
    UPDATES="${UPDATES:-3000}"
    EXTRAPOLATE_UPDATES="${EXTRAPOLATE_UPDATES:-1500}" # as many epochs as over the complete data
    INTERPOLATE_UPDATES="${INTERPOLATE_UPDATES:-1500}"
    INTERPOLATE_FROM="${INTERPOLATE_FROM-vanilla}"  # empty: from scratch, as in Kiyono (2022)
    INTERPOLATE_LR="${INTERPOLATE_LR:-0.003}"
    SWAPPED_LINES="${SWAPPED_LINES:-100}"
    OFFSETS="${OFFSETS:-0,5,10,20}" INTERPOLATE_OFFSETS="${INTERPOLATE_OFFSETS:-0,25,50,100}"
    LENGTH_ENDS="${LENGTH_ENDS:-10,14,17,21,25,30}"
    INTERPOLATE_LENGTH_ENDS="${INTERPOLATE_LENGTH_ENDS:-160,175,190}"
    RANK_ENDS="${RANK_ENDS:-100,500,1000}"
    POSITION_ENDS="${POSITION_ENDS:-6,12,17,21,25,30}"
    INTERPOLATE_POSITION_ENDS="${INTERPOLATE_POSITION_ENDS:-40,80,120,160,200}"
    AVERAGE="${AVERAGE:-1}" interval=500 # the learning rate decays to 0, so averaging is not needed
    TRAINING=(--arch shape_transformer_tiny --share-all-embeddings
      --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 --encoder-attention-heads 4
      --decoder-embed-dim 128 --decoder-ffn-embed-dim 256 --decoder-attention-heads 4
      --encoder-normalize-before --decoder-normalize-before
      --optimizer adam --adam-betas "(0.9, 0.98)" --dropout 0.1
      --lr 0.005 --lr-scheduler polynomial_decay --warmup-updates 400
      --max-tokens "$(divided 1000 GPUS)"
      --save-interval-updates "$interval" --keep-interval-updates "$AVERAGE")
    LINES_UPDATES="${LINES_UPDATES:-6000}"
    LINES_TRAINING=(--encoder-embed-dim 64 --encoder-ffn-embed-dim 128
      --decoder-embed-dim 64 --decoder-ffn-embed-dim 128
      --validate-interval-updates 500)
    ;;
  paper)
    SOURCE=en TARGET=de SUBWORDS=subword-nmt MOSES=de
    DATASETS="${DATASETS:-vanilla extrapolate interpolate}"
    SEEDS="${SEEDS:-1 2 3 4 5}"                        # table 6.4
    SETS="valid:newstest2010 valid1:newstest2011 valid2:newstest2012 valid3:newstest2013"
    SETS+=" test:newstest2014 test1:newstest2015 test2:newstest2016"   # 6.3.1
    LIMIT="${LIMIT:-50}"                               # 6.3.1 (ii)
    SENTENCES="${SENTENCES:-10}"                       # 6.3.1 (iii)
    MAX_SHIFT="${MAX_SHIFT:-500}"                      # K, table 6.2; 40 was best on extrapolate
    UPDATES="${UPDATES:-200000}"                       # table 6.2
    INTERPOLATE_UPDATES="${INTERPOLATE_UPDATES:-$UPDATES}"
    SWAPPED_LINES="${SWAPPED_LINES:-10000}"            # table 6.3
    OFFSETS="${OFFSETS:-0,100,250,500}"                # figure 6.3
    INTERPOLATE_OFFSETS="${INTERPOLATE_OFFSETS:-$OFFSETS}"
    LENGTH_ENDS="${LENGTH_ENDS:-10,20,30,40,50,60,70}"
    INTERPOLATE_LENGTH_ENDS="${INTERPOLATE_LENGTH_ENDS:-100,200,300,400,500}"
    RANK_ENDS="${RANK_ENDS:-5000,15000,25000}"         # figure 6.5
    POSITION_ENDS="${POSITION_ENDS:-10,20,30,40,50,60,70}"
    INTERPOLATE_POSITION_ENDS="${INTERPOLATE_POSITION_ENDS:-100,200,300,400,500}"
    gpus 8
    NORM="${NORM:-pre}"                                # authors' code; not in Kiyono (2022)
    EMBEDDING_INIT="${EMBEDDING_INIT:-glorot}"         # authors' code; fairseq's default is normal
    expect NORM "pre post" "$NORM"
    expect EMBEDDING_INIT "glorot normal" "$EMBEDDING_INIT"
    MAX_TOKENS="${MAX_TOKENS:-7000}"
    UPDATE_FREQ="$(divided 112000 GPUS MAX_TOKENS)"    # 112k tokens a batch, table 6.2
    AVERAGE="${AVERAGE:-10}" interval=5000             # table 6.2
    # Noam with factor 2 (table 6.2): its peak is 2 / sqrt(512 * 8000).
    TRAINING=(--arch shape_transformer_wmt_en_de --share-all-embeddings
      --optimizer adam --adam-betas "(0.9, 0.98)" --adam-eps 1e-8 --clip-norm 0
      --lr 0.000988212 --lr-scheduler inverse_sqrt --warmup-updates 8000
      --dropout 0.1 --attention-dropout 0.1 --activation-dropout 0.1
      --max-source-positions 4096 --max-target-positions 4096
      --max-tokens "$MAX_TOKENS" --update-freq "$UPDATE_FREQ" --fp16
      --save-interval-updates "$interval" --keep-interval-updates "$AVERAGE")
    TRAINING+=(--shape-embedding-init "$EMBEDDING_INIT")
    [[ "$NORM" == pre ]] && TRAINING+=(--encoder-normalize-before --decoder-normalize-before)
    ;;
esac
# shellcheck disable=SC2086  # words apart
expect KINDS "absolute apart shared relative" ${KINDS:-}
# shellcheck disable=SC2086
expect DATASETS "vanilla extrapolate interpolate" $DATASETS
expect SHIFT_FROM absolute ${SHIFT_FROM:+"$SHIFT_FROM"}

# Lines of OCR words: extrapolate has 1 to 4 words a line in training and up to 12 in the test,
# interpolate 10 in both. valid has lines as in training, valid1 as in the test.
LINES_DATASETS="${LINES_DATASETS:-extrapolate interpolate}"
LINES_SETS="${LINES_SETS:-valid1 test}"
FOLD="${FOLD:-0}"
PASSES="${PASSES:-4}"                                  # lines that each word is in
SHIFTS="${SHIFTS:-40 100}"                             # K of apart and shared
LINES_BEAM="${LINES_BEAM:-1}"
LINES_ENDS="${LINES_ENDS:-20 40 60 80}"                # source lengths in characters
# shellcheck disable=SC2086  # words apart
expect LINES_DATASETS "extrapolate interpolate" $LINES_DATASETS
# shellcheck disable=SC2086
expect LINES_SETS "valid valid1 test" $LINES_SETS
# Data sets of translation and of lines, which have the prefix lines.
TRANSLATED="$([[ " $TASKS " != *" translation "* ]] || echo "$DATASETS")"
# shellcheck disable=SC2086  # words apart
CORRECTED="$([[ " $TASKS " != *" lines "* ]] || printf 'lines.%s ' $LINES_DATASETS)"

# SETS has pairs of a held-out split in fairseq and its file name in DATA_DIR.
HELD_OUT="$(for pair in $SETS; do echo "${pair%:*}"; done)"
# Splits of figure 6.4, and of figure 6.5, which is of the validation sets.
LENGTH_SPLITS="${ANALYZED:-$(paste -sd , <<<"$HELD_OUT")}"
TOKEN_SPLITS="${ANALYZED:-$(grep ^valid <<<"$HELD_OUT" | paste -sd ,)}"
EXTRAPOLATE_UPDATES="${EXTRAPOLATE_UPDATES:-$UPDATES}"
EXTRAPOLATE_RELATIVE_LIMIT="${EXTRAPOLATE_RELATIVE_LIMIT:-$RELATIVE_LIMIT}"
# Print the number of updates of a data set.
updates() { # DATASET
  case "$1" in
    extrapolate) echo "$EXTRAPOLATE_UPDATES" ;;
    interpolate) echo "$INTERPOLATE_UPDATES" ;;
    lines.*) echo "$LINES_UPDATES" ;;
    *) echo "$UPDATES" ;;
  esac
}
for dataset in $TRANSLATED $CORRECTED; do
  # A single checkpoint is checkpoint_last.pt, which every training run saves.
  [[ "$AVERAGE" == 1 ]] || enough_checkpoints AVERAGE "$(($(updates "$dataset") / interval))"
done

RUNS="$WORK/runs"
folder() { echo "$RUNS/$1.$2.$3"; }         # DATASET KIND SEED
model() { echo "$(folder "$@")/final.pt"; } # DATASET KIND SEED

# Print the kinds of a data set. Those of lines name K, such as apart-40.
kinds() { # DATASET
  local kind shift
  if [[ "$1" != lines.* ]]; then
    echo "${KINDS:-absolute apart relative}"         # 6.2: APE, SHAPE, RPE
    return
  fi
  for kind in ${KINDS:-absolute apart shared relative}; do
    case "$kind" in
      apart | shared) for shift in $SHIFTS; do echo "$kind-$shift"; done ;;
      *) echo "$kind" ;;
    esac
  done
}

# Print the held-out sets of a data set.
held_out() { # DATASET
  if [[ "$1" == lines.* ]]; then echo "$LINES_SETS"; else echo "$HELD_OUT"; fi
}

# Print the flags of a kind of positions.
positions() { # DATASET KIND
  local limit="$RELATIVE_LIMIT" shift="$MAX_SHIFT" more
  read -ra more <<<"${SHIFT_FLAGS:-}"
  [[ "$1" == extrapolate ]] && limit="$EXTRAPOLATE_RELATIVE_LIMIT"
  [[ "$2" == *-* ]] && shift="${2#*-}"
  case "${2%-*}" in
    absolute) echo --shape-positions absolute ;;
    apart) echo --shape-positions shifted --shape-max-shift "$shift" "${more[@]}" ;;
    shared)
      echo --shape-positions shifted --shape-max-shift "$shift" --shape-shared-shift "${more[@]}"
      ;;
    relative) echo --shape-positions relative --shape-relative-limit "$limit" ;;
  esac
}
