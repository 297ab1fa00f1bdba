#!/usr/bin/env bash
# The demo: train eight methods and their baselines on toy tasks, each of which needs what its method
# adds. Prints the scores and whether they show the claim of the paper, and writes demo/report.html,
# with the same scores and examples. It takes 4 to 10 minutes on two idle CPU cores, after the set-up.
# An interrupted demo resumes.
#
#   bash scripts/demo.sh
#   DEMO_DIR=elsewhere DEMO_METHODS="late-evidence names" FORCE=1 bash scripts/demo.sh
#
# DEMO_METHODS     methods to run                                              (default: all)
# DEMO_DIR         folder of the models, outputs and page                      (default: demo)
# DEMO_PERCENT     length of all training runs, in percent; claims need 100    (default: 100)
# DEMO_TEST_LINES  test lines of each task, a multiple of 3                    (default: 300)
# JOBS             number of methods that run at a time, with one thread each  (default: 2)
# FORCE=1          train all models again
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/setup.sh
[[ -n "${DRY_RUN:-}" ]] || source scripts/setup.sh
ALL="long-lists back-translation pre-training imitators names reconstruction late-evidence revisions"
METHODS="${DEMO_METHODS:-$ALL}"
PERCENT="${DEMO_PERCENT:-100}" TEST="${DEMO_TEST_LINES:-300}"
DEMO="${DEMO_DIR:-demo}"
# shellcheck disable=SC2034  # for `build`
WORK="$DEMO" SETTINGS_FILES=(scripts/demo.sh) CHOICES="METHODS"
JOBS="${JOBS:-2}"
# shellcheck source=examples/common/recipe.sh
source examples/common/recipe.sh
# shellcheck source=examples/common/launch.sh
source examples/common/launch.sh
export OMP_NUM_THREADS=1 # methods run side by side
# shellcheck disable=SC2086  # words apart
expect DEMO_METHODS "$ALL" $METHODS
if [[ ! "$PERCENT-$TEST" =~ ^[1-9][0-9]{0,3}-[1-9][0-9]{0,2}$ ]] || ((PERCENT > 1000 || TEST % 3)); then
  echo "demo: DEMO_PERCENT is $PERCENT, expected 1 to 1000; DEMO_TEST_LINES is $TEST, expected a multiple of 3, 3 to 999." >&2
  exit 2
fi
if [[ -z "${DRY_RUN:-}" ]]; then
  mkdir -p "$DEMO"
  exec {lock}>"$DEMO/lock" # inherited by all processes, which can outlive a demo that is killed
  if ! flock --nonblock "$lock"; then
    headline "waiting until the processes of another demo in $DEMO end"
    flock "$lock"
  fi
fi
COMMON=examples/common
OUTPUTS="$DEMO/outputs" # OUTPUTS/SYSTEM/METHOD.txt; SYSTEM is baseline or method

# Steps of all methods. M is the folder of the current method.
preprocess() { quietly "$M/preprocess.log" run fairseq-preprocess "$@"; } # FLAGS...

toy_task() { run python scripts/toy_tasks.py "$METHOD" "$M/text" --test "$TEST" "$@"; } # FLAGS...

# Binarize M/text as M/data, or as M/NAME.
binarize() { # NAME SOURCE TARGET FLAGS...
  run rm -rf "$M/$1"
  preprocess -s "$2" -t "$3" --trainpref "$M/text/train" --validpref "$M/text/valid" \
    --testpref "$M/text/test" --destdir "$M/$1" "${@:4}"
}

# Train M/SYSTEM. The learning rate rises for the first WARMUP updates and falls to 0 by UPDATES.
train() { # SYSTEM DATA LR WARMUP UPDATES FLAGS...
  local updates=$((($5 * PERCENT + 99) / 100)) warmup=$(($4 * PERCENT / 100))
  quietly "$M/$1/train.log" launch_train "$2" --user-dir "$USER_DIR" --optimizer adam \
    --adam-betas "(0.9, 0.98)" --lr "$3" --lr-scheduler polynomial_decay --warmup-updates "$warmup" \
    --total-num-update "$((updates + 1))" --max-update "$updates" --seed 1 --save-dir "$M/$1" --no-epoch-checkpoints \
    --save-interval 100000 --disable-validation --num-workers 0 --log-format simple --log-interval 50 "${@:6}"
  into "$M/$1/final.pt" cat "$M/$1/checkpoint_last.pt"
}

