# shellcheck shell=bash
# Functions of the batch files, which source this file. Changes to the project's root directory.
set -euo pipefail
cd "${PROJECT:-${SLURM_SUBMIT_DIR:-.}}"
# shellcheck source=slurm/config.sh
source slurm/config.sh

EXIT_REQUEUE=75 # exit code of python -m muzero.train after it has saved: start it again to continue
SIGNALLED="138 143" # exit codes of a program that was ended by SIGUSR1 or SIGTERM

# Prints the number of tasks of a grid of lists: size "baseline belief" "0 1 2" is 6.
size() {
  local count=1 list words
  for list in "$@"; do
    read -ra words <<<"$list"
    count=$((count * ${#words[@]}))
  done
  echo "$count"
}

# Prints one task of such a grid, the last list varying fastest: pick 4 "baseline belief" "0 1 2" is belief 1.
pick() {
  local index=$1 rest list words picked=""
  shift
  rest=$(size "$@")
  if ((index >= rest)); then
    echo "task $index: there are only $rest tasks" >&2
    return 2
  fi
  for list in "$@"; do
    read -ra words <<<"$list"
    rest=$((rest / ${#words[@]}))
    picked+="${words[index / rest]} "
    index=$((index % rest))
  done
  echo "${picked% }"
}

# Sets up the environment of all programs of a job.
prepare() {
  local module
  set +u # many module systems use unset variables
  for module in $MODULES; do module load "$module"; done
  set -u
  export WANDB_MODE
  export OMP_NUM_THREADS="${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}"
  export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}" # recent versions of srun do not inherit it from sbatch
  IN_CONTAINER=()
  if [[ -n $CONTAINER ]]; then
    read -ra IN_CONTAINER <<<"apptainer exec $CONTAINER_OPTIONS"
    IN_CONTAINER+=("$CONTAINER")
  fi
}

# Prints the override of logging.wandb for python -m muzero.train, if any.
wandb_setting() {
  [[ $WANDB_MODE == disabled ]] || echo "logging.wandb=$WANDB_MODE"
}

# Runs Python as a step of this job, with the srun options in STEP_OPTIONS, and returns its exit code.
#
# Before the time limit, SLURM sends SIGUSR1 to this shell (--signal=B:USR1@...), which passes it on. When a job is
# preempted or cancelled, its steps and this shell receive SIGTERM. srun would answer SIGTERM by killing its step at
# once, so it is sent SIGUSR1 instead. The trainer answers either signal by saving and exit code 75; other programs end.
# In both cases the job goes back to the queue, and continues from its saved results when it runs again.
python_step() {
  prepare
  step "${IN_CONTAINER[@]}" "$VENV/bin/python" "$@"
}

# Runs several programs of Python at the same time, one per task of a step, as python_step runs one: the arguments of
# task 0 are the lines of the file NAME-0.words, and so on. If any of them has saved before its end, the job goes back
# to the queue; otherwise the exit code is 1 if any has failed.
packed_step() {
  prepare
  step bash slurm/packed_task.sh "$1" "${IN_CONTAINER[@]}" "$VENV/bin/python"
}

# Runs a command as a step of this job; see python_step.
step() {
  local code child interrupted=""
  srun --ntasks=1 --nodes=1 "${STEP_OPTIONS[@]}" "$@" &
  child=$!
  # shellcheck disable=SC2064 # expand now, to the number of this child process
  trap "interrupted=yes; kill -USR1 $child 2>/dev/null" USR1 TERM
  while true; do
    interrupted="" code=0
    wait "$child" || code=$?
    [[ -n $interrupted ]] || break # the program has ended; otherwise the trap has interrupted the waiting
  done
  trap - USR1 TERM
  if [[ " $EXIT_REQUEUE $SIGNALLED " == *" $code "* ]]; then requeue; fi
  return "$code"
}
STEP_OPTIONS=()

# Puts this job back into the queue, unless it was cancelled.
requeue() {
  local job=$SLURM_JOB_ID state
  # The number of a task may also be the number of its whole array.
  [[ -z ${SLURM_ARRAY_JOB_ID:-} ]] || job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
  state=$(scontrol show job --oneliner "$job" | sed -n 's/.* JobState=\([A-Z_]*\).*/\1/p')
  if [[ $state != RUNNING ]]; then
    echo "stopped while $state: the job stays stopped"
  elif ((${SLURM_RESTART_COUNT:-0} >= MAX_REQUEUES)); then
    echo "stopped for the ${SLURM_RESTART_COUNT}th time and given up: MAX_REQUEUES=$MAX_REQUEUES" >&2
  else
    echo "stopped early: back to the queue, to continue from what is saved"
    scontrol requeue "$job"
  fi
}
