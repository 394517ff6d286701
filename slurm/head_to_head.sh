#!/usr/bin/env bash
# Compares runs at equal iterations: submits an array of comparisons, then a job that merges them into one table.
# Settings as in config.sh, arguments as for python -m experiments.head_to_head; prints the numbers of both jobs.
#
#     A_RUNS="runs/belief-s0 runs/belief-s1" B_RUNS="runs/baseline-s0 runs/baseline-s1" ITERATIONS="1000 2000" \
#       slurm/head_to_head.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=slurm/config.sh
source "$here/config.sh"

if [[ -z $A_RUNS || -z $B_RUNS || -z $ITERATIONS ]]; then
  sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
  exit 2
fi
array=$("$here/submit.sh" head_to_head_array.sbatch "$@")
echo "$array"
"$here/submit.sh" "--dependency=afterok:${array%%;*}" --kill-on-invalid-dep=yes --job-name=merge python.sbatch \
  -m experiments.head_to_head --merge --out "$OUT"