# Decode the test set of M/DATA with M/MODEL as the output of SYSTEM.
decode() { # SYSTEM MODEL DATA FLAGS...
  local out="$M/decoded/$1.generate"
  quietly "$M/decoded/$1.log" into "$out" fairseq-generate "$M/$3" --user-dir "$USER_DIR" --gen-subset test \
    --path "$M/$2/final.pt" --beam 1 --max-len-a 2 --max-len-b 10 "${@:4}"
  into "$OUTPUTS/$1/$METHOD.txt" fairseq-ssl postprocess "$out" --fairseq-lines H
}
decoded() { build "$OUTPUTS/$1/$METHOD.txt" decode "$@"; } # SYSTEM MODEL DATA FLAGS...
trained() { build "$M/$1" train "$@"; } # SYSTEM DATA LR WARMUP UPDATES FLAGS...

SMOOTHED=(--criterion label_smoothed_cross_entropy --label-smoothing 0.1)
SMALL=(--encoder-layers 2 --encoder-embed-dim 64 --encoder-ffn-embed-dim 64 --encoder-attention-heads 2)
SMALL_DECODER=(--decoder-layers 2 --decoder-embed-dim 64 --decoder-ffn-embed-dim 64 --decoder-attention-heads 2)
NORMALIZED=(--encoder-normalize-before --decoder-normalize-before)

# PBD: the decoder attends to the source as its future.
late-evidence() {
  local flags=(0.005 100 400 --dropout 0.1 --max-tokens 500 "${SMOOTHED[@]}" "${SMALL[@]}")
  build "$M/text" toy_task --train 150
  build "$M/data" binarize data src trg --joined-dictionary
  trained baseline "$M/data" "${flags[@]}" --arch transformer "${SMALL_DECODER[@]}" --share-all-embeddings
  trained method "$M/data" "${flags[@]}" --arch pseudo_bidirectional_transformer
  decoded baseline baseline data
  decoded method method data
}

# PoDA's pointer-generator: words out of the vocabulary are copied.
names() {
  local flags=(0.005 50 300 --dropout 0 --max-tokens 1500 --criterion cross_entropy)
  local raw=(--dataset-impl raw) words=(--joined-dictionary --srcdict "$M/text/dict.txt")
  build "$M/text" toy_task
  build "$M/data" binarize data src trg "${words[@]}"
  build "$M/raw" binarize raw src trg "${words[@]}" "${raw[@]}" # with the unknown words
  trained baseline "$M/data" "${flags[@]}" --arch transformer_tiny --share-all-embeddings
  trained method "$M/raw" "${flags[@]}" "${raw[@]}" --task copying_translation --arch pointer_transformer_tiny
  decoded baseline baseline data
  decoded method method raw "${raw[@]}" --task copying_translation
}

# SHAPE: in training all positions are shifted by a random offset.
long-lists() {
  local flags=(0.003 125 500 --dropout 0 --max-tokens 800 "${SMOOTHED[@]}" "${NORMALIZED[@]}"
    --arch shape_transformer_tiny --share-all-embeddings --encoder-attention-heads 4
    --decoder-attention-heads 4)
  build "$M/text" long_lists
  build "$M/data" binarize data words digits --joined-dictionary
  trained baseline "$M/data" "${flags[@]}" --shape-positions absolute
  trained method "$M/data" "${flags[@]}" --shape-positions shifted --shape-max-shift 8
  decoded baseline baseline data
  decoded method method data
}
long_lists() { # 1 to 6 numbers to train on, 8 to 10 to test
  local language each=$((TEST / 3))
  run python "$COMMON/number_words.py" "$M/text/all" --trained-length 6 --longest 10 --numbers 12 \
    --train-lines 4000 --test-lines "$each"
  for language in words digits; do
    into "$M/text/train.$language" cat "$M/text/all/train.$language"
    into "$M/text/valid.$language" cat "$M/text/all/valid.$language"
    into "$M/text/test.$language" tail -n "$TEST" "$M/text/all/test.$language"
  done
}

