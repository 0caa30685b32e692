#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The dump before the OOM killer names the owner: a program whose span "leak" grows, slowly or as fast as the machine can,
# in a memory cgroup of 256 MB, until the kernel kills it; and in an address space of limited size (RLIMIT_AS), where malloc
# fails and the program ends itself. Where no cgroup can be made, the latter takes its place. Each is done by a thread of the
# program, and by a sidecar in the same cgroup, which must live on.
#
# usage: oom.sh [RUNS]    (default $OOM_RUNS, else 6) of each kind; 99 of 100 must name the owner
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/cgroup.sh
. "$(dirname "$0")/../support/cgroup.sh"

runs=${1:-${OOM_RUNS:-6}}
limit_bytes=268435456
program=$scratch/oom_program
compile "$program" tests/stress/oom_program.c
dir=$scratch/dumps

# The RATE and PIECE of runs, in turn
kinds=("0 65536" "0 4194304" "0 64" "1000 65536" "300 1000" "100 65536" "0 30000000" "0 2000" "0 65536 100" "0 4000000 85")
# A slow one takes 20 s
if [ "$runs" -ge 50 ]; then
    kinds+=("10 65536")
fi

# start ARGUMENTS: becomes the program, alone or with a sidecar
start() {
    local conf=module_dir:$JESPAN_MODULES,dump_dir:$dir,dump_on:oom
    if [ "$watcher" = sidecar ]; then
        # shellcheck disable=SC2086 # two arguments
        exec "$JESPAN_CMD" run --dump-dir "$dir" --interval 0 --dump-on oom -- "$program" $1
    fi
    # shellcheck disable=SC2086
    JESPAN_CONF=$conf exec "$program" $1
}

# run_one ARGUMENTS: its status is that of the program
run_one() {
    (
        if [ -n "$group" ]; then
            echo "$BASHPID" > "$group/cgroup.procs"
        else
            ulimit -v 600000 # with what the library and threads reserve
        fi
        start "$1"
    ) > /dev/null 2> "$scratch/err"
}

# The last thing that a sidecar does
has_said_the_end() {
    grep -q "^jespan: oom_program (process [0-9]*) $1; .* most by serve > " "$scratch/err"
}

# The first row of the report of the last dump is that of the span that leaks.
names_owner() {
    local last
    last=$(dumps_in "$dir" | tail -n 1)
    [ -n "$last" ] || return 1
    "$JESPAN_CMD" report "$dir/$last" > "$scratch/report" 2>&1 || return 1
    grep -q ' serve > leak {tenant=t7}$' < <(sed -n 3p "$scratch/report")
}

# run_all WHERE STATUS END: `runs` of them, each of which must end with that status, and by what a sidecar says
run_all() {
    local run kind status named=0 where="$1, watched by $watcher"
    for ((run = 0; run < runs; run++)); do
        kind=${kinds[run % ${#kinds[@]}]}
        rm -rf "$dir"
        mkdir "$dir"
        status=0
        run_one "$kind" 2> /dev/null || status=$?
        equal "$where, run $run ($kind): status" "$status" "$2"
        if [ "$watcher" = sidecar ] && ! await has_said_the_end "$3"; then
            fail_with "$where, run $run ($kind): the sidecar did not say the end" "$scratch/err"
            return
        fi
        if names_owner && grep -q '^jespan: oom: .* bytes in serve;leak{tenant=t7}, ' "$scratch/err"; then
            named=$((named + 1))
        else
            echo "$where, run $run ($kind): not named" >&2
            ls -A "$dir" >&2
            cat "$scratch/err" >&2
        fi
    done
    echo "$where: $named of $runs runs named the owner"
    [ $((named * 100)) -ge $((runs * 99)) ] || fail "$where: only $named of $runs"
}

# One that is killed by its user meanwhile is not told to be the OOM killer's victim: those were in another cgroup.
start_bystander() {
    "$JESPAN_CMD" run --dump-dir "$scratch/beside" --interval 1 -- sleep 100000 2> "$scratch/beside.err" &
    bystander=$!
    await compgen -G "$scratch/beside/heap.*" > /dev/null || fail_with "beside: no dump" "$scratch/beside.err"
}

kill_bystander() {
    kill -KILL "$bystander"
    wait "$bystander" || true
    await grep -q ' was killed by ' "$scratch/beside.err" || fail_with "beside: no line at the end" "$scratch/beside.err"
    grep -q ' was killed by signal 9; ' "$scratch/beside.err" || fail_with "beside: not by signal 9" "$scratch/beside.err"
}

if make_memory_group "$limit_bytes"; then
    start_bystander
    for watcher in thread sidecar; do
        run_all "in a cgroup of $limit_bytes bytes" 137 "was killed by the OOM killer"
    done
    kill_bystander
    remove_group
    group=
else
    echo "no memory cgroup can be made here: an address space of limited size is tried only"
fi
for watcher in thread sidecar; do
    run_all "in an address space of 600000 KiB" 3 "ended with status 3"
done
finish
