# shellcheck shell=bash
# Helpers for the steps of all recipes: strict mode, the plug-in's path and the functions below. To be
# sourced.
#
#   one_line NAME...          replace line breaks and repeated spaces in these settings by single spaces
#   expect NAME "A B" WORD... exit with an error if a word of the setting NAME is not A or B
#   enough_checkpoints NAME COUNT   exit with an error unless the setting NAME is a number, at most COUNT
#   data_dir WHAT FILE...     exit with an error that lists the FILEs that DATA_DIR does not have or that are empty
#   prepared                  exit with an error if WORK is not usable, or a step after the first runs without it
#   made FILE...              exit with an error unless a previous step has made all FILEs
#   await FILE                wait until the first node has made FILE, if this is another node
#   headline TEXT             print a heading
#   build TARGET COMMAND...   build the file or folder TARGET in WORK with COMMAND, which may be a function.
#                             A complete TARGET is reused if its commands and inputs are unchanged. If
#                             they have changed, the step exits with the names of the settings.
#   rebuild TARGET COMMAND... the same for summaries and ensembles, which are built again if only CHOICES
#                             or inputs have changed
#   run COMMAND...            run a command
#   into FILE COMMAND...      run a command and write its stdout to FILE if it succeeds
#   quietly LOG COMMAND...    run a command with its output in LOG; print the last lines on failure.
#                             While launch_train runs, print its progress (see below)
#   spawn COMMAND...          run a command in the background, at most JOBS at a time, on separate GPUs if
#                             there are enough; a failure ends the step
#   settle                    wait for all spawned commands
#
# DRY_RUN=1  print the commands, one per line, and do not run them
# FORCE=1    delete existing targets and build them again
# REBUILD    set by rebuild
# CHOICES    names of settings that only select targets, such as SEEDS; set by settings.sh before it
#            sources this file
# JOBS       number of parallel training runs or decodings                          (default: 1)
#
# Progress: while a model is trained, the step prints a line to stderr every PROGRESS_INTERVAL seconds:
#
#   runs/shape.1: epoch 3, update 1,200 of 40,000, best valid loss 4.31, ends in 3 h 10 min (log: LOG)
#
# The name is that of --save-dir in WORK. The remaining time is an estimate from the updates since the start
# or the resumption of the training run. With several nodes, only the first node prints the line.
# PROGRESS_INTERVAL   seconds between lines, 0 for none    (default: 60 on a terminal, otherwise 600)
set -euo pipefail

JOBS="${JOBS:-1}"
if [[ ! "$JOBS" =~ ^[1-9][0-9]{0,3}$ ]]; then
  echo "JOBS is '$JOBS'. Expected a number, 1 or more." >&2
  exit 2
fi

# With LAUNCH=torchrun all nodes run the step, and all but the first only take part in training runs.
OTHER_NODE=""
if [[ "${LAUNCH:-}" == torchrun && "${NODE_RANK:-0}" != 0 ]]; then OTHER_NODE=1; fi

COMMON_FOLDER="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# A dry run needs no installed packages, not even fairseq-ssl.
if [[ -n "${DRY_RUN:-}" ]]; then
  USER_DIR="${COMMON_FOLDER%/examples/common}/fairseq_ssl"
else
  USER_DIR="$(fairseq-ssl user-dir)"
fi
export USER_DIR

one_line() { # for tests such as [[ " $SEEDS " == *" 1 "* ]]
  local name words
  for name in "$@"; do
    [[ -n "${!name:-}" ]] || continue
    read -rd '' -a words <<<"${!name}" || true # false without a NUL byte
    printf -v "$name" %s "${words[*]}"
  done
}
# shellcheck disable=SC2086  # words apart
one_line ${CHOICES:-}

expect() {
  local word
  for word in "${@:3}"; do
    if [[ " $2 " != *" $word "* || "$word" == *[[:space:]]* || -z "$word" ]]; then
      echo "$1 has '$word'. Expected ${2// /, }." >&2
      exit 2
    fi
  done
}

enough_checkpoints() { # before a training run that saves COUNT, of which NAME are averaged
  if [[ ! "${!1}" =~ ^[1-9][0-9]{0,3}$ ]] || ((${!1} > $2)); then
    echo "$1 is '${!1}'. Expected a number, at most $2, since the training run saves $2 checkpoints." >&2
    exit 2
  fi
}

