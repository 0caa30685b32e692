#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Tests docstore under jespan: the status of every kind of request, a bounded number of labels, and a clean end.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../../tests/support/lib.sh"
# shellcheck source=examples/docstore/service.sh
. "$top_srcdir/examples/docstore/service.sh"

DOCSTORE=$top_builddir/examples/docstore/docstore
[ -x "$DOCSTORE" ] || make -s -C "$top_builddir" examples || skip "the example cannot be built"
for tool in curl jq; do
    have $tool || skip "$tool is missing"
done
cleanup_hook=service_stop

# request STATUS PATH [OPTION OF curl…]: the answer is in $scratch/body
request() {
    local expected=$1 path=$2
    shift 2
    equal "$path $*" "$(curl -s -o "$scratch/body" -w '%{http_code}' "$@" "$service_url$path")" "$expected"
}

# filled COUNT CHARACTER
filled() {
    head -c "$1" /dev/zero | tr '\0' "$2"
}

check_documents() {
    request 404 /docs/a/b
    request 201 /docs/a/b -X PUT -d '{"a": [1, 2, {"x": "é\u0000"}]}'
    request 204 /docs/a/b -X PUT -d '{"a": [1, 2, {"x": "some words"}]}'
    request 200 /docs/a/b
    equal "the document" "$(cat "$scratch/body")" '{"a":[1,2,{"x":"some words"}]}'
    request 200 /docs/a/b --head
    request 201 /docs/a/c -d '{"b": "more words"}'
    request 200 '/docs/a?q=words'
    equal "the results" "$(jq -c '[.[].id]' "$scratch/body")" '["b","c"]'
    request 200 '/docs/a?q=words&limit=1'
    equal "the results" "$(jq -c '[.[].id]' "$scratch/body")" '["b"]'
    request 200 '/docs/none?q=%22'
    request 204 /docs/a/b -X DELETE
    request 404 /docs/a/b -X DELETE
    request 404 /docs/a/b
    request 200 /stats
    equal "the number of documents" "$(jq .documents "$scratch/body")" 1
}

check_refusals() {
    local wrong
    for wrong in '' '{"a":' '[1]' '{"a": 1, "a": 2}' "$(filled 5000 '[')"; do
        request 400 /docs/a/wrong -X PUT -d "$wrong"
    done
    for wrong in '?limit=0' '?limit=101' '?limit=x' "?q=$(filled 257 a)"; do
        request 400 "/docs/a$wrong"
    done
    for wrong in / /docs/ /docs/a/b/c /docs/a%20b/c "/docs/a/$(filled 65 a)"; do
        request 404 "$wrong"
    done
    request 405 /docs/a/c -X PATCH
    request 405 /docs/a -X POST -d '{}'
    request 405 /stats -X DELETE
    request 400 /docs/a/c -H 'X-Tenant: a b'
}

check_sizes() {
    (printf '{"a": "' && filled 1000000 a && printf '"}') > "$scratch/large"
    (printf '{"a": "' && filled 1100000 a && printf '"}') > "$scratch/too-large"
    request 201 /docs/a/large -X PUT --data-binary "@$scratch/large"
    request 204 /docs/a/large -X PUT --data-binary "@$scratch/large" -H 'Transfer-Encoding: chunked'
    request 200 /docs/a/large
    request 413 /docs/a/large -X PUT --data-binary "@$scratch/too-large"
    request 413 /docs/a/large -X PUT --data-binary "@$scratch/too-large" -H 'Transfer-Encoding: chunked'
}

# spans ROUTE FIGURE: from the answer in $scratch/body
spans() {
    jq --arg route "$1" --arg figure "$2" '[.routes[] | select(.route == $route) | .[$figure]] | add // 0' "$scratch/body"
}

# Every question is itself a request.
ask_spans() {
    request 200 /spans
    asked=$((asked + 1))
}

