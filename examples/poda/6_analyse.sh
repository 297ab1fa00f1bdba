#!/usr/bin/env bash
# Plot scores by updates of pre-training (figure 2) and by amount (figure 3), and perplexity by epoch (figure
# 4), and complete incomplete sentences with the pre-trained model (table 12), in WORK/analysis.
# shellcheck source=examples/poda/settings.sh
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

OUT="$WORK/analysis"

samples() {
  local prompts
  mapfile -t prompts < <(tr '|' '\n' <<<"$PROMPTS")
  into "$OUT/prompts.txt" printf '%s\n' "${prompts[@]}"
  # shellcheck disable=SC2094  # read here, written there
  quietly "$OUT/samples.log" into "$OUT/samples.generate" \
    fairseq-interactive "$WORK/dictionary" --user-dir "$USER_DIR" \
    --task copying_translation --source-lang en --target-lang en --path "$(start 1)" \
    --input "$OUT/prompts.txt" --sampling --beam 4 --nbest 4 --seed "$SEED" --max-len-b 20
  into "$OUT/samples.txt" grep -E '^[SH]-' "$OUT/samples.generate"
}

headline "6/6 figures and samples"
build "$OUT/samples.txt" samples
for task in $TASKS; do
  run python "$HERE/figures.py" "$RUNS" "$OUT" --task "$task"
done
