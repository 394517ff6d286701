#!/usr/bin/env bash
# Uploads wandb's offline logs of runs; to be run on a node with internet, after `wandb login`. It can be repeated:
# wandb uploads only what is new.
#
#     slurm/sync_wandb.sh [directory of runs, by default RUNS of config.sh]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${here%/*}"
# shellcheck source=slurm/config.sh
source slurm/config.sh

where=${1:-$RUNS}
mapfile -t -d '' found < <(find "$where" -type d -name 'offline-run-*' -print0 | sort -z)
if ((${#found[@]} == 0)); then
  echo "$where: no wandb/offline-run-* there" >&2
  exit 1
fi
exec "$VENV/bin/python" -m wandb sync --include-synced "${found[@]}"
