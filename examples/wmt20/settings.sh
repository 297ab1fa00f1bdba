# shellcheck shell=bash disable=SC2034  # the steps use them
# Every setting of this recipe. All can be given in the environment; what is set here is the
# default of the SCALE. Sections and tables are those of the thesis, chapter 5.
#
# SCALE     tiny   the bundled toy corpus, a CPU, two minutes: shows that all steps work
#           small  Multi30k English-German, 5,000 pairs genuine, or small_parallel_enja
#                  English-Japanese, 10,000; either way, by SOURCE and TARGET; two CPU cores, hours
#           paper  WMT'20 English-German or English-Japanese, 8 GPUs
# SETS             held-out sets, each SPLIT:NAME; SPLIT is fairseq's: valid, test, test1, ...
# ROWS             of table 5.5; steps 7 to 9 take them as arguments as well; see system.sh
# SYSTEMS SEEDS    narrow them to run one cell of the table, say in a Slurm array
# SHARD=I/N        with 3_generate.sh: translate that part of the monolingual text, and end
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=examples/common/recipe.sh
source "$HERE/../common/recipe.sh"
# shellcheck source=examples/common/launch.sh
source "$HERE/../common/launch.sh"

CHOICES="SYSTEMS SEEDS ROWS MEMBERS READ_AS ROW_SETS"
SCALE="${SCALE:-tiny}"
SYSTEMS="${SYSTEMS:-base bt tagged ft tagged-ft noisy}" # tables 5.4 and 5.8; noisy: 4.3.1;
                                                       # deep, deep@12: table 5.4; tagged@50, tagged@33,
                                                       # tagged@25: table 5.7; base@4000, ...: table 5.2
SEEDS="${SEEDS:-1 2 3}"
BT="<BT>" FT="<FT>"                                    # 5.3.3, 5.5.2
READ_AS="${READ_AS:-}"                                 # bt, ft: what steps 5 and 6 tag held-out sources as
LENGTH_PENALTY="${LENGTH_PENALTY:-1.0}"                # 5.3.3
DEEP_LAYERS="${DEEP_LAYERS:-9}"                        # of the system deep, 5.3.3
BETA="${BETA:-6}"                                      # beta_random, 4.3.1
LABEL_SMOOTHING="${LABEL_SMOOTHING:-0.1}"              # table 5.1
DROPOUT="${DROPOUT:-0.3}"                              # table 5.1
LENGTHS=()                                             # of translations: fairseq's bounds
SAMPLE="${SAMPLE:-}"                                   # synthetic pairs of each kind, at most; empty: all
MIX_EPOCH_PAIRS="${MIX_EPOCH_PAIRS:-}"                 # pairs of an epoch of mixed data; empty: all
FILTER_CLEAN="${FILTER_CLEAN:-}"                       # clean pairs of the learned filter; empty: valid
ENGINE=(--engine ctranslate2)
NOISY_ENGINE=(--engine fairseq)

