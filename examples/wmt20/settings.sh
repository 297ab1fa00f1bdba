# shellcheck shell=bash disable=SC2034  # the steps use them
# Settings of this recipe and their defaults for each SCALE. Set them in the environment to override
# the defaults. Sections and tables refer to Kiyono (2022), chapter 5.
#
# SCALE     tiny   the bundled toy corpus: a smoke test of all steps, two minutes on a CPU
#           small  Multi30k English-German with 5,000 genuine pairs, or small_parallel_enja
#                  English-Japanese with 10,000, in the direction of SOURCE and TARGET; hours on two
#                  CPU cores
#           paper  WMT'20 English-German or English-Japanese, 8 GPUs
# SETS             held-out sets SPLIT:NAME, with fairseq's SPLIT: valid, test, test1, ...
# ROWS             rows of table 5.5, also arguments of steps 7 to 9; see system.sh. Step 1 checks the files that
#                  they need in DATA_DIR
# CHOSEN           best: the best checkpoint on the validation set; or the number of last ones to average
# FLAGS            flags appended to every fairseq-train, which override others
# SYSTEMS SEEDS    restrict them to run one cell of the table, for example in a Slurm array
# SHARD=I/N        with 3_generate.sh: translate the I-th of N parts of the monolingual text, then exit
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
CHOICES="SYSTEMS SEEDS ROWS MEMBERS READ_AS ROW_SETS"
# shellcheck source=examples/common/recipe.sh
source "$HERE/../common/recipe.sh"
# shellcheck source=examples/common/launch.sh
source "$HERE/../common/launch.sh"
one_line SETS STAGES NEWS CLEAN FILTER_CLEAN

SCALE="${SCALE:-tiny}"
SYSTEMS="${SYSTEMS:-base bt tagged ft tagged-ft noisy}" # tables 5.4 and 5.8; noisy: 4.3.1;
                                                       # deep, deep@12: table 5.4; tagged@50, tagged@33,
                                                       # tagged@25: table 5.7; base@4000, ...: table 5.2
BT="<BT>" FT="<FT>"                                    # 5.3.3, 5.5.2
READ_AS="${READ_AS:-}"                                 # bt or ft: tag of held-out sources in steps 5 and 6
LENGTH_PENALTY="${LENGTH_PENALTY:-1.0}"                # 5.3.3
DEEP_LAYERS="${DEEP_LAYERS:-9}"                        # of the system deep, 5.3.3
BETA="${BETA:-6}"                                      # beta_random, 4.3.1
LABEL_SMOOTHING="${LABEL_SMOOTHING:-0.1}"              # table 5.1
DROPOUT="${DROPOUT:-0.3}"                              # table 5.1
LENGTHS=()                                             # max length of translations, as in fairseq
SAMPLE="${SAMPLE:-}"                                   # max synthetic pairs of each kind (default: all)
MIX_EPOCH_PAIRS="${MIX_EPOCH_PAIRS:-}"                 # pairs in an epoch of mixed data (default: all)
FILTER_CLEAN="${FILTER_CLEAN:-}"                       # clean pairs of the learned filter (default: valid)
ENGINE=(--engine ctranslate2)
NOISY_ENGINE=(--engine fairseq)

