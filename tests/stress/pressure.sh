#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A dump when all time goes to waiting for memory, by the kernel's pressure stall information: a program in a small memory
# cgroup that reads a larger file again and again; by its cgroup's figures, and where that can be, by the machine's. A thread
# of the program watches, and then a sidecar in the same cgroup.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/cgroup.sh
. "$(dirname "$0")/../support/cgroup.sh"

[ "$(id -u)" = 0 ] || skip "no root, so no cgroups"
grep -q '^full ' /proc/pressure/memory 2> /dev/null || skip "this kernel has no pressure stall information"

program=$scratch/pressure_program
compile "$program" tests/stress/pressure_program.c
dir=$scratch/dumps
pressure_group='' program_pid=''

end_program() {
    [ -n "$program_pid" ] || return 0
    kill -9 "$program_pid" 2> /dev/null || true
    wait "$program_pid" 2> /dev/null || true
    program_pid=
    await is_empty || fail "the sidecar goes on"
}

# A sidecar ends after its last dump
is_empty() {
    [ -z "$(cat "$group/cgroup.procs")" ]
}

# shellcheck disable=SC2317 # the cleanup hook
remove_groups() {
    end_program
    remove_pressure_group
    remove_group
}
cleanup_hook=remove_groups

# Beside a memory cgroup of version 1, one of version 2, which has no limit there
make_pressure_group() {
    local mount
    mount=$(awk '$0 ~ / - cgroup2 / { print $5; exit }' /proc/self/mountinfo)
    pressure_group=${mount:+$mount/jespan-test.$$}
    [ -n "$mount" ] && mkdir "$pressure_group"
}

remove_pressure_group() {
    [ -z "$pressure_group" ] || rmdir "$pressure_group"
    pressure_group=
}

dump_count() {
    dumps_in "$dir" | wc -l
}

# How near the bound it seems to be is said too, as file pages count that were used lately: a dump for each
is_dumped() {
    grep -q ' lost [0-9]* % of its time' "$scratch/err" && [ "$(dump_count)" -ge "$(grep -c '^jespan: oom: ' "$scratch/err")" ]
}

# start CONF: becomes the program, alone or with a sidecar
start() {
    if [ "$watcher" = sidecar ]; then
        exec "$JESPAN_CMD" run --quiet --dump-dir "$dir" --interval 0 --dump-on oom --conf "$1" -- "$program" "$scratch/data"
    fi
    JESPAN_CONF=module_dir:$JESPAN_MODULES,dump_dir:$dir,dump_on:oom,$1 exec "$program" "$scratch/data"
}

# press PERCENT WHERE: what is said and dumped while memory is short
press() {
    local name
    rm -rf "$dir"
    mkdir "$dir"
    : > "$scratch/err"
    (
        echo "$BASHPID" > "$group/cgroup.procs"
        [ -z "$pressure_group" ] || echo "$BASHPID" > "$pressure_group/cgroup.procs"
        start "dump_on_interval_s:0,dump_pressure_percent:$1"
    ) 2> "$scratch/err" &
    program_pid=$!
    await is_dumped || fail_with "$2, $watcher: $(dump_count) dumps" "$scratch/err"
    end_program
    grep -qE "^jespan: oom: $2 lost [0-9]+ % of its time to waiting for memory; 8388608 bytes in index" "$scratch/err" ||
        fail_with "$2, $watcher: not said" "$scratch/err"
    for name in $(dumps_in "$dir"); do
        "$JESPAN_CMD" report "$dir/$name" > "$scratch/report" || fail_with "$2, $watcher: no report of $name" "$scratch/report"
        equal "$2, $watcher: who holds most" "$(sed -n 3p "$scratch/report" | grep -o '[^ ]*$')" index
    done
}

make_memory_group 41943040 || skip "no memory cgroup can be made here"
head -c 134217728 /dev/zero > "$scratch/data"
for watcher in thread sidecar; do
    if [ -e "$group/memory.pressure" ]; then
        press 5 "the memory cgroup"
    elif make_pressure_group; then
        press 5 "the memory cgroup"
        remove_pressure_group
        press 1 "the machine" # whatever else runs here makes up for it
    else
        press 1 "the machine"
    fi
done
finish
