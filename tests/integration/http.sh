#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The service http in a program whose bytes are known: every endpoint, who is refused, differences to the byte, and
# counters that only grow while contexts are recycled.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/http.sh
. "$(dirname "$0")/../support/http.sh"

have curl || skip "curl is not installed"
have jq || skip "jq is not installed"
[ -f "$JESPAN_MODULES/http.so" ] || skip "built without the service http"
program=$scratch/http_program
compile "$program" tests/integration/http_program.c

hostile=$'</script><img src=x onerror=alert(1)>"\\\n\xef\xbf\xbd\xf0\x9f\xa6\x80'

# spans FILTER: of /spans, by jq
spans() {
    ask /spans > "$scratch/spans"
    jq -er "$1" "$scratch/spans" 2> "$scratch/jq" || fail_with "jq $1" "$scratch/jq" "$scratch/spans"
}

# metric NAME: the value of one series of /metrics
metric() {
    ask /metrics > "$scratch/metrics"
    name=$1 awk 'index($0, ENVIRON["name"] " ") == 1 { print substr($0, length(ENVIRON["name"]) + 2) }' "$scratch/metrics"
}

# profile_row NAME: "bytes in use, objects, bytes allocated" of the span in the last profile
profile_row() {
    COLUMNS=300 "$JESPAN_CMD" report --exact "$scratch/profile" > "$scratch/report" ||
        fail_with "jespan report cannot read the profile" "$scratch/head"
    awk -v name="$1" '$5 == name { print $1, $3, $4 }' "$scratch/report"
}

# answers PATH TYPE [OPTIONS...]
answers() {
    local path=$1 type=$2
    shift 2
    status_is 200 "$path" "$@"
    equal "type of $path" "$(header Content-Type)" "$type"
    equal "caching of $path" "$(header Cache-Control)" no-store
    equal "sniffing of $path" "$(header X-Content-Type-Options)" nosniff
    equal "length of $path" "$(header Content-Length)" "$(wc -c < "$scratch/body")"
}

check_endpoints() {
    answers /healthz 'text/plain; charset=utf-8'
    equal "/healthz" "$(cat "$scratch/body")" ok
    answers / 'text/plain; charset=utf-8'
    answers /debug/pprof/ 'text/plain; charset=utf-8'
    grep -q '^/debug/pprof/allocs: ' "$scratch/body" || fail_with "the list lacks allocs" "$scratch/body"
    answers /debug/pprof/cmdline 'text/plain; charset=utf-8'
    cmp -s "$scratch/body" <(printf %s "$program") || fail "/debug/pprof/cmdline: $(tr '\0' ' ' < "$scratch/body")"
    answers /debug/pprof/symbol 'text/plain; charset=utf-8'
    answers /metrics 'text/plain; version=0.0.4; charset=utf-8'
    answers /spans 'application/json; charset=utf-8'
    answers '/spans?format=json' 'application/json; charset=utf-8' -H 'Accept: text/html'
    answers /spans 'text/html; charset=utf-8' -H 'Accept: text/html,*/*;q=0.8'
    answers / 'text/html; charset=utf-8' -H 'Accept: text/html'
    local nonce
    nonce=$(header Content-Security-Policy | sed -n "s/.*script-src 'nonce-\([0-9a-f]\{32\}\)'.*/\1/p")
    equal "the page's scripts and styles" "$(grep -c "nonce=\"$nonce\"" "$scratch/body")" 2
    equal "its policy" "$(header Content-Security-Policy)" "default-src 'none'; script-src 'nonce-$nonce'; \
style-src 'nonce-$nonce'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    for name in heap allocs; do
        answers "/debug/pprof/$name" application/octet-stream
        equal "name of $name" "$(header Content-Disposition)" "attachment; filename=\"http_program.$name.pb.gz\""
        is_whole "$scratch/body" || fail "$name is no gzip file"
    done
    curl -sSI --max-time 600 "$base/debug/pprof/profile" > "$scratch/head"
    equal "HEAD" "$(header Content-Disposition)" 'attachment; filename="http_program.profile.pb.gz"'
}

check_refusals() {
    local path
    for path in /nothing /spans/ //spans /../etc/passwd /debug/pprof/../../../etc/passwd /debug/pprof/%2e%2e/heap /etc/passwd; do
        status_is 404 "$path"
    done
    for path in %00 limits%00 limits%00x healthz%00 debug/pprof/heap%00 spans%00?limit=1 'spans?limit=1%00x' %00spans nothing%00; do
        status_is 400 "/$path"
    done
    status_is 404 /limits%2500
    status_is 405 /spans -X POST
    equal "methods" "$(header Allow)" "GET, HEAD"
    status_is 405 /spans -X DELETE
    status_is 405 /metrics -d a=b
    status_is 413 /metrics -X GET -d a=b
    status_is 403 /spans -H 'Host: evil.example'
    status_is 403 /healthz -H 'Host: evil.example:80'
    status_is 200 / --request-target http://localhost/healthz -H 'Host: evil.example'
    status_is 403 / --request-target http://evil.example/healthz
    status_is 400 '/debug/pprof/heap?seconds=0'
    status_is 400 '/debug/pprof/profile?seconds=3601'
    status_is 400 '/spans?limit=x'
}

