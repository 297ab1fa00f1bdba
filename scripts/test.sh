#!/usr/bin/env bash
# All checks and tests, as in CI. With "fast", only the checks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/setup.sh
SETUP_FOR=tests source scripts/setup.sh

mapfile -t shell_scripts < <(git ls-files '*.sh' .ci/run)
check() {
  printf '==> %s\n' "$*"
  "$@"
}
check ruff check .
check ruff format --check .
# The last numpy for Python 3.10 has outdated types.
if python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then check mypy; fi
check lint-imports
check python scripts/structure.py --check
check python scripts/recipes.py --check
check python scripts/prose.py
check shellcheck -x "${shell_scripts[@]}"
if python -c 'import material, mkdocstrings' 2>/dev/null; then
  check bash scripts/docs.sh build
else
  printf '==> skipped: bash scripts/docs.sh build (install it with: pip install -e ".[docs]")\n'
fi
[[ "${1:-}" == fast ]] && exit

# Two test processes with one torch thread each, for two cores. The order of the folders puts the
# short files of `unit` last. With a long file at the end, one process would be idle.
export OMP_NUM_THREADS=1
check python -m pytest -n "${TEST_PROCESSES:-2}" --dist loadfile --no-loadscope-reorder \
  --durations 10 "$@"
