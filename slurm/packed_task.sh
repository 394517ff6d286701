#!/usr/bin/env bash
# One of several runs in a job (packed_step in common.sh): NAME COMMAND... runs the command with the lines of the file
# NAME-TASK.words as arguments. srun reports the highest exit code of its tasks, so a run that has saved before its end
# ends with 75, the highest one here, and a run that has failed with 1.
set -euo pipefail

mapfile -t words <"$1-$SLURM_PROCID.words"
shift
"$@" "${words[@]}" &
child=$!
# SLURM sends signals to the run as well as to this shell; if it does not, this passes them on.
trap 'interrupted=yes; kill -USR1 "$child" 2>/dev/null || true' USR1 TERM
while true; do
  interrupted="" code=0
  wait "$child" || code=$?
  [[ -n $interrupted ]] || break # the run has ended; otherwise the trap has interrupted the waiting
done
case $code in
  0) exit 0 ;;
  75 | 138 | 143) exit 75 ;;
  *)
    echo "ended with exit code $code" >&2
    exit 1
    ;;
esac