check_spans() {
    equal "hold" "$(spans '.spans[] | select(.name == "hold") | "\(.inuse_bytes) \(.inuse_objects) \(.opens) " +
        "\(.total.inuse_bytes) \(.total.inuse_objects) \(.labels.tenant) \(.labels.request)"')" "10240 10 1 14336 11 blue 17"
    equal "inside" "$(spans '.spans as $all | .spans[] | select(.name == "inside") | .parent as $p | "\(.inuse_bytes) " +
        ($all[] | select(.id == $p).name)')" "4096 hold"
    equal "a hostile name" "$(spans '.spans[] | select(.inuse_bytes == 2048) | .name')" "$hostile"
    equal "its label" "$(spans '.spans[] | select(.inuse_bytes == 2048) | .labels["k\"\n"]')" $'v\x01'
    equal "the sum" "$(spans '([.spans[].inuse_bytes] | add) == .all.inuse_bytes')" true
    equal "the process" "$(spans '"\(.pid) \(.program) \(.left_out)"')" "$program_pid http_program 0"
    [ "$(spans .resident_bytes)" -gt "$(spans .all.inuse_bytes)" ] || fail_with "resident" "$scratch/spans"
    ask '/spans?limit=1' > "$scratch/spans"
    [ "$(jq .left_out "$scratch/spans")" -gt 3 ] || fail_with "a limit leaves nothing out" "$scratch/spans"
}

check_metrics() {
    equal "metric of hold" "$(metric 'jespan_span_inuse_bytes{span="hold",tenant="blue"}')" 10240
    equal "of inside" "$(metric 'jespan_span_alloc_bytes_total{span="inside",tenant="green"}')" 4096
    equal "of a hostile name" "$(metric 'jespan_span_inuse_bytes{span="</script><img src=x onerror=alert(1)>\"\\\n'$'\xef\xbf\xbd\xf0\x9f\xa6\x80''",tenant="a\"b\\c\nd'$'\xef\xbf\xbd''"}')" 2048
    equal "the sum over spans" "$(awk '/^jespan_span_inuse_bytes[{]/ { s += $NF } END { print s }' "$scratch/metrics")" \
        "$(awk '/^jespan_inuse_bytes / { print $2 }' "$scratch/metrics")"
    ! grep -q 'request=\|="17"' < <(grep '"hold"' "$scratch/metrics") || fail_with "a label that is not listed" "$scratch/metrics"
    have promtool || return 0
    promtool check metrics < "$scratch/metrics" > "$scratch/promtool" 2>&1 || fail_with "promtool" "$scratch/promtool"
    [ ! -s "$scratch/promtool" ] || fail_with "promtool has something to say" "$scratch/promtool"
}

