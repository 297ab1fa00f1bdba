# shellcheck shell=bash
# Start fairseq-train on whatever there is: one process, all GPUs of a node, several nodes,
# or several processes on a CPU. To be sourced.
#
#   launch_train ARGUMENTS...      the arguments of fairseq-train
#   gpus NUMBER                    sets GPUS, where it is not given, to the paper's number; and LAUNCH
#   divided BATCH SETTING...       the paper's batch through the product of these settings, for
#                                  --update-freq; an error where that is no whole number
#
# GPUS        how many on all nodes together               (default: as many as the paper took)
# LAUNCH      single    one process, on the first GPU or the CPU      (default, unless GPUS > 1)
#             node      all GPUs of this machine, or GPUS; fairseq starts a process for each
#             cpu       PROCESSES processes on this machine's CPU, with gloo
#             torchrun  this node's part of NODES nodes; run it on each of them with its
#                       NODE_RANK, and MASTER_ADDR and MASTER_PORT of the first
#             slurm     inside sbatch or salloc, one task a node; fairseq reads Slurm's variables
# PROCESSES   processes on this node, with cpu and torchrun          (default: 2, or the GPUs)
# DRY_RUN=1   print the command instead of running it

gpus() {
  if [[ "${LAUNCH:-}" == single ]]; then GPUS="${GPUS:-1}"; else GPUS="${GPUS:-$1}"; fi
  if [[ ! "$GPUS" =~ ^[1-9][0-9]{0,3}$ ]]; then
    echo "GPUS is '$GPUS'; expected a number from 1 on." >&2
    exit 2
  fi
  if ((GPUS == 1)); then LAUNCH="${LAUNCH:-single}"; else LAUNCH="${LAUNCH:-node}"; fi
  if [[ "$LAUNCH" == single ]] && ((GPUS > 1)); then
    echo "GPUS is $GPUS, but LAUNCH=single takes one; expected another LAUNCH, or GPUS=1." >&2
    exit 2
  fi
}

divided() {
  local parts=1 setting given=()
  for setting in "${@:2}"; do
    parts=$((parts * ${!setting}))
    given+=("$setting=${!setting}")
  done
  if ((parts < 1 || $1 % parts)); then
    echo "${given[*]}: a batch of $1 cannot be divided by $parts." >&2
    return 2
  fi
  echo "$(($1 / parts))"
}

launch_train() {
  if [[ -n "${RECORDING:-}" ]]; then # for `build`: how it is started does not matter
    _print_command fairseq-train "$@" --distributed-world-size "$(_world_size)"
    return
  fi
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
      "${run[@]}" torchrun --nnodes "${NODES:?number of nodes}" \
        --node-rank "${NODE_RANK:?this node, from 0}" \
        --nproc-per-node "${PROCESSES:-gpu}" \
        --master-addr "${MASTER_ADDR:?host of node 0}" --master-port "${MASTER_PORT:-29500}" \
        --no-python bash -c "$(_one_rank)" rank "$@"
      ;;
    slurm)
      "${run[@]}" srun --ntasks-per-node 1 fairseq-train "$@" \
        --distributed-port "${MASTER_PORT:-29500}"
      ;;
    *)
      echo "LAUNCH is '${LAUNCH}'; expected single, node, cpu, torchrun or slurm." >&2
      return 2
      ;;
  esac
}

_world_size() {
  case "${LAUNCH:-single}" in
    single) echo 1 ;;
    cpu) echo "${PROCESSES:-2}" ;;
    torchrun) echo "$((NODES * ${PROCESSES:-${GPUS:-1} / NODES}))" ;;
    *) echo "${GPUS:-$(all_gpus | tr , '\n' | grep -c .)}" ;;
  esac
}

# What torchrun starts as each process. fairseq would derive the device from torchrun's
# variables by dividing through the number of GPUs, which may be zero: so it is told all.
_one_rank() {
  # shellcheck disable=SC2016  # for the process to expand
  echo 'exec fairseq-train "$@" --distributed-world-size "$WORLD_SIZE" --distributed-rank "$RANK" \
    --device-id "$LOCAL_RANK" --distributed-init-method env:// --distributed-no-spawn'
}

_print_command() {
  printf '%q ' "$@"
  printf '\n'
}
