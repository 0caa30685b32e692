# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For test scripts, beside lib.sh: the real parts that the Pyroscope exporter is tested against. Each is built once, from
# its language's registry, and kept in the cache.
#
# shellcheck disable=SC2034,SC2154 # lib.sh's variables, and what tests read

SERVER_VERSION=v0.37.2
CLIENT_VERSION=1.4.0

# shellcheck source=tests/support/peers.sh
. "$top_srcdir/tests/support/peers.sh"

# ---- The judge: published code of push.v1, see interop/judge/main.go ----

fill_judge() {
    cd "$top_srcdir/tests/interop/judge" && GOWORK=off go build -o "$1/judge" .
}

# Sets $judge, its URL.
start_judge() {
    local sources=$top_srcdir/tests/interop/judge key
    require_go 26 "$sources"
    key=$(cat "$sources"/*.go "$sources"/go.* | sha256sum | cut -c1-16)
    build_once "judge-$key" fill_judge
    rm -f "$scratch/judge.address" # that of the one before
    "$built/judge" > "$scratch/judge.address" 2> "$scratch/judge.log" &
    pids+=($!)
    wait_for "the judge" "$scratch/judge.log" grep -q : "$scratch/judge.address"
    judge=http://$(cat "$scratch/judge.address")
}

# report EXPRESSION: what the judge has added up, as Python sees it in `r`; a list is printed a line each
report() {
    curl -fsS "$judge/report" > "$scratch/report"
    python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
series = list(r["series"].values())
def of(name): return [s for s in series if s["labels"]["__name__"] == name]
value = eval(sys.argv[2])
print(*(value if isinstance(value, list) else [value]), sep="\n")' "$scratch/report" "$1"
}

# ---- The client of Pyroscope's own ----

fill_client() {
    python3 -m venv "$1" && "$1/bin/pip" install -q --only-binary :all: "pyroscope-io==$CLIENT_VERSION"
}

# Sets $client_python.
require_client() {
    python3 -c 'import ensurepip, venv' 2> /dev/null || skip "Python or its venv is missing, so Pyroscope's client cannot be run"
    build_once "pyroscope-io-$CLIENT_VERSION" fill_client
    client_python=$built/bin/python
}

# ---- The last server that the Go module proxy has ----

# Its own dependencies as they are pinned, but for one, whose file for newer compilers lacks two functions.
fill_server() {
    local sources delta
    sources=$(cd "$1" && go mod download -json "github.com/pyroscope-io/pyroscope@$SERVER_VERSION" |
        sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
    cp -r --no-preserve=mode "$sources" "$1/sources"
    cd "$1/sources"
    export GOWORK=off
    go mod download github.com/pyroscope-io/godeltaprof
    delta=$(go list -m -f '{{.Dir}}' github.com/pyroscope-io/godeltaprof)
    cp -r --no-preserve=mode "$delta" "$1/godeltaprof"
    cat > "$1/godeltaprof/internal/pprof/defined.go" << 'END'
package pprof

func runtime_expandFinalInlineFrame(stk []uintptr) []uintptr { return stk }

func runtime_cyclesPerSecond() int64 { return 1 }
END
    go mod edit -replace "github.com/pyroscope-io/godeltaprof=$1/godeltaprof"
    go build -o "$1/pyroscope" ./cmd/pyroscope
    rm -r "$1/sources" "$1/godeltaprof"
}

# Sets $server, its URL.
start_server() {
    local directory=$scratch/server
    require_go 20 /
    build_once "pyroscope-$SERVER_VERSION" fill_server
    mkdir "$directory"
    : > "$directory/server.yml"
    server=http://127.0.0.1:$(free_port)
    "$built/pyroscope" server --config "$directory/server.yml" --api-bind-addr "${server#http://}" \
        --storage-path "$directory/storage" --adhoc-data-path "$directory/adhoc" --admin-socket-path "$directory/socket" \
        --analytics-opt-out --no-self-profiling --no-adhoc-ui --disable-export-to-flamegraph-dot-com \
        > "$directory/log" 2>&1 &
    pids+=($!)
    wait_for "the server" "$directory/log" curl -fsS "$server/healthz"
}

# stored [FROM UNTIL]: for each query on stdin a line of it and of all that the server has for it; of the last hour, or of
# seconds since 1970
stored() {
    python3 -c 'import json, sys, urllib.parse, urllib.request
for query in sys.stdin.read().splitlines():
    q = urllib.parse.urlencode({"query": query, "format": "json", "from": sys.argv[2], "until": sys.argv[3]})
    with urllib.request.urlopen(sys.argv[1] + "/render?" + q) as answer:
        print(query, json.load(answer)["flamebearer"]["numTicks"])' "$server" "${1:-now-1h}" "${2:-now+1m}"
}

# collapsed QUERY: a line a stack
collapsed() {
    curl -fsSG "$server/render" --data-urlencode "query=$1" --data "format=collapsed&from=now-1h&until=now%2B1m"
}
