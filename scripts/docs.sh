#!/usr/bin/env bash
# The documentation site, from docs/, the parsers, the docstrings and the READMEs.
#
#   bash scripts/docs.sh          build it into site/; a broken link is an error
#   bash scripts/docs.sh serve    show it at http://127.0.0.1:8000, rebuilt after each change
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ -z "${VIRTUAL_ENV:-}" && -x .venv/bin/python ]]; then PATH="$PWD/.venv/bin:$PATH"; fi

export NO_MKDOCS_2_WARNING=1 # a notice of the theme about another tool
case "${1:-build}" in
  build) options=(--strict) ;; # without --quiet, which hides warnings from --strict
  serve) options=() ;;
  *)
    printf 'docs.sh: %s is not a command. Expected build or serve.\n' "$1" >&2
    exit 2
    ;;
esac
if ! python -c 'import material, mkdocstrings' 2>/dev/null; then
  printf 'docs.sh: mkdocs-material and mkdocstrings are not installed. Install them with: pip install -e ".[docs]"\n' >&2
  exit 1
fi
exec python -m mkdocs "${1:-build}" "${options[@]}"
