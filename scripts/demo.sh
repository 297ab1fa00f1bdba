#!/usr/bin/env bash
# The demo: train one small Transformer with absolute and one with shifted positions on
# short inputs, let both translate longer ones, and write demo/report.html. Under ten
# minutes on two CPU cores, set-up included; killed, it goes on where it was.
#
#   bash scripts/demo.sh
#   DEMO_DIR=elsewhere DEMO_UPDATES=3000 FORCE=1 bash scripts/demo.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/setup.sh
source scripts/setup.sh
# shellcheck source=examples/common/launch.sh
source examples/common/launch.sh

DEMO="${DEMO_DIR:-demo}"
UPDATES="${DEMO_UPDATES:-3000}"
TRAINED=8  # most numbers in a line of training; the test goes to twice as many
TEST_LINES="${DEMO_TEST_LINES:-50}"
[[ -n "${FORCE:-}" ]] && rm -rf "$DEMO"
mkdir -p "$DEMO"/{absolute,shifted}
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

headline() { printf '\n==> %s/5 %s\n' "$1" "$2"; }

# Run a command, its output in a log that is shown only when it fails.
quietly() {
  local log="$1"
  if ! "${@:2}" >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "demo: that failed; all of it is in $log" >&2
    return 1
  fi
}

# True where the file is there already; a step writes it aside and renames it when it is done.
have() { [[ -s "$1" ]] && echo "there already: $1"; }

headline 1 "a corpus: spoken lists of up to $TRAINED numbers, and their digits"
if ! have "$DEMO/data-bin/dict.words.txt"; then
  python examples/common/number_words.py "$DEMO/text" --trained-length "$TRAINED" \
    --longest "$((2 * TRAINED))" --test-lines "$TEST_LINES"
  quietly "$DEMO/preprocess.log" fairseq-preprocess --source-lang words --target-lang digits \
    --trainpref "$DEMO/text/train" --validpref "$DEMO/text/valid" --testpref "$DEMO/text/test" \
    --joined-dictionary --destdir "$DEMO/data-bin.tmp"
  mv "$DEMO/data-bin.tmp" "$DEMO/data-bin"
fi
paste <(head -n 3 "$DEMO/text/train.words") <(head -n 3 "$DEMO/text/train.digits") |
  sed 's/\t/   ->   /'

headline 2 "training two models, $UPDATES updates each; logs: $DEMO/{absolute,shifted}.log"
export OMP_NUM_THREADS=1  # the two train side by side
training=("$DEMO/data-bin" --user-dir "$(fairseq-ssl user-dir)" --arch shape_transformer_tiny
  --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 --decoder-ffn-embed-dim 256
  --encoder-attention-heads 4 --decoder-attention-heads 4
  --encoder-normalize-before --decoder-normalize-before --share-all-embeddings
  --optimizer adam --adam-betas "(0.9, 0.98)" --dropout 0
  --lr 0.002 --lr-scheduler polynomial_decay --warmup-updates 300 --total-num-update "$UPDATES"
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1
  --max-tokens 1000 --max-update "$UPDATES" --seed 1
  --save-interval-updates 200 --keep-interval-updates 1 --no-epoch-checkpoints
  --validate-interval 1000 --validate-interval-updates 1000
  --log-format simple --log-interval 20)

train() { # NAME MAX_SHIFT
  launch_train "${training[@]}" --shape-max-shift "$2" --save-dir "$DEMO/$1" >>"$DEMO/$1.log" 2>&1
}
train absolute 0 &
absolute=$!
train shifted 16 &
shifted=$!
python scripts/demo/progress.py "$DEMO"/{absolute,shifted}.log --updates "$UPDATES" &
progress=$!
failed=""
wait "$absolute" || failed=absolute
wait "$shifted" || failed=shifted
kill "$progress"
wait "$progress" || true
if [[ -n "$failed" ]]; then
  tail -n 3 "$DEMO/$failed.log" >&2
  echo "demo: training failed; all of it is in $DEMO/$failed.log" >&2
  exit 1
fi

headline 3 "translating lists of up to $((2 * TRAINED)) numbers"
decoding=(--user-dir "$(fairseq-ssl user-dir)" --beam 1 --max-len-a 2 --max-len-b 10)
generate() { # NAME
  have "$DEMO/$1/generate.txt" && return
  quietly "$DEMO/$1/generate.tmp" fairseq-generate "$DEMO/data-bin" "${decoding[@]}" \
    --path "$DEMO/$1/checkpoint_last.pt" --max-tokens 4000
  mv "$DEMO/$1/generate.tmp" "$DEMO/$1/generate.txt"
}
generate absolute &
generate shifted
wait $!

headline 4 "a conversation, with fairseq-interactive"
questions="well three and thirty-one
er twelve so seven then nine thirty-two and five
one two three four five six seven eight nine ten eleven twelve
ten well nine er eight seven six five four then three two one zero and thirty-nine"
talk() { # NAME
  have "$DEMO/$1/interactive.txt" && return
  quietly "$DEMO/$1/interactive.tmp" fairseq-interactive "$DEMO/data-bin" "${decoding[@]}" \
    --path "$DEMO/$1/checkpoint_last.pt" <<<"$questions"
  mv "$DEMO/$1/interactive.tmp" "$DEMO/$1/interactive.txt"
}
talk absolute &
talk shifted
wait $!
for name in absolute shifted; do
  printf '%s positions\n' "$name"
  grep -E '^(S|H)-' "$DEMO/$name/interactive.txt" | cut -f 1,2- | sed -E 's/^S-[0-9]+\t/  > /; s/^H-[0-9]+\t[^\t]+\t/    /'
done

headline 5 "the report"
{
  printf 'absolute: --shape-max-shift 0        shifted: --shape-max-shift 16\n\n'
  printf 'fairseq-train'
  printf ' %s' "${training[@]}" | sed 's/ --/ \\\n    --/g'
  printf '\n'
} >"$DEMO/settings.txt"
python scripts/demo/report.py "$DEMO" --trained-length "$TRAINED" --settings "$DEMO/settings.txt"
printf '\nThe picture and the transcript: %s\n' "$DEMO/report.html"