data_dir() {
  local file problems=()
  if [[ -z "${DATA_DIR:-}" ]]; then
    echo "DATA_DIR is not set. Expected a folder with $1." >&2
    exit 2
  elif [[ "$DATA_DIR" == *\'* ]]; then # steps quote names with apostrophes
    echo "DATA_DIR is $DATA_DIR. Expected a folder without an apostrophe in its name." >&2
    exit 2
  fi
  [[ -z "${DRY_RUN:-}" ]] || return 0
  for file in "${@:2}"; do
    if [[ ! -e "$DATA_DIR/$file" ]]; then
      problems+=("$DATA_DIR/$file does not exist.")
    elif [[ -f "$DATA_DIR/$file" && ! -s "$DATA_DIR/$file" ]]; then
      problems+=("$DATA_DIR/$file is empty.")
    fi
  done
  if ((${#problems[@]})); then
    echo "DATA_DIR: ${problems[*]} Expected a folder with $1." >&2
    exit 2
  fi
}

prepared() {
  local step="${0##*/}"
  # fairseq separates folders by colons, and steps quote names with apostrophes.
  if [[ "$WORK" == *[:\']* ]]; then
    echo "WORK is $WORK. Expected a folder without a colon or an apostrophe in its name." >&2
    exit 2
  fi
  local folder="$WORK"
  until [[ -e "$folder" ]]; do folder="$(dirname "$folder")"; done
  if [[ -z "${DRY_RUN:-}" && ! (-d "$folder" && -w "$folder") ]]; then
    echo "WORK is $WORK, but $folder is not a writable folder. Choose another WORK." >&2
    exit 2
  fi
  if [[ "$step" == [2-9]_*.sh && -z "${DRY_RUN:-}" && ! -d "$WORK" ]]; then
    echo "$step: $WORK does not exist. Run the previous steps first, with the same SCALE and WORK." >&2
    exit 2
  fi
}

made() {
  local file
  [[ -z "${DRY_RUN:-}$OTHER_NODE" ]] || return 0
  for file in "$@"; do
    if [[ ! -e "$file" ]]; then
      echo "${0##*/}: $file does not exist. Run the previous steps first, with the same settings." >&2
      exit 2
    fi
  done
}

await() { # also in the dry run of `build`, whose commands must be those of the first node
  [[ -n "$OTHER_NODE" && (-z "${DRY_RUN:-}" || -n "${RECORDING:-}") ]] || return 0
  [[ -e "$1" ]] || echo "${0##*/}: waiting for $1 of the first node" >&2
  until [[ -e "$1" ]]; do sleep 1; done
}

headline() {
  keep_settings
  if [[ -n "${DRY_RUN:-}" ]]; then echo "# $*"; else printf '==> %s\n' "$*" >&2; fi
}

# WORK/records has the commands and inputs of each target (build_record.py). A function is run twice,
# first in a dry run that lists its commands. So it must not change files except by run, into,
# quietly and launch_train, and must print the same commands before and after TARGET is built.
build() { # TARGET COMMAND...
  if [[ -n "${DRY_RUN:-}" ]]; then
    "${@:2}"
    return
  fi
  local commands status=0
  commands="$(in_dry_run "${@:2}")"
  if [[ -n "$OTHER_NODE" ]]; then # the first node builds. This one only takes part in its training runs
    record compare "$1" <<<"$commands" || status=$?
    if ((status == 3)); then "${@:2}"; elif ((status)); then exit "$status"; fi
    return
  fi
  record check "$1" <<<"$commands" || status=$?
  ((status)) || return 0
  ((status == 3)) || exit "$status"
  mkdir -p "$(dirname "$1")"
  "${@:2}" # not in a condition, which would disable set -e
  record finish "$1" </dev/null
}

rebuild() { # TARGET COMMAND...
  local REBUILD=1
  build "$@"
}

in_dry_run() { # COMMAND...
  # shellcheck disable=SC2034  # read by launch_train
  local DRY_RUN=1 FORCE='' RECORDING=1 JOBS=1
  set -e # disabled in $(...)
  "$@"
}

record() { # check|finish TARGET
  keep_settings
  local name
  {
    printf 'REBUILD=%s\0' "${REBUILD:-}"
    for name in "${!SETTINGS[@]}"; do printf '%s=%s\0' "$name" "${SETTINGS[$name]}"; done
    cat
  } | python "$COMMON_FOLDER/build_record.py" "$@"
}

# Values by name of the settings in SETTINGS_FILES (default: all scripts of the recipe), before a step
# changes them.
declare -A SETTINGS=()
keep_settings() {
  local name
  ((${#SETTINGS[@]} == 0)) || return 0
  [[ -n "${SETTINGS_FILES+set}" ]] || SETTINGS_FILES=("$HERE"/*.sh)
  SETTINGS=([STEP]="${0##*/}" [FORCE]="${FORCE:-}" [CHOICES]="${CHOICES:-}" [GPUS]="${GPUS:-1}")
  while read -r name; do
    if [[ " $RESOURCE_SETTINGS " != *" $name "* ]] && declare -p "$name" &>/dev/null; then
      local -n value="$name"
      SETTINGS[$name]="${value[*]}"
    fi
  done < <(grep -ohE '\b[A-Z][A-Z0-9_]*\b' "${SETTINGS_FILES[@]}" | sort -u)
}
RESOURCE_SETTINGS="FORCE DRY_RUN CHOICES JOBS SHARD GPUS LAUNCH PROCESSES NODES NODE_RANK MASTER_ADDR MASTER_PORT"
RESOURCE_SETTINGS+=" BASH_SOURCE BASH_REMATCH HOSTNAME CUDA_VISIBLE_DEVICES TENSORBOARD WANDB_PROJECT PROGRESS_INTERVAL"
# Parts of a batch, which depend on GPUS. Records have the batch.
RESOURCE_SETTINGS+=" SHARE TOKEN_SHARE GEC_SHARE DIGITS_SHARE TEXT_SHARE MEMORIZE_SHARE BYTENET_SHARE GEC_MAX_TOKENS"
RESOURCE_SETTINGS+=" UPDATE_FREQ FINE_UPDATE_FREQ MLM_UPDATE_FREQ GEC_UPDATE_FREQ MEMORIZE_UPDATE_FREQ BYTENET_UPDATE_FREQ"

print_command() {
  printf '%q ' "$@"
  printf '\n'
}

run() {
  if [[ -n "${DRY_RUN:-}" ]]; then
    print_command "$@"
  elif [[ -z "$OTHER_NODE" ]]; then
    "$@"
  fi
}

into() {
  local file="$1"
  if [[ -n "${DRY_RUN:-}" ]]; then
    printf '%s> %q\n' "$(print_command "${@:2}" | tr -d '\n')" "$file"
    return
  fi
  if [[ -n "$OTHER_NODE" ]]; then return; fi
  local temporary="$file.$HOSTNAME.$BASHPID.tmp" # tasks of a Slurm array may write the same file
  mkdir -p "$(dirname "$file")"
  "${@:2}" >"$temporary" || { rm -f "$temporary"; return 1; } # explicit, since set -e may be disabled
  mv "$temporary" "$file"
}

quietly() {
  local log="$1"
  if [[ -n "${DRY_RUN:-}" ]]; then
    "${@:2}"
    return
  fi
  # The first node takes a folder that it did not create for a complete target.
  [[ -z "$OTHER_NODE" ]] || log="$WORK/records/node.$NODE_RANK.log"
  mkdir -p "$(dirname "$log")"
  exec 9>/dev/null
  if [[ "$2" == launch_train && -z "$OTHER_NODE" ]]; then exec 9> >(print_progress "$log"); fi
  if ! "${@:2}" >>"$log" 2>&1 9>&-; then
    exec 9>&-
    tail -n 5 "$log" >&2
    echo "recipe: the last command failed. Its full output is in $log" >&2
    return 1
  fi
  exec 9>&-
}

# Print the progress of a training run until the shell that starts it closes stdin or is killed.
print_progress() { # LOG
  local interval=600 start
  printf -v start '%(%F %T)T'
  trap '' INT
  if [[ -t 2 ]]; then interval=60; fi
  until read -rt "${PROGRESS_INTERVAL:-$interval}" || (($? <= 128)); do # above 128 after a timeout
    # shellcheck disable=SC2094  # it reads the log and appends its errors, if any
    python "$COMMON_FOLDER/training_progress.py" "$1" "$WORK" "$start" >&2 2>>"$1" || true
  done
}

spawn() {
  if ((JOBS == 1)) || [[ -n "${DRY_RUN:-}" ]]; then
    "$@"
    return
  fi
  while (($(jobs -rp | wc -l) >= JOBS)); do wait -n; done
  local place=0 gpus
  while kill -0 "${SPAWNED[place]:-none}" 2>/dev/null; do place=$((place + 1)); done
  IFS=, read -ra gpus <<<"$(all_gpus)"
  set -m # with a process group for each job. Otherwise the training runs survive their subshell
  if ((${#gpus[@]})); then
    CUDA_VISIBLE_DEVICES="${gpus[place % ${#gpus[@]}]}" "$@" </dev/null &
  else
    "$@" </dev/null &
  fi
  set +m
  SPAWNED[place]=$! STARTED+=("$!")
}
SPAWNED=() # process ids by slot, from 0 to JOBS - 1
STARTED=() # all process ids
trap 'for id in "${STARTED[@]}"; do kill -- "-$id" 2>/dev/null || true; done' EXIT

all_gpus() { # 0,1,...
  if [[ -n "${CUDA_VISIBLE_DEVICES+set}" ]]; then
    echo "$CUDA_VISIBLE_DEVICES"
  else
    nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | paste -sd, || true
  fi
}

settle() {
  local id
  while [[ -n "$(jobs -p)" ]]; do wait -n || return; done
  # `wait -n` can miss a job that has just ended. bash keeps the exit code of each process.
  for id in "${STARTED[@]}"; do wait "$id" || return; done
  STARTED=()
}
