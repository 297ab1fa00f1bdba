#!/usr/bin/env bash
# scripts/test.sh on several versions of Python, of what is committed. Each has a clone in
# .versions, which keeps its environment for the next time (3 GB each).
#
#   bash scripts/test_versions.sh               3.10, 3.11 and 3.12
#   bash scripts/test_versions.sh 3.12          one of them; pythonX.Y must be there
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
  (unset VIRTUAL_ENV && cd "$clone" && PYTHON="python$version" bash scripts/test.sh) || failed+=("$version")
done
if ((${#failed[@]})); then
  echo "failed on Python ${failed[*]}" >&2
  exit 1
fi
echo "passed on Python $*"