# PIE: the edits of all tokens at once, in rounds.
revisions() {
  local flags=(--task edit_labeling)
  build "$M/text" toy_task
  build "$M/data" labeled_edits
  trained tagger "$M/data" 0.003 50 450 "${flags[@]}" --criterion edit_cross_entropy --arch edit_tagger \
    "${SMALL[@]}" --encoder-ffn-embed-dim 128 --encoder-attention-heads 4 --max-source-positions 32 \
    --dropout 0 --clip-norm 1 --max-tokens 600
  decoded baseline tagger data "${flags[@]}" --edit-iterations 1
  decoded method tagger data "${flags[@]}" --edit-iterations 4
}
labeled_edits() {
  local split edits="$M/data/edits.txt"
  binarize data src trg --joined-dictionary
  quietly "$M/edits.log" run fairseq-ssl edits dictionary "$M/text/train.src" "$M/text/train.trg" \
    -o "$edits" --max-ngram 1 --label-dict "$M/data/labels.txt"
  for split in train valid; do
    quietly "$M/edits.log" run fairseq-ssl edits label "$M/text/$split.src" "$M/text/$split.trg" \
      --dictionary "$edits" -o "$M/data/$split.edits"
  done
  preprocess -s edits --only-source --srcdict "$M/data/labels.txt" --trainpref "$M/data/train" \
    --validpref "$M/data/valid" --destdir "$M/data"
}

