#!/usr/bin/env bash
# Checks and tests. CI runs all of them.
#
#   bash scripts/test.sh           all checks, and the tests that are not marked as slow
#   bash scripts/test.sh all       all checks and tests
#   bash scripts/test.sh checks    only the checks
#
# More arguments are for pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/setup.sh
SETUP_FOR=tests source scripts/setup.sh

# The checks, the slowest first. The last numpy for Python 3.10 has outdated types.
checks=()
if python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then checks+=(mypy); fi
# shellcheck disable=SC2016  # expanded by the process of the check
checks+=('shellcheck -x $(git ls-files "*.sh" .ci/run)')
if python -c 'import material, mkdocstrings' 2>/dev/null; then
  checks+=("bash scripts/docs.sh build")
else
  printf '==> skipped: bash scripts/docs.sh build (install it with: pip install -e ".[docs]")\n'
fi
checks+=("python scripts/structure.py --check" "python scripts/prose.py" "python scripts/recipes.py --check")
checks+=(lint-imports "ruff check ." "ruff format --check .")

# Run a check and print its output when it ends, since two checks run at a time.
check() {
  local output code=0
  output="$(bash -c "$1" 2>&1)" || code=$?
  printf '==> %s\n%s%s' "$1" "$output" "${output:+$'\n'}"
  return "$code"
}
export -f check
# shellcheck disable=SC2016
printf '%s\0' "${checks[@]}" | xargs -0 -P "${TEST_PROCESSES:-2}" -I {} bash -c 'check "$1"' check {}
chosen=(-m "not slow")
case "${1:-}" in
  checks) exit ;;
  all) chosen=() && shift ;;
esac

# Two test processes with one torch thread each, for two cores. The order of the folders puts the
# short files of `unit` last. With a long file at the end, one process would be idle.
export OMP_NUM_THREADS=1
unset PYTHONDONTWRITEBYTECODE # each test process would compile all tests, for 6 s of CPU time
exec python -m pytest -n "${TEST_PROCESSES:-2}" --dist loadfile --no-loadscope-reorder \
  --durations 10 "${chosen[@]}" "$@"