expect SCALE "tiny small paper" "$SCALE"
prepared
case "$SCALE" in
  tiny)
    SOURCE="${SOURCE:-words}" TARGET="${TARGET:-digits}"
    GENUINE="${GENUINE:-500}" TOY_LINES="${TOY_LINES:-2000}" # the others are monolingual text
    SEEDS="${SEEDS% 2 3}"
    SETS="${SETS:-valid:valid test:test}"
    VOCABULARY="${VOCABULARY:-50}"
    UPDATES="${UPDATES:-60}"
    BEAM="${BEAM:-3}"
    MODEL=(--arch transformer_tiny)
    SCHEDULE=(--optimizer adam --lr 0.003 --lr-scheduler inverse_sqrt
      --warmup-updates 20 --max-tokens 1000)
    SAVE_UPDATES=30
    CHOSEN="${CHOSEN:-best}"
    VECTORS=(--dimensions 10 --buckets 1000)
    LENGTHS=(--max-len-b 30) # models that have learned so little do not end
    ;;
  small)
    SOURCE="${SOURCE:-en}" TARGET="${TARGET:-de}"
    if [[ "$SOURCE$TARGET" == *ja* ]]; then
      SETS="${SETS:-valid:dev test:test}" # the corpus' own test set, or the last 500 pairs of train
      GENUINE="${GENUINE:-10000}" VOCABULARY="${VOCABULARY:-4000}"
    fi
    SETS="${SETS:-valid:val test:test_2016_flickr}"
    GENUINE="${GENUINE:-5000}"         # pairs; of the other 24,000 each side is monolingual text
    VOCABULARY="${VOCABULARY:-2000}"
    UPDATES="${UPDATES:-3000}"
    MODEL=(--arch transformer_tiny --share-decoder-input-output-embed
      --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 --encoder-attention-heads 4
      --decoder-embed-dim 128 --decoder-ffn-embed-dim 256 --decoder-attention-heads 4
      --encoder-normalize-before --decoder-normalize-before)
    SCHEDULE=(--optimizer adam --adam-betas "(0.9, 0.98)"
      --lr 0.005 --lr-scheduler polynomial_decay --warmup-updates 400
      --total-num-update "$UPDATES" --max-tokens 1000)
    SAVE_UPDATES=500
    CHOSEN="${CHOSEN:-best}"           # on the validation set: few pairs are soon known by heart
    VECTORS=(--dimensions 100 --buckets 100000)
    ;;
  paper)
    SOURCE="${SOURCE:-en}" TARGET="${TARGET:-de}"
    GENUINE=all
    if [[ "$SOURCE$TARGET" == *ja* ]]; then
      SETS="${SETS:-valid:newsdev2020 test:newstest2020}"   # the official validation set, 5.4
      FILTER_CLEAN="${FILTER_CLEAN:-newsdev2020}"           # 5.5.1
      UPDATES="${UPDATES:-80000}"                           # table 5.1
    fi
    [[ "$SOURCE-$TARGET" == en-ja ]] && SAMPLE="${SAMPLE:-235000000}"   # of 1,777 million, table 5.3
    # Tables 5.4, 5.7 and 5.8 have 2014, 2018 and 2019; table 5.5 has 2019, table 5.6 has 2020.
    SETS="${SETS:-valid:newstest2019 test:newstest2020 test1:newstest2014 test2:newstest2018}"
    FILTER_CLEAN="${FILTER_CLEAN:-$(echo newstest{2009..2019})}"        # 5.5.1
    MIX_EPOCH_PAIRS="${MIX_EPOCH_PAIRS:-20000000}"     # 240 MB a process; the thesis has no number
    VOCABULARY="${VOCABULARY:-32000}"                  # 5.3.2
    UPDATES="${UPDATES:-40000}"                        # table 5.1
    LAYERS="${LAYERS:-6}"                              # of all but deep
    gpus 8
    MAX_TOKENS="${MAX_TOKENS:-4000}"
    UPDATE_FREQ="$(divided 512000 GPUS MAX_TOKENS)"    # 512k tokens a batch, table 5.1
    MODEL=(--arch transformer_vaswani_wmt_en_de_big --share-decoder-input-output-embed
      --encoder-ffn-embed-dim 8192 --decoder-ffn-embed-dim 8192    # 5.3.1
      --encoder-layers "$LAYERS" --decoder-layers "$LAYERS")
    SCHEDULE=(--optimizer adam --adam-betas "(0.9, 0.98)" --adam-eps 1e-8 --clip-norm 1.0
      --lr 0.001 --lr-scheduler inverse_sqrt --warmup-updates 4000
      --max-tokens "$MAX_TOKENS" --update-freq "$UPDATE_FREQ" --fp16
      --keep-interval-updates 10)
    SAVE_UPDATES=2000                                  # table 5.1
    CHOSEN="${CHOSEN:-10}"                             # average of the last 10, table 5.1
    VECTORS=(--dimensions 300)                         # 5.3.9
    ENGINE=(--engine ctranslate2 --compute-type float16)
    NOISY_ENGINE=(--engine fairseq --compute-type float16)
    ;;
esac
BEAM="${BEAM:-6}"                                      # 5.3.3
# shellcheck disable=SC2086  # words apart
for system in $SYSTEMS; do
  [[ "$system" =~ ^(tagged@[1-9][0-9]?|deep@[1-9][0-9]?|base@[1-9][0-9]*)$ ]] ||
    expect SYSTEMS "base base@VOCABULARY bt tagged tagged@PERCENT ft tagged-ft noisy deep deep@LAYERS" "$system"
done

[[ -z "$READ_AS" ]] || expect READ_AS "bt ft" "$READ_AS"

# Each direction but the first of a scale works in a folder of its own.
if [[ "$SOURCE-$TARGET" =~ ^(en-de|words-digits)$ ]]; then
  WORK="${WORK:-work/wmt20/$SCALE}"
else
  WORK="${WORK:-work/wmt20/$SCALE-$SOURCE-$TARGET}"
fi

HELD_OUT="$(for pair in $SETS; do echo "${pair%:*}"; done)"
ROW_SETS="${ROW_SETS:-$(for set in $HELD_OUT; do
  if [[ "$SCALE" != paper || "$set" =~ ^(valid|test)$ ]]; then echo "$set"; fi
