# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# For test scripts, after lib.sh: servers of others, which are built in Go.

# shellcheck source=tests/support/fetched.sh
. "$top_srcdir/tests/support/fetched.sh"

unset "${!PYROSCOPE_@}" "${!OTEL_@}" http_proxy HTTP_PROXY all_proxy ALL_PROXY
export GOFLAGS=''

# require_go MINOR DIRECTORY: the Go that builds what is in the directory; it may bring a newer one by itself
require_go() {
    local minor
    have go || skip "Go is not installed, so what it pushes to cannot be built"
    minor=$(cd "$2" && GOWORK=off go env GOVERSION 2> /dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
    [ "${minor:-0}" -ge "$1" ] || skip "what it pushes to needs Go 1.$1, this is $(cd / && go env GOVERSION)"
}

# wait_for WHAT LOG COMMAND…: until it succeeds
wait_for() {
    local what=$1 log=$2
    shift 2
    await "$@" && return
    fail_with "$what does not start" "$log"
    finish
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
