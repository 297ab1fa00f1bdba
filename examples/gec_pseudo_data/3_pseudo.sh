#!/usr/bin/env bash
# Generate pseudo pairs from the seed corpora by noisy back-translation, direct noise and spell noise,
# with spelling errors if a system needs them (4.3, 4.4.5). Sources are generated in portions. The
# first AMOUNT pairs are binarized.
# shellcheck source=examples/gec_pseudo_data/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
made="$WORK/pseudo" # CORPUS/PORTION.bpe; METHOD-CORPUS[-sse]/PORTION.src; PSEUDO.src and .trg
log="$made/pseudo.log"
noise() { quietly "$log" run fairseq-ssl noise "$@" ${FORCE:+--force}; }
encode() { into "$2" fairseq-ssl subwords encode "$WORK/bpe" "$1"; } # WORDS BPE

# Print the portions with the first AMOUNT sentences of a corpus.
portions() { # CORPUS AMOUNT
  local number name
  for ((number = 0; number * PORTION < $2; number++)); do
    name="$(printf '%05d' "$number")"
    if [[ -n "${DRY_RUN:-}" || -e "$WORK/seeds/$1/$name.txt" ]]; then echo "$name"; fi
  done
}

# Generate the sources of a portion, METHOD-CORPUS[-sse]/PORTION.src, with a random seed per portion.
portion() { # METHOD[@VALUE] CORPUS PORTION SSE
  local words="$WORK/seeds/$2/$3.txt" bpe="$made/$2/$3.bpe" out="$made/$1-$2$4/$3" seed value=""
  [[ "$1" == *@* ]] && value="${1#*@}"
  seed=$((10#$3 + 1))
  run mkdir -p "$(dirname "$out")"
  build "$bpe" encode "$words" "$bpe"
  build "$out.src" "${1%%@*}" "$@"
}

# The following functions use the variables words, bpe, out, seed and value of `portion`.
noisy() { # METHOD CORPUS PORTION SSE
  if [[ -n "$4" ]]; then
    into "$out.words" fairseq-ssl postprocess "$made/$1-$2/$3.src" --subwords subword-nmt
    misspell "$out.words" "$out.misspelled"
    encode "$out.misspelled" "$out.src"
    return
  fi
  quietly "$log" run fairseq-ssl back-translate "$bpe" --model "$(model reverse 1)" \
    --data-dir "$DATA/genuine" -s trg -t src --engine fairseq --noisy-beam-beta "${value:-$BETA}" \
    "${NOISY[@]}" --lenpen "$LENGTH_PENALTY" --seed "$seed" -o "$out.src" ${FORCE:+--force}
}

direct() { # METHOD CORPUS PORTION SSE: noise subwords, as in figure 4.1
  local mask="${value%_*}" keep="$KEEP" from="$bpe"
  [[ "$value" == *_* ]] && keep="${value#*_}"
  if [[ -n "$4" ]]; then
    misspell "$words" "$out.misspelled"
    from="$out.bpe"
    encode "$out.misspelled" "$from"
  fi
  noise "$from" --method "direct:keep=$keep:mask=${mask:-$MASK}" --counts "$WORK/dict.txt" \
    --seed "$seed" -o "$out.src"
}

spell() { # METHOD CORPUS PORTION SSE: noise words
  local kind="confusion"
  [[ -n "$4" ]] && kind+=",characters:rate=$SSE_RATE"
  noise "$words" --method "$kind" --confusion-sets "$made/$2/confusion_sets.tsv" --seed "$seed" \
    -o "$out.words"
  encode "$out.words" "$out.src"
}

misspell() { # INPUT OUTPUT
  noise "$1" --method "characters:rate=$SSE_RATE" --seed "$seed" -o "$2"
}

# Write confusion sets for spell noise, with words of the genuine pairs and of the seed corpus.
confusion_sets() { # CORPUS
  local number texts=()
  for number in $(portions "$1" "$CONFUSION_LINES"); do texts+=("$WORK/seeds/$1/$number.txt"); done
  into "$made/$1/beginning.txt" sed "${CONFUSION_LINES}q" "${texts[@]}"
  quietly "$log" run fairseq-ssl confusion-sets "$WORK/words/train.trg" "$made/$1/beginning.txt" \
    -o "$made/$1/confusion_sets.tsv" --min-count 2 --force
}

# Binarize the first AMOUNT pairs as DATA/PSEUDO.
binarize() { # PSEUDO PORTION...
  local method value corpus amount sse out="$made/$1" number sources=() targets=()
  pseudo_parts "$1"
  for number in "${@:2}"; do
    sources+=("$made/${1%-"$amount$sse"}$sse/$number.src")
    targets+=("$made/$corpus/$number.bpe")
  done
  into "$out.all.src" sed "${amount}q" "${sources[@]}"
  into "$out.all.trg" sed "${amount}q" "${targets[@]}"
  if [[ "$PSEUDO_FILTER" == none ]]; then
    run mv "$out.all.src" "$out.src"
    run mv "$out.all.trg" "$out.trg"
  else
    quietly "$log" run fairseq-ssl filter "$out.all.src" "$out.all.trg" --filter "$PSEUDO_FILTER" \
      -o "$out.src" "$out.trg" --force
  fi
  run rm -rf "$DATA/$1.tmp" "$DATA/$1"
  quietly "$log" run fairseq-preprocess -s src -t trg --srcdict "$WORK/dict.txt" \
    --tgtdict "$WORK/dict.txt" --trainpref "$out" --destdir "$DATA/$1.tmp" --workers "$(nproc)"
  run mv "$DATA/$1.tmp" "$DATA/$1"
}

sources() { # PSEUDO: generate all portions, or the portions of SHARD
  local method value corpus amount sse
  pseudo_parts "$1"
  if [[ "$method" == spell ]]; then
    build "$made/$corpus/confusion_sets.tsv" confusion_sets "$corpus"
  fi
  if [[ "$method$sse" == noisy-sse ]]; then
    each_portion "$method${value:+@$value}" "$corpus" "$amount" "" # input of the spelling errors
  fi
  each_portion "$method${value:+@$value}" "$corpus" "$amount" "$sse"
}

declare -A begun # portions that this step has started
each_portion() { # METHOD[@VALUE] CORPUS AMOUNT SSE
  local number
  for number in $(portions "$2" "$3"); do
    if [[ -n "${SHARD:-}" ]] && (((10#$number + 1) % shards != shard % shards)); then continue; fi
    if [[ -z "${DRY_RUN:-}" && -n "${begun[$1-$2$4/$number]:-}" ]]; then continue; fi
    begun[$1-$2$4/$number]=yes
    spawn portion "$1" "$2" "$number" "$4"
  done
  settle
}

pairs() { # PSEUDO
  local method value corpus amount sse
  pseudo_parts "$1"
  sources "$1"
  # shellcheck disable=SC2046  # split into words
  binarize "$1" $(portions "$corpus" "$amount")
}

if [[ -n "${SHARD:-}" ]]; then
  if [[ ! "$SHARD" =~ ^[1-9][0-9]{0,5}/[1-9][0-9]{0,5}$ ]] || ((${SHARD%/*} > ${SHARD#*/})); then
    echo "SHARD is '$SHARD'. Expected I/N with I from 1 to N." >&2
    exit 2
  fi
  shard="${SHARD%/*}" shards="${SHARD#*/}"
fi
for corpus in $(seed_corpora); do
  if [[ -z "${DRY_RUN:-}$OTHER_NODE" && ! -d "$WORK/seeds/$corpus" ]]; then
    echo "3_pseudo.sh: $WORK/seeds/$corpus does not exist. Run 1_prepare.sh with the same SYSTEMS." >&2
    exit 2
  fi
done
for pseudo in $(pseudo_data); do
  if [[ -z "${SHARD:-}" ]]; then
    headline "3/8 $pseudo"
    build "$DATA/$pseudo" pairs "$pseudo"
  elif [[ "$pseudo" == noisy* ]]; then
    headline "3/8 $pseudo: shard $SHARD"
    sources "$pseudo"
  fi
done
