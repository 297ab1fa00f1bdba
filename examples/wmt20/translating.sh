# shellcheck shell=bash
# Translation of held-out sets. To be sourced after settings.sh.
#
#   search OUT SET MODELS FLAGS...     run fairseq-generate to OUT.generate; several MODELS, separated by
#                                      colons, are an ensemble (5.3.5)
#   finish OUT SET FILE FLAGS...       post-process FILE, in subwords, to OUT.txt (5.3.8)
#   translated OUT SET MODELS FLAGS... build both

search() { # OUT SET MODELS FLAGS...
  quietly "$1.log" into "$1.generate" fairseq-generate "$DATA/genuine" --user-dir "$USER_DIR" \
    -s "$SOURCE" -t "$TARGET" --path "$3" --gen-subset "$2" \
    --beam "$BEAM" --lenpen "$LENGTH_PENALTY" --max-tokens 4000 "${LENGTHS[@]}" "${@:4}"
}

# Post-process by the rules of the target language (5.3.8).
finish() { # OUT SET FILE FLAGS...
  local flags=()
  case "$SOURCE-$TARGET" in
    *-ja) flags=(--japanese-punctuation) ;;
    ja-*) flags=(--replace-unk "|") ;;
    words-digits) ;;
    *)
      flags=(--copy-unknown --source "$TEXT/$2.$SOURCE" --source-dict "$DATA/genuine/dict.$SOURCE.txt"
        --target-dict "$DATA/genuine/dict.$TARGET.txt")
      ;;
  esac
  if cased "$TARGET"; then flags+=(--detruecase); fi
  into "$1.txt" fairseq-ssl postprocess "$3" "${@:4}" --subwords sentencepiece "${flags[@]}"
}

translated() { # OUT SET MODELS FLAGS...
  build "$1.txt" translate "$@"
}

translate() { # OUT SET MODELS FLAGS...
  search "$1" "$2" "$3" "${@:4}"
  finish "$1" "$2" "$1.generate" --fairseq-lines H
}
