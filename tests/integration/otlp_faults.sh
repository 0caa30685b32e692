#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# An OpenTelemetry collector that refuses, hangs, complains, drops a part or is gone for a while: the program ends as it would,
# in time; and when the collector is back, it has what the program did, to the byte. pyroscope_faults.sh has more faults of
# what both services have in common.
# shellcheck source=tests/support/faults.sh
. "$(dirname "$0")/../support/faults.sh"

service=otlp
common="record_labels:tenant|span_id,otlp_interval_ms:100,shutdown_timeout_ms:5000,module_dir:$JESPAN_MODULES"
patient=shutdown_timeout_ms:600000,otlp_exit_timeout_ms:600000
compile "$program" tests/integration/pyroscope_program.c -Wno-missing-field-initializers

try_connections() {
    local name short=otlp_timeout_ms:500
    through refuse "" refuse
    through reset_stored "" 'reset_after&stored=1'
    through hang_stored $short 'hang_after&stored=1'
    through portal "" portal
    finish_cases
    failed refuse "(Couldn't connect to server|the connection ended without an answer): "
    failed reset_stored "the connection ended without an answer: "
    failed hang_stored "Timeout was reached: "
    failed portal "the answer is not a collector's: <title>Welcome</title>"
    for name in reset_stored hang_stored; do
        least $name uncertain 1
    done
}

# The specification of OTLP says which statuses may be tried again.
try_statuses() {
    local n
    for n in 400 401 404 408 413 500; do
        through s$n "" "status&status=$n"
    done
    for n in 429 502 503 504; do
        through s$n "" "status&status=$n"
    done
    through words "" 'refusal&status=400&text=no%20pipeline%20for%20profiles'
    finish_cases
    for n in 400 404 408 413 500; do
        rejected s$n "HTTP $n: this is a test"
        equal "s$n: IDs that came back" "$(sent_twice s$n)" ""
    done
    rejected s401 "HTTP 401"
    for n in 429 502 503 504; do
        failed s$n "HTTP $n: this is a test"
    done
    [ -n "$(sent_twice s503)" ] || fail "s503: what failed came back under another ID"
    rejected words "HTTP 400: no pipeline for profiles"
}

# What a collector drops of a push is not sent again. It may also only have something to say.
try_partial() {
    local name
    through partial "" 'partial&n=2&text=too%20old'
    through warned "" 'partial&n=0&text=deprecated'
    through all_right "" 'partial&n=0'
    through unended otlp_timeout_ms:500 unended
    through endless "" endless
    finish_cases
    survived partial
    least partial rejected 1
    equal "partial: failures" "$(stat_of partial failures)" "$(stat_of partial rejected)"
    equal "partial: IDs that came back" "$(sent_twice partial)" ""
    said partial 1 "^jespan: otlp: the collector dropped a part of the push: too old; what it dropped is lost, more errors like this .*\$"
    survived warned
    equal "warned: failures" "$(stat_of warned failures)" 0
    said warned 1 '^jespan: otlp: the collector warns: deprecated, more errors like this are only counted for 10 minutes$'
    unnoticed all_right
    for name in unended endless; do # the rest of the answer is cut off, but the head said that it was stored
        survived $name
        equal "$name: IDs that came back" "$(sent_twice $name)" ""
        equal "$name: failures" "$(stat_of $name failures)" 0
    done
}

try_bounds() {
    begin small otlp_queue_bytes:65536 run 300 control mode=refuse run 1500 wait merged 5 control mode=ok settle figures stats
    finish_cases
    unharmed small
    same_figures small
    most small most_queue_bytes 131072
}

try_ends() {
    local name
    begin hanging shutdown_timeout_ms:800,otlp_timeout_ms:600000 run 300 control mode=hang run 600 stats status 7 end
    begin refusing $patient run 300 control mode=refuse run 300 stats status 7 end
    begin at_once $patient status 7 end
    begin follow follow_fork:true run 300 fork 400 settle figures stats
    finish_cases
    for name in hanging refusing at_once; do
        unharmed $name 7
    done
    said hanging 1 '^jespan: otlp: .*the program ends before all was pushed: the figures of its last [0-9]+ s may be lost$'
    said refusing 1-2 "^jespan: otlp: Couldn't connect to server: .*(; it is tried again|s are lost\$)"
    equal "at_once: pushes" "$(awk '$3 == 200' "$scratch/at_once/log" | wc -l)" 1
    unharmed follow
    same_figures follow '^fault_child| inuse_' # what it was before the fork was pushed once
    equal "follow: processes" "$(grep -o 'process_pid=[0-9]*' "$scratch/follow/series" | sort -u | wc -l)" 2
    equal "follow: the child's" "$(grep fault_child "$scratch/follow/sums" | grep alloc_)" \
        $'fault_child{} alloc_objects 400\nfault_child{} alloc_space 4096000'
}

# A wrong configuration is named, without credentials.
try_configurations() {
    begin no_url otlp_url:ftp://me:secret@host status 7 end
    begin no_header 'otlp_headers:X-Good=1|X-Bad' status 7 end
    begin header 'otlp_headers:X-One=first|Authorization=Bearer s3cret-token' run 200 settle figures stats status 7 end
    finish_cases
    unharmed no_url 7
    unharmed no_header 7
    ! grep -q secret "$scratch/no_url/err" || fail_with "no_url: it shows the password" "$scratch/no_url/err"
    grep -q '^jespan: otlp: otlp_headers: not all of it is NAME=VALUE; nothing is pushed$' "$scratch/no_header/err" ||
        fail_with "no_header: it said" "$scratch/no_header/err"
    unnoticed header
    grep -q '^X-One: first' "$scratch/header/heads" || fail "header: X-One is missing"
    grep -q '^Authorization: Bearer s3cret-token' "$scratch/header/heads" || fail "header: Authorization is missing"
}

try_connections
try_statuses
try_partial
try_bounds
try_ends
try_configurations
finish
