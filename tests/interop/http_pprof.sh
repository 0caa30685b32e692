#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The real google/pprof fetches profiles over HTTP, as from a program in Go. The figures equal the program's to the byte,
# also differences below 0, and pprof writes no warning.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/http.sh
. "$(dirname "$0")/../support/http.sh"
# shellcheck source=tests/support/pprof_tool.sh
. "$(dirname "$0")/../support/pprof_tool.sh"

have curl || skip "curl is not installed"
[ -f "$JESPAN_MODULES/http.so" ] || skip "built without the service http"
program=$scratch/http_program
compile "$program" tests/integration/http_program.c
export PPROF_TMPDIR=$scratch

# fetch FILE PATH: pprof itself asks, and writes what it got; of what it says, all but where it fetches from and saves to
fetch() {
    "$pprof_bin/pprof" -proto -output="$1" "$base$2" > "$scratch/shown" 2> "$scratch/said_by_pprof" ||
        fail_with "pprof cannot fetch $2" "$scratch/said_by_pprof"
    grep -vE '^(Fetching profile over HTTP from|Saved profile in|Generating report in) |^Please wait\.\.\.' "$scratch/said_by_pprof" > "$scratch/rest" || true
    [ ! -s "$scratch/rest" ] || fail_with "pprof on $2" "$scratch/rest"
}

row() {
    awk -v name="$1" '$NF == name' "$scratch/samples"
}

start_program http_max_series:100
tell grow 100

fetch "$scratch/heap" /debug/pprof/heap
raw "$scratch/heap" > "$scratch/samples"
equal "heap: hold" "$(row hold)" "10 10240 10 10240 hold"
equal "heap: grow" "$(row grow)" "100 102400 100 102400 grow"
pprof -top "$scratch/heap" > "$scratch/top"
grep -q '^Type: inuse_space$' "$scratch/top" || fail_with "heap: another default" "$scratch/top"

fetch "$scratch/allocs" /debug/pprof/allocs
pprof -top "$scratch/allocs" > "$scratch/top"
grep -q '^Type: alloc_space$' "$scratch/top" || fail_with "allocs: another default" "$scratch/top"
raw "$scratch/allocs" > "$scratch/samples"
equal "allocs: inside" "$(row inside)" "1 4096 1 4096 inside"

fetch "$scratch/heap" '/debug/pprof/heap?seconds=3' &
fetching=$!
sleep 1
tell grow 20
tell shrink 50
wait "$fetching"
raw "$scratch/heap" > "$scratch/samples"
equal "in 3 seconds: grow" "$(row grow)" "20 20480 -30 -30720 grow"
equal "in 3 seconds: hold" "$(row hold)" ""

fetch "$scratch/profile" '/debug/pprof/profile?seconds=3' &
fetching=$!
sleep 1
tell burn 300
wait "$fetching"
raw "$scratch/profile" > "$scratch/samples"
[ "$(row burn | cut -d' ' -f1)" -ge 300000000 ] || fail_with "burn took less than it did" "$scratch/samples"
[ "$(row burn | cut -d' ' -f1)" -lt 400000000 ] || fail_with "burn took more than it did" "$scratch/samples"
pprof -top "$scratch/profile" > "$scratch/top"
grep -q '^Type: cpu$' "$scratch/top" || fail_with "profile: another type" "$scratch/top"
grep -q '^.*Duration: 3' "$scratch/top" || fail_with "profile: another time" "$scratch/top"
[ "$failures" = 0 ] || cat "$scratch/said" >&2
end_program

# labels_of FILE: "KEY VALUE" of each label that a sample has, one a line
labels_of() {
    pprof -raw "$1" | grep -o "[a-z]*:\[[^]]*\]" | tr ":[]" "   " | sort -u
}

# Labels that are not listed are not there, and samples that differ in them only are one; unless they are asked for.
start_program http_max_series:100,series_labels:tenant
tell cycle 50
fetch "$scratch/listed" /debug/pprof/heap
labels_of "$scratch/listed" > "$scratch/labels"
equal "listed labels" "$(cut -d' ' -f1 "$scratch/labels" | sort -u)" tenant
raw "$scratch/listed" > "$scratch/samples"
equal "listed: cycle" "$(row cycle)" "50 51200 0 0 cycle"
equal "listed: hold" "$(row hold)" "10 10240 10 10240 hold"
fetch "$scratch/all" '/debug/pprof/heap?labels=all'
equal "all labels" "$(labels_of "$scratch/all" | cut -d" " -f1 | grep . | sort -u | tr "\n" " ")" "request tenant "
raw "$scratch/all" > "$scratch/samples"
equal "all: cycle" "$(row cycle | sort -u)" "1 1024 0 0 cycle"
equal "all: samples of cycle" "$(row cycle | wc -l)" 50
fetch "$scratch/none" '/debug/pprof/allocs?labels=all&seconds=1'
equal "in a second: cycle" "$(raw "$scratch/none" | awk '$NF == "cycle"')" ""
end_program

# The same where allocations have stacks, whose figures since the program began are not those of a second.
start_program http_max_series:100,stacks:all
tell cycle 50
fetch "$scratch/all" '/debug/pprof/allocs?labels=all'
grep -q cycle < <(raw "$scratch/all") || fail "no stacks"
fetch "$scratch/none" '/debug/pprof/allocs?labels=all&seconds=1'
equal "in a second, with stacks: cycle" "$(raw "$scratch/none" | grep cycle)" ""
end_program
finish