# difference PATH SECONDS [WORD NUMBER]…: has the program do these while a request for a difference waits. A busy machine
# may take longer than SECONDS: then once more, with twice the time.
difference() {
    local path=$1 seconds=$2 began_us i words=("${@:3}")
    while :; do
        began_us=${EPOCHREALTIME/[.,]/}
        begin_waiting "$path?seconds=$seconds"
        for ((i = 0; i < ${#words[@]}; i += 2)); do tell "${words[i]}" "${words[i + 1]}"; done
        [ $((${EPOCHREALTIME/[.,]/} - began_us)) -ge $((seconds * 1000000)) ] || break
        wait "$waiting" || true
        seconds=$((2 * seconds))
    done
    wait "$waiting" || fail "no profile of a difference"
}

check_differences() {
    difference /debug/pprof/heap 1 grow 100 shrink 30
    equal "its name" "$(header Content-Disposition)" 'attachment; filename="http_program.heap-delta.pb.gz"'
    equal "grow meanwhile" "$(profile_row grow)" "71680 70 102400"
    equal "hold meanwhile" "$(profile_row hold)" ""
    difference /debug/pprof/profile 1 burn 300
    gzip -dc "$scratch/profile" > "$scratch/plain" || fail "the profile is cut off"
    grep -qa burn "$scratch/plain" || fail "burn took no CPU time"
    ! grep -qa hold "$scratch/plain" || fail "hold took CPU time after it was closed"
}

# All counters of /metrics, as NAME{LABELS} VALUE
counters() {
    ask /metrics | grep '_total[{ ]' | LC_ALL=C sort > "$1"
}

check_recycling() {
    start_program max_contexts:64,series_labels:request,http_max_series:40
    counters "$scratch/before"
    for _ in 1 2 3 4 5; do
        tell cycle 50
        counters "$scratch/after"
        awk '{ value = $NF; sub(/ [^ ]*$/, "") }
            FNR == NR { was[$0] = value; next }
            { now[$0] = value }
            END {
                for (name in was)
                    if (!(name in now) || now[name] + 0 < was[name] + 0)
                        print name, was[name], now[name]
            }' "$scratch/before" "$scratch/after" > "$scratch/fell"
        [ ! -s "$scratch/fell" ] || fail_with "counters fell" "$scratch/fell"
        mv "$scratch/after" "$scratch/before"
    done
    [ "$(metric jespan_recycled_total)" -gt 100 ] || fail "nothing was recycled"
    equal "series" "$(grep -c '^jespan_span_opens_total{' "$scratch/metrics")" 40
    [ "$(metric jespan_http_folded_total)" -gt 0 ] || fail "no series was left out"
    equal "the sum over all series" \
        "$(awk '/^jespan_span_alloc_bytes_total[{]/ { s += $NF } END { print s }' "$scratch/metrics")" \
        "$(awk '/^jespan_alloc_bytes_total / { print $2 }' "$scratch/metrics")"
    end_program
}

check_token() {
    start_program http_token:se=cret
    status_is 401 /spans
    equal "how" "$(header WWW-Authenticate)" 'Bearer realm="jespan"'
    status_is 401 /spans -H 'Authorization: Bearer se=creT'
    status_is 401 /nothing
    status_is 200 /spans -H 'Authorization: Bearer se=cret'
    status_is 200 /spans -H 'Authorization: Bearer se=cret' -H 'Host: by.name'
    status_is 200 /healthz
    ! grep -q 'cret' "$scratch/said" || fail_with "the token is told" "$scratch/said"
    end_program
}

check_unix_socket() {
    local socket=$scratch/socket
    start_program "http_listen:unix:$socket"
    await [ -S "$socket" ] || fail "there is no socket"
    equal "the socket's mode" "$(stat -c %a "$socket")" 600
    base=http://localhost
    status_is 200 /spans --unix-socket "$socket"
    JESPAN_CONF=module_dir:$JESPAN_MODULES,http_listen:unix:$socket "$program" < /dev/null > "$scratch/out" 2> "$scratch/second"
    equal "a second on the socket" "$(cat "$scratch/second")" \
        "jespan: http_listen: 'unix:$socket': the address is in use; http is left out"
    status_is 200 /spans --unix-socket "$socket"
    end_program
    [ ! -e "$socket" ] || fail "the socket stays when the program ends"
}

check_who_cannot_listen() {
    start_program http_max_series:100
    local used=${base#http://} value
    JESPAN_CONF=module_dir:$JESPAN_MODULES,http_listen:$used "$program" < /dev/null > "$scratch/out" 2> "$scratch/second" ||
        fail "a port in use ends the program"
    equal "a port in use" "$(cat "$scratch/second")" "jespan: http_listen: '$used': the address is in use; http is left out"
    for value in nonsense 1.2.3.4 localhost:x example.org:80 unix:; do
        JESPAN_CONF=module_dir:$JESPAN_MODULES,http_listen:$value "$program" < /dev/null > "$scratch/out" 2> "$scratch/second" ||
            fail "http_listen:$value ends the program"
        equal "lines on $value" "$(grep -c "^jespan: http_listen: '$value': .*; http is left out\$" "$scratch/second")" 1
        equal "all lines on $value" "$(wc -l < "$scratch/second")" 1
    done
    end_program
    # Another user than root may not listen on a low port.
    if [ "$(id -u)" = 0 ] && have setpriv && chmod a+rx "$scratch" && setpriv --reuid 65534 --clear-groups test -x "$program" &&
        setpriv --reuid 65534 --clear-groups test -r "$JESPAN_MODULES/http.so" &&
        [ "$(cat /proc/sys/net/ipv4/ip_unprivileged_port_start)" = 1024 ]; then
        JESPAN_CONF=module_dir:$JESPAN_MODULES,http_listen:127.0.0.1:81 setpriv --reuid 65534 --clear-groups \
            --bounding-set=-all --inh-caps=-all "$program" < /dev/null > "$scratch/out" 2> "$scratch/second"
        equal "a low port" "$(cat "$scratch/second")" "jespan: http_listen: '127.0.0.1:81': permission denied: a port below 1024 needs root or the capability CAP_NET_BIND_SERVICE; http is left out"
    fi
}

is_well() {
    [ "$(ask /healthz)" = ok ]
}

# The child has no part in it, and does not keep the port when its parent has gone. Who waits is told at the end.
check_fork_and_end() {
    start_program http_max_series:100
    tell fork 3
    begin_waiting '/debug/pprof/heap?seconds=600' -w '%{http_code}' > "$scratch/waited"
    local used=$base
    end_program
    wait "$waiting" || fail "who waited was not answered"
    equal "who waited" "$(< "$scratch/waited")" 503
    status_is 000 /healthz
    start_program "http_listen:${used#http://}"
    base=$used
    await is_well || fail_with "the port is not free again" "$scratch/said"
    end_program
}

start_program series_labels:tenant
check_endpoints
check_refusals
check_spans
check_metrics
check_differences
equal "lines on stderr" "$(wc -l < "$scratch/said")" 1
end_program
check_recycling
check_token
check_unix_socket
check_who_cannot_listen
check_fork_and_end
finish
