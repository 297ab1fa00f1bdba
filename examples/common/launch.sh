# shellcheck shell=bash
# Start fairseq-train in one process, on all GPUs of a node, on several nodes, or in several processes
# on a CPU. To be sourced.
#
#   launch_train ARGUMENTS...      run fairseq-train with these arguments
#   gpus NUMBER                    set unset GPUS to the number in the paper, or to 1 or PROCESSES with
#                                  LAUNCH=single or cpu, and unset LAUNCH
#   divided BATCH SETTING...       print the paper's batch size divided by the product of these settings,
#                                  for --update-freq; an error if the result is not an integer
#
# GPUS        number of GPUs on all nodes                  (default: the number in the paper)
# LAUNCH      single    one process, on the first GPU or the CPU      (default if GPUS is 1)
#             node      GPUS, or all GPUs of this machine, one process each (default if GPUS > 1)
#             cpu       PROCESSES processes on the CPU of this machine, with gloo
#             torchrun  one of NODES nodes: run it on each node with its NODE_RANK, and with the
#                       MASTER_ADDR and MASTER_PORT of the first node. Only the node with NODE_RANK=0
#                       runs the commands that are not training runs
#             slurm     inside sbatch or salloc, one task per node; fairseq reads Slurm's variables
# PROCESSES   processes on this node, for cpu and torchrun  (default: 2 for cpu, or one per GPU)
# FLAGS       flags appended to fairseq-train, which override others
# TENSORBOARD=1   log to TensorBoard, in the folder tensorboard of each run (--tensorboard-logdir)
# WANDB_PROJECT   project in Weights & Biases to log to, with the folder of a run as its name
#                 (--wandb-project)
# DRY_RUN=1   print the command and do not run it

gpus() {
  case "${LAUNCH:-}" in
    single) GPUS="${GPUS:-1}" ;;
    cpu) GPUS="${GPUS:-${PROCESSES:-2}}" ;; # each process has a part of the batch
    *) GPUS="${GPUS:-$1}" ;;
  esac
  _check_numbers || exit
  if ((GPUS == 1)); then LAUNCH="${LAUNCH:-single}"; else LAUNCH="${LAUNCH:-node}"; fi
  _check_single || exit
}

divided() {
  local parts=1 setting given=()
  for setting in "${@:2}"; do
    parts=$((parts * ${!setting}))
    given+=("$setting=${!setting}")
  done
  if ((parts < 1 || $1 % parts)); then
    local value="${!setting}" others advice="Lower one of these settings."
    if ((parts < 1)); then
      advice="Expected settings of 1 or more."
    else
      others=$((parts / value))
      while ((value > 0 && $1 % (others * value))); do value=$((value - 1)); done
      ((value < 1)) || advice="Set $setting=$value."
    fi
    echo "${given[*]}: a batch size of $1 is not divisible by $parts. $advice" >&2
    return 2
  fi
  echo "$(($1 / parts))"
}

