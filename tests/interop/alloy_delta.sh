#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Grafana Alloy turns the heap profiles that it scrapes into differences, with the package fastdelta, which knows a location
# by its address. The differences are those of the program: each span has its own.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/http.sh
. "$(dirname "$0")/../support/http.sh"
# shellcheck source=tests/support/pprof_tool.sh
. "$(dirname "$0")/../support/pprof_tool.sh"

# Alloy's copy of it is in a module that cannot be fetched; this is where it comes from.
FASTDELTA=github.com/DataDog/dd-trace-go/v2
FASTDELTA_VERSION=v2.12.0

# The package is internal: it becomes part of a module of ours, with the dependencies that its own module has.
fill_delta() {
    local sources package
    cd "$1"
    export GOWORK=off GOFLAGS=-mod=mod
    sources=$(go mod download -json "$FASTDELTA@$FASTDELTA_VERSION" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
    mkdir -p module/profiler/internal
    cp "$top_srcdir/tests/interop/delta/main.go" module/profiler # which may use what is internal there
    for package in fastdelta pproflite pprofutils; do
        cp -r --no-preserve=mode "$sources/profiler/internal/$package" module/profiler/internal
    done
    find module -name '*_test.go' -delete
    sed -i "s|\"$FASTDELTA/|\"delta/v2/|" module/profiler/internal/*/*.go
    cp --no-preserve=mode "$sources/go.mod" "$sources/go.sum" module
    cd module
    go mod edit -module delta/v2
    go build -o ../delta ./profiler
    cd ..
    rm -r module
}

have curl || skip "curl is not installed"
[ -f "$JESPAN_MODULES/http.so" ] || skip "built without the service http"
build_once "fastdelta-$FASTDELTA_VERSION" fill_delta
program=$scratch/http_program
compile "$program" tests/integration/http_program.c

# scrape N: the profile that Alloy gets
scrape() {
    ask /debug/pprof/heap > "$scratch/profile.$1"
    equal "status of scrape $1" "$(cat "$scratch/status")" 200
}

# sums FILE: a line "objects bytes span" for each span, what was allocated; but for ours, which changes with each scrape
sums() {
    raw "$1" | awk '$NF != "(jespan)" { o[$NF] += $1; b[$NF] += $2 } END { for (n in o) if (o[n] || b[n]) print o[n], b[n], n }' | sort
}

# growth OLD NEW: the same of the difference
growth() {
    { raw "$1" | sed 's/^/old /'; raw "$2" | sed 's/^/new /'; } | awk '
        $NF != "(jespan)" { s = $1 == "new" ? 1 : -1; o[$NF] += s * $2; b[$NF] += s * $3 }
        END { for (n in o) if (o[n] || b[n]) print o[n], b[n], n }' | sort
}

start_program http_max_series:100
scrape 0
tell grow 100
scrape 1
tell cycle 5
tell shrink 50
tell grow 7
tell burn 1
scrape 2
scrape 3
"$built/delta" "$scratch/profile.0" "$scratch/profile.1" "$scratch/profile.2" "$scratch/profile.3" > "$scratch/delta" 2>&1 ||
    fail_with "fastdelta refuses it" "$scratch/delta"
equal "the first difference" "$(sums "$scratch/profile.1.delta" | grep -v '^0 0 ')" "100 102400 grow"
equal "the second: cycle" "$(sums "$scratch/profile.2.delta" | grep ' cycle$')" "5 5120 cycle"
equal "the second: grow" "$(sums "$scratch/profile.2.delta" | grep ' grow$')" "7 7168 grow"
for i in 1 2 3; do
    equal "difference $i" "$(sums "$scratch/profile.$i.delta")" "$(growth "$scratch/profile.$((i - 1))" "$scratch/profile.$i")"
done
# What is in use stays as it is.
equal "in use" "$(raw "$scratch/profile.3.delta" | awk '$NF == "grow" { print $3, $4 }')" "57 58368"
end_program

# Where contexts are recycled nothing is told twice, and nothing goes down: what was not told before is in (retired).
start_program max_contexts:64,http_max_series:100
for i in 0 1 2 3; do
    tell cycle 1000
    scrape $i
done
"$built/delta" "$scratch/profile.0" "$scratch/profile.1" "$scratch/profile.2" "$scratch/profile.3" > "$scratch/delta" 2>&1 ||
    fail_with "fastdelta refuses it" "$scratch/delta"
for i in 1 2 3; do
    sums "$scratch/profile.$i.delta" > "$scratch/sums"
    equal "recycled, difference $i" "$(awk '$3 == "cycle" || $3 == "(retired)" { o += $1; b += $2 } END { print o, b }' "$scratch/sums")" \
        "1000 1024000"
    ! grep -q ' -\|^-' "$scratch/sums" || fail_with "recycled, difference $i: less than nothing" "$scratch/sums"
done
end_program
finish