expect SCALE "tiny small paper" "$SCALE"
[[ "$SCALE" == paper ]] || gpus 1
case "$SCALE" in
  tiny)
    SOURCE="${SOURCE:-words}" TARGET="${TARGET:-digits}"
    GENUINE="${GENUINE:-500}" TOY_LINES="${TOY_LINES:-2000}" # the other pairs are monolingual text
    SEEDS="${SEEDS:-1}"
    SETS="${SETS:-valid:valid test:test}"
    VOCABULARY="${VOCABULARY:-50}"
    UPDATES="${UPDATES:-60}"
    BEAM="${BEAM:-3}"
    MODEL=(--arch transformer_tiny)
    SCHEDULE=(--optimizer adam --lr 0.003 --lr-scheduler inverse_sqrt
      --warmup-updates 20 --max-tokens "$(divided 1000 GPUS)")
    SAVE_UPDATES=30
    CHOSEN="${CHOSEN:-best}"
    VECTORS=(--dimensions 10 --buckets 1000)
    LENGTHS=(--max-len-b 30) # barely trained models do not generate </s>
    ;;
  small)
    SOURCE="${SOURCE:-en}" TARGET="${TARGET:-de}"
    if [[ "$SOURCE$TARGET" == *ja* ]]; then
      SETS="${SETS:-valid:dev test:test}" # the test set of the corpus, or the last 500 pairs of train
      GENUINE="${GENUINE:-10000}" VOCABULARY="${VOCABULARY:-4000}"
    fi
    SETS="${SETS:-valid:val test:test_2016_flickr}"
    GENUINE="${GENUINE:-5000}"         # genuine pairs; the sides of the other 24,000 are monolingual text
    VOCABULARY="${VOCABULARY:-2000}"
    UPDATES="${UPDATES:-3000}"
    MODEL=(--arch transformer_tiny --share-decoder-input-output-embed
      --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 --encoder-attention-heads 4
      --decoder-embed-dim 128 --decoder-ffn-embed-dim 256 --decoder-attention-heads 4
      --encoder-normalize-before --decoder-normalize-before)
    SCHEDULE=(--optimizer adam --adam-betas "(0.9, 0.98)"
      --lr 0.005 --lr-scheduler polynomial_decay --warmup-updates 400
      --total-num-update "$UPDATES" --max-tokens "$(divided 1000 GPUS)")
    SAVE_UPDATES=500
    CHOSEN="${CHOSEN:-best}"           # best on the validation set, since models overfit to few pairs
    VECTORS=(--dimensions 100 --buckets 100000)
    ;;
  paper)
    SOURCE="${SOURCE:-en}" TARGET="${TARGET:-de}"
    GENUINE=all
    if [[ "$SOURCE$TARGET" == *ja* ]]; then
      SETS="${SETS:-valid:newsdev2020 test:newstest2020}"   # the official validation set, 5.4
      FILTER_CLEAN="${FILTER_CLEAN:-newsdev2020}"           # 5.5.1
      UPDATES="${UPDATES:-80000}"                           # table 5.1
      STAGES="${STAGES:-clean:2000 news:200}"               # 5.3.4
      CLEAN="${CLEAN:-kftt news-commentary}" NEWS="${NEWS:-news-commentary}"
    fi
    STAGES="${STAGES:-news:200}"
    NEWS="${NEWS:-$(echo newstest{2008..2018}".orig-$SOURCE")}"
    [[ "$SOURCE-$TARGET" == en-ja ]] && SAMPLE="${SAMPLE:-235000000}"   # of 1,777 million, table 5.3
    # Tables 5.4, 5.7 and 5.8 have 2014, 2018 and 2019; table 5.5 has 2019, table 5.6 has 2020.
    SETS="${SETS:-valid:newstest2019 test:newstest2020 test1:newstest2014 test2:newstest2018}"
    FILTER_CLEAN="${FILTER_CLEAN:-$(echo newstest{2009..2019})}"        # 5.5.1
    MIX_EPOCH_PAIRS="${MIX_EPOCH_PAIRS:-20000000}"     # 240 MB per process; not in Kiyono (2022)
    VOCABULARY="${VOCABULARY:-32000}"                  # 5.3.2
    UPDATES="${UPDATES:-40000}"                        # table 5.1
    LAYERS="${LAYERS:-6}"                              # layers of all systems but deep
    gpus 8
    MAX_TOKENS="${MAX_TOKENS:-4000}"
    UPDATE_FREQ="$(divided 512000 GPUS MAX_TOKENS)"    # 512k tokens a batch, table 5.1
    MODEL=(--arch transformer_vaswani_wmt_en_de_big --share-decoder-input-output-embed
      --encoder-ffn-embed-dim 8192 --decoder-ffn-embed-dim 8192    # 5.3.1
      --encoder-layers "$LAYERS" --decoder-layers "$LAYERS")
    SAVE_UPDATES=2000                                  # table 5.1
    CHOSEN="${CHOSEN:-10}"                             # average of the last 10, table 5.1
    SCHEDULE=(--optimizer adam --adam-betas "(0.9, 0.98)" --adam-eps 1e-8 --clip-norm 1.0
      --lr 0.001 --lr-scheduler inverse_sqrt --warmup-updates 4000
      --max-tokens "$MAX_TOKENS" --update-freq "$UPDATE_FREQ" --fp16
      --keep-interval-updates "${CHOSEN/best/10}")
    VECTORS=(--dimensions 300)                         # 5.3.9
    ENGINE=(--engine ctranslate2 --compute-type float16)
    NOISY_ENGINE=(--engine fairseq --compute-type float16)
    ;;
