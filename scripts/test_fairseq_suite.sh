#!/usr/bin/env bash
# fairseq's own tests with and without the plug-in. Prints the tests that pass in only one of the two,
# and exits with 1 if a test passes only without. Not part of the checks: needs network and an hour.
#
#   bash scripts/test_fairseq_suite.sh [pytest arguments, for example tests/test_train.py]
#   FAIRSEQ_SOURCE=FOLDER bash scripts/test_fairseq_suite.sh    needs only a package index
#
# The release of fairseq on the package index has most of the tests. The other files come from
# FAIRSEQ_SOURCE, a checkout of fairseq 0.12.3, or from GitHub. Without these files fewer tests run.
# Settings: REPEATS, number of repeats of a test that differs (default: 3); SUITE_DIR, folder of
# downloads, results and logs (default: work/fairseq_suite); RESUME=1, reuse completed runs;
# TEST_PROCESSES, number of parallel tests (default: 1).
#
# With fairseq-fixed 0.12.3.1, torch 2.13.0 on a CPU and Python 3.11, 174 tests pass without the plug-in and
# 218 to 220 with it. None passes only without it. If `weights_only` of torch is disabled in fairseq, the
# plug-in gains 11 or 12 tests.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=scripts/setup.sh
SETUP_FOR=tests source "$root/scripts/setup.sh"
folder="${SUITE_DIR:-$root/work/fairseq_suite}"
suite="$folder/suite" results="$folder/results" compare="$root/scripts/fairseq_suite.py"
rm -rf "$suite"
[[ -n "${RESUME:-}" ]] || rm -rf "$results"
mkdir -p "$suite" "$results" "$folder/download"

release="$(python -c 'from importlib.metadata import packages_distributions, version
name = packages_distributions()["fairseq"][0]
print(name + "==" + version(name))')"
printf 'suite: %s, torch %s, %s\n' "$release" \
  "$(python -c 'import torch; print(torch.__version__)')" "$(python --version)"

if ! compgen -G "$folder/download/*/tests" >/dev/null; then
  python -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation \
    --no-binary :all: --dest "$folder/download" "$release"
  tar -xzf "$folder"/download/*.tar.gz -C "$folder/download"
fi
cp -r "$folder"/download/*/tests "$suite"
printf '[pytest]\n' >"$suite/pytest.ini" # pytest must not read the settings of this repository

checkout="${FAIRSEQ_SOURCE:-$folder/checkout}"
if [[ ! -e "$checkout" ]]; then
  GIT_TERMINAL_PROMPT=0 git clone --quiet --depth 1 --branch v0.12.3 \
    https://github.com/facebookresearch/fairseq "$checkout" || true
fi
for name in tests/__init__.py tests/utils.py tests/tasks scripts; do
  if [[ ! -e "$suite/$name" && -e "$checkout/$name" ]]; then cp -r "$checkout/$name" "$suite/$name"; fi
done

if [[ ! -e "$suite/tests/utils.py" ]]; then
  touch "$suite/tests/__init__.py"
  printf 'suite: no checkout of fairseq 0.12.3. Set FAIRSEQ_SOURCE to a checkout to run tests/tasks and\n'
  printf 'suite: tests that need tests/utils.py or scripts. They are listed as "not imported".\n'
fi

# Run the tests once: VARIANT RUN [arguments of pytest]
run() {
  local variant="$1" name="$1.$2" code=0 begun=$SECONDS
  [[ -e "$results/$name.done" ]] && return
  local -a settings=(PYTHONPATH="$root:$root/scripts" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}") options=()
  case "$variant" in
    # Stock fairseq cannot load its checkpoints with torch 2.6 or later, unless users set this.
    unprotected) settings+=(TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1) ;;
    plug-in) options=(--load-plug-in) ;;
  esac
  # -c: otherwise the path after --only counts as a test when pytest searches its root folder
  (cd "$suite" && env "${settings[@]}" python -m pytest -c pytest.ini -p fairseq_suite -p no:cacheprovider \
    --continue-on-collection-errors -n "${TEST_PROCESSES:-0}" "${options[@]}" \
    --data-seed "$2" --results "$results/$name.tsv" "${@:3}") >"$results/$name.log" 2>&1 || code=$?
  printf 'suite: %s: %s (%d s)\n' "$name" "$(tail -n 1 "$results/$name.log")" "$((SECONDS - begun))"
  if ((code > 1 && code != 5)); then # 5: no test is selected, for example if all pass in stock
    printf 'suite: pytest exited with %d. See %s\n' "$code" "$results/$name.log" >&2
    exit 2
  fi
  touch "$results/$name.done"
}

tests=("$@")
[[ $# -gt 0 ]] || tests=(tests)
run stock 0 "${tests[@]}"
python "$compare" "$results" --failing >"$results/failing.txt"
run unprotected 0 --only "$results/failing.txt" "${tests[@]}"
run plug-in 0 "${tests[@]}"

for variant in stock unprotected plug-in; do
  python "$compare" "$results" --differing "$variant" >"$results/$variant.differing.txt"
done
for ((repeat = 1; repeat <= ${REPEATS:-3}; repeat++)); do
  for variant in stock unprotected plug-in; do
    mapfile -t tests < <(sed '/^$/d; s/::.*//' "$results/$variant.differing.txt" | sort -u)
    ((${#tests[@]} == 0)) || run "$variant" "$repeat" --only "$results/$variant.differing.txt" "${tests[@]}"
  done
done
python "$compare" "$results"
