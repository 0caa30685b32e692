#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Pushing with credentials and by TLS: credentials reach the server and nothing else, neither a message, nor another host, nor
# the output of confirm_conf; a server with the wrong certificate gets nothing.
# shellcheck source=tests/support/faults.sh
. "$(dirname "$0")/../support/faults.sh"
have openssl || skip "openssl is missing"

compile "$program" tests/integration/pyroscope_program.c -Wno-missing-field-initializers
pki=$scratch/pki
mkdir "$pki"

# certificate NAME SUBJECT SAN CA OPTION…: signed by CA, or by itself where that is empty
certificate() {
    local name=$1 subject=$2 san=$3 ca=$4
    shift 4
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$subject" \
        -keyout "$pki/$name.key" -out "$pki/$name.csr" 2> /dev/null
    local signer=(-CA "$pki/$ca.pem" -CAkey "$pki/$ca.key" -CAcreateserial)
    [ -n "$ca" ] || signer=(-signkey "$pki/$name.key")
    openssl x509 -req -in "$pki/$name.csr" "${signer[@]}" -out "$pki/$name.pem" -days "${days:-2}" \
        -extfile <(printf 'subjectAltName=%s\nbasicConstraints=critical,CA:%s\n' "$san" "${is_ca:-FALSE}") 2> /dev/null ||
        { echo "openssl cannot make the certificate $name" >&2 && exit 1; }
}

make_certificates() {
    is_ca=TRUE certificate ca "a CA of the test" DNS:ca.invalid ""
    certificate right localhost DNS:localhost,IP:127.0.0.1 ca
    certificate wrong elsewhere DNS:elsewhere.invalid ca
    days=-1 certificate expired localhost DNS:localhost,IP:127.0.0.1 ca
    certificate own localhost DNS:localhost,IP:127.0.0.1 ""
    certificate client "a client" DNS:client.invalid ca
}

work=(run 300 settle figures stats)
failing=(run 200 wait failures 1 stats)
no_work=(run 200 stats)

try_tls() {
    local https=pyroscope_url:https://localhost:PORT ca=pyroscope_ca_file:$pki/ca.pem
    local no_peer="(it is tried again, more errors like this are only counted for 10 minutes|figures of its last [0-9]+ s (are|may be) lost)$" name
    tls_begin right "$https,$ca" "${work[@]}"
    tls_begin wrong "$https,$ca" "${failing[@]}"
    tls_begin expired "$https,$ca" "${failing[@]}"
    tls_begin own "$https,$ca" "${failing[@]}"
    server=right tls_begin no_ca "$https" "${failing[@]}"
    server=wrong tls_begin insecure "$https,pyroscope_insecure:true" "${work[@]}"
    server=right client=$pki/ca.pem tls_begin no_client "$https,$ca" "${failing[@]}"
    server=right client=$pki/ca.pem tls_begin client \
        "$https,$ca,pyroscope_cert_file:$pki/client.pem,pyroscope_key_file:$pki/client.key" "${work[@]}"
    server=right tls_begin plain_to_tls "$ca" "${failing[@]}"
    begin tls_to_plain "$https,$ca,pyroscope_connect_timeout_ms:300" "${failing[@]}"
    server=right tls_begin no_such_file "$https,pyroscope_ca_file:$pki/missing.pem" "${failing[@]}"
    finish_cases
    for name in right insecure client; do
        unharmed $name
        same_figures $name
    done
    said right 0 .
    said client 0 .
    said insecure 1 '^jespan: pyroscope: pyroscope_insecure: the server.s certificate is not checked$'
    for name in wrong expired own no_ca no_client plain_to_tls tls_to_plain no_such_file; do
        unharmed $name
        least $name failures 1
        equal "$name: pushes" "$(stat_of $name pushes)" 0
        equal "$name: what the server got" "$(cat "$scratch/$name/sums")" ""
        said $name 1-3 "$no_peer"
    done
    for name in wrong expired own no_ca; do
        equal "$name: heads" "$(cat "$scratch/$name/heads")" ""
        grep -qE "certificate|SSL peer" "$scratch/$name/err" || fail_with "$name: why?" "$scratch/$name/err"
    done
}

# tls_begin NAME CONF ACTION…: its server's certificate is that name's, or $server's; it demands one signed by $client
tls_begin() {
    local certificate=${server:-$1}
    server_options=(--cert "$pki/$certificate.pem" --key "$pki/$certificate.key")
    [ -z "${client-}" ] || server_options+=(--client-ca "$client")
    begin "$@"
    server_options=()
}

