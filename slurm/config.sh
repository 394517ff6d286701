# shellcheck shell=bash
# Settings of all batch files. Change them in this file, or for one command in the environment:
#
#     PARTITION=gpu GPUS=a100:1 slurm/submit.sh train.sbatch +variant=belief preset=paper
#
# An empty value means the cluster's default, or none.

# ---- place of the jobs ----
: "${PARTITION:=}"
: "${ACCOUNT:=}"
: "${QOS:=}"
: "${CONSTRAINT:=}" # features that nodes must have, such as a100|h100

# ---- resources per task ----
: "${GPUS:=}"            # GPUs per node, such as 1 or a100:1; empty or none: the CPU alone
: "${GRES:=}"            # GPUs where they are asked for as --gres, such as gpu:1 or gpu:a100:1, instead of GPUS
: "${PACK:=1}"           # small runs of train_array.sbatch that share one task: its GPUs and MEM; each has CPUS cores
: "${CPUS:=4}"           # cores per task, with PACK per run
: "${MEM:=16G}"          # memory per node; 0 for all of it
: "${TIME:=12:00:00}"    # time limit: a task that needs more saves, goes back to the queue and resumes
: "${GRACE:=300}"        # seconds before the time limit when a task is asked to save; must be longer than an iteration
: "${ARRAY_LIMIT:=}"     # tasks of an array that run at the same time; empty: no limit
: "${MAX_REQUEUES:=100}" # number of times that a task may go back to the queue
: "${SBATCH_OPTIONS:=}"  # other options of sbatch, such as --exclude=node7 --mail-type=FAIL

# ---- software ----
: "${VENV:=.venv}"           # virtual environment, on a disk that all nodes see
: "${MODULES:=}"             # modules to load, such as cuda/12.4
: "${CONTAINER:=}"           # Apptainer image with the Python of VENV and its libraries; empty: no container
: "${CONTAINER_OPTIONS:=}"   # options of apptainer exec, such as --nv --bind /scratch
: "${WANDB_MODE:=offline}"   # offline (slurm/sync_wandb.sh uploads later), online or disabled
: "${LOGS:=runs/slurm-logs}" # directory for the output of jobs

# ---- runs: train_array.sbatch, head_to_head_array.sbatch ----
: "${RUNS:=runs}" # directory of runs; the run of a variant and a seed is RUNS/VARIANT-sSEED
: "${VARIANTS:=baseline belief}"
: "${SEEDS:=0 1 2 3 4}"
: "${A_RUNS:=}"     # run directories of the first kind, each compared with
: "${B_RUNS:=}"     # the run in the same place of this list
: "${ITERATIONS:=}" # checkpoints to compare
: "${GAMES:=3000}"  # games per comparison
: "${OUT:=runs/head_to_head}"

# ---- Ray: ray_cluster.sbatch ----
: "${RAY_WORKERS:=}" # self-play actors; empty: one per core of all nodes, except one core for the learner
: "${RAY_PORT:=}"    # port of the head; empty: derived from the job's number
: "${RAY_TEMP:=}"    # short path on a local disk for sockets and logs; empty: /tmp/ray-JOB
: "${RAY_MIN_NODES:=}" # nodes on which Ray must run when training begins; empty: all
: "${RAY_DASHBOARD:=}" # port of Ray's dashboard on the first node, loopback only, such as 8265; empty: no dashboard
: "${RAY_ADDRESSES:=}" # addresses of the nodes, in order, if Ray should not use those that SLURM knows
