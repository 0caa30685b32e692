#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Services, with one of the test's own in place of Pyroscope's: how they start, what they are credited to, how they end,
# what is said of those that are missing, fail or do not stop, and forks.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

program=$scratch/program
modules=$scratch/modules

# module DIRECTORY FLAG...
module() {
    mkdir -p "$1"
    # shellcheck disable=SC2086
    $CC $CPPFLAGS -std=gnu11 -O1 -Wall -Wextra -fPIC -shared -iquote "$top_srcdir" -o "$1/pyroscope.so" \
        "$top_srcdir/tests/integration/services_module.c" "${@:2}" -lpthread
}

# run CONF WHAT: the program; its status in $status, what it says in err, its process in $pid
run() {
    status=0
    JESPAN_CONF=module_dir:$modules,pyroscope_url:http://host,$1 "$program" "$2" > "$scratch/out" 2> "$scratch/err" &
    pid=$!
    wait "$pid" || status=$?
}

# expect WHAT STDERR: after a run
expect() {
    equal "$1: status" "$status" 0
    equal "$1: stderr" "$(cat "$scratch/err")" "$2"
}

runs_and_ends() {
    local conf
    for conf in "" inherit:true thread_contexts:false track_time:off; do
        run "$conf" run
        expect "run with '$conf'" "jespan: service $pid: asked to stop"
    done
}

never_stops() {
    SERVICE_DOES="never stop" run shutdown_timeout_ms:300 run
    expect "one that never stops" "jespan: pyroscope took longer than shutdown_timeout_ms and is given up"
    SERVICE_DOES="never stop, end before others" run shutdown_timeout_ms:300 run
    expect "the same before others" "jespan: pyroscope took longer than shutdown_timeout_ms and is given up
jespan: service $pid: the library is gone"
}

fails() {
    SERVICE_DOES="fail" run "" none
    expect "one that fails" "jespan: pyroscope: Permission denied; it is left out"
    SERVICE_DOES="cancel" run "" none
    expect "one that said why itself" ""
    SERVICE_DOES="end early" run "" none
    expect "one that ends by itself" ""
}

wrong_modules() {
    local modules=$scratch/other
    module "$modules" -DABI=99
    run "" none
    expect "another version" "jespan: service pyroscope: its module is of another version of jespan; see module_dir"
    modules=$scratch/none
    run "" none
    expect "missing" \
        "jespan: service pyroscope: $modules/pyroscope.so: cannot open shared object file: No such file or directory; see module_dir"
}

forks() {
    run "" fork
    expect "fork" "jespan: service $pid: asked to stop"
    run "" crowd
    expect "forks at once" "jespan: service $pid: asked to stop"
    run follow_fork:true follow
    equal "follow_fork: status" "$status" 0
    equal "follow_fork: services that ended" "$(grep -c '^jespan: service [0-9]*: asked to stop$' "$scratch/err")" 2
    equal "follow_fork: the last one" "$(tail -n 1 "$scratch/err")" "jespan: service $pid: asked to stop"
}

# What a library gave to atexit() runs when the service has ended.
ends_before_others() {
    SERVICE_DOES="end before others" run "" run
    expect "end_before_others" "jespan: service $pid: asked to stop"$'\n'"jespan: service $pid: the library is gone"
}

compile "$program" tests/integration/services_program.c
module "$modules"
runs_and_ends
never_stops
fails
wrong_modules
forks
ends_before_others
finish
