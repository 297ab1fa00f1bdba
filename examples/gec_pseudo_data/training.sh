# shellcheck shell=bash disable=SC2034,SC2086,SC2153  # settings.sh uses and sets them; words apart
# Training of a system's model. To be sourced after settings.sh.

lines_of() { # FILE NUMBER, which is printed in a dry run without the file, and in records
  if [[ -n "${RECORDING:-}" || (-n "${DRY_RUN:-}" && ! -e "$1") ]]; then
    echo "$2"
  else
    await "$1"
    wc -l <"$1"
  fi
}

# Print the flags of an epoch with the genuine pairs repeated TIMES times (0: none) and the pseudo pairs.
mixture() { # TIMES PSEUDO
  local genuine="" method value corpus amount sse
  pseudo_parts "$2"
  (($1)) && genuine="train=$(($1 * $(lines_of "$WORK/text/train.trg" "$GENUINE"))),"
  echo --mix-weights "${genuine}../$2/train=$(lines_of "$WORK/pseudo/$2.trg" "$amount")"
}

# Run fairseq-train on the genuine pairs with the flags common to all models.
fit() { # FOLDER SEED FLAGS...
  quietly "$1/train.log" launch_train "$DATA/genuine" --user-dir "$USER_DIR" \
    --task tagged_translation "${SIZE[@]}" --dropout "$DROPOUT" --clip-norm "$CLIP_NORM" \
    --criterion label_smoothed_cross_entropy --label-smoothing "$LABEL_SMOOTHING" \
    --best-checkpoint-metric ppl --seed "$2" --save-dir "$1" \
    --log-format simple --log-interval 100 "${PAUSE[@]}" "${@:3}"
}

# Train the model of SYSTEM and SEED. Interrupted training runs resume. FLAGS may be --right-to-left. A
# pretrained system needs its pretraining.
train() { # SYSTEM SEED FLAGS...
  local folder="$RUNS/$1.$2" kind times first second direction flags=() languages=(-s src -t trg)
  local length=("${JOINT[@]}")
  parts "$1"
  [[ "$kind" == reverse ]] && languages=(-s trg -t src) length=("${REVERSE[@]}")
  if [[ "$kind" == pretrain ]]; then
    [[ -n "$second" ]] && read -ra flags <<<"$(mixture 1 "$second")" # 4.4.5
    fit "$folder" "$2" "${languages[@]}" "${TUNING[@]}" --no-epoch-checkpoints \
      --finetune-from-model "$(pretrained "$1" "$2")/checkpoint_last.pt" "${flags[@]}" "${@:3}"
    choose "$folder" best
    return
  fi
  [[ -n "$first" ]] && read -ra flags <<<"$(mixture "$times" "$first")"
  [[ "$CHOSEN" == best ]] && flags+=(--no-epoch-checkpoints)
  fit "$folder" "$2" "${languages[@]}" "${ADAM[@]}" "${length[@]}" "${flags[@]}" "${@:3}"
  choose "$folder" "$CHOSEN"
}

pretrained() { # SYSTEM SEED: print the folder, shared by systems that differ only in the second pseudo data
  local kind times first second direction
  parts "$1"
  echo "$RUNS/pretraining-$first$direction.$2"
}

pretrain() { # SYSTEM SEED FLAGS...
  local folder flags kind times first second direction
  folder="$(pretrained "$1" "$2")"
  parts "$1"
  read -ra flags <<<"$(mixture 0 "$first")"
  fit "$folder" "$2" -s src -t trg "${ADAM[@]}" "${PRETRAINING[@]}" --no-epoch-checkpoints \
    "${flags[@]}" "${@:3}"
}

choose() { # FOLDER best|NUMBER
  if [[ "$2" == best ]]; then
    into "$1/final.pt" cat "$1/checkpoint_best.pt"
  else
    quietly "$1/train.log" run fairseq-ssl average "$1" --last "$2" -o "$1/final.pt"
  fi
}
