# shellcheck shell=bash
# What every step of every recipe starts with: strict mode, the plug-in's path, and the few
# words below. To be sourced.
#
#   expect NAME "A B" WORD... end with an error where a word of the setting NAME is not A or B
#   data_dir WHAT FILE...     end with an error unless DATA_DIR is set, a folder with WHAT, and has FILEs
#   prepared                  end with an error where a later step runs before there is a WORK
#   headline TEXT             say what comes
#   build TARGET COMMAND...   run COMMAND, a function too, which builds the file or folder TARGET in WORK;
#                             reuse TARGET where it is complete and was built by the same commands from
#                             the same inputs; stop, naming the setting, where it was built otherwise
#   run COMMAND...            run it
#   into FILE COMMAND...      run it; its stdout becomes FILE once it has ended well
#   joined FILE               FILE of its parts FILE.I-of-N, where a Slurm array has made all of them
#   quietly LOG COMMAND...    run it with all it says in LOG; its last lines are shown on failure
#   spawn COMMAND...          run it beside others, at most JOBS at a time, each on a GPU of its own as
#                             far as there are so many; a failure ends the step
#   settle                    wait for all that was spawned
#
# DRY_RUN=1  print commands, one a line, instead of running them
# FORCE=1    delete and build again what is there
# CHOICES    names of the settings that only choose among targets, as SEEDS does; set by settings.sh
# JOBS       how many trainings or decodings at a time                              (default: 1)
set -euo pipefail

JOBS="${JOBS:-1}"
if [[ ! "$JOBS" =~ ^[1-9][0-9]{0,3}$ ]]; then
  echo "JOBS is '$JOBS'; expected a number from 1 on." >&2
  exit 2
fi
[[ -n "${DRY_RUN:-}" ]] && JOBS=1
trap 'jobs -p | xargs -r kill 2>/dev/null || true' EXIT

# In a dry run nothing needs to be installed, fairseq-ssl neither.
if [[ -n "${DRY_RUN:-}" ]]; then USER_DIR=fairseq_ssl; else USER_DIR="$(fairseq-ssl user-dir)"; fi
export USER_DIR
COMMON_FOLDER="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

expect() {
  local word
  for word in "${@:3}"; do
    if [[ " $2 " != *" $word "* ]]; then
      echo "$1 has '$word'; expected ${2// /, }." >&2
      exit 2
    fi
  done
}

data_dir() {
  local file
  if [[ -z "${DATA_DIR:-}" ]]; then
    echo "DATA_DIR is not set; expected a folder with $1." >&2
    exit 2
  fi
  [[ -z "${DRY_RUN:-}" ]] || return 0
  for file in "${@:2}"; do
    if [[ ! -e "$DATA_DIR/$file" ]]; then
      echo "DATA_DIR: $DATA_DIR/$file is not there; expected a folder with $1." >&2
      exit 2
    fi
  done
}

prepared() {
  local step="${0##*/}"
  if [[ "$step" == [2-9]_*.sh && -z "${DRY_RUN:-}" && ! -d "$WORK" ]]; then
    echo "$step: there is no $WORK; run the steps before it first, with the same SCALE and WORK." >&2
    exit 2
  fi
}

headline() {
  keep_settings
  if [[ -n "${DRY_RUN:-}" ]]; then echo "# $*"; else printf '==> %s\n' "$*" >&2; fi
}

# What a target was built from is in WORK/records (build_record.py). A function is run twice: first
# as in a dry run, for the commands in the record; so it must not change anything outside of run,
# into, quietly and launch_train, and print the same commands before and after it has built TARGET.
build() { # TARGET COMMAND...
  if [[ -n "${DRY_RUN:-}" ]]; then
    "${@:2}"
    return
  fi
  local commands status=0
  commands="$(in_dry_run "${@:2}")"
  record check "$1" <<<"$commands" || status=$?
  ((status)) || return 0
  ((status == 3)) || exit "$status"
  [[ -z "${FORCE:-}" ]] || rm -rf "$1"
  mkdir -p "$(dirname "$1")"
  "${@:2}" # not within a condition, where set -e would be off
  record finish "$1" </dev/null
}