secrets='s3cret|t0ken|h3ader|pr0xy|czNjcmV0|cHIweHk'

# kept NAME PATTERN: the server saw the pattern in every head, and nobody saw a secret
kept() {
    unharmed "$1"
    [ "$(grep -ciE "$2" "$scratch/$1/heads")" = "$(grep -c '^POST ' "$scratch/$1/heads")" ] ||
        fail_with "$1: heads without $2" "$scratch/$1/heads"
    silent "$1"
}

silent() {
    ! grep -E "$secrets" "$scratch/$1/err" "$scratch/$1/out" >&2 || fail "$1: a secret is shown"
    grep -q '^jespan: pyroscope_url:http' "$scratch/$1/err" || fail "$1: confirm_conf shows nothing"
}

# Basic authentication is base64 of user:password, which is how it stands in $secrets too.
try_credentials() {
    local confirm=confirm_conf:true basic echo echoed
    basic=$(printf 'jo:s3cret' | base64)
    echoed="Authorization:%20Basic%20$basic%20s3cret%20t0ken%20h3ader"
    echo=(run 200 control "mode=status&status=401&text=$echoed" run 100 meet control mode=ok "${work[@]}")
    begin basic "$confirm,pyroscope_user:jo,pyroscope_password:s3cret" "${echo[@]}"
    begin url "$confirm,pyroscope_url:http://jo:s3cret@127.0.0.1:PORT" "${echo[@]}"
    begin bearer "$confirm,pyroscope_token:t0ken" "${echo[@]}"
    begin headers "$confirm,pyroscope_headers:X-One=h3ader|X-Two=two h3ader,pyroscope_tenant:me" "${echo[@]}"
    begin proxy "$confirm,pyroscope_url:http://pyroscope.invalid:80,pyroscope_proxy:http://jo:pr0xy@127.0.0.1:PORT" \
        "${echo[@]}"
    begin proxy_gone "$confirm,pyroscope_url:https://jo:s3cret@pyroscope.invalid,pyroscope_proxy:http://jo:pr0xy@127.0.0.1:1" \
        "${failing[@]}"
    begin bad_proxy "$confirm,pyroscope_proxy:nonsense://jo:pr0xy@127.0.0.1:1" "${no_work[@]}"
    begin bad_proxy_user "$confirm,pyroscope_proxy:nonsense://pr0xy@127.0.0.1:1" "${no_work[@]}"
    begin bad_url "$confirm,pyroscope_url:http://jo:s3cret@127.0.0.1:PORT/?a=b" "${no_work[@]}"
    begin bad_header "$confirm,pyroscope_headers:X One=h3ader" "${no_work[@]}"
    PYROSCOPE_BASIC_AUTH_USER=jo PYROSCOPE_BASIC_AUTH_PASSWORD=s3cret PYROSCOPE_HTTP_HEADERS='{"X-One":"h3ader"}' \
        begin variables "$confirm" "${echo[@]}"
    finish_cases
    kept basic "^Authorization: Basic $basic"
    kept url "^Authorization: Basic $basic"
    kept variables "^Authorization: Basic $basic"
    kept bearer "^Authorization: Bearer t0ken"
    kept headers "^X-Two: two h3ader"
    kept headers "^X-Scope-OrgID: me"
    kept proxy "^Proxy-Authorization: Basic $(printf 'jo:pr0xy' | base64)"
    for name in proxy_gone bad_proxy bad_proxy_user bad_url bad_header; do
        unharmed $name
        silent $name
        n=$(grep -c '^jespan: pyroscope: ' "$scratch/$name/err")
        [ "$n" = 1 ] || { [ $name = proxy_gone ] && [ "$n" = 2 ]; } || fail_with "$name: what is wrong?" "$scratch/$name/err"
    done
    for name in basic url bearer headers proxy variables; do
        same_figures $name
    done
}

