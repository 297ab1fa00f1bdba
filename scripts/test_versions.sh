#!/usr/bin/env bash
# Run the tests of the current commit on several versions of Python, and with the oldest dependencies that
# pyproject.toml allows. Each has a clone in .versions with an environment of 3 to 7 GB, which is reused.
#
#   bash scripts/test_versions.sh                   3.10, 3.11, 3.12, 3.13 and oldest
#   bash scripts/test_versions.sh 3.13              all checks and tests; python3.13 must be installed
#   bash scripts/test_versions.sh oldest            the fast tests; needs Python 3.10 and uv, which finds the versions
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
(($#)) || set -- 3.10 3.11 3.12 3.13 oldest

test_python() { PYTHON="python$1" bash scripts/test.sh all; }

test_oldest() {
  uv pip compile --quiet --resolution lowest-direct --python-version 3.10 --extra dev --no-annotate --no-header \
    pyproject.toml >scripts/constraints.txt || return 1
  export PYTHON=python3.10 SETUP_FOR=tests OMP_NUM_THREADS=1
  # shellcheck source=scripts/setup.sh
  source scripts/setup.sh && python -m pytest -n "${TEST_PROCESSES:-2}" --dist loadfile -m "not slow"
}

failed=()
for version in "$@"; do
  clone=".versions/$version"
  [[ -d "$clone" ]] || git clone --quiet . "$clone"
  git -C "$clone" fetch --quiet origin HEAD
  git -C "$clone" reset --quiet --hard FETCH_HEAD
  printf '==> %s\n' "$version"
  if [[ "$version" == oldest ]]; then run=test_oldest; else run=test_python; fi
  (unset VIRTUAL_ENV && cd "$clone" && "$run" "$version") || failed+=("$version")
done
if ((${#failed[@]})); then
  echo "failed: ${failed[*]}" >&2
  exit 1
fi
echo "passed: $*"
