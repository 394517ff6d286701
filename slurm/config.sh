# shellcheck shell=bash
# Settings of the batch files here, all in one place. Change them in this file, or for one command in the environment:
#
#     PARTITION=gpu GPUS=a100:1 slurm/submit.sh train.sbatch +variant=belief preset=paper
#
# Empty means: the cluster's default, or none.

# ---- where ----
: "${PARTITION:=}"
: "${ACCOUNT:=}"
: "${QOS:=}"
: "${CONSTRAINT:=}" # features of nodes, such as a100|h100

# ---- how much, per task ----
: "${GPUS:=}"            # per node, such as 1 or a100:1; empty or none: the CPU alone
: "${CPUS:=4}"           # cores
: "${MEM:=16G}"          # per node; 0 for all of it
: "${TIME:=12:00:00}"    # of one stretch: a task that needs more saves, goes back to the queue and resumes
: "${GRACE:=300}"        # seconds before the end of a stretch when it is asked to save; an iteration must fit in
: "${ARRAY_LIMIT:=}"     # tasks of an array at the same time; empty: no limit
: "${MAX_REQUEUES:=100}" # stretches after which a task is given up
: "${SBATCH_OPTIONS:=}"  # anything else, such as --exclude=node7 --mail-type=FAIL

# ---- with what ----
: "${VENV:=.venv}"           # virtual environment, on a disk that all nodes see
: "${MODULES:=}"             # to load first, such as cuda/12.4
: "${CONTAINER:=}"           # Apptainer image that has VENV's Python and libraries; empty: none
: "${CONTAINER_OPTIONS:=}"   # for apptainer exec, such as --nv --bind /scratch
: "${WANDB_MODE:=offline}"   # compute nodes need no internet; slurm/sync_wandb.sh uploads later. disabled: no wandb
: "${LOGS:=runs/slurm-logs}" # what jobs print

# ---- what: train_array.sbatch, head_to_head_array.sbatch ----
: "${RUNS:=runs}" # the run of a variant and a seed is RUNS/VARIANT-sSEED
: "${VARIANTS:=baseline belief}"
: "${SEEDS:=0 1 2 3 4}"
: "${A_RUNS:=}"     # run directories of one kind, each compared with
: "${B_RUNS:=}"     # the run in the same place here
: "${ITERATIONS:=}" # checkpoints to compare
: "${GAMES:=3000}"  # per comparison
: "${OUT:=runs/head_to_head}"

# ---- Ray: ray_cluster.sbatch ----
: "${RAY_WORKERS:=}" # self-play actors; empty: one per core of all nodes, but one that is the learner's
: "${RAY_PORT:=}"    # of the head; empty: made from the job's number
: "${RAY_TEMP:=}"    # for sockets and logs, a short path on a local disk; empty: /tmp/ray-JOB
: "${RAY_MIN_NODES:=}" # that Ray must run on when the training begins; empty: all
: "${RAY_ADDRESSES:=}" # of the nodes, in their order, if Ray should not use those that SLURM knows
