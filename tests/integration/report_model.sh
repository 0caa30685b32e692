#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan report` of random programs, compared with what the programs counted themselves: by path, name, site, label, thread, function, line,
# file and library, as a tree, with all below, filters, differences, order, CSV. Also `jespan leaks`, mallctl and `jespan ctl`. report.sh compares
# reports with dumps; this compares them with the truth. SEEDS="10 11" runs other programs.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

need python3
"$JESPAN_CMD" help report > /dev/null 2>&1 || skip "built without the pprof exporter"
sources=$top_srcdir/tests/integration
# shellcheck disable=SC2086
$CC -std=gnu11 -O1 -g -fno-builtin -shared -fPIC -o "$scratch/libmodel.so" "$sources/report_model_library.c"
compile "$scratch/program" tests/integration/report_model_program.c "$scratch/libmodel.so" -Wl,-rpath,"$scratch"
conf=module_dir:$JESPAN_MODULES,contexts_kept:1000000

# model SEED [once] [stacks]: runs a program, and compares while it waits
model() {
    local seed=$1 directory=$scratch/$1 stacks='' once='' pid
    shift
    case "$*" in *stacks*) stacks=,stacks:all ;; esac
    case "$*" in *once*) once=once ;; esac
    mkdir "$directory"
    mkfifo "$directory/in"
    # shellcheck disable=SC2086
    JESPAN_CONF=$conf$stacks "$scratch/program" "$seed" "$directory" $once < "$directory/in" > "$directory/out" &
    pid=$!
    pids+=("$pid")
    exec 3> "$directory/in"
    await_of "$pid" grep -q ready "$directory/out" || fail "seed $seed: the program does not write its dumps"
    if ! "$JESPAN_CMD" dump -o "$scratch/outside" "$pid" > "$scratch/err" 2>&1 && grep -q 'permission denied' "$scratch/err"; then
        skip "this system lets no process read another"
    fi
    python3 "$sources/report_model.py" "$JESPAN_CMD" "$directory" "$pid" "$@" > "$scratch/out" 2>&1 ||
        fail_with "seed $seed${*:+, $*}: jespan differs from the program's own model" "$scratch/out"
    exec 3>&-
    wait "$pid" || fail "seed $seed: status $?"
}

# With labels that come again on a path, a sample does not say which contexts are above its own
for seed in ${SEEDS:-1}; do
    model "$seed"
    ! at_full_length || model "$((seed + 1))000" once
    model "$((seed + 2))000000" stacks
done
finish
