#!/usr/bin/env bash
# A Slurm cluster of four small nodes on this machine, for development and tests.
#
#   lab.sh start DIR    start what does not run yet; DIR/env then contains the exports for a shell
#   lab.sh stop DIR     stop all of it, jobs included; the accounting database stays in DIR
#   lab.sh check        print the missing packages on one line, and exit with 77 if there are any
#   lab.sh hold DIR     start, print "ready", and stop when standard input ends, unless it ran before or others hold it
#
# The REST daemon, slurmrestd, runs as nobody if it and its JWT plugin are installed and nobody may enter DIR: DIR/env then sets SLURM_REST, and
# `scontrol token` makes the token that it requires (X-SLURM-USER-NAME, X-SLURM-USER-TOKEN).
#
# Everything is in DIR and on the loopback interface. LAB_PORT is the first of ten free ports (default: by a search).
# LAB_PROCTRACK=cgroup tracks processes by the freezer of cgroup v1 instead of by parent; one such lab per machine.
set -euo pipefail

packages="slurm-wlm slurmctld slurmd slurm-client slurmdbd slurmrestd slurm-wlm-mysql-plugin slurm-wlm-jwt-plugin munge mariadb-server"
export PATH="$PATH:/usr/sbin:/sbin"

die() { printf 'lab: %s\n' "$*" >&2; exit 1; }

