#!/usr/bin/env bash
# Run all checks and tests of the current commit on several versions of Python. Each version has a clone in
# .versions with an environment of 3 GB, which is reused.
#
#   bash scripts/test_versions.sh               3.10, 3.11 and 3.12
#   bash scripts/test_versions.sh 3.12          one version; python3.12 must be installed
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
(($#)) || set -- 3.10 3.11 3.12

failed=()
for version in "$@"; do
  clone=".versions/$version"
  [[ -d "$clone" ]] || git clone --quiet . "$clone"
  git -C "$clone" fetch --quiet origin HEAD
  git -C "$clone" reset --quiet --hard FETCH_HEAD
  printf '==> Python %s\n' "$version"
  (unset VIRTUAL_ENV && cd "$clone" && PYTHON="python$version" bash scripts/test.sh all) || failed+=("$version")
done
if ((${#failed[@]})); then
  echo "failed on Python ${failed[*]}" >&2
  exit 1
fi
echo "passed on Python $*"