launch_train() {
  if (($# == 0)); then
    echo "launch_train needs the arguments of fairseq-train." >&2
    return 2
  fi
  # shellcheck disable=SC2086  # split into words
  set -- "$@" ${FLAGS:-}
  # Errors return, because an exit would end an interactive shell, and would skip the last lines of `quietly`.
  _check_numbers && _check_nodes || return
  if [[ -n "${RECORDING:-}" ]]; then # for `build`: the launcher does not affect the result
    _print_command fairseq-train "$@" --distributed-world-size "$(_world_size)"
    return
  fi
  if [[ -n "${OTHER_NODE:-}" && "${LAUNCH:-single}" != torchrun && -z "${DRY_RUN:-}" ]]; then return; fi
  _check_single && _check_world_size && _check_jobs || return
  local LOGGING=()
  _log_to "$@"
  set -- "$@" "${LOGGING[@]}"
  local run=()
  [[ -n "${DRY_RUN:-}" ]] && run=(_print_command)
  case "${LAUNCH:-single}" in
    single)
      "${run[@]}" fairseq-train "$@" --distributed-world-size 1
      ;;
    node)
      "${run[@]}" fairseq-train "$@" ${GPUS:+--distributed-world-size "$GPUS"}
      ;;
    cpu)
      "${run[@]}" torchrun --standalone --nproc-per-node "${PROCESSES:-2}" \
        --no-python bash -c "$(_one_rank)" rank "$@" \
        --cpu --distributed-backend gloo --ddp-backend legacy_ddp
      ;;
    torchrun)
      local processes="${PROCESSES:-gpu}"
      [[ -z "${GPUS:-}" ]] || processes="${PROCESSES:-$((GPUS / NODES))}"
      "${run[@]}" torchrun --nnodes "$NODES" --node-rank "$NODE_RANK" --nproc-per-node "$processes" \
        --master-addr "$MASTER_ADDR" --master-port "${MASTER_PORT:-29500}" \
        --no-python bash -c "$(_one_rank)" rank "$@"
      ;;
    slurm)
      # The job may have one task for each GPU. fairseq needs one for each node, with all CPUs and GPUs.
      # So srun must not inherit the job's resources of a task. The port differs between jobs, which may
      # share a node.
      local cpus="${SLURM_CPUS_ON_NODE:-${SLURM_JOB_CPUS_PER_NODE:-}}" tasks=(--ntasks-per-node 1) unset=() name
      for name in SLURM_{GPUS_PER_TASK,NTASKS_PER_GPU,CPUS_PER_GPU,TRES_PER_TASK,GPU_BIND}; do
        [[ -z "${!name:-}" ]] || unset+=(-u "$name")
      done
      ((${#unset[@]} == 0)) || run+=(env "${unset[@]}")
      [[ -z "${SLURM_JOB_NUM_NODES:-}" ]] || tasks+=(--ntasks "$SLURM_JOB_NUM_NODES")
      [[ -z "$cpus" ]] || tasks+=(--cpus-per-task "${cpus%%[(,]*}") # the first of 64(x2),32
      "${run[@]}" srun --kill-on-bad-exit=1 "${tasks[@]}" \
        fairseq-train "$@" --distributed-port "${MASTER_PORT:-$((29500 + ${SLURM_JOB_ID:-0} % 1000))}"
      ;;
    *)
      echo "LAUNCH is '${LAUNCH}'. Expected single, node, cpu, torchrun or slurm." >&2
      return 2
      ;;
  esac
}

# Fail if a setting is not a number.
_check_numbers() {
  local name
  for name in GPUS PROCESSES NODES; do
    if [[ -n "${!name:-}" && ! "${!name}" =~ ^[1-9][0-9]{0,3}$ ]]; then
      echo "$name is '${!name}'. Expected a number, 1 or more." >&2
      return 2
    fi
  done
}

# Fail if GPUS is above 1, but a training run would use one GPU.
_check_single() {
  if [[ "${LAUNCH:-single}" == single ]] && ((${GPUS:-1} > 1)); then
    echo "GPUS is $GPUS, but LAUNCH=single uses one GPU. Set another LAUNCH, or GPUS=1." >&2
    return 2
  fi
}

# Fail if a setting of LAUNCH=torchrun is missing, or if nodes would have different numbers of GPUS.
_check_nodes() {
  [[ "${LAUNCH:-}" == torchrun ]] || return 0
  local name
  for name in NODES NODE_RANK MASTER_ADDR; do
    if [[ -z "${!name:-}" ]]; then
      echo "LAUNCH=torchrun needs NODES, NODE_RANK and MASTER_ADDR. Set $name." >&2
      return 2
    fi
  done
  if [[ ! "$NODE_RANK" =~ ^(0|[1-9][0-9]{0,3})$ ]] || ((NODE_RANK >= NODES)); then
    echo "NODE_RANK is '$NODE_RANK'. Expected a number from 0 to $((NODES - 1)), below NODES." >&2
    return 2
  fi
  if [[ -z "${PROCESSES:-}" ]] && ((${GPUS:-0} % NODES)); then
    echo "GPUS is $GPUS, which is not divisible by NODES=$NODES. Expected the same number on each node." >&2
    return 2
  fi
}

# Fail if GPUS, by which recipes divide the batch, is not the number of processes.
_check_world_size() {
  local processes="${GPUS:-}"
  case "${LAUNCH:-single}" in
    cpu | torchrun) processes="$(_world_size)" ;;
    slurm) processes="$((${SLURM_JOB_NUM_NODES:-0} * ${SLURM_GPUS_ON_NODE:-0}))" ;;
  esac
  if [[ -n "${GPUS:-}" && "$processes" != 0 && "$processes" != "$GPUS" ]]; then
    echo "GPUS is $GPUS, but LAUNCH=$LAUNCH starts $processes processes on all nodes. Set GPUS=$processes." >&2
    return 2
  fi
}

# Fail if parallel training runs would use the same port and GPUs. With JOBS each has one GPU.
_check_jobs() {
  ((${JOBS:-1} > 1)) || return 0
  if [[ "${LAUNCH:-}" == torchrun || "${LAUNCH:-}" == slurm ]] || { [[ "${LAUNCH:-}" == node ]] && ((${GPUS:-2} > 1)); }; then
    echo "JOBS is $JOBS, but a training run with LAUNCH=$LAUNCH uses all GPUs. Set JOBS=1, or GPUS=1 LAUNCH=single." >&2
    return 2
  fi
}

# Set LOGGING to the flags of TENSORBOARD and WANDB_PROJECT.
_log_to() { # ARGUMENTS...
  local word previous="" folder=checkpoints
  for word in "$@"; do
    if [[ "$previous" == --save-dir ]]; then folder="$word"; fi
    if [[ "$word" == --save-dir=* ]]; then folder="${word#*=}"; fi
    previous="$word"
  done
  if [[ -n "${TENSORBOARD:-}" ]]; then LOGGING+=(--tensorboard-logdir "$folder/tensorboard"); fi
  if [[ -n "${WANDB_PROJECT:-}" ]]; then LOGGING+=(--wandb-project "$WANDB_PROJECT"); fi
}

_world_size() {
  case "${LAUNCH:-single}" in
    single) echo 1 ;;
    cpu) echo "${PROCESSES:-2}" ;;
    torchrun) echo "$((NODES * ${PROCESSES:-${GPUS:-1} / NODES}))" ;;
    *) echo "${GPUS:-$(all_gpus | tr , '\n' | grep -c .)}" ;;
  esac
}

# Print the command of each torchrun process. The distributed options are explicit, because fairseq
# would derive the device from a division by the number of GPUs, which may be zero.
_one_rank() {
  # shellcheck disable=SC2016  # expanded by the process
  echo 'exec fairseq-train "$@" --distributed-world-size "$WORLD_SIZE" --distributed-rank "$RANK"' \
    '--device-id "$LOCAL_RANK" --distributed-init-method env:// --distributed-no-spawn'
}

_print_command() {
  printf '%q ' "$@"
  printf '\n'
}