done | paste -sd ' ')}"
RUNS="$WORK/runs" # RUNS/SYSTEM.SEED, and RUNS/reverse.1
DATA="$WORK/data" # DATA/genuine, DATA/bt, ...
TEXT="$WORK/text" # in subwords: TEXT/genuine.L, TEXT/mono.L and each held-out set
model() { echo "$RUNS/$1.$2/final.pt"; } # SYSTEM SEED
outputs() { echo "$RUNS/$1${READ_AS:+-as-$READ_AS}.$2"; } # SYSTEM SEED

# Whether text in a language has capitals; the English of the small Japanese corpus has none.
cased() { # LANGUAGE
  case "$SCALE" in
    tiny) false ;;
    small) together ;;
    paper) [[ "$1" != ja ]] ;;
  esac
}
truecased() { # LANGUAGE FILE OUTPUT
  if cased "$1"; then
    into "$3" fairseq-ssl truecase apply "$WORK/case.$1" "$2"
  else
    into "$3" cat "$2"
  fi
}
# Whether both have their subwords of one model, as English and German; Japanese has its own (5.2.1).
together() { [[ "$SOURCE$TARGET" != *ja* ]]; }
subword_model() { # LANGUAGE
  local folder="${TEXT%/text}"
  if together; then echo "$folder/subwords"; else echo "$folder/subwords.$1"; fi
}
# Where the subwords, TEXT and DATA of a system are, base@4000 for one (5.3.2).
root_of() { # SYSTEM
  if [[ "$1" =~ ^base@(.+)$ ]]; then echo "$WORK/size.${BASH_REMATCH[1]}"; else echo "$WORK"; fi
}
# The characters that the subwords of a language cover (5.2.1).
coverage() { if [[ "$1" == ja ]]; then echo 0.9998; else echo 1.0; fi; }

# What is dropped of pairs, genuine (5.2.1) or synthetic (5.3.3, footnote 4).
pair_filters() { # genuine|synthetic
  local most=500 characters=0 ratio=3.0
  [[ "$SCALE" == tiny ]] && ratio=9.0 # of letters, here
  if [[ "$1" == genuine && "$SCALE" != tiny ]]; then
    echo --filter encoding,duplicates --filter "langid:source=$SOURCE:target=$TARGET"
  fi
  if [[ "$SOURCE$TARGET" != *ja* ]]; then
    echo --filter "clean:min=1:max=250:ratio=$ratio"
    return
  fi
  [[ "$1" == synthetic ]] && most=250 characters=500
  if [[ "$TARGET" == ja ]]; then
    echo --filter "max-length:source=$most:target=$characters:target-unit=characters"
  else
    echo --filter "max-length:source=$characters:source-unit=characters:target=$most:target-unit=tokens"
  fi
}

# What a system is trained on, as flags of tagged_translation. The genuine pairs are up-sampled, so
# that it sees them and the synthetic ones at 1:1 (5.3.3), or at 1:0.5:0.5 (5.5.2).
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

# What tells a system's model from others: its depth (5.3.3), and its order (5.3.6).
shape() { # SYSTEM
  local layers=""
  case "${1%-r2l}" in
    deep) layers="$DEEP_LAYERS" ;;
    deep@*) layers="${1#*@}" layers="${layers%-r2l}" ;;
  esac
  [[ -z "$layers" ]] || echo --encoder-layers "$layers" --decoder-layers "$layers"
  if [[ "$1" == *-r2l ]]; then echo --right-to-left; fi
}

# All cores: nproc by itself obeys OMP_NUM_THREADS, which is 1 where JOBS is more.
cores() { env -u OMP_NUM_THREADS nproc; }

# Vectors of a language's words, WORK/words.LANGUAGE.vec (5.3.9).
word_vectors() { # LANGUAGE
  local tokens=() jobs=1 vectors="$WORK/words.$1.vec"
  [[ "$SCALE" == paper ]] && jobs="$(cores)" # with more than one, two runs differ
  [[ "$1" == ja ]] && tokens=(--tokenize ja-mecab)
  build "$vectors" quietly "$WORK/vectors.log" run fairseq-ssl rerank vectors "$WORK/true/mono.$1" \
    "${VECTORS[@]}" "${tokens[@]}" --jobs "$jobs" -o "$vectors"
}

# Whether one of these systems is asked for.
needs() { # SYSTEM|SYSTEM...
  [[ " $SYSTEMS " =~ \ ($1)\  ]]
}
BACK_TRANSLATED="bt|tagged|tagged@[0-9]+|tagged-ft|deep|deep@[0-9]+"

# Build the model of SYSTEM and SEED, from one language to the other; an interrupted training resumes.
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
