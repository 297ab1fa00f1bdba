#!/usr/bin/env bash
# The demo: errors are put into clean text, a denoiser is pre-trained on more of it, and four small
# models learn to correct: PoDA's pointer-generator with and without the pre-training, PIE's tagger,
# and PBD's shared stack. All correct the same sentences, and demo/report.html shows how well. Under
# ten minutes on two CPU cores, set-up included. An interrupted demo resumes.
#
#   bash scripts/demo.sh
#   DEMO_DIR=elsewhere DEMO_UPDATES=400 DEMO_PAIRS=300 FORCE=1 bash scripts/demo.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/setup.sh
source scripts/setup.sh
DEMO="${DEMO_DIR:-demo}"
[[ -n "${FORCE:-}" ]] && rm -rf "$DEMO" && unset FORCE
WORK="$DEMO" SETTINGS_FILES=(scripts/demo.sh) # for `build`
JOBS="${JOBS:-2}"
# shellcheck source=examples/common/recipe.sh
source examples/common/recipe.sh
# shellcheck source=examples/common/launch.sh
source examples/common/launch.sh
export OMP_NUM_THREADS=1 # models train side by side

UPDATES="${DEMO_UPDATES:-200}"      # of each corrector; of pre-training three times as many
PAIRS="${DEMO_PAIRS:-100}"          # of a wrong and a right sentence
TEST="${DEMO_TEST_LINES:-200}"
if ((TEST < 1 || TEST > 500 || PAIRS < 1 || PAIRS > 400)); then
  echo "demo: DEMO_TEST_LINES is $TEST, expected 1 to 500; DEMO_PAIRS is $PAIRS, expected 1 to 400." >&2
  exit 2
fi
SYSTEMS="scratch pretrained tagger pbd"
text="$DEMO/text"
path() { echo "$DEMO/runs/$1.1"; } # SYSTEM; 1 is the seed, as in reports

headline "1/5 clean text, and $PAIRS pairs whose sources were made wrong: text in $text"
part() { into "$text/$1" sed -n "$2,$3p" "$text/all"; } # NAME FIRST LAST
sentences() {
  local split
  run mkdir -p "$text"
  run python examples/common/toy_sentences.py "$text/all" --lines 6000 --names 0
  part plain.trg 1001 6000
  part test.trg 1 "$TEST"
  part valid.trg 501 600
  part train.trg 601 "$((600 + PAIRS))"
  for split in train valid test; do
    quietly "$text/noise.log" run fairseq-ssl noise "$text/$split.trg" --method learner:listed=true --seed 3 \
      -o "$text/$split.src" --force
  done
}
build "$text" sentences
paste "$text/train.src" "$text/train.trg" | awk -F '\t' '$1 != $2 && shown++ < 3 {print $1 "\n   -> " $2}'

headline "2/5 binarized, and labeled with edits"
preprocess() { quietly "$DEMO/preprocess.log" run fairseq-preprocess "$@"; }
binarize() {
  local words edits split
  run rm -rf "$DEMO/data.tmp" "$DEMO/plain"
  preprocess --only-source -s trg --trainpref "$text/plain" --validpref "$text/valid" --destdir "$DEMO/plain"
  words="$DEMO/plain/dict.trg.txt"
  preprocess -s src -t trg --srcdict "$words" --tgtdict "$words" --trainpref "$text/train" \
    --validpref "$text/valid" --testpref "$text/test" --destdir "$DEMO/data.tmp"
  edits="$DEMO/data.tmp/edits.txt"
  quietly "$DEMO/edits.log" run fairseq-ssl edits dictionary "$text/train.src" "$text/train.trg" -o "$edits" \
    --label-dict "$DEMO/labels.txt"
  for split in train valid; do
    quietly "$DEMO/edits.log" run fairseq-ssl edits label "$text/$split.src" "$text/$split.trg" \
      --dictionary "$edits" -o "$text/$split.edits"
  done
  preprocess -s edits --only-source --srcdict "$DEMO/labels.txt" --trainpref "$text/train" \
    --validpref "$text/valid" --destdir "$DEMO/data.tmp"
  run mv "$DEMO/data.tmp" "$DEMO/data"
}
build "$DEMO/data" binarize

