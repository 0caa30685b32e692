# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For test scripts: where things are, a scratch directory, compiling a helper, and checks that say what failed.
#
# make check sets the variables; by hand, run a script from the build directory.

set -euo pipefail

top_srcdir=${top_srcdir:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
top_builddir=${top_builddir:-$PWD}
JESPAN_LIB=${JESPAN_LIB:-$top_builddir/.libs/libjespan.so}
JESPAN_MODULES=${JESPAN_MODULES:-$top_builddir/exporters/.libs}
JESPAN_CMD=${JESPAN_CMD:-$top_builddir/jespan}
CC=${CC:-cc}
CXX=${CXX:-c++}
export LC_ALL=C
unset JESPAN_CONF MALLOC_CONF LD_PRELOAD

scratch=$(mktemp -d "${TMPDIR:-/tmp}/jespan-test.XXXXXX")
failures=0
cleanup_hook=:
pids=() # programs of the test in the background: they end with it

end_programs() {
    [ ${#pids[@]} -gt 0 ] || return 0
    {
        kill -KILL "${pids[@]}"
        wait "${pids[@]}"
    } 2> /dev/null || true
}

cleanup() {
    local status=$?
    $cleanup_hook || true
    end_programs
    rm -rf "$scratch"
    exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

fail() {
    echo "${0##*/}: failed: $*" >&2
    failures=$((failures + 1))
}

# fail_with FILE... : the same, and shows the ends of the files
fail_with() {
    local message=$1 file
    shift
    fail "$message"
    for file in "$@"; do
        echo "--- ${file##*/}" >&2
        tail -n 30 "$file" >&2 || true
    done
}

skip() {
    echo "${0##*/}: skipped: $*"
    exit 77
}

finish() {
    if [ "$failures" -gt 0 ]; then
        echo "${0##*/}: $failures checks failed" >&2
        exit 1
    fi
    exit 0
}

# equal WHAT ACTUAL EXPECTED
equal() {
    if [ "$2" != "$3" ]; then
        fail "$1"$'\n'"  is:        $2"$'\n'"  should be: $3"
    fi
}

have() {
    command -v "$1" > /dev/null 2>&1
}

# need PROGRAM...: without them the test is skipped
need() {
    local program
    for program; do
        have "$program" || skip "$program is not installed"
    done
}

# Whether long tests are to do all that they can: see tools/test.
at_full_length() {
    [ "${TEST_PERCENT:-100}" -ge 100 ]
}

# await COMMAND…: waits until it succeeds, in silence; fails where it did not in 600 s
await() {
    local end=$((SECONDS + 600))
    until "$@" > /dev/null 2>&1; do
        [ "$SECONDS" -le "$end" ] || return 1
        sleep 0.05
    done
}

# await_of PID COMMAND…: the same, and fails at once where the process, a child of this one, has ended
await_of() {
    local pid=$1 end=$((SECONDS + 600)) lives=1
    shift
    until "$@" > /dev/null 2>&1; do
        [ -n "$lives" ] && [ "$SECONDS" -le "$end" ] || return 1
        kill -0 "$pid" 2> /dev/null || lives= # what it did before it ended counts: once more
        sleep 0.05
    done
}

# remove DIRECTORY: also one in which a program writes
remove() {
    until rm -rf "$1" 2> "$scratch/rm.err"; do :; done
}

# sidecar_of PID: the process, "" if there is none
sidecar_of() {
    local one
    for one in /proc/[0-9]*; do
        case $( (tr '\0' ' ' < "$one/cmdline") 2> /dev/null) in
            "jespan serve --from-run $1 " | "jespan serve --from-run --quiet $1 ") echo "${one#/proc/}" ;;
        esac
    done
}

# compile OUTPUT SOURCE.c [FLAGS...]: a helper that is linked with the library under test
compile() {
    local output=$1 source=$2
    shift 2
    # shellcheck disable=SC2086
    $CC -std=gnu11 -O1 -g -Wall -Wextra -fno-builtin -I"$top_srcdir/include" -o "$output" "$top_srcdir/$source" \
        -L"${JESPAN_LIB%/*}" -Wl,-rpath,"${JESPAN_LIB%/*}" -ljespan -lpthread "$@"
}

# preloaded COMMAND...: under the library
preloaded() {
    LD_PRELOAD=$JESPAN_LIB "$@"
}

# dumps_in DIRECTORY: the names of whole dumps, one a line
dumps_in() {
    find "$1" -maxdepth 1 -name 'heap.*.pb.gz' -printf '%f\n' | sort -V
}

# is_whole FILE: a complete gzip stream that is not empty
is_whole() {
    gzip -t "$1" 2> /dev/null && [ "$(gzip -dc "$1" | wc -c)" -gt 0 ]
}
