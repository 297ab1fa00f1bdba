#!/usr/bin/env bash
# Pseudo pairs from the seed corpora: noisy back-translation, direct noise, spell noise; with
# spelling errors where a system has them (4.3, 4.4.5). The first AMOUNT of them, binarised.
# shellcheck source=examples/gec_pseudo_data/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
made="$WORK/pseudo" # CORPUS.words and .bpe; METHOD-CORPUS[-sse].src, and -AMOUNT.src and .trg
log="$made/pseudo.log"
noise() { quietly "$log" run fairseq-ssl noise --seed 1 "$@" ${FORCE:+--force}; }
encode() { into "$2" fairseq-ssl subwords encode "$WORK/bpe" "$1" --jobs "$(nproc)"; } # WORDS BPE
misspell() { noise "$1" --noise "spelling:rate=$SSE_RATE" -o "$2"; }                    # WORDS WORDS

# The sentences of a seed corpus that become targets.
seeds() { # CORPUS
  have "$made/$1.words" || into "$made/$1.words" sed "${MOST}q" "$WORK/words/$1.txt"
  have "$made/$1.bpe" || encode "$made/$1.words" "$made/$1.bpe"
}

# Sources for all of them, in METHOD-CORPUS.src, and with spelling errors METHOD-CORPUS-sse.src.
noisy() { # METHOD CORPUS SSE
  local out="$made/$1-$2" beta="$BETA"
  [[ "$1" == *@* ]] && beta="${1#*@}"
  if ! have "$out.src"; then
    [[ -n "${SHARD:-}" ]] || joined "$out.src"
    [[ -e "$out.src" && -z "${FORCE:-}" ]] ||
      quietly "$log" run fairseq-ssl back-translate "$made/$2.bpe" --model "$(model reverse 1)" \
        --data-dir "$DATA/genuine" -s trg -t src --engine fairseq --noisy-beam-beta "$beta" \
        "${NOISY[@]}" --lenpen "$LENGTH_PENALTY" ${SHARD:+--shard "$SHARD"} -o "$out.src" \
        ${FORCE:+--force}
  fi
  [[ -n "$3" && -z "${SHARD:-}" ]] || return 0
  into "$out.words" fairseq-ssl subwords decode --kind subword-nmt "$out.src"
  misspell "$out.words" "$out-sse.words"
  encode "$out-sse.words" "$out-sse.src"
}

direct() { # METHOD CORPUS SSE: tokens are subwords, as in figure 4.1
  local mask="$MASK" from="$made/$2.bpe"
  [[ "$1" == *@* ]] && mask="${1#*@}"
  if [[ -n "$3" ]]; then
    misspell "$made/$2.words" "$made/$1-$2-sse.words"
    from="$made/$1-$2-sse.bpe"
    encode "$made/$1-$2-sse.words" "$from"
  fi
  noise "$from" --noise "direct:keep=$KEEP:mask=$mask" --counts "$WORK/dict.txt" -o "$made/$1-$2$3.src"
}

spell() { # METHOD CORPUS SSE: on words
  local kind="spell" sets="$WORK/confusion_sets.tsv"
  have "$sets" || quietly "$log" run fairseq-ssl confusion-sets "$WORK/words/train.trg" \
    "$made/$2.words" -o "$sets" --least-count 2 --force
  [[ -n "$3" ]] && kind+=",spelling:rate=$SSE_RATE"
  noise "$made/$2.words" --noise "$kind" --confusion-sets "$sets" -o "$made/$1-$2$3.words"
  encode "$made/$1-$2$3.words" "$made/$1-$2$3.src"
}

# The first AMOUNT pairs, as DATA/METHOD-CORPUS-AMOUNT.
binarise() { # METHOD CORPUS AMOUNT SSE
  local name="$1-$2-$3$4"
  have "$DATA/$name" && return
  into "$made/$name.all.src" sed "${3}q" "$made/$1-$2$4.src"
  into "$made/$name.all.trg" sed "${3}q" "$made/$2.bpe"
  quietly "$log" run fairseq-ssl filter "$made/$name.all.src" "$made/$name.all.trg" \
    --filter clean:min=1:max=250:ratio=9.0 -o "$made/$name.src" "$made/$name.trg" --force
  run rm -rf "$DATA/$name.tmp"
  quietly "$log" run fairseq-preprocess -s src -t trg --srcdict "$WORK/dict.txt" \
    --tgtdict "$WORK/dict.txt" --trainpref "$made/$name" --destdir "$DATA/$name.tmp" \
    --workers "$(nproc)"
  run mv "$DATA/$name.tmp" "$DATA/$name"
}

for system in $(systems); do
  [[ "$system" == baseline ]] && continue
  parts "$system"
  [[ -n "${SHARD:-}" && "$method" != noisy* ]] && continue
  [[ -e "$DATA/$method-$corpus-$amount$sse" && -z "${FORCE:-}" ]] && continue
  headline "3/8 $method of $corpus${sse:+, with spelling errors}"
  seeds "$corpus"
  have "$made/$method-$corpus$sse.src" || "${method%@*}" "$method" "$corpus" "$sse"
  if [[ -z "${SHARD:-}" ]]; then binarise "$method" "$corpus" "$amount" "$sse"; fi
done
