#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan check`: rules on the memory of spans, exit statuses, and the files for CI.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help check > /dev/null || skip "built without the pprof exporter"
program=$scratch/alerts_program
compile "$program" tests/integration/alerts_program.c
mkdir "$scratch/tmp"
export XDG_RUNTIME_DIR=$scratch TMPDIR=$scratch/tmp
cd "$scratch"

# check OPTION… -- WORD…: checks the program with these words; sets status and the files out and err
check() {
    local options=()
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    status=0
    "$JESPAN_CMD" check "${options[@]}" -- "$program" "$@" > out 2> err || status=$?
}

# has FILE TEXT
has() {
    grep -qF -- "$2" "$1" || fail "$1 has no '$2': $(cat "$1" err)"
}

test_holds() {
    check --max 'work<64M' --max '*<1G' --no-outlived --junit j.xml -- work 8000000 drop
    equal "status" "$status" 0
    has out 'pass  work<64M: '
    has out 'pass  nothing outlives its span: 0 B'
    has j.xml '<testsuite name="jespan check" tests="4" failures="0" errors="0">'
    equal "files that are left" "$(ls -A tmp)" ""
}

# What is in use at exit is always seen: exactly the bound is too much, and one byte less is not.
test_exit() {
    check --max 'session<327680' -- keep 300000
    equal "status of the bound" "$status" 3
    has out 'FAIL  session<327680: 320.0 KiB in process '
    has out '; most by session'
    check --max 'session<327681' -- keep 300000
    equal "status below the bound" "$status" 0
    check --max 'other<1' --max 'work{tenant=b*}<1M' -- work 2000000
    equal "status with a label" "$status" 3
    has out 'pass  other<1: 0 B'
    has out 'most by work > part {tenant=blue}'
    check --max '*<1M' -- work 2000000
    has out '; most by work > part {tenant=blue}' # and not the root, which has nothing itself
}

# The program holds the memory until the dump of the alert is there, and has freed it at exit.
test_before_exit() {
    check --dump-dir kept --max 'work<1M' --max 'work<1G' -- work 8000000 await 'kept/*.alert.pb.gz' drop
    equal "status" "$status" 3
    has out 'FAIL  work<1M: 8.0 MiB in process '
    has out 'pass  work<1G: 8.0 MiB in process '
    has err 'jespan: alert: inuse(work)>=1M: '
}

# Memory that comes and goes at once, beside more contexts than looks for peaks read in other programs.
test_many_contexts() {
    check --max 'work<1M' -- many 40000 work 8000000 drop
    equal "status" "$status" 3
    has out 'FAIL  work<1M: 8.0 MiB in process '
}

# Dumps that JESPAN_CONF would remove or leave out are there: a broken rule never holds because its dump is gone.
test_environment() {
    local key
    for key in dump_keep:1 dump_dir_files:1 dump_dir_bytes:1 dump_format:folded dump_at_exit:false; do
        JESPAN_CONF=$key check --max 'work<1M' --dump-dir "with_$key" -- work 8000000 await "with_$key/*.alert.*" drop
        equal "status with $key" "$status" 3
    done
}

# The files may lie in the directory of the dumps, which need not be there. If nothing is run, it is not left behind.
test_files_in_dump_dir() {
    check --max 'work<64M' --dump-dir new/dumps --junit new/dumps/j.xml --markdown new/dumps/m.md -- work 8000000 drop
    equal "status" "$status" 0
    [ -s new/dumps/j.xml ] && [ -s new/dumps/m.md ] || fail "no file in the directory of the dumps"
    status=0
    "$JESPAN_CMD" check --max 'work<64M' --dump-dir gone --junit gone/j.xml -- ./none > out 2> err || status=$?
    equal "status of no program" "$status" 127
    [ -s gone/j.xml ] || fail_with "no file where there is no program" err
    check --max 'work<64M' --dump-dir not/made --junit nowhere/j.xml -- work 8000000 drop
    equal "status where a file cannot be written" "$status" 125
    [ ! -e not ] || fail "a directory is left behind"
}

test_ignored_signal() {
    status=0
    env --ignore-signal=CHLD "$JESPAN_CMD" check --max 'work<64M' -- sh -c 'exit 9' > out 2> err || status=$?
    equal "status of the program where SIGCHLD is ignored" "$status" 9
}

# The limits of a `jespan run` around it or inside do not keep a short program's dump away.
test_nested() {
    status=0
    "$JESPAN_CMD" run --quiet --dump-dir outer -- "$JESPAN_CMD" check --max 'session<1K' -- "$program" keep 300000 > out 2> err || status=$?
    equal "status in a run" "$status" 3
    has out 'FAIL  session<1K: 320.0 KiB in process '
    status=0
    "$JESPAN_CMD" check --max 'session<1K' -- "$JESPAN_CMD" run --quiet -- "$program" keep 300000 > out 2> err || status=$?
    equal "status of a run in it" "$status" 3
    has out 'FAIL  session<1K: 320.0 KiB in process '
}

