# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# For test scripts of the command: how it ends, and what it prints. After lib.sh.

"$JESPAN_CMD" help report > /dev/null 2>&1 || skip "built without the pprof exporter"
unset COLUMNS DEBUGINFOD_URLS
make_profile=$top_builddir/tests/support/make_profile
status=0

# jespan ARGUMENT… : keeps stdout, stderr and status. The line of a sidecar at its end may come later, into the next stderr.
jespan() {
    status=0
    [ "${1-}" != run ] || set -- run --quiet "${@:2}"
    "$JESPAN_CMD" "$@" > "$scratch/out" 2> "$scratch/err" || status=$?
}

# says WHAT STATUS STDERR-PATTERN: how the last command ended
says() {
    equal "$1: status" "$status" "$2"
    # shellcheck disable=SC2053
    [[ $(cat "$scratch/err") == $3 ]] || fail_with "$1: stderr is not like: $3" "$scratch/err"
}

# prints WHAT STDOUT-PATTERN
prints() {
    # shellcheck disable=SC2053
    [[ $(cat "$scratch/out") == $2 ]] || fail_with "$1: stdout is not like: $2" "$scratch/out"
}

# environment_of OPTION…: of a run, what its program has in JESPAN_CONF and LD_PRELOAD, in conf and preload. What is tested is the
# command, so nothing needs to be tracked.
environment_of() {
    jespan run "$@" -- env
    equal "run $* -- env: status" "$status" 0
    conf=$(sed -n 's/^JESPAN_CONF=//p' "$scratch/out")
    [[ $conf == *,sidecar:/proc/[0-9]*/fd/[0-9]* ]] || fail "JESPAN_CONF without a sidecar: $conf"
    conf=${conf%,sidecar:*}
    preload=$(sed -n 's/^LD_PRELOAD=//p' "$scratch/out")
}