check() {
  local missing=() c
  for c in munged mariadbd mariadb-install-db mariadb-admin slurmctld slurmd slurmdbd sbatch sacctmgr flock setsid; do
    command -v "$c" >/dev/null || missing+=("$c")
  done
  compgen -G '/usr/lib/*/slurm*/accounting_storage_mysql.so' >/dev/null || missing+=("the MySQL plugin of Slurm")
  [ ${#missing[@]} = 0 ] && return
  local IFS=,
  printf 'missing: %s; install them with: apt-get install --no-install-recommends %s\n' "${missing[*]}" "$packages"
  exit 77
}

# has_rest: the REST daemon is installed, and the user nobody can read its configuration.
has_rest() {
  command -v slurmrestd >/dev/null && compgen -G '/usr/lib/*/slurm*/auth_jwt.so' >/dev/null && setpriv --reuid=65534 --clear-groups test -x "$D"
}

# alive NAME: the daemon of that pid file runs and belongs to this lab.
alive() {
  local pid
  pid=$(cat "$D/run/$1.pid" 2>/dev/null) && [ -n "$pid" ] && grep -qzsF "$D/" "/proc/$pid/cmdline" "/proc/$pid/environ"
}

# await SECONDS WHAT COMMAND…: repeat the command until it succeeds.
await() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || die "$what did not start: see $D/log"
    sleep 0.1
  done
}

free_ports() { # the first of ten consecutive ports on which nothing listens
  local base=${LAB_PORT:-$((17000 + $(printf %s "$D" | cksum | cut -d' ' -f1) % 300 * 20))} p
  while :; do
    for p in {0..9}; do
      if (exec 3<>"/dev/tcp/127.0.0.1/$((base + p))") 2>/dev/null; then
        [ -z "${LAB_PORT:-}" ] || die "port $((base + p)) is in use: choose another LAB_PORT"
        base=$((base + 20))
        [ $base -lt 32000 ] || base=17000
        continue 2
      fi
    done
    echo $base
    return
  done
}

configure() {
  local port t i jwt=""
  port=$(free_ports)
  if has_rest; then
    [ -f "$D/etc/jwt.key" ] || dd if=/dev/urandom of="$D/etc/jwt.key" bs=32 count=1 status=none
    chmod 0600 "$D/etc/jwt.key"
    jwt="AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$D/etc/jwt.key"
    echo "127.0.0.1:$((port + 6))" >"$D/etc/rest"
  fi
  [ -f "$D/etc/munge.key" ] || dd if=/dev/urandom of="$D/etc/munge.key" bs=1 count=1024 status=none
  chmod 0400 "$D/etc/munge.key"
  for t in a100 v100 k80; do
    for i in 0 1 2 3; do [ -e "$D/dev/$t$i" ] || mknod "$D/dev/$t$i" c 1 3; done # stand for GPUs
  done
  cat >"$D/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$D/run/munge.sock
$jwt
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((port + 1))
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct
LogFile=$D/log/slurmdbd.log
PidFile=$D/run/slurmdbd.pid
CONF
  chmod 0600 "$D/slurmdbd.conf"
  cat >"$D/slurm.conf" <<CONF
ClusterName=lab
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$D/run/munge.sock
$jwt
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort=$port
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool/%n
SlurmctldPidFile=$D/run/slurmctld.pid
SlurmdPidFile=$D/run/slurmd-%n.pid
SlurmctldLogFile=$D/log/slurmctld.log
SlurmdLogFile=$D/log/slurmd-%n.log
ProctrackType=proctrack/${LAB_PROCTRACK:-linuxproc}
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerNode=500
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=2,sched_interval=2,sched_min_interval=100000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PriorityType=priority/multifactor
ReturnToService=2
JobRequeue=1
KillWait=10
MinJobAge=300
SlurmdTimeout=20
SlurmctldTimeout=20
GresTypes=gpu
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((port + 1))
AccountingStoragePass=$D/run/munge.sock
AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:v100,gres/gpu:k80
NodeName=DEFAULT CPUs=4 RealMemory=4000 State=UNKNOWN
NodeName=n0 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((port + 2)) Gres=gpu:a100:4 Feature=a100
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((port + 3)) Gres=gpu:v100:4 Feature=v100
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((port + 4)) Gres=gpu:k80:4 Feature=k80
NodeName=n3 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((port + 5)) Gres=gpu:k80:4 Feature=k80
PartitionName=DEFAULT State=UP MaxTime=INFINITE PriorityTier=1 GraceTime=0
PartitionName=gpu Nodes=n[0-3] Default=YES TRESBillingWeights="CPU=0.1,Mem=0.01G,GRES/gpu:a100=3,GRES/gpu:v100=2,GRES/gpu:k80=1"
PartitionName=fast Nodes=n[0-1] MaxTime=60 TRESBillingWeights="CPU=0.2,Mem=0.02G,GRES/gpu:a100=5,GRES/gpu:v100=3"
PartitionName=cheap Nodes=n[2-3] TRESBillingWeights="CPU=0.05,Mem=0.005G,GRES/gpu:k80=0.5"
PartitionName=urgent Nodes=n[0-3] PriorityTier=10 PreemptMode=OFF TRESBillingWeights="CPU=0.4,Mem=0.04G,GRES/gpu=10"
CONF
  cat >"$D/gres.conf" <<CONF
NodeName=n0 Name=gpu Type=a100 File=$D/dev/a100[0-3]
NodeName=n1 Name=gpu Type=v100 File=$D/dev/v100[0-3]
NodeName=n[2-3] Name=gpu Type=k80 File=$D/dev/k80[0-3]
CONF
  cat >"$D/cgroup.conf" <<CONF
CgroupPlugin=cgroup/v1
CgroupAutomount=no
ConstrainCores=no
ConstrainRAMSpace=no
CONF
}

# group NODE: the cgroup that limits a node, by the first usable hierarchy; empty if none is.
group() {
  local name
  name="lab-$(printf %s "$D" | cksum | cut -d' ' -f1)-$1"
  if [ -w /sys/fs/cgroup/cpu/cpu.cfs_period_us ] || [ -w /sys/fs/cgroup/cpu/cgroup.procs ]; then
    echo "/sys/fs/cgroup/cpu/$name"
  elif grep -qsw cpu /sys/fs/cgroup/cgroup.controllers; then
    echo +cpu 2>/dev/null >/sys/fs/cgroup/cgroup.subtree_control && echo "/sys/fs/cgroup/$name"
  fi || true
}

# quota NODE MICROSECONDS: create the cgroup of a node with a quota of CPU time per 100 ms, and print it.
quota() {
  local g
  g=$(group "$1")
  [ -n "$g" ] && mkdir -p "$g" 2>/dev/null || return 0
  if [ -e "$g/cpu.max" ]; then
    echo "$2 100000" >"$g/cpu.max" || return 0
  else
    echo 100000 >"$g/cpu.cfs_period_us" && echo "$2" >"$g/cpu.cfs_quota_us" || return 0
  fi
  echo "$g"
}

node() { # NODE MICROSECONDS
  alive "slurmd-$1" && return
  local g
  g=$(quota "$1" "$2")
  [ -n "$g" ] || echo "lab: no writable cpu cgroup: node $1 runs at full speed" >&2
  ( [ -z "$g" ] || echo "$BASHPID" >"$g/cgroup.procs"; exec slurmd -N "$1" -f "$D/slurm.conf" ) </dev/null >>"$D/log/start.log" 2>&1 9>&- 8>&- ||
    die "slurmd $1 did not start: see $D/log/slurmd-$1.log"
}

rest() {
  grep -qs '^AuthAltTypes' "$SLURM_CONF" && ! alive slurmrestd || return 0
  # Its own environment: SLURM_JWT makes it authenticate by the token of each request, never as itself.
  SLURM_JWT=daemon setsid slurmrestd -u nobody -g nogroup -a rest_auth/jwt -s openapi/v0.0.38,openapi/dbv0.0.38 -f "$D/slurm.conf" "$(cat "$D/etc/rest")" \
    </dev/null >>"$D/log/slurmrestd.log" 2>&1 9>&- 8>&- &
  echo $! >"$D/run/slurmrestd.pid"
  await 60 slurmrestd bash -c 'exec 3<>"/dev/tcp/${0/://}"' "$(cat "$D/etc/rest")"
}

idle_nodes() { [ "$(timeout 3 sinfo -h -N -p gpu -o %t | grep -cE '^(idle|mix|alloc)$')" = 4 ]; }

# ready_nodes: all nodes are idle. A node that an earlier cluster with this state left drained is taken into service again.
ready_nodes() {
  local n
  idle_nodes && return
  for n in n0 n1 n2 n3; do
    case $(timeout 5 sinfo -h -n $n -o %t 2>/dev/null | head -n 1) in
      drain* | drng* | down*) timeout 5 scontrol update NodeName=$n State=RESUME 2>/dev/null ;;
    esac
  done
  return 1
}