test_outlived() {
    check --no-outlived -- plain 100000
    equal "status of memory outside spans" "$status" 0
    check --no-outlived --junit j.xml --markdown m.md -- keep 300000
    equal "status" "$status" 3
    has out 'FAIL  nothing outlives its span: 320.0 KiB'
    has j.xml '<failure message="320.0 KiB in process '
    has m.md '| **fail** | nothing outlives its span | 320.0 KiB in process '
    python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' j.xml || fail "j.xml is no XML"
    check --max 'a&"<1M' --junit j.xml --markdown m.md -- plain 1
    has j.xml 'name="a&#38;&#34;&#60;1M"'
    equal "tables that were added" "$(grep -c '^###' m.md)" 2
    check --max $'\xc3\xa4\xff\x01<1M' --junit j.xml -- plain 1
    has j.xml $'name="\xc3\xa4??&#60;1M"'
}

# The program's status comes before that of the rules.
test_program_status() {
    check --dump-dir seven --max 'work<1K' --junit j.xml -- work 100000 await 'seven/*.alert.pb.gz' exit 7
    equal "status of the program" "$status" 7
    has out 'FAIL  work<1K: '
    has j.xml '<failure message="status 7"/>'
    check --dump-dir killed --max 'work<1K' -- work 100000 await 'killed/*.alert.pb.gz' kill
    equal "status of a program that was killed" "$status" 137
    has out 'FAIL  work<1K: '
    status=0
    "$JESPAN_CMD" check --no-outlived -- ./missing > out 2> err || status=$?
    equal "status without a program" "$status" 127
}

# Without a dump, the files say so. jespan cannot track a static program.
test_no_dump() {
    local program=$scratch/static
    echo 'int main(int argc, char **argv) { return argc > 1 ? argv[1][0] - 48 : 0; }' | $CC -static -x c - -o "$program"
    check --max 'work<1K' --junit j.xml --markdown n.md -- 7
    equal "status of a static program" "$status" 7
    has err 'jespan: nothing was checked: the program left no dump at its end'
    has j.xml 'tests="2" failures="1" errors="1">'
    has j.xml '<error message="the program left no dump at its end"/>'
    has n.md 'Exit status 7. Nothing was checked: the program left no dump at its end.'
    check --max 'work<1K' --
    equal "status if nothing was checked" "$status" 125
}

# These signals go to the program, and the check ends as the program does.
test_terminated() {
    local pid signal
    for signal in 15 1; do
        : > err
        "$JESPAN_CMD" check --max 'work<1K' -- "$program" work 100000 await go > out 2> err &
        pid=$!
        await grep -q alert err
        kill -"$signal" "$pid"
        status=0
        wait "$pid" || status=$?
        equal "status of signal $signal" "$status" $((128 + signal))
        has out 'FAIL  work<1K: '
        equal "files that are left" "$(ls -A tmp)" ""
    done
}

# Nobody reads the pipe. The results are in the file, and the directory is removed.
test_broken_pipe() {
    mkfifo pipe
    # shellcheck disable=SC2094 # the reader is only there while the writer opens the pipe
    exec 3<> pipe 4> pipe 3>&-
    status=0
    "$JESPAN_CMD" check --max 'work<1K' --junit pipe.xml -- "$program" plain 1 >&4 2> err || status=$?
    exec 4>&-
    equal "status" "$status" 1
    has err 'jespan: cannot write the output: '
    has pipe.xml 'failures="0" errors="0"'
    equal "files that are left" "$(ls -A tmp)" ""
}

test_wrong() {
    local rule
    for rule in work '<1M' 'work<' 'work<0' 'work<much' 'a|b<1M' '!a<1M' 'a,b<1M'; do
        check --max "$rule" -- plain 1
        equal "status of '$rule'" "$status" 2
        has err "jespan: --max: '$rule': "
    done
    check -- plain 1
    equal "status without rules" "$status" 2
    has err "jespan: there is no rule; see 'jespan help check'"
    check --no-outlived --junit missing/j.xml -- plain 1
    equal "status of a file that cannot be written" "$status" 125
    check --no-outlived --junit /dev/full -- plain 1
    equal "status of a full disk" "$status" 1
    has err 'jespan: /dev/full: No space left on device'
}

test_holds
test_exit
test_before_exit
test_many_contexts
test_environment
test_files_in_dump_dir
test_ignored_signal
test_nested
test_outlived
test_program_status
test_no_dump
test_terminated
test_broken_pipe
test_wrong
finish
