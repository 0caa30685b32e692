#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The command: help, usage, completion, and an output that cannot be written.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/command.sh
. "$top_srcdir/tests/support/command.sh"

unset JESPAN_LIB

# completes WORDS WORD… : what bash offers for the last word
completes() {
    local expected=$1
    shift
    # shellcheck disable=SC2016
    equal "completion of '$*'" "$(bash -c '
        . "$0/src/cmd/completion/jespan"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        compopt() { :; }
        _jespan
        echo "${COMPREPLY[*]}"' "$top_srcdir" "$JESPAN_CMD" "$@")" "$expected"
}

test_completion() {
    completes "report" rep
    completes "--dump-dir --dump-on" run --dump
    completes "dump_interval_s:" run --conf dump_int
    completes "dump_interval_s" conf dump_int
    completes "stacks" ctl 1 sta
    completes "leaks" help le
    completes "threads" top --view th
    completes "" run -- /nonexistent
}

test_help_and_usage() {
    jespan --version
    says "--version" 0 ""
    prints "--version" "jespan [0-9]*"
    jespan --help
    says "--help" 0 ""
    prints "--help" "usage: *run*report*"
    jespan help run
    says "help run" 0 ""
    prints "help run" "usage: jespan run *--dump-dir*"
    jespan report --help
    says "report --help" 0 ""
    prints "report --help" "usage: jespan report *"
    for words in "report -h" "report some-file --help" "run -h" "run --interval 5 --help"; do
        # shellcheck disable=SC2086
        jespan $words
        says "$words" 0 ""
        prints "$words" "usage: jespan ${words%% *} *"
    done
    jespan conf 'dump_k*'
    says "conf PATTERN" 0 ""
    prints "conf PATTERN" "dump_keep*default 0"
    jespan conf '*arena'
    prints "conf of Markdown" "arena
    spans with an arena of their own, NAME|NAME=PROPERTY+PROPERTY; a \* stands
    for any text
    a text"
    jespan conf nothing_like_it
    says "conf of no key" 2 "jespan: no key of the configuration matches 'nothing_like_it'"
    jespan
    says "no command" 2 "usage: *"
    jespan frobnicate
    says "unknown command" 2 "jespan: unknown command 'frobnicate'*"
    jespan help frobnicate
    says "help on an unknown command" 2 "jespan: unknown command 'frobnicate'*"
    jespan --frobnicate
    says "unknown option" 2 "jespan: unknown option '--frobnicate'*"
    jespan report
    says "report without a file" 2 "jespan: there is no INPUT*"
    jespan report a b
    says "report with two files" 2 "jespan: there is more than one INPUT*"
    local line words
    for line in "report --nope|unknown option '--nope'" "report --json -xq f|unknown option '-x'" "ps -q|unknown option '-q'" \
        "report --t 5 f|several options begin with '--t'" "report --exact=3 f|'--exact' takes no value" \
        "rss --top|'--top' needs a value" "dump -o|'-o' needs a value" "run --bogus -- true|unknown option '--bogus'" \
        "conf --x|unknown option '--x'" "serve 1 2|there is more than one PID"; do
        words=${line%%|*}
        # shellcheck disable=SC2086
        jespan $words
        says "$words" 2 "jespan: ${line#*|}; see 'jespan help ${words%% *}'"
    done
    local one other formats="--json --csv --markdown --svg --folded"
    for one in $formats; do
        for other in $formats; do
            [ "$one" != "$other" ] || continue
            jespan report "$one" "$other" "$scratch/small"
            says "report $one $other" 2 "jespan: $one and $other cannot go together"
        done
        jespan report "$one" "$one" "$scratch/small"
        says "report $one twice" 0 ""
    done
    jespan report --sort size a
    says "report --sort size" 2 "jespan: --sort: 'size'*"
    jespan report --sort wall "$scratch/small"
    says "report --sort wall of a heap dump" 2 "jespan: *small: a heap profile is sorted by inuse, alloc, objects, allocs, peak, atpeak, temporary or lifetime"
    jespan report --sort inuse "$scratch/times"
    says "report --sort inuse of a dump of times" 2 "jespan: *times: a time profile is sorted by cpu, busy, wall or opens"
    for word in x -1 1.5 4294967296; do
        jespan report --top "$word" a
        says "report --top $word" 2 "jespan: --top: '$word' is not a number from 0 to 4294967295"
    done
    jespan run
    says "run without a program" 2 "jespan: there is no PROGRAM*"
    for interval in x -1 1x "" 99999999999999999999; do
        jespan run --interval "$interval" -- true
        says "run --interval '$interval'" 2 "jespan: --interval: '$interval'*"
    done
    jespan run --interval 0.5 -- true
    says "run --interval 0.5" 2 "jespan: --interval: '0.5' is not a whole number of seconds from 0 to 31536000"
    for bytes in x -1 1x 1KB "" 1025T 99999999999999999999; do
        jespan run --dir-bytes "$bytes" -- true
        says "run --dir-bytes '$bytes'" 2 "jespan: --dir-bytes: '$bytes' is not a number of bytes from 0 to 1024T, such as 500M"
    done
    jespan run --dir-files many -- true
    says "run --dir-files many" 2 "jespan: --dir-files: 'many'*"
}

test_full_disk() {
    for words in --help --version "help report" "report $scratch/small"; do
        status=0
        # shellcheck disable=SC2086
        "$JESPAN_CMD" $words > /dev/full 2> "$scratch/err" || status=$?
        says "$words on a full disk" 1 "jespan: cannot write the output: No space left on device"
    done
    for words in --help "report $scratch/small" "report --svg $scratch/small" "html -o - $scratch/small" "symbolize -o - $scratch/small" conf ps; do
        status=0
        # shellcheck disable=SC2086
        "$JESPAN_CMD" $words >&- 2> "$scratch/err" || status=$?
        says "$words without an output" 1 "jespan: *: Bad file descriptor"
        status=0
        # shellcheck disable=SC2086
        "$JESPAN_CMD" $words > /dev/full 2> "$scratch/err" || status=$?
        says "$words on a full device" 1 "jespan: *: No space left on device"
    done
    "$JESPAN_CMD" report "$scratch/many" 2> "$scratch/err" | head -n 1 > /dev/null || true
    equal "stderr of report | head" "$(cat "$scratch/err")" ""
}

"$make_profile" time small > "$scratch/times"
"$make_profile" small > "$scratch/small"
"$make_profile" rows 30000 > "$scratch/many"
test_help_and_usage
test_completion
test_full_disk
finish