running() {
  [ -f "$D/env" ] || return 1
  local d
  for d in munged db slurmdbd slurmctld slurmd-n0 slurmd-n1 slurmd-n2 slurmd-n3; do alive $d || return 1; done
  ! grep -qs '^AuthAltTypes' "$SLURM_CONF" || alive slurmrestd
}

start() {
  local out
  out=$(check) || { printf 'lab: %s\n' "$out" >&2; exit 77; }
  [ "$(id -u)" = 0 ] || { echo "lab: must run as root: slurmd switches users, and the nodes need devices and cgroups" >&2; exit 77; }
  mkdir -p "$D"/{run,state,log,dev,etc,spool}
  exec 9>"$D/lock"
  flock 9
  if running; then
    echo "lab: runs already (exports: . $D/env)"
    flock -u 9
    return
  fi
  local fresh=0
  if gone slurmdbd slurmctld slurmd-n0 slurmd-n1 slurmd-n2 slurmd-n3; then # those that run keep their ports
    configure
    fresh=1
  fi
  alive munged || munged --force --key-file="$D/etc/munge.key" --socket="$D/run/munge.sock" --pid-file="$D/run/munged.pid" \
    --log-file="$D/log/munged.log" --seed-file="$D/etc/munge.seed" >>"$D/log/start.log" 2>&1 9>&- 8>&- || die "munged did not start: see $D/log/munged.log"
  if ! alive db; then
    [ -d "$D/db/mysql" ] || mariadb-install-db --no-defaults --datadir="$D/db" --auth-root-authentication-method=normal --skip-test-db --user=root \
      >"$D/log/install-db.log" 2>&1 9>&- 8>&- || die "the database was not created: see $D/log/install-db.log"
    setsid mariadbd --no-defaults --user=root --datadir="$D/db" --socket="$MYSQL_UNIX_PORT" --skip-networking --pid-file="$D/run/db.pid" \
      --innodb-buffer-pool-size=32M --innodb-log-file-size=16M --innodb-lock-wait-timeout=900 --innodb-flush-log-at-trx-commit=2 \
      --performance-schema=OFF --skip-log-bin </dev/null >"$D/log/mariadb.log" 2>&1 9>&- 8>&- &
    await 60 mariadbd mariadb-admin --no-defaults --socket="$MYSQL_UNIX_PORT" ping
  fi
  if ! alive slurmdbd; then
    slurmdbd >>"$D/log/start.log" 2>&1 9>&- 8>&- </dev/null || die "slurmdbd did not start: see $D/log/slurmdbd.log"
    await 60 slurmdbd timeout 5 sacctmgr -n show cluster
  fi
  [ -n "$(timeout 10 sacctmgr -n show cluster lab)" ] || sacctmgr -i add cluster lab >>"$D/log/start.log" 2>&1
  if [ $fresh = 0 ] && ! alive slurmctld; then # a node refuses the number of a job that the controller has lost
    sed -i '/^FirstJobId=/d' "$SLURM_CONF"
    echo "FirstJobId=$(($(date +%s) - $(stat -c %Y "$D/etc/munge.key")))" >>"$SLURM_CONF" # beyond all numbers, with one job per second
  fi
  alive slurmctld || slurmctld -f "$D/slurm.conf" >>"$D/log/start.log" 2>&1 9>&- 8>&- </dev/null || die "slurmctld did not start: see $D/log/slurmctld.log"
  rest
  node n0 100000
  node n1 50000
  node n2 25000
  node n3 25000
  [ $fresh = 0 ] || await 60 "all nodes" ready_nodes
  printf 'export SLURM_CONF=%q MYSQL_UNIX_PORT=%q\ncase :$PATH: in *:/usr/sbin:*) ;; *) export PATH=$PATH:/usr/sbin ;; esac\n' \
    "$SLURM_CONF" "$MYSQL_UNIX_PORT" >"$D/env"
  ! alive slurmrestd || echo "export SLURM_REST=http://$(cat "$D/etc/rest")" >>"$D/env"
  echo "lab: n0 (a100), n1 (v100), n2, n3 (k80), partitions gpu, fast, cheap, urgent; exports: . $D/env"
  flock -u 9
}

