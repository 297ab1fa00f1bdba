#!/usr/bin/env bash
# The models of table 5.5: 7_system.sh a b c d e f p, or some of these rows. What is trained already,
# by step 2 or 4 or by an earlier run, is taken as it is.
# shellcheck source=examples/wmt20/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
# shellcheck source=examples/wmt20/system.sh
source "$HERE/system.sh"

# The pairs to fine-tune on, DATA_DIR/NAME.L, as DATA/NAME (5.3.4); genuine is there already.
fine_pairs() { # NAME
  local language
  have "$DATA/$1" && return
  data_dir "$1.$SOURCE and $1.$TARGET, pairs to fine-tune on" "$1".{"$SOURCE","$TARGET"}
  for language in "$SOURCE" "$TARGET"; do
    if cased "$language"; then
      into "$WORK/true/$1.$language" fairseq-ssl truecase apply "$WORK/case.$language" "$DATA_DIR/$1.$language"
    else
      into "$WORK/true/$1.$language" cat "$DATA_DIR/$1.$language"
    fi
    into "$WORK/text/$1.$language" \
      fairseq-ssl subwords encode "$(subword_model "$language")" "$WORK/true/$1.$language"
  done
  run rm -rf "$DATA/$1.tmp"
  quietly "$WORK/preprocess.log" run fairseq-preprocess -s "$SOURCE" -t "$TARGET" \
    --srcdict "$DATA/genuine/dict.$SOURCE.txt" --tgtdict "$DATA/genuine/dict.$TARGET.txt" \
    --trainpref "$WORK/text/$1" --validpref "$WORK/text/valid" \
    --destdir "$DATA/$1.tmp" --workers "$(nproc)"
  run mv "$DATA/$1.tmp" "$DATA/$1"
}

# RUNS/fine.SEED of SYSTEM.SEED, or fine-r2l.SEED of SYSTEM-r2l.SEED, one stage after the other (5.3.4).
finetune() { # fine|fine-r2l SEED
  local system="$SYSTEM${1#fine}" folder="$RUNS/$1.$2" stage name from flags average
  have "$(model "$1" "$2")" && return
  from="$(model "$system" "$2")"
  read -ra flags <<<"$(shape "$system" | paste -sd ' ')"
  for stage in $STAGES; do
    name="${stage%:*}"
    quietly "$folder/train.log" launch_train "$DATA/$name" --user-dir "$USER_DIR" \
      --task tagged_translation "${MODEL[@]}" "${flags[@]}" "${FINE[@]}" -s "$SOURCE" -t "$TARGET" \
      --optimizer adam --lr-scheduler fixed --max-update "${stage#*:}" \
      --criterion label_smoothed_cross_entropy --label-smoothing "$LABEL_SMOOTHING" \
      --dropout "$DROPOUT" --seed "$2" --finetune-from-model "$from" --save-dir "$folder/$name" \
      --validate-interval 100000 --validate-interval-updates 1000000 --no-epoch-checkpoints \
      --log-format simple --log-interval 10
    average="$folder/$name.pt"
    quietly "$folder/train.log" run fairseq-ssl average "$folder/$name" \
      --last "$FINE_AVERAGE" --by update -o "$average"
    from="$average"
  done
  run mv "$average" "$(model "$1" "$2")"
}

# A language model of the target, of single sentences, in the translation models' subwords (5.3.7).
lm_text() {
  have "$LM_DATA" && return
  run rm -rf "$LM_DATA.tmp"
  quietly "$WORK/preprocess.log" run fairseq-preprocess --only-source \
    --srcdict "$DATA/genuine/dict.$TARGET.txt" --trainpref "$WORK/text/mono.$TARGET" \
    --validpref "$WORK/text/valid.$TARGET" --destdir "$LM_DATA.tmp" --workers "$(nproc)"
  run mv "$LM_DATA.tmp" "$LM_DATA"
}

language_model() { # lm|mlm TASK CRITERION FLAGS...
  local folder="$RUNS/$1.1"
  have "$(model "$1" 1)" && return
  quietly "$folder/train.log" launch_train "$LM_DATA" --user-dir "$USER_DIR" --task "$2" \
    --criterion "$3" "${@:4}" --sample-break-mode eos --seed 1 --save-dir "$folder" \
    --validate-interval 100000 --no-epoch-checkpoints --log-format simple --log-interval 50
  quietly "$folder/train.log" run fairseq-ssl average "$folder/checkpoint_best.pt" \
    -o "$(model "$1" 1)"
}

headline "7/9 the models of rows $ROWS"
if row a; then spawn train base 1 "$SOURCE" "$TARGET"; fi
if row "b|c|d|e|f|p"; then
  for member in $MEMBERS; do spawn train "$SYSTEM" "$member" "$SOURCE" "$TARGET"; done
fi
if row "e|f|p" && [[ -n "$R2L" ]]; then
  for member in $MEMBERS; do spawn train "$SYSTEM-r2l" "$member" "$SOURCE" "$TARGET"; done
fi
if row "f|p"; then
  [[ "$REVERSE" == "$RUNS/reverse.1/final.pt" ]] && spawn train reverse 1 "$TARGET" "$SOURCE"
  [[ -n "$R2L" && "$REVERSE_R2L" == "$RUNS/reverse-r2l.1/final.pt" ]] &&
    spawn train reverse-r2l 1 "$TARGET" "$SOURCE"
  lm_text
  spawn language_model lm language_modeling cross_entropy "${LM[@]}"
  spawn language_model mlm masked_lm masked_lm "${MLM[@]}"
fi
settle

if row "c|d|e|f|p"; then
  headline "7/9 fine-tuning: $STAGES"
  for stage in $STAGES; do
    if [[ "$stage" != genuine:* ]]; then fine_pairs "${stage%:*}"; fi
  done
  for member in $MEMBERS; do spawn finetune fine "$member"; done
  if row "e|f|p" && [[ -n "$R2L" ]]; then
    for member in $MEMBERS; do spawn finetune fine-r2l "$member"; done
  fi
  settle
fi

if row p; then
  headline "7/9 word vectors"
  word_vectors "$TARGET"
fi