esac
[[ "$CHOSEN" == best ]] || enough_checkpoints CHOSEN "$((UPDATES / SAVE_UPDATES))"
SEEDS="${SEEDS:-1 2 3}"
BEAM="${BEAM:-6}"                                      # 5.3.3
# shellcheck disable=SC2086  # words apart
for system in $SYSTEMS; do
  [[ "$system" =~ ^(tagged@[1-9][0-9]?|deep@[1-9][0-9]?|base@[1-9][0-9]*)$ ]] ||
    expect SYSTEMS "base base@VOCABULARY bt tagged tagged@PERCENT ft tagged-ft noisy deep deep@LAYERS" "$system"
done

[[ -z "$READ_AS" ]] || expect READ_AS "bt ft" "$READ_AS"

# All directions but the first of a scale have a separate folder.
if [[ "$SOURCE-$TARGET" =~ ^(en-de|words-digits)$ ]]; then
  WORK="${WORK:-work/wmt20/$SCALE}"
else
  WORK="${WORK:-work/wmt20/$SCALE-$SOURCE-$TARGET}"
fi
prepared

HELD_OUT="$(for pair in $SETS; do echo "${pair%:*}"; done)"
ROWS="${ROWS:-a b c d e f p}"
ROW_SETS="${ROW_SETS:-$(for set in $HELD_OUT; do
  if [[ "$SCALE" != paper || "$set" =~ ^(valid|test)$ ]]; then echo "$set"; fi
done | paste -sd ' ')}"
# Print the training data of a stage of fine-tuning, files in DATA_DIR. Genuine pairs are in WORK.
NEWS="${NEWS:-}" CLEAN="${CLEAN:-}"
stage_files() { # NAME
  case "$1" in
    news) echo "${NEWS:-news}" ;;
    clean) echo "${CLEAN:-clean}" ;;
    *) echo "$1" ;;
  esac
}

RUNS="$WORK/runs" # RUNS/SYSTEM.SEED, and RUNS/reverse.1
DATA="$WORK/data" # DATA/genuine, DATA/bt, ...
TEXT="$WORK/text" # text in subwords: TEXT/genuine.L, TEXT/mono.L and the held-out sets
model() { echo "$RUNS/$1.$2/final.pt"; } # SYSTEM SEED
outputs() { echo "$RUNS/$1${READ_AS:+-as-$READ_AS}.$2"; } # SYSTEM SEED

# Succeed if text in a language has capitals. The English side of the small Japanese corpus has none.
cased() { # LANGUAGE
  case "$SCALE" in
    tiny) false ;;
    small) together ;;
    paper) [[ "$1" != ja ]] ;;
  esac
}
truecased() { # LANGUAGE FILE OUTPUT
  if cased "$1"; then
    into "$3" fairseq-ssl tokenize "$2" --truecase "$WORK/case.$1"
  else
    into "$3" cat "$2"
  fi
}
# Succeed if the languages share a subword model, such as English and German but not Japanese (5.2.1).
together() { [[ "$SOURCE$TARGET" != *ja* ]]; }
subword_model() { # LANGUAGE
  local folder="${TEXT%/text}"
  if together; then echo "$folder/subwords"; else echo "$folder/subwords.$1"; fi
}
# Print the folder with subwords, TEXT and DATA of a system, which differs for base@4000 (5.3.2).
root_of() { # SYSTEM
  if [[ "$1" =~ ^base@(.+)$ ]]; then echo "$WORK/size.${BASH_REMATCH[1]}"; else echo "$WORK"; fi
}
# Print the character coverage of the subwords of a language (5.2.1).
coverage() { if [[ "$1" == ja ]]; then echo 0.9998; else echo 1.0; fi; }

# Print the filters of genuine pairs (5.2.1) or synthetic pairs (5.3.3, footnote 4).
pair_filters() { # genuine|synthetic
  local most=500 characters=0 ratio=3.0
  [[ "$SCALE" == tiny ]] && ratio=9.0 # of characters
  if [[ "$1" == genuine && "$SCALE" != tiny ]]; then
    echo --filter encoding,duplicates --filter "langid:source=$SOURCE:target=$TARGET"
  fi
  if [[ "$SOURCE$TARGET" != *ja* ]]; then
    echo --filter "clean:min=1:max=250:ratio=$ratio"
    return
  fi
  # Japanese is not segmented, so that here `clean` only drops pairs with an empty side. A source without
  # a translation, such as one that is too long, has an empty one.
  echo --filter "clean:min=1:max=10000:ratio=10000:max-word-length=10000"
  [[ "$1" == synthetic ]] && most=250 characters=500
  if [[ "$TARGET" == ja ]]; then
    echo --filter "max-length:source=$most:target=$characters:target-unit=characters"
  else
    echo --filter "max-length:source=$characters:source-unit=characters:target=$most:target-unit=tokens"
  fi
}