# job_processes: the processes of jobs and of their supervisors, by the cgroups of the nodes or by their environment.
job_processes() {
  local g k p
  for k in n0 n1 n2 n3; do
    g=$(group $k)
    [ -z "$g" ] || [ ! -d "$g" ] || find "$g" -name cgroup.procs -exec cat {} + 2>/dev/null || true
  done
  for p in /proc/[0-9]*; do
    if grep -qzsxF "SLURM_CONF=$D/slurm.conf" "$p/environ" && grep -qzs '^SLURM_JOB_ID=' "$p/environ"; then
      [ "${p#/proc/}" = $$ ] || echo "${p#/proc/}"
    fi
  done
}

end() { # SIGNAL NAME…: signal the daemons of these pid files
  local sig=$1 d
  shift
  for d in "$@"; do
    alive "$d" && ended+=" $(cat "$D/run/$d.pid")" && kill "-$sig" "$(cat "$D/run/$d.pid")" 2>/dev/null || true
  done
}

gone() {
  local d
  for d in "$@"; do ! alive "$d" || return 1; done
}

stop() {
  [ -d "$D/run" ] || { echo "lab: not running"; return; }
  exec 9>"$D/lock"
  flock 9
  local nodes="slurmd-n0 slurmd-n1 slurmd-n2 slurmd-n3" ended="" i k g
  if alive slurmctld; then # ask the jobs to end, so that the accounting records it
    timeout 5 squeue -h -o %A 2>/dev/null | sort -u | xargs -r timeout 5 scancel 2>/dev/null || true
    for i in {1..30}; do [ -n "$(timeout 3 squeue -h -o %A 2>/dev/null)" ] || break; sleep 0.1; done
  fi
  # shellcheck disable=SC2086
  end TERM slurmrestd slurmctld $nodes
  for i in {1..30}; do gone slurmrestd slurmctld $nodes && break; sleep 0.1; done
  end KILL slurmrestd slurmctld $nodes # slurmd waits for a controller that does not answer
  job_processes | sort -u | xargs -r kill -KILL 2>/dev/null || true
  end TERM slurmdbd
  for i in {1..50}; do gone slurmdbd && break; sleep 0.1; done
  end KILL slurmdbd
  end TERM db munged
  for i in {1..100}; do gone db munged && break; sleep 0.1; done
  end KILL db munged
  for i in {1..50}; do # slurmctld removes its pid file before it ends
    # shellcheck disable=SC2086
    kill -0 $ended 2>/dev/null || break
    sleep 0.1
  done
  for k in n0 n1 n2 n3; do
    g=$(group $k)
    [ -z "$g" ] || [ ! -d "$g" ] || find "$g" -depth -type d -exec rmdir {} + 2>/dev/null || true
  done
  if grep -qs proctrack/cgroup "$SLURM_CONF"; then
    find /sys/fs/cgroup/freezer/slurm_n[0-3] -depth -type d -exec rmdir {} + 2>/dev/null || true
  fi
  rm -f "$D"/run/* "$D/env" "$D/by-tests"
  echo "lab: stopped"
  flock -u 9
}

hold() {
  mkdir -p "$D/run"
  exec 8>>"$D/users"
  flock -s 8
  running || touch "$D/by-tests"
  start >&2 # exits with 77 if it cannot run here
  echo ready
  cat >/dev/null # until the holder ends
  flock -n -x 8 || exit 0
  [ ! -e "$D/by-tests" ] || stop >&2
}

[ $# -ge 1 ] || die "usage: lab.sh start|stop|hold DIR, or lab.sh check"
if [ "$1" = check ]; then
  check
  exit
fi
[ $# = 2 ] || die "usage: lab.sh $1 DIR"
D=$(mkdir -p "$2" && cd "$2" && pwd)
[ ${#D} -le 80 ] || die "$D: the path is too long for a socket in it (80 characters at most)"
case $D in *[[:space:],:]*) die "$D: Slurm takes no paths with spaces, commas or colons" ;; esac
export SLURM_CONF="$D/slurm.conf" MYSQL_UNIX_PORT="$D/run/db.sock"
unset SLURM_JOB_ID
case $1 in
start | stop | hold) "$1" ;;
*) die "unknown action $1: want start, stop, hold or check" ;;
esac
