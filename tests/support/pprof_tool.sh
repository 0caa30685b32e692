# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# For test scripts that use the real google/pprof: $pprof_bin/pprof, built once and kept, and pprof(), which must have
# nothing to say. After lib.sh. Skips the test where it cannot be had.

# shellcheck source=tests/support/fetched.sh
. "$top_srcdir/tests/support/fetched.sh"

PPROF_VERSION=v0.0.0-20260906184651-6331bc6350fe

have go || skip "Go is not installed, so google/pprof cannot be built"
go_minor=$(go env GOVERSION | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
[ "${go_minor:-0}" -ge 25 ] || skip "google/pprof needs Go 1.25, this is $(go env GOVERSION)"

fill_pprof() {
    GOBIN=$1 GOFLAGS='' go install "github.com/google/pprof@$PPROF_VERSION"
}
build_once "pprof-$PPROF_VERSION" fill_pprof
pprof_bin=$built

# pprof must say nothing on stderr: it ends with 0 after many an error.
pprof() {
    local status=0
    "$pprof_bin/pprof" "$@" > "$scratch/shown" 2> "$scratch/said_by_pprof" || status=$?
    [ "$status" = 0 ] || fail_with "pprof $* ended with $status" "$scratch/said_by_pprof"
    [ ! -s "$scratch/said_by_pprof" ] || fail_with "pprof $* has something to say" "$scratch/said_by_pprof"
    cat "$scratch/shown"
}

# raw FILE: a line a sample, "v1 v2 v3 v4 leaf-name", from -raw; of fewer values the rest is missing
raw() {
    pprof -raw "$1" > "$scratch/raw"
    awk '
        /^Samples:/ { part = "samples"; next }
        /^Locations/ { part = "locations"; next }
        /^Mappings/ { part = "" }
        part == "samples" && /^ *-?[0-9]+( +-?[0-9]+)*: / {
            line = $0; sub(/:.*/, "", line); gsub(/^ +/, "", line); gsub(/ +/, " ", line)
            rest = $0; sub(/^[^:]*: */, "", rest); split(rest, ids, " ")
            n++; values[n] = line; leaf[n] = ids[1]
        }
        part == "locations" && /^ *[0-9]+: 0x/ { id = $1; sub(/:/, "", id); name[id] = $4 }
        END { for (i = 1; i <= n; i++) print values[i], name[leaf[i]] }' "$scratch/raw"
}
