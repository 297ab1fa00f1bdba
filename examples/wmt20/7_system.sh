#!/usr/bin/env bash
# Train the models of table 5.5: 7_system.sh a b c d e f p, or some of these rows. Models of step 2, of
# step 4 and of an earlier run are reused.
# shellcheck source=examples/wmt20/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
# shellcheck source=examples/wmt20/system.sh
source "$HERE/system.sh"

# Concatenate the files of DATA_DIR for a stage of fine-tuning, and binarize them as DATA/NAME (5.3.4).
fine_pairs() { # NAME
  local file files=() text="$WORK/fine/$1"
  for file in $(stage_files "$1"); do files+=("$file.$SOURCE" "$file.$TARGET"); done
  data_dir "pairs to fine-tune on" "${files[@]}"
  build "$text" fine_text "$1"
  build "$DATA/$1" binarized "$1" -s "$SOURCE" -t "$TARGET" \
    --srcdict "$DATA/genuine/dict.$SOURCE.txt" --tgtdict "$DATA/genuine/dict.$TARGET.txt" \
    --trainpref "$text/train" --validpref "$TEXT/valid"
}

fine_text() { # NAME
  local language file files text="$WORK/fine/$1"
  for language in "$SOURCE" "$TARGET"; do
    files=()
    for file in $(stage_files "$1"); do files+=("$DATA_DIR/$file.$language"); done
    into "$text/raw.$language" cat "${files[@]}"
    truecased "$language" "$text/raw.$language" "$text/true.$language"
    into "$text/train.$language" \
      fairseq-ssl subwords encode "$(subword_model "$language")" "$text/true.$language"
  done
}

binarized() { # NAME FLAGS...
  run rm -rf "$DATA/$1.tmp"
  quietly "$WORK/preprocess.log" run fairseq-preprocess "${@:2}" \
    --destdir "$DATA/$1.tmp" --workers "$(cores)"
  run mv "$DATA/$1.tmp" "$DATA/$1"
}

# Fine-tune SYSTEM.SEED to RUNS/fine.SEED, or SYSTEM-r2l.SEED to fine-r2l.SEED, in stages (5.3.4).
finetuned() { # fine|fine-r2l SEED
  build "$RUNS/$1.$2" finetune "$@"
}

finetune() { # fine|fine-r2l SEED
  local system="$SYSTEM${1#fine}" folder="$RUNS/$1.$2" stage name from flags average
  from="$(model "$system" "$2")"
  read -ra flags <<<"$(shape "$system" | paste -sd ' ')"
  for stage in $STAGES; do
    name="${stage%:*}"
    quietly "$folder/train.log" launch_train "$DATA/$name" --user-dir "$USER_DIR" \
      --task tagged_translation "${MODEL[@]}" "${flags[@]}" "${FINE[@]}" -s "$SOURCE" -t "$TARGET" \
      --optimizer adam --lr-scheduler fixed --max-update "${stage#*:}" \
      --save-interval-updates "$FINE_SAVE" \
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

# Train a language model of single target sentences, in the subwords of the translation models (5.3.7).
# SLOR compares it with unigrams of the same text, so they are counted in this text only.
lm_text() {
  local mono="$TEXT/mono.$TARGET" log="$WORK/preprocess.log"
  run rm -rf "$LM_DATA.tmp"
  quietly "$log" run fairseq-preprocess --only-source \
    --srcdict "$DATA/genuine/dict.$TARGET.txt" --trainpref "$mono" \
    --validpref "$TEXT/valid.$TARGET" --destdir "$LM_DATA.tmp" --workers "$(cores)"
  quietly "$log" run fairseq-preprocess --only-source --dict-only --trainpref "$mono" \
    --destdir "$LM_DATA.tmp/unigrams" --workers "$(cores)"
  run mv "$LM_DATA.tmp" "$LM_DATA"
}

language_model() { # lm|mlm TASK CRITERION FLAGS...
  local folder="$RUNS/$1.1"
  quietly "$folder/train.log" launch_train "$LM_DATA" --user-dir "$USER_DIR" --task "$2" \
    --criterion "$3" "${@:4}" --sample-break-mode eos --seed 1 --save-dir "$folder" \
    --validate-interval 100000 --no-epoch-checkpoints --log-format simple --log-interval 50
  quietly "$folder/train.log" run fairseq-ssl average "$folder/checkpoint_best.pt" \
    -o "$(model "$1" 1)"
}

headline "7/9 the models of rows $ROWS"
if row a && ! { [[ "$SYSTEM" == base && " $MEMBERS " == *" 1 "* ]] && row "b|c|d|e|f|p"; }; then
  spawn trained base 1 "$SOURCE" "$TARGET"
fi
if row "b|c|d|e|f|p"; then
  for member in $MEMBERS; do spawn trained "$SYSTEM" "$member" "$SOURCE" "$TARGET"; done
fi
if row "e|f|p" && [[ -n "$R2L" ]]; then
  for member in $MEMBERS; do spawn trained "$SYSTEM-r2l" "$member" "$SOURCE" "$TARGET"; done
fi
if row "f|p"; then
  [[ "$REVERSE" == "$RUNS/reverse.1/final.pt" ]] && spawn trained reverse 1 "$TARGET" "$SOURCE"
  [[ -n "$R2L" && "$REVERSE_R2L" == "$RUNS/reverse-r2l.1/final.pt" ]] &&
    spawn trained reverse-r2l 1 "$TARGET" "$SOURCE"
  build "$LM_DATA" lm_text
  spawn build "$RUNS/lm.1" language_model lm language_modeling cross_entropy "${LM[@]}"
  spawn build "$RUNS/mlm.1" language_model mlm masked_lm masked_lm "${MLM[@]}"
fi
settle

if row "c|d|e|f|p"; then
  headline "7/9 fine-tuning: $STAGES"
  for stage in $STAGES; do
    if [[ "$stage" != genuine:* ]]; then fine_pairs "${stage%:*}"; fi
  done
  for member in $MEMBERS; do spawn finetuned fine "$member"; done
  if row "e|f|p" && [[ -n "$R2L" ]]; then
    for member in $MEMBERS; do spawn finetuned fine-r2l "$member"; done
  fi
  settle
fi

if row p; then
  headline "7/9 word vectors"
  word_vectors "$TARGET"
fi
