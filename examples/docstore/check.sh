#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Tests docstore under jespan: a status for every kind of request, labels that stay few, and an orderly end.
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

# request STATUS PATH [OPTION OF curl…]: what comes back is in $scratch/body
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

# Whatever clients call themselves, there are 16 tenants and "other".
check_tenants() {
    local i tenants
    for i in {1..20}; do
        request 200 /docs/a/c -H "X-Tenant: tenant$i"
    done
    service_stop || fail_with "docstore ended with status $?" "$scratch/err"
    COLUMNS=500 "$JESPAN_CMD" report "$(service_dumps "$scratch" | tail -n 1)" > "$scratch/report"
    tenants=$(grep -o 'tenant=tenant[0-9]*' "$scratch/report" | sort -u | wc -l)
    equal "labels of tenants" "$tenants" 16
    grep -q 'tenant=other' "$scratch/report" || fail_with "no tenant=other" "$scratch/report"
}

service_start "$scratch" --interval 0 || fail "docstore did not start"
[ "$failures" = 0 ] || finish
check_documents
check_refusals
check_sizes
check_tenants
[ ! -s "$scratch/err" ] || fail_with "something was said on stderr" "$scratch/err"
finish