headline "3/5 training, $UPDATES updates each after $((3 * UPDATES)) of pre-training; logs: $DEMO/runs/*/train.log"
pointer=(--arch pointer_transformer_tiny)
# The flags of a corrector, in MODEL.
model() { # SYSTEM
  case "$1" in
    pretrained) MODEL=(--task copying_translation "${pointer[@]}"
      --finetune-from-model "$DEMO/denoiser/final.pt") ;;
    scratch) MODEL=(--task copying_translation "${pointer[@]}") ;;
    tagger) MODEL=(--task edit_labeling --arch edit_tagger_small --encoder-embed-dim 64
      --encoder-ffn-embed-dim 128 --max-source-positions 60) ;;
    pbd) MODEL=(--task translation --arch pseudo_bidirectional_transformer_small
      --encoder-embed-dim 64 --encoder-ffn-embed-dim 128 --encoder-normalize-before) ;;
  esac
}
train() { # FOLDER DATA UPDATES FLAGS...
  quietly "$1/train.log" launch_train "$2" --user-dir "$USER_DIR" "${@:4}" --dropout 0.1 \
    --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm 1 --lr 0.003 \
    --lr-scheduler polynomial_decay --warmup-updates "$(($3 / 10))" --total-num-update "$3" \
    --max-update "$3" --max-tokens 2000 --seed 1 --save-dir "$1" --no-epoch-checkpoints \
    --validate-interval 1000 --validate-interval-updates 100 --log-format simple --log-interval 50
  into "$1/final.pt" cat "$1/checkpoint_last.pt"
}
corrector() { # SYSTEM CRITERION FLAGS...
  local MODEL
  model "$1"
  build "$(path "$1")" train "$(path "$1")" "$DEMO/data" "$UPDATES" -s src -t trg "${MODEL[@]}" --criterion "${@:2}"
}
pretrained() {
  build "$DEMO/denoiser" train "$DEMO/denoiser" "$DEMO/plain" "$((3 * UPDATES))" --task denoising_pretraining \
    --noise denoise --criterion denoising_cross_entropy --denoise-keep-rate 1 "${pointer[@]}"
  corrector pretrained cross_entropy
}
spawn pretrained
spawn corrector scratch cross_entropy
spawn corrector tagger edit_cross_entropy
spawn corrector pbd label_smoothed_cross_entropy --label-smoothing 0.1
settle

headline "4/5 the same $TEST sentences, one at a time, by fairseq-interactive"
correct() { # SYSTEM
  local folder MODEL
  folder="$(path "$1")"
  model "$1"
  quietly "$folder/test.log" into "$folder/test.interactive" fairseq-interactive "$DEMO/data" \
    --user-dir "$USER_DIR" -s src -t trg --task "${MODEL[1]}" --path "$folder/final.pt" --beam 5 \
    --max-len-a 1.5 --max-len-b 10 --input "$text/test.src"
  into "$folder/test.txt" fairseq-ssl detokenize "$folder/test.interactive" --field H --subwords none
}
for system in $SYSTEMS; do build "$(path "$system")/test.txt" correct "$system"; done # one after another, for their times
seconds() { # SYSTEM: how long the search took
  cat "$(path "$1")/test.interactive" "$(path "$1")/test.log" | sed -n 's/.*translation time: \([0-9.]*\).*/\1/p'
}
shown="$(paste "$text/test.src" "$text/test.trg" | awk -F '\t' '$1 != $2 {print NR}' | sed -n '1p;4p;9p')"
for line in $shown; do
  printf '\n%-12s%s\n%-12s%s\n' wrong "$(sed -n "${line}p" "$text/test.src")" right "$(sed -n "${line}p" "$text/test.trg")"
  for system in $SYSTEMS; do printf '%-12s%s\n' "$system" "$(sed -n "${line}p" "$(path "$system")/test.txt")"; done
done

headline "5/5 scores"
outputs=(unchanged="$text/test.src")
for system in $SYSTEMS; do outputs+=("$system=$(path "$system")/test.txt"); done
gold=(--source "$text/test.src" --reference "$text/test.trg")
score() { # METRIC FLAGS...
  fairseq-ssl score "$1" "${outputs[@]}" "${gold[@]}" "${@:2}"
  into "$DEMO/runs/test.$1.json" fairseq-ssl score "$1" "${outputs[@]}" "${gold[@]}" "${@:2}" --format json
}
score errant --untyped
score gleu
echo "milliseconds a sentence, beam of 5, the tagger in rounds; one core:"
for system in $SYSTEMS; do
  awk -v name="$system" -v all="$(seconds "$system")" -v lines="$TEST" \
    'BEGIN {printf "  %-12s%.0f\n", name, 1000 * all / lines}'
done
quietly "$DEMO/report.log" fairseq-ssl report "$DEMO/runs" -o "$DEMO/report.html" \
  --title "Four correctors" "${gold[@]}" --metric gleu --baseline scratch
printf '\nSentence by sentence: %s\n' "$DEMO/report.html"
