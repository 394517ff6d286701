#!/usr/bin/env bash
# A temporary SLURM cluster for tests on this machine: a controller and a few nodes on loopback addresses, in one
# directory.
#
#     throwaway.sh install       install Debian's packages, as root
#     throwaway.sh start DIR     start the cluster; prints the variable that makes commands use it
#     throwaway.sh stop DIR      end its jobs and its daemons
#
# Every node is a slurmd with its own name (node1, node2, ...). Jobs in partition "high" preempt those in "low", the
# default, after a grace period of one minute. slurmdbd and a MariaDB of its own keep the accounts that sacct shows.
# Every node claims two GPUs (files that are none), so that requests for them can be tested.
set -euo pipefail

nodes=${NODES:-3}
cpus=${CPUS_PER_NODE:-4} # more than the machine has: jobs of a test mostly wait
packages=(munge slurm-wlm slurmdbd mariadb-server)

install() {
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    echo "throwaway.sh: SLURM can only be installed by root on Debian or a derivative of it" >&2
    exit 1
  fi
  command -v slurmctld slurmd slurmdbd mariadbd munged sbatch >/dev/null && return
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends "${packages[@]}" >&2
}

# Prints free ports, one per line.
free_ports() {
  python3 - "$1" <<'PYTHON'
import socket, sys

held = [socket.socket() for _ in range(int(sys.argv[1]))]
for each in held:
    each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in held), sep="\n")
PYTHON
}

write_config() {
  local directory=$1 ports
  mapfile -t ports < <(free_ports $((nodes + 2)))
  cat >"$directory/slurm.conf" <<CONF
ClusterName=throwaway
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=${ports[nodes]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$directory/munge.socket,cred_expire=5
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation=$directory/state
SlurmdSpoolDir=$directory/spool-%n
SlurmctldPidFile=$directory/slurmctld.pid
SlurmdPidFile=$directory/slurmd-%n.pid
SlurmctldLogFile=$directory/slurmctld.log
SlurmdLogFile=$directory/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
KillWait=20
MinJobAge=3600
JobCompType=jobcomp/filetxt
JobCompLoc=$directory/jobs.log
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=${ports[nodes + 1]}
AccountingStoragePass=$directory/munge.socket
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
GresTypes=gpu
SwitchType=switch/none
CONF
  for ((node = 1; node <= nodes; node++)); do
    echo "NodeName=node$node NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=${ports[node - 1]}" \
      "CPUs=$cpus RealMemory=16000 Gres=gpu:2 State=UNKNOWN" >>"$directory/slurm.conf"
  done
  cat >>"$directory/slurm.conf" <<CONF
PartitionName=low Nodes=node[1-$nodes] Default=YES PriorityTier=1 GraceTime=60 MaxTime=INFINITE State=UP
PartitionName=high Nodes=node[1-$nodes] PriorityTier=2 PreemptMode=OFF MaxTime=INFINITE State=UP
CONF
  touch "$directory"/gpu{0,1}
  echo "Name=gpu File=$directory/gpu[0-1]" >"$directory/gres.conf"
  (umask 077 && cat >"$directory/slurmdbd.conf") <<CONF
AuthType=auth/munge
AuthInfo=socket=$directory/munge.socket
DbdHost=$(hostname -s)
DbdAddr=127.0.0.1
DbdPort=${ports[nodes + 1]}
SlurmUser=root
LogFile=$directory/slurmdbd.log
PidFile=$directory/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=throwaway
CONF
}

# Waits until a command succeeds: SECONDS COMMAND...
await() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS > end)); then return 1; fi
    sleep 0.2
  done
}

# Starts the database, reachable through a socket in the directory only, and the daemon that keeps accounts in it.
start_accounting() {
  local directory=$1 socket=$1/mariadb.socket
  mariadb-install-db --no-defaults --user=root --datadir="$directory/mariadb" --skip-test-db \
    --auth-root-authentication-method=normal >"$directory/mariadb.log" 2>&1
  mariadbd --no-defaults --user=root --datadir="$directory/mariadb" --socket="$socket" --skip-networking \
    --pid-file="$directory/mariadb.pid" --innodb-buffer-pool-size=64M >>"$directory/mariadb.log" 2>&1 &
  await 60 mariadb-admin --no-defaults --user=root --socket="$socket" ping || return 1
  MYSQL_UNIX_PORT=$socket slurmdbd || return 1
  await 20 sacctmgr --immediate add cluster throwaway
}

start() {
  local directory=$1
  mkdir -p "$directory"/{state,munge}
  chmod 700 "$directory/munge"
  for ((node = 1; node <= nodes; node++)); do mkdir -p "$directory/spool-node$node"; done
  write_config "$directory"
  export SLURM_CONF=$directory/slurm.conf
  head -c 1024 /dev/urandom >"$directory/munge/key"
  chmod 600 "$directory/munge/key"
  munged --key-file="$directory/munge/key" --socket="$directory/munge.socket" --pid-file="$directory/munge/pid" \
    --log-file="$directory/munge/log" --seed-file="$directory/munge/seed" --num-threads=2 >&2
  if ! start_accounting "$directory"; then
    echo "throwaway.sh: no accounting within two minutes; logs are in $directory" >&2
    stop "$directory"
    exit 1
  fi
  slurmctld
  for ((node = 1; node <= nodes; node++)); do slurmd -N "node$node"; done
  for ((second = 0; second < 30; second++)); do
    if [[ $(sinfo --noheader --partition=low --states=idle --format=%D 2>/dev/null) == "$nodes" ]]; then
      echo "SLURM_CONF=$SLURM_CONF"
      return
    fi
    sleep 1
  done
  echo "throwaway.sh: the nodes did not come up within 30 s; logs are in $directory" >&2
  sinfo >&2
  stop "$directory"
  exit 1
}
# Ends the process of a pid file: SIGTERM first, SIGKILL after ten seconds.
end() {
  local pid
  [[ -s $1 ]] || return 0
  pid=$(<"$1")
  kill "$pid" 2>/dev/null || return 0
  for ((tenth = 0; tenth < 100; tenth++)); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null || true
}

stop() {
  local directory=$1 pid
  export SLURM_CONF=$directory/slurm.conf
  if scontrol ping >/dev/null 2>&1; then
    scancel --user=root 2>/dev/null || true
    for ((second = 0; second < 30; second++)); do
      [[ -n $(squeue --noheader 2>/dev/null) ]] || break
      sleep 1
    done
  fi
  for pid in "$directory"/slurmctld.pid "$directory"/slurmd-*.pid "$directory"/slurmdbd.pid \
    "$directory"/mariadb.pid "$directory"/munge/pid; do end "$pid"; done
}

case "${1:-} $#" in
  "install 1") install ;;
  "start 2") start "$(realpath "$2")" ;;
  "stop 2") stop "$(realpath "$2")" ;;
  *)
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
    exit 2
    ;;
esac
