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
_ssl_parts="$_ssl_venv/build" # exists until the environment is complete
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

# Print the interpreter to build with: PYTHON, or the first available of 3.11, 3.12, 3.13, 3.10.
_ssl_find_python() {
  local name version failure=''
  for name in ${PYTHON:-python3.11 python3.12 python3.13 python3.10 python3}; do
    if ! version="$("$name" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>&1)"; then
      failure="$version" version=''
      continue
    fi
    case "$version" in
      3.10 | 3.11 | 3.12 | 3.13)
        command -v "$name"
        return
        ;;
    esac
  done
  if [[ -n "${PYTHON:-}" ]]; then
    if command -v "$PYTHON" >/dev/null && [[ -n "$failure" ]]; then
      printf '%s\n' "$failure" >&2 # for example from pyenv's shim of an inactive version
    fi
    _ssl_say "PYTHON=$PYTHON is ${version:+Python }${version:-not available}. Expected Python 3.10 to 3.13."
  else
    _ssl_say "no Python 3.10 to 3.13 found. Install one, or set PYTHON=/path/to/python3.11."
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

# Run a part of the installation and print its time. On failure print the likely cause on one line.
_ssl_step() {
  local title="$1" log="$_ssl_log.$BASHPID" begun=$SECONDS code=0
  "${@:2}" >"$log" 2>&1 || code=$?
  cat "$log" >>"$_ssl_log"
  if ((!code)); then
    _ssl_say "$title: $((SECONDS - begun)) s"
  elif grep -qE 'NewConnectionError|Temporary failure in name|Network is unreachable|ConnectTimeout|ProxyError|Connection refused' "$log"; then
    _ssl_say "no network: pip could not reach a package index (details: $_ssl_log)"
  elif grep -q 'No space left on device' "$log"; then
    _ssl_say "no space left on the disk (details: $_ssl_log)"
  else
    _ssl_say "$title failed: $(grep -iE 'error' "$log" | tail -n 1 | cut -c 1-150) (details: $_ssl_log)"
  fi
  rm -f "$log"
  return "$code"
}

_ssl_pip() {
  "$_ssl_venv/bin/python" -m pip "$1" --disable-pip-version-check \
    --constraint "$_ssl_root/scripts/constraints.txt" "${@:2}"
}

# Create .venv, or keep it if an earlier call with this interpreter was interrupted. The interrupted
# call can have left packages without their list of files, which pip would count as installed.
_ssl_create_venv() {
  local info
  if ! _ssl_same_python "$1" || ! cmp -s "$_ssl_root/scripts/constraints.txt" "$_ssl_parts/constraints.txt"; then
    "$1" -m venv --clear "$_ssl_venv" || return 1
    mkdir "$_ssl_parts" && cp "$_ssl_root/scripts/constraints.txt" "$_ssl_parts" || return 1
  fi
  for info in "$_ssl_venv"/lib/python*/site-packages/*.dist-info; do
    if [[ -d "$info" && ! -f "$info/RECORD" ]]; then rm -r "$info"; fi
  done
}

# Compile fairseq without debug information, one extension at a time, since all have the same file for
# ninja. It is built against the installed torch: with build isolation pip would install another one.
_ssl_build_fairseq() {
  local wheels="$_ssl_parts/wheels"
  if compgen -G "$wheels/fairseq_fixed-*.whl" >/dev/null; then return; fi
  rm -rf "$wheels.tmp"
  PATH="$_ssl_venv/bin:$PATH" CPPFLAGS="${CPPFLAGS:-} -g0" \
    _ssl_pip wheel --no-build-isolation --no-deps --wheel-dir "$wheels.tmp" fairseq-fixed || return 1
  mv "$wheels.tmp" "$wheels"
}

# Install the other packages and what fairseq needs, except torchaudio: only speech needs it, and a
# build of it that does not fit torch makes transformers fail.
_ssl_install_others() {
  local missing
  _ssl_pip install --no-build-isolation --no-deps --editable "$_ssl_root" || return 1
  mapfile -t missing < <("$_ssl_venv/bin/python" "$_ssl_root/scripts/check_environment.py" --dev --missing)
  _ssl_pip install --no-build-isolation "${missing[@]}" bitarray cffi hydra-core regex
}

# Build .venv. fairseq compiles while the other packages are downloaded and installed.
_ssl_build() (
  python="$(_ssl_find_python)" || exit 1
  _ssl_check_tools "$python" || exit 1
  : >"$_ssl_log"
  _ssl_say "building $_ssl_venv with $python"
  _ssl_step "created" _ssl_create_venv "$python" || exit 1
  _ssl_step "installed torch and build tools" \
    _ssl_pip install torch numpy cython ninja packaging setuptools wheel || exit 1
  set -m # the compiler in a process group of its own, which ends with this one
  _ssl_step "built fairseq" _ssl_build_fairseq &
  compiler=$!
  set +m
  trap 'kill -- -$compiler 2>/dev/null' EXIT
  trap 'exit 130' INT TERM
  _ssl_step "installed the other packages" _ssl_install_others || exit 1
  wait "$compiler" || exit 1
  trap - EXIT
  _ssl_step "installed fairseq" _ssl_pip install --no-deps \
    "$_ssl_parts"/wheels/fairseq_fixed-*.whl || exit 1
  rm -r "$_ssl_parts"
)

# Succeed if .venv has the Python version of the interpreter $1.
_ssl_same_python() {
  local print='import sys; print(sys.version_info[:2])'
  [[ "$("$_ssl_venv/bin/python" -c "$print" 2>/dev/null)" == "$("$1" -c "$print" 2>/dev/null)" ]]
}

# Succeed if .venv has all pinned versions, and the Python version of PYTHON if set.
_ssl_venv_ready() {
  local built="$_ssl_venv/bin/python"
  [[ -x "$built" ]] && _ssl_same_python "${PYTHON:-$built}" || return 1
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
