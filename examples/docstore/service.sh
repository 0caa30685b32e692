# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For scripts: runs docstore under `jespan run` in its own directory.
#
# The caller sets JESPAN_CMD, the command jespan, and DOCSTORE, the program, and may set docstore_options. The directory
# gets dumps/, docstore.db, and the output of the service in out and err.

service_pid=''
service_url=''
docstore_options=()

# service_start DIRECTORY [OPTION OF jespan run…]: sets service_pid and service_url, and returns 0 once it listens
service_start() {
    local directory=$1 tries
    shift
    : > "$directory/out"
    # shellcheck disable=SC2153
    "$JESPAN_CMD" run --quiet --dump-dir "$directory/dumps" "$@" -- "$DOCSTORE" --port 0 --db "$directory/docstore.db" \
        "${docstore_options[@]}" >> "$directory/out" 2> "$directory/err" &
    service_pid=$!
    for ((tries = 0; tries < 6000; tries++)); do
        service_url=$(sed -n 's/.*listening on \([^,]*\),.*/\1/p' "$directory/out")
        [ -z "$service_url" ] || return 0
        kill -0 "$service_pid" 2> /dev/null || break
        sleep 0.1
    done
    echo "docstore did not start:" >&2
    cat "$directory/err" >&2
    return 1
}

# Ends the service if it runs, and returns its exit status.
service_stop() {
    local pid=$service_pid
    [ -n "$pid" ] || return 0
    service_pid=
    kill -TERM "$pid" 2> /dev/null || true
    wait "$pid"
}

# service_dumps DIRECTORY [time]: the complete heap dumps, or time dumps, one per line, the oldest first
service_dumps() {
    find "$1/dumps" -maxdepth 1 -name "${2-heap}.*.pb.gz" | sort -V
}

# service_cache_bytes: the bytes of the cache by the count of the service
service_cache_bytes() {
    curl -fsS "$service_url/stats" | jq .cache.bytes
}

# spans_cache_bytes DUMP: the bytes of the spans of the cache by the count of jespan. Both are equal when the service is
# idle.
spans_cache_bytes() {
    COLUMNS=500 "$JESPAN_CMD" report --bytes "$1" |
        awk '/ cache [{]tenant=/ {bytes += $1} END {print bytes + 0}'
}
