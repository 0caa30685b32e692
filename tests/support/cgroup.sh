# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# For tests in a memory cgroup of their own, of whatever version this machine has. After lib.sh.

group=

# shellcheck disable=SC2317 # the cleanup hook
remove_group() {
    local tries=6000
    until [ -z "$group" ] || rmdir "$group" 2> /dev/null || [ "$tries" = 0 ]; do
        tries=$((tries - 1))
        sleep 0.1
    done
    group=
}
cleanup_hook=remove_group

# make_group MOUNT PATH FILE BYTES: below ours, or else below the top, with that limit
make_group() {
    local above
    for above in "$1$2" "$1"; do
        group=${above%/}/jespan-test.$$
        if mkdir "$group" 2> /dev/null; then
            if echo "$4" 2> /dev/null > "$group/$3"; then
                return 0
            fi
            rmdir "$group"
        fi
    done
    group=
    return 1
}

# make_memory_group BYTES: where /proc/self/cgroup and mountinfo say; sets group. Its status is not 0 where none can be made.
make_memory_group() {
    local path mount
    path=$(sed -n 's/^[0-9]*:\([^:]*,\)\?memory\(,[^:]*\)\?:\(.*\)/\3/p' /proc/self/cgroup)
    mount=$(awk '$0 ~ / - cgroup .*[ ,]memory(,|$)/ { print $5; exit }' /proc/self/mountinfo)
    if [ -n "$mount" ] && make_group "$mount" "$path" memory.limit_in_bytes "$1"; then
        return 0
    fi
    path=$(sed -n 's/^0:://p' /proc/self/cgroup)
    mount=$(awk '$0 ~ / - cgroup2 / { print $5; exit }' /proc/self/mountinfo)
    [ -n "$mount" ] && make_group "$mount" "$path" memory.max "$1"
}