# Print the training data of a system as flags of tagged_translation. Genuine pairs are up-sampled, so
# that the ratio to synthetic pairs is 1:1 (5.3.3), or 1:0.5:0.5 (5.5.2).
mixture() { # SYSTEM
  local bt="../bt/train" ft="../ft/train" noisy="../noisy/train"
  if [[ -n "$MIX_EPOCH_PAIRS" && ! "$1" =~ ^(base|reverse) ]]; then
    echo --mix-epoch-pairs "$MIX_EPOCH_PAIRS"
  fi
  case "${1%-r2l}" in
    bt) echo --mix-weights "train=1,$bt=1" ;;
    tagged@*)
      bt="../bt@${1#*@}/train"
      echo --mix-weights "train=1,$bt=1" --source-tags "$bt=$BT"
      ;;
    tagged | deep | deep@*) echo --mix-weights "train=1,$bt=1" --source-tags "$bt=$BT" ;;
    ft) echo --mix-weights "train=1,$ft=1" --source-tags "$ft=$FT" ;;
    tagged-ft) echo --mix-weights "train=1,$bt=0.5,$ft=0.5" --source-tags "$bt=$BT,$ft=$FT" ;;
    noisy) echo --mix-weights "train=1,$noisy=1" --source-tags "$noisy=$BT" ;;
  esac
}

# Print the model flags of a system: its depth (5.3.3) and its order (5.3.6).
shape() { # SYSTEM
  local layers=""
  case "${1%-r2l}" in
    deep) layers="$DEEP_LAYERS" ;;
    deep@*) layers="${1#*@}" layers="${layers%-r2l}" ;;
  esac
  [[ -z "$layers" ]] || echo --encoder-layers "$layers" --decoder-layers "$layers"
  if [[ "$1" == *-r2l ]]; then echo --right-to-left; fi
}

# Print the number of cores. nproc obeys OMP_NUM_THREADS, which is 1 if JOBS is more.
cores() { env -u OMP_NUM_THREADS nproc; }

# Train word vectors of a language, WORK/words.LANGUAGE.vec (5.3.9).
word_vectors() { # LANGUAGE
  local tokens=() jobs=1 vectors="$WORK/words.$1.vec"
  [[ "$SCALE" == paper ]] && jobs="$(cores)" # more workers are not reproducible
  [[ "$1" == ja ]] && tokens=(--tokenize ja-mecab)
  build "$vectors" quietly "$WORK/vectors.log" run fairseq-ssl rerank vectors "$WORK/true/mono.$1" \
    "${VECTORS[@]}" "${tokens[@]}" --jobs "$jobs" -o "$vectors"
}

# Succeed if SYSTEMS has one of these systems.
needs() { # SYSTEM|SYSTEM...
  [[ " $SYSTEMS " =~ \ ($1)\  ]]
}
BACK_TRANSLATED="bt|tagged|tagged@[0-9]+|tagged-ft|deep|deep@[0-9]+"

# Train the model of SYSTEM and SEED from one language to another. Interrupted training runs resume.
trained() { # SYSTEM SEED FROM TO
  build "$RUNS/$1.$2" train "$@"
}

train() { # SYSTEM SEED FROM TO
  local folder="$RUNS/$1.$2" flags
  read -ra flags <<<"$({ mixture "$1" && shape "$1"; } | paste -sd ' ')"
  quietly "$folder/train.log" launch_train "$(root_of "$1")/data/genuine" --user-dir "$USER_DIR" \
    --task tagged_translation "${MODEL[@]}" "${SCHEDULE[@]}" "${flags[@]}" -s "$3" -t "$4" \
    --criterion label_smoothed_cross_entropy --label-smoothing "$LABEL_SMOOTHING" \
    --dropout "$DROPOUT" --max-update "$UPDATES" --seed "$2" --save-dir "$folder" \
    --save-interval-updates "$SAVE_UPDATES" --validate-interval 100000 --validate-interval-updates "$SAVE_UPDATES" \
    --no-epoch-checkpoints --log-format simple --log-interval 50
  local chosen=("$folder/checkpoint_best.pt")
  [[ "$CHOSEN" == best ]] || chosen=("$folder" --last "$CHOSEN" --by update)
  quietly "$folder/train.log" run fairseq-ssl average "${chosen[@]}" -o "$(model "$1" "$2")"
}