# PoDA: a denoiser of clean text is the start of a corrector.
pre-training() {
  local shared=(--arch pointer_transformer_tiny --dropout 0.1 --clip-norm 1 --max-tokens 2000)
  local flags=(0.003 20 200 "${shared[@]}" --task copying_translation --criterion cross_entropy)
  build "$M/text" few_corrections
  build "$M/plain" binarize_plain
  build "$M/data" binarize data src trg --srcdict "$M/plain/dict.trg.txt" --tgtdict "$M/plain/dict.trg.txt"
  trained baseline "$M/data" "${flags[@]}"
  trained denoiser "$M/plain" 0.003 60 600 "${shared[@]}" --task denoising_pretraining --noise shuffle \
    --criterion denoising_cross_entropy --denoise-keep-rate 1
  trained method "$M/data" "${flags[@]}" --finetune-from-model "$M/denoiser/final.pt"
  decoded baseline baseline data --task copying_translation
  decoded method method data --task copying_translation
}
few_corrections() { # 100 pairs, and 5,000 clean sentences
  local split from=1001 text="$M/text"
  run mkdir -p "$text"
  run python "$COMMON/toy_sentences.py" "$text/all" --lines 7200 --names 0
  into "$text/plain.trg" sed -n "2201,7200p" "$text/all"
  for split in "test:$TEST" valid:100 train:100; do
    into "$text/${split%:*}.trg" sed -n "$from,$((from + ${split#*:} - 1))p" "$text/all"
    from=$((from + ${split#*:}))
    quietly "$M/noise.log" run fairseq-ssl noise "$text/${split%:*}.trg" --method learner:listed=true \
      --seed 3 -o "$text/${split%:*}.src" --force
  done
}
binarize_plain() {
  run rm -rf "$M/plain"
  preprocess --only-source -s trg --trainpref "$M/text/plain" --validpref "$M/text/valid" --destdir "$M/plain"
}

# Tagged back-translation: a reverse model translates monolingual target text into sources.
back-translation() {
  local tag="<BT>" flags=(0.004 80 400 --dropout 0.1 --max-tokens 800 "${SMOOTHED[@]}" "${NORMALIZED[@]}"
    --arch transformer_tiny --share-decoder-input-output-embed --encoder-attention-heads 4
    --decoder-attention-heads 4)
  build "$M/text" few_translations
  build "$M/data" binarize_tagged
  trained baseline "$M/data" "${flags[@]}" -s words -t digits
  trained reverse "$M/data" "${flags[@]}" -s digits -t words
  build "$M/synthetic" translate_back
  build "$M/bt" binarize_synthetic
  trained method "$M/data" "${flags[@]}" -s words -t digits --task tagged_translation \
    --mix-weights "train=1,../bt/train=1" --source-tags "../bt/train=$tag"
  decoded baseline baseline data -s words -t digits
  decoded method method data -s words -t digits
}
few_translations() { # 150 pairs, and 3,000 target sentences
  local language
  run python "$COMMON/number_words.py" "$M/text/all" --trained-length 4 --longest 4 --numbers 12 \
    --train-lines 3150 --test-lines "$((TEST / 4 + 1))"
  for language in words digits; do
    into "$M/text/train.$language" sed -n 1,150p "$M/text/all/train.$language"
    into "$M/text/valid.$language" cat "$M/text/all/valid.$language"
    into "$M/text/test.$language" tail -n "$TEST" "$M/text/all/test.$language"
  done
  into "$M/text/mono.digits" sed -n 151,3150p "$M/text/all/train.digits"
}
binarize_tagged() {
  binarize data words digits
  quietly "$M/preprocess.log" run fairseq-ssl tag "$tag" --dictionary "$M/data/dict.words.txt"
}
translate_back() {
  quietly "$M/synthetic.log" run fairseq-ssl back-translate "$M/text/mono.digits" --model "$M/reverse/final.pt" \
    --data-dir "$M/data" --beam 1 --max-len-b 20 --jobs 1 -o "$M/synthetic/train.words" \
    --source-output "$M/synthetic/train.digits"
}
binarize_synthetic() {
  run rm -rf "$M/bt"
  preprocess -s words -t digits --srcdict "$M/data/dict.words.txt" --tgtdict "$M/data/dict.digits.txt" \
    --trainpref "$M/synthetic/train" --destdir "$M/bt"
}

# MEIN: imitators learn an expert's labels of unlabeled texts.
imitators() {
  local shared=(--task semi_supervised_classification --no-epoch-checkpoints)
  local loss=(--criterion classification_cross_entropy --batch-size 8)
  local sizes=(--recurrent-embed-dim 32 --recurrent-hidden-dim 32)
  build "$M/text" run python examples/mein/toy_reviews.py "$M/text" --train 200 --unlabeled 4000 --held-out "$((4 * TEST))"
  build "$M/data" quietly "$M/prepare.log" run fairseq-ssl classify prepare "$M/text/train.tsv" \
    --valid "$M/text/dev.tsv" --test "$M/text/test.tsv" --unlabeled "$M/text/unlabelled.txt" \
    --subword-vocab-size 800 -o "$M/data" --force
  # The learning rates are constant.
  trained expert "$M/data" 0.003 0 100 "${shared[@]}" "${loss[@]}" --classification-stage supervised \
    --end-learning-rate 0.003 --arch lstm_classifier "${sizes[@]}"
  trained imitators "$M/data" 0.003 0 375 "${shared[@]}" --classification-stage imitate --batch-size 32 \
    --end-learning-rate 0.003 --arch imitators --imitator-windows 1,2 --imitator-embed-dim 32 --imitator-channels 32 \
    --criterion imitation_cross_entropy --imitator-teacher "$M/expert/final.pt"
  trained continued "$M/data" 0.0001 0 50 "${shared[@]}" "${loss[@]}" --classification-stage supervised \
    --end-learning-rate 0.0001 --arch lstm_classifier "${sizes[@]}" --finetune-from-model "$M/expert/final.pt"
  trained mixture "$M/data" 0.0001 0 50 "${shared[@]}" "${loss[@]}" --classification-stage mixture \
    --end-learning-rate 0.0001 --arch expert_and_imitators --mixture-expert "$M/expert/final.pt" \
    --mixture-imitators "$M/imitators/final.pt" --mixture-lambda 3
  build "$OUTPUTS/baseline/$METHOD.txt" classify baseline continued
  build "$OUTPUTS/method/$METHOD.txt" classify method mixture
}
classify() { # SYSTEM MODEL
  quietly "$M/$2/predict.log" run fairseq-ssl classify predict --split test \
    --model "$M/$2/final.pt" --data-dir "$M/data" -o "$M/$2/predicted"
  into "$OUTPUTS/$1/$METHOD.txt" cut -f 1 "$M/$2/predicted"
}

# ByteNet's slides: monolingual source text is translated and reconstructed.
reconstruction() {
  local task=(--task reconstruction_translation -s words -t digits)
  local flags=(0.004 0 320 "${task[@]}" --criterion reconstruction_loss --arch bytenet_digits
    --bytenet-sets 1 --reconstruction-mixed-lengths --batch-size 16 --end-learning-rate 0.004)
  build "$M/text" run python examples/bytenet/digits.py "$M/text" --labeled 128 --unlabeled 512
  build "$M/data" binarize_digits
  trained baseline "$M/data" "${flags[@]}"
  trained method "$M/data" "${flags[@]}" --reconstruction-source-text "$M/data/mono/train" --reconstruction-weight 0.2
  decoded baseline baseline data "${task[@]}"
  decoded method method data "${task[@]}"
}
binarize_digits() {
  local dict="$M/text/dict.txt"
  run rm -rf "$M/data"
  into "$M/text/held-out.words" tail -n "$TEST" "$M/text/unseen.words"
  into "$M/text/held-out.digits" tail -n "$TEST" "$M/text/unseen.digits"
  preprocess -s words -t digits --srcdict "$dict" --tgtdict "$dict" --trainpref "$M/text/train" \
    --validpref "$M/text/valid" --testpref "$M/text/held-out" --destdir "$M/data"
  preprocess -s words --only-source --srcdict "$dict" --trainpref "$M/text/mono" --destdir "$M/data/mono"
}

# The source and the reference of the test set of METHOD.
sides() {
  case "$METHOD" in
    long-lists | back-translation) SIDES=("$M/text/test.words" "$M/text/test.digits") ;;
    reconstruction) SIDES=("$M/text/held-out.words" "$M/text/held-out.digits") ;;
    imitators) SIDES=("$M/text/texts" "$M/text/labels") ;;
    *) SIDES=("$M/text/test.src" "$M/text/test.trg") ;;
  esac
}
# Print what is correct or not, one unit per line: a line, or a digit of two or three.
units() { # FILE
  if [[ "$METHOD" == reconstruction ]]; then
    awk '{ for (i = 1; i <= 3; i++) print (i <= NF ? $i : "-") }' "$1"
  else
    cat "$1"
  fi
}
method() { # METHOD
  local METHOD="$1" M="$DEMO/$1" SIDES
  "$METHOD"
  sides
  if [[ "$METHOD" == imitators ]]; then
    into "$M/text/texts" cut -f 2 "$M/text/test.tsv"
    into "$M/text/labels" cut -f 1 "$M/text/test.tsv"
  fi
  into "$OUTPUTS/source/$METHOD.txt" cat "${SIDES[0]}"
  into "$OUTPUTS/reference/$METHOD.txt" cat "${SIDES[1]}"
  local system scored="$M/scored"
  into "$scored.reference" units "${SIDES[1]}"
  for system in baseline method; do into "$scored.$system" units "$OUTPUTS/$system/$METHOD.txt"; done
  into "$OUTPUTS/$METHOD.json" fairseq-ssl score accuracy baseline="$scored.baseline" \
    method="$scored.method" --reference "$scored.reference" --baseline "$scored.baseline" --format json
  headline "$METHOD: done"
}

headline "training $(wc -w <<<"$METHODS") methods and their baselines, $JOBS at a time; logs: $DEMO/METHOD/*/train.log"
for name in $METHODS; do spawn method "$name"; done
settle

headline "correct lines of the test sets in percent (reconstruction: correct digits)"
scores=()
for name in $METHODS; do scores+=("$OUTPUTS/$name.json"); done
run python scripts/demo_table.py "${scores[@]}" --page "$DEMO/report.html"
headline "open $DEMO/report.html in a browser"
