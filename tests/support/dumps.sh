# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# For tests of dumps: a program, $program, that does what its arguments say, with an empty directory $dir for dumps. After lib.sh.

# compile_dumping PROGRAM
compile_dumping() {
    program=$scratch/$1
    dir=$scratch/dumps
    compile "$program" "tests/integration/$1.c"
}

# run CONF ACTION...: its status in $status, its output in out and err; $pid is the last one that it says
run() {
    local conf=module_dir:$JESPAN_MODULES,$1
    shift
    rm -rf "$dir"
    mkdir "$dir"
    status=0
    JESPAN_CONF=$conf "$program" "$@" > "$scratch/out" 2> "$scratch/err" || status=$?
    pid=$(sed -n 's/^pid \([0-9]*\).*/\1/p' "$scratch/out" | tail -n 1)
}