# Servers that quote a part of what they refuse, behind other text or not, also without "Basic " before it; and proxies of the
# environment.
try_quotes() {
    local token=glc_t0kenAbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcdefghij long begin=(run 200) end=(run 100 meet control mode=ok "${work[@]}")
    long=$(printf 'x%.0s' $(seq 144))t0kenLong
    begin cut "confirm_conf:true,pyroscope_token:$token" "${begin[@]}" control 'mode=quote&status=400&from=11&to=20' "${end[@]}"
    begin tail "confirm_conf:true,pyroscope_token:$token" "${begin[@]}" control 'mode=quote&status=422&from=50' "${end[@]}"
    begin far "confirm_conf:true,pyroscope_token:$long" "${begin[@]}" control 'mode=quote&status=400&before=440' "${end[@]}"
    begin beyond "confirm_conf:true,pyroscope_token:$long" "${begin[@]}" control 'mode=quote&status=400&before=16300' "${end[@]}"
    begin pair "confirm_conf:true,pyroscope_user:jo,pyroscope_password:s3cretWord" "${begin[@]}"         control 'mode=quote&status=400&from=6' "${end[@]}"
    begin forbidden "confirm_conf:true,pyroscope_token:$token" "${begin[@]}" control 'mode=quote&status=403' "${end[@]}"
    begin word "confirm_conf:true,pyroscope_headers:X-One=h3ader" "${begin[@]}"         control 'mode=status&status=400&text=H3ADER%20is%20bad' "${end[@]}"
    begin harmless "confirm_conf:true,pyroscope_token:$token" "${begin[@]}" control 'mode=status&status=400&text=bad%20label' "${end[@]}"
    https_proxy=http://jo:pr0xyWord@127.0.0.1:1 no_proxy='' begin environment         "confirm_conf:true,pyroscope_url:https://pyroscope.invalid" "${failing[@]}"
    finish_cases
    for name in cut tail far beyond pair forbidden word harmless environment; do
        unharmed $name
        ! grep -iE 't0ken|glc_|xxxx|s3cret|anMz|b3JkIjo|h3ader|pr0xy|[0-9]{6}abc|efghij'             <(grep '^jespan: pyroscope: ' "$scratch/$name/err") >&2 || fail "$name: a part of a secret is shown"
    done
    said_here='^jespan: pyroscope: HTTP'
    for name in cut tail far pair word; do
        equal "$name: lines" "$(grep -cE "$said_here 4[0-9]+: \(the answer is not shown, as it may quote credentials\); " "$scratch/$name/err")" 1
    done
    equal "forbidden: lines" "$(grep -cE "$said_here 403; " "$scratch/forbidden/err")" 1
    equal "beyond: lines" "$(grep -cE "$said_here 400; " "$scratch/beyond/err")" 1
    equal "harmless: lines" "$(grep -cE "$said_here 400: bad label; " "$scratch/harmless/err")" 1
}

# Where a redirect leads elsewhere, by whatever of scheme, host and port, nothing is sent there.
try_redirects() {
    local auth=pyroscope_token:t0ken,confirm_conf:true other name
    start_server other
    other=$port
    for name in 301 302 303 307 308; do
        begin to_$name "$auth" run 200 control "mode=redirect&status=$name&location=http://127.0.0.1:$other/push" meet \
            control mode=ok "${work[@]}"
    done
    begin to_host "$auth" run 200 control "mode=redirect&location=//localhost:$other/" meet control mode=ok "${work[@]}"
    begin to_file "$auth" run 200 control "mode=redirect&location=file:///etc/passwd" meet control mode=ok "${work[@]}"
    begin to_itself "$auth" run 200 control "mode=redirect&location=/push.v1.PusherService/Push&times=2" meet "${work[@]}"
    begin to_itself_forever "$auth" run 200 control "mode=redirect&location=/push.v1.PusherService/Push" meet \
        control mode=ok "${work[@]}"
    finish_cases other
    for name in to_301 to_302 to_303 to_307 to_308 to_host to_file; do
        kept $name "^Authorization: Bearer t0ken"
        same_figures $name
        least $name rejected 1
        grep -q 'pyroscope: a redirect that is not followed' "$scratch/$name/err" || fail_with "$name" "$scratch/$name/err"
    done
    kept to_itself "^Authorization: Bearer t0ken"
    equal "to_itself: failures" "$(stat_of to_itself failures)" 0
    grep -q 'pyroscope: too many redirects; it is tried again' "$scratch/to_itself_forever/err" ||
        fail_with "to_itself_forever" "$scratch/to_itself_forever/err"
    for name in to_itself to_itself_forever; do
        same_figures $name
    done
    equal "what the other host was sent" "$(cat "$scratch/other/heads")" ""
}

make_certificates
try_tls
try_credentials
try_quotes
try_redirects
finish