in_dry_run() { # COMMAND...
  # shellcheck disable=SC2034  # launch_train asks for RECORDING
  local DRY_RUN=1 FORCE='' RECORDING=1 JOBS=1
  set -e # off in $(...)
  "$@"
}

record() { # check|finish TARGET
  keep_settings
  local name
  {
    for name in "${!SETTINGS[@]}"; do printf '%s=%s\0' "$name" "${SETTINGS[$name]}"; done
    cat
  } | python "$COMMON_FOLDER/build_record.py" "$@"
}

# The settings that SETTINGS_FILES name (all scripts of the recipe, unless a script sets it), NAME to
# value, as they are before a step changes any for its own use.
declare -A SETTINGS=()
keep_settings() {
  local name
  ((${#SETTINGS[@]} == 0)) || return 0
  [[ -n "${SETTINGS_FILES+set}" ]] || SETTINGS_FILES=("$HERE"/*.sh)
  SETTINGS=([STEP]="${0##*/}" [FORCE]="${FORCE:-}" [CHOICES]="${CHOICES:-}")
  while read -r name; do
    if [[ " $RESOURCE_SETTINGS " != *" $name "* ]] && declare -p "$name" &>/dev/null; then
      local -n value="$name"
      SETTINGS[$name]="${value[*]}"
    fi
  done < <(grep -ohE '\b[A-Z][A-Z0-9_]*\b' "${SETTINGS_FILES[@]}" | sort -u)
}
RESOURCE_SETTINGS="FORCE DRY_RUN CHOICES JOBS SHARD GPUS LAUNCH PROCESSES NODES NODE_RANK MASTER_ADDR MASTER_PORT"
RESOURCE_SETTINGS+=" UPDATE_FREQ BASH_SOURCE HOSTNAME CUDA_VISIBLE_DEVICES"

print_command() {
  printf '%q ' "$@"
  printf '\n'
}

run() {
  if [[ -n "${DRY_RUN:-}" ]]; then print_command "$@"; else "$@"; fi
}

into() {
  local file="$1"
  if [[ -n "${DRY_RUN:-}" ]]; then
    printf '%s> %q\n' "$(print_command "${@:2}" | tr -d '\n')" "$file"
    return
  fi
  local aside="$file.$HOSTNAME.$BASHPID.tmp" # tasks of a Slurm array may make it at once
  mkdir -p "$(dirname "$file")"
  "${@:2}" >"$aside" || { rm -f "$aside"; return 1; } # said aloud, for where set -e is off
  mv "$aside" "$file"
}

joined() {
  local parts=("$1".*-of-*[0-9])
  [[ -e "${parts[0]}" && ! -e "$1" ]] || return 0
  ((${#parts[@]} == 10#${parts[0]##*-of-})) || {
    echo "$(dirname "$1"): ${#parts[@]} of ${parts[0]##*-of-} parts of $(basename "$1") are there." >&2
    return 1
  }
  into "$1" cat "${parts[@]}"
}

quietly() {
  local log="$1"
  if [[ -n "${DRY_RUN:-}" ]]; then
    "${@:2}"
    return
  fi
  mkdir -p "$(dirname "$log")"
  if ! "${@:2}" >>"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "recipe: that failed; all of it is in $log" >&2
    return 1
  fi
}

spawn() {
  if ((JOBS == 1)); then
    "$@"
    return
  fi
  while (($(jobs -rp | wc -l) >= JOBS)); do wait -n; done
  local place=0 gpus
  while kill -0 "${SPAWNED[place]:-none}" 2>/dev/null; do place=$((place + 1)); done
  IFS=, read -ra gpus <<<"$(all_gpus)"
  if ((${#gpus[@]})); then
    CUDA_VISIBLE_DEVICES="${gpus[place % ${#gpus[@]}]}" "$@" &
  else
    "$@" &
  fi
  SPAWNED[place]=$!
}
SPAWNED=() # the process in each of the JOBS places

all_gpus() { # 0,1,...
  if [[ -n "${CUDA_VISIBLE_DEVICES+set}" ]]; then
    echo "$CUDA_VISIBLE_DEVICES"
  else
    nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | paste -sd, || true
  fi
}

settle() {
  while [[ -n "$(jobs -p)" ]]; do wait -n || return; done
}