# Sends a document, the NUMBER-th that is put. Its second half comes a second after the service knows the first.
put_slowly() {
    local number=$1 port=${service_url##*:} answer tries
    exec 3<> "/dev/tcp/127.0.0.1/$port"
    printf 'PUT /docs/a/slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 10\r\n\r\n{"a":' >&3
    for ((tries = 0; tries < 100; tries++)); do
        ask_spans
        [ "$(spans put requests)" -lt "$number" ] || break
    done
    sleep 1
    printf '"bc"}' >&3
    IFS= read -r -t 600 answer <&3 || answer=nothing
    exec 3>&-
    [[ $answer == *' 20'[14]* ]] || fail "a document that comes slowly: $answer"
}

# wait_until_idle: waits until the service has ended all requests except those that ask, because open requests change
# the times. The last answer is in $scratch/body
wait_until_idle() {
    local before='' now='' tries
    for ((tries = 0; tries < 100; tries++)); do
        ask_spans
        now=$(jq -c '[.routes[] | select(.route != "spans") | [.wall_ns, .alloc_bytes_per_s]]' "$scratch/body")
        [ "$now" != "$before" ] || return 0
        before=$now
    done
    fail "the service is still at work: $now"
}

now_ns() {
    echo "${EPOCHREALTIME/./}000"
}

# Each request is counted. Each waits longer than it works. The bytes of the cache belong to the cache.
check_spans() {
    local asked=0 route figure begin busy wall i
    local -A was=() expected=([get]=5 [put]=3 [search]=2 [delete]=1 [stats]=1 [other]=1)
    begin=$(now_ns)
    wait_until_idle
    for route in "${!expected[@]}" spans; do
        was[$route]=$(spans "$route" requests)
    done
    wall=$(spans put wall_ns) busy=$(spans put busy_ns) asked=0
    for i in 1 2 3 4 5; do
        request 200 /docs/a/c
    done
    request 201 /docs/a/d -X PUT -d '{"a": 1}'
    request 204 /docs/a/d -X PUT -d '{"a": 2}'
    put_slowly $((was[put] + 3))
    request 200 '/docs/a?q=more'
    request 200 '/docs/a?q=less'
    request 204 /docs/a/slow -X DELETE
    request 405 /docs/a -X POST -d '{}'
    request 200 /stats
    cp "$scratch/body" "$scratch/stats"
    wait_until_idle
    expected[spans]=$asked
    for route in "${!expected[@]}"; do
        equal "/spans: requests of $route" $(($(spans "$route" requests) - was[$route])) "${expected[$route]}"
        for figure in wall_ns busy_ns cpu_ns; do
            [ "$(spans "$route" $figure)" -gt 0 ] || fail_with "/spans: $figure of $route" "$scratch/body"
        done
        equal "/spans: mean of $route" "$(spans "$route" mean_wall_ns)" \
            $(($(spans "$route" wall_ns) / $(spans "$route" requests)))
        [ "$(spans "$route" busy_ns)" -le "$(spans "$route" wall_ns)" ] ||
            fail_with "/spans: $route works longer than it takes" "$scratch/body"
        [ "$(spans "$route" outlived_bytes)" -le "$(spans "$route" live_bytes)" ] ||
            fail_with "/spans: $route: more outlived than is live" "$scratch/body"
    done
    wall=$(($(spans put wall_ns) - wall)) busy=$(($(spans put busy_ns) - busy))
    [ $((wall - busy)) -ge 1000000000 ] && [ $wall -le $(($(now_ns) - begin)) ] ||
        fail "/spans: waiting a second for a document makes $wall ns of wall time and $busy busy"
    equal "/spans: bytes of the cache" "$(jq .cache_bytes "$scratch/body")" "$(jq .cache.bytes "$scratch/stats")"
    equal "/spans: what outlived its request" "$(jq '[.routes[].outlived_bytes] | add' "$scratch/body")" 0
    spans_of_put=$(for figure in cpu_ns busy_ns wall_ns requests; do spans put $figure; done)
    equal "/spans: allocation of routes at rest" "$(spans get alloc_bytes_per_s) $(spans put alloc_bytes_per_s)" "0 0"
    request 200 /docs/a/c
    request 200 /spans
    [ "$(spans get alloc_bytes_per_s)" -gt 0 ] || fail_with "/spans: no allocation by get" "$scratch/body"
    request 200 '/spans?format=text'
    grep -q '^get  *[0-9]* ' "$scratch/body" || fail_with "/spans?format=text" "$scratch/body"
    request 200 /spans -H 'Accept: text/plain'
    grep -q '^ROUTE ' "$scratch/body" || fail_with "/spans as text/plain" "$scratch/body"
    request 405 /spans -X POST -d '{}'
}

# A tenant beyond its limit is refused with a message, and served again later. All others are always served. The refused
# requests are a document of many small objects, while it is parsed, and a search with too many results.
check_limits() {
    local i
    (printf '{"a":[' && filled 300000 x | sed 's/x/[],/g' && printf '0]}') > "$scratch/deep"
    request 507 /docs/rogue/deep -X PUT --data-binary "@$scratch/deep" -H 'X-Tenant: rogue'
    equal "the refusal" "$(jq -r .error "$scratch/body")" "out of memory, or the tenant's limit is reached"
    request 201 /docs/rogue/small -X PUT -d '{"a": "small"}' -H 'X-Tenant: rogue'
    for i in {1..9}; do
        request 201 "/docs/rogue/$i" -X PUT --data-binary "@$scratch/large" -H 'X-Tenant: rogue'
    done
    request 507 /docs/rogue?q=a -H 'X-Tenant: rogue'
    request 507 /docs/rogue?q=a -H 'X-Tenant: rogue' --head
    request 200 '/docs/rogue?q=a&limit=1' -H 'X-Tenant: rogue'
    request 200 /docs/rogue/9 -H 'X-Tenant: rogue'
    request 200 /spans -H 'X-Tenant: other-one'
    equal "refused tenants" "$(jq -c '[.tenants[] | select(.refusals > 0) | .tenant]' "$scratch/body")" '["rogue"]'
    equal "what the rogue's requests left" "$(jq '.tenants[] | select(.tenant == "rogue") | .live_bytes' "$scratch/body")" 0
    for i in {1..9} small; do
        request 204 "/docs/rogue/$i" -X DELETE
    done
}

# Starts its own service and load for a few seconds.
check_rogue() {
    local tool
    for tool in wrk python3; do
        have $tool || return 0
    done
    [ -r /usr/share/iso-codes/json/iso_3166-2.json ] || return 0
    export JESPAN_CMD DOCSTORE
    "$top_srcdir/examples/docstore/rogue" --rounds 1 --seconds 3 --runs limited > "$scratch/rogue" 2>&1 ||
        fail_with "one rogue tenant of 100" "$scratch/rogue"
}

# For any names of clients, there are at most 128 tenants and a few for all others.
check_tenants() {
    local i tenants
    for i in {1..140}; do
        printf 'next\nurl = "%s/docs/a/c"\noutput = /dev/null\nheader = "X-Tenant: tenant%s"\n' "$service_url" "$i"
    done | tail -n +2 | curl -s -K - || fail "140 requests"
    service_stop || fail_with "docstore ended with status $?" "$scratch/err"
    COLUMNS=500 "$JESPAN_CMD" report "$(service_dumps "$scratch" | tail -n 1)" > "$scratch/report"
    tenants=$(grep -o 'tenant=tenant[0-9]*' "$scratch/report" | sort -u | wc -l)
    equal "labels of tenants" "$tenants" 124
    grep -q 'tenant=other' "$scratch/report" || fail_with "no tenant=other" "$scratch/report"
}

# The dump of times at the end has the figures of /spans for a route without further requests, except for rounding.
check_times() {
    local dump actual expected
    dump=$(service_dumps "$scratch" time | tail -n 1)
    COLUMNS=500 "$JESPAN_CMD" report --inclusive --exact "$dump" > "$scratch/report"
    actual=$(awk '/ request [{]route=put, / { cpu += $1; busy += $3; wall += $4; n += $5 } END { print cpu, busy, wall, n }' \
        "$scratch/report")
    expected=$(tr '\n' ' ' <<< "$spans_of_put")
    awk -v a="$actual" -v b="$expected" 'BEGIN {
        split(a, x); n = split(b, y)
        for (i = 1; i <= 4; i++) if (x[i] - y[i] > 1e-4 * y[i] || y[i] - x[i] > 1e-4 * y[i]) exit 1
        exit n != 4
    }' || fail_with "put took (cpu, busy, wall, requests) $actual, but /spans said $expected" "$scratch/report"
}

spans_of_put=
docstore_options=(--tenant-mb 8)
service_start "$scratch" --interval 0 --time || fail "docstore did not start"
[ "$failures" = 0 ] || finish
check_documents
check_refusals
check_sizes
check_limits
check_spans
check_tenants
check_times
check_rogue
[ ! -s "$scratch/err" ] || fail_with "something was said on stderr" "$scratch/err"
finish
