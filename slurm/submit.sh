#!/usr/bin/env bash
# Submits a batch file with the settings of config.sh; prints the job's number.
#
#     slurm/submit.sh [sbatch options] FILE.sbatch [arguments of the file]
#     TIME=2:00:00 SEEDS="0 1" slurm/submit.sh train_array.sbatch preset=paper
#
# The number of tasks of an array follows from its lists in config.sh, unless --array is given.
set -euo pipefail

own=()
while [[ ${1:-} == -* ]]; do
  own+=("$1")
  shift
done
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
file=${1:-}
file=$here/${file##*/}
if [[ $# == 0 || $file != *.sbatch || ! -f $file ]]; then
  sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
  echo "files: $(cd "$here" && echo ./*.sbatch)" >&2
  exit 2
fi
shift

export PROJECT=${here%/*}
cd "$PROJECT"
set -a # jobs keep the present settings, even if the file changes later
# shellcheck source=slurm/config.sh
source slurm/config.sh
set +a

options=(--parsable --export=ALL --requeue --open-mode=append "--signal=B:USR1@$GRACE")
options+=("--cpus-per-task=$CPUS" "--mem=$MEM" "--time=$TIME")
[[ -z $PARTITION ]] || options+=("--partition=$PARTITION")
[[ -z $ACCOUNT ]] || options+=("--account=$ACCOUNT")
[[ -z $QOS ]] || options+=("--qos=$QOS")
[[ -z $CONSTRAINT ]] || options+=("--constraint=$CONSTRAINT")
if [[ -n $GRES && $GRES != none && -n $GPUS && $GPUS != none ]]; then
  echo "GRES, GPUS: expected one of them, got GRES=$GRES and GPUS=$GPUS" >&2
  exit 2
fi
[[ -z $GPUS || $GPUS == none ]] || options+=("--gpus-per-node=$GPUS")
[[ -z $GRES || $GRES == none ]] || options+=("--gres=$GRES")
if ! [[ $PACK =~ ^[1-9][0-9]*$ ]]; then
  echo "PACK: expected 1 or more, got $PACK" >&2
  exit 2
fi
read -ra more <<<"$SBATCH_OPTIONS"
number=%j
if [[ $file == *_array.sbatch ]]; then
  number=%A_%a
  ((PACK == 1)) || [[ $file != */train_array.sbatch ]] || options+=("--nodes=1" "--ntasks-per-node=$PACK")
  if [[ " ${own[*]}" != *" --array="* ]]; then
    count=$(bash "$file" count)
    own+=("--array=0-$((count - 1))${ARRAY_LIMIT:+%$ARRAY_LIMIT}")
  fi
fi
mkdir -p "$LOGS"
options+=("--output=$LOGS/%x-$number.log")
exec sbatch "${options[@]}" "${more[@]}" "${own[@]}" "$file" "$@"
