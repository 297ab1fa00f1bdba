#!/usr/bin/env bash
# Use the active environment if it has all requirements. Otherwise use .venv in the repository, which
# is built with the versions in scripts/constraints.txt.
#
#   bash scripts/setup.sh                  build or check
#   source scripts/setup.sh                the same, and activate it in this shell
#   PYTHON=python3.12 bash scripts/setup.sh    build .venv with that interpreter
#   SETUP_FOR=tests source scripts/setup.sh    include the requirements of scripts/test.sh

_ssl_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
_ssl_venv="$_ssl_root/.venv"
_ssl_log="$_ssl_root/.venv-setup.log"

_ssl_say() { printf 'setup: %s\n' "$*" >&2; }

# Succeed if the interpreter $1 has the requirements of pyproject.toml, and with --pinned the pinned
# versions. Prints missing requirements.
_ssl_satisfied() {
  "$1" "$_ssl_root/scripts/check_environment.py" ${SETUP_FOR:+--dev} "${@:2}" 2>&1
}

_ssl_use() {
  VIRTUAL_ENV="$1"
  PATH="$1/bin:$PATH"
  export VIRTUAL_ENV PATH
}

# Print the interpreter to build with: PYTHON, or the first available of 3.11, 3.12, 3.10.
_ssl_find_python() {
  local name version failure=''
  for name in ${PYTHON:-python3.11 python3.12 python3.10 python3}; do
    if ! version="$("$name" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>&1)"; then
      failure="$version" version=''
      continue
    fi
    case "$version" in
      3.10 | 3.11 | 3.12)
        command -v "$name"
        return
        ;;
    esac
  done
  if [[ -n "${PYTHON:-}" ]]; then
    if command -v "$PYTHON" >/dev/null && [[ -n "$failure" ]]; then
      printf '%s\n' "$failure" >&2 # for example from pyenv's shim of an inactive version
    fi
    _ssl_say "PYTHON=$PYTHON is ${version:+Python }${version:-not available}. Expected Python 3.10, 3.11 or 3.12."
  else
    _ssl_say "no Python 3.10, 3.11 or 3.12 found. Install one, or set PYTHON=/path/to/python3.11."
  fi
  return 1
}

_ssl_check_tools() {
  if ! command -v "${CXX:-c++}" >/dev/null && ! command -v g++ >/dev/null; then
    _ssl_say "no C++ compiler found, which is required to build fairseq. Install g++, or set CXX."
    return 1
  fi
  if ! "$1" -c 'import os, sysconfig as s; raise SystemExit(not os.path.exists(os.path.join(s.get_path("include"), "Python.h")))'; then
    _ssl_say "$1 has no headers (Python.h), which are required to build fairseq. Install python3-dev."
    return 1
  fi
  if ! "$1" -c 'import ensurepip, venv' 2>/dev/null; then
    _ssl_say "$1 cannot create virtual environments. Install python3-venv."
    return 1
  fi
}

# Run a step of the installation and print its time. On failure print the likely cause on one line.
_ssl_step() {
  local title="$1" begun=$SECONDS
  printf 'setup: %s ... ' "$title" >&2
  if "${@:2}" >>"$_ssl_log" 2>&1; then
    printf '%d s\n' "$((SECONDS - begun))" >&2
    return
  fi
  printf 'failed\n' >&2
  if grep -qE 'NewConnectionError|Temporary failure in name|Network is unreachable|ConnectTimeout|ProxyError|Connection refused' "$_ssl_log"; then
    _ssl_say "no network: pip could not reach a package index (details: $_ssl_log)"
  elif grep -q 'No space left on device' "$_ssl_log"; then
    _ssl_say "no space left on the disk (details: $_ssl_log)"
  else
    _ssl_say "$(grep -iE 'error' "$_ssl_log" | tail -n 1 | cut -c 1-150) (details: $_ssl_log)"
  fi
  return 1
}

_ssl_pip() {
  "$_ssl_venv/bin/python" -m pip install --disable-pip-version-check \
    --constraint "$_ssl_root/scripts/constraints.txt" "$@"
}

# fairseq is built against the installed torch. With build isolation pip would install another one.
_ssl_build() {
  local python
  python="$(_ssl_find_python)" || return 1
  _ssl_check_tools "$python" || return 1
  : >"$_ssl_log"
  _ssl_step "creating .venv with $python" "$python" -m venv --clear "$_ssl_venv" || return 1
  _ssl_step "installing torch and build tools" \
    _ssl_pip torch numpy cython ninja packaging setuptools wheel || return 1
  PATH="$_ssl_venv/bin:$PATH" _ssl_step "building fairseq (2 to 5 minutes)" \
    _ssl_pip --no-build-isolation fairseq-fixed || return 1
  _ssl_step "installing the other packages" \
    _ssl_pip --no-build-isolation --editable "${_ssl_root}[dev]" || return 1
}

# Succeed if .venv has all pinned versions, and the Python version of PYTHON if set.
_ssl_venv_ready() {
  local built="$_ssl_venv/bin/python" print='import sys; print(sys.version_info[:2])'
  [[ -x "$built" ]] || return 1
  [[ -z "${PYTHON:-}" || "$("$built" -c "$print")" == "$("$PYTHON" -c "$print" 2>/dev/null)" ]] || return 1
  SETUP_FOR=tests _ssl_satisfied "$built" --pinned >/dev/null
}

_ssl_setup() {
  local active
  active="$(command -v python || true)"
  if [[ -z "${PYTHON:-}" && -n "$active" ]] && _ssl_satisfied "$active" >/dev/null; then
    return
  fi
  if ! _ssl_venv_ready; then
    _ssl_build || return 1
    if ! _ssl_satisfied "$_ssl_venv/bin/python" --pinned >>"$_ssl_log"; then
      _ssl_say "$(tail -n 1 "$_ssl_log") (details: $_ssl_log)"
      return 1
    fi
  fi
  _ssl_use "$_ssl_venv"
}

if _ssl_setup; then
  _ssl_say "using $(command -v python)"
else
  # shellcheck disable=SC2317  # reached if this file is run and not sourced
  return 1 2>/dev/null || exit 1
fi
