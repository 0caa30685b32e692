#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A Pyroscope server that refuses, hangs, resets, complains, crawls, lies or is gone for a while: the program is not slower for
# it and ends as it would, in time; and when the server is back, it has what the program did, nothing lost or doubled, to
# the byte. Figures and messages say what happened. Credentials and TLS: pyroscope_secrets.sh.
# shellcheck source=tests/support/faults.sh
. "$(dirname "$0")/../support/faults.sh"

compile "$program" tests/integration/pyroscope_program.c -Wno-missing-field-initializers

try_connections() {
    local timeout="Timeout was reached: Operation timed out after [0-9]+ milliseconds with 0 bytes received" name
    local short=pyroscope_timeout_ms:500 reset="the connection ended without an answer: "
    through refuse "" refuse
    through refuse_ingest pyroscope_api:ingest refuse
    through hang $short hang
    through hang_after $short hang_after
    through hang_stored $short 'hang_after&stored=1'
    through reset "" reset
    begin reset_in_body "" run 200 control mode=reset_in_body wait failures 6 control mode=ok run 200 settle figures stats \
        status 7 end
    through reset_stored "" 'reset_after&stored=1'
    finish_cases
    for name in refuse refuse_ingest; do
        failed $name "(Couldn't connect to server|the connection ended without an answer): "
    done
    for name in hang hang_after hang_stored; do
        failed $name "$timeout"
    done
    for name in reset reset_in_body reset_stored; do
        failed $name "$reset"
    done
    backed_off reset_in_body reset_in_body
}

# backed_off NAME MODE: what failed was tried later and later: 50 ms at least, then 100, then 200. The mode was set before
# the first attempt began, so that a server that is slow only makes the sum longer.
backed_off() {
    awk -v mode="$2" '
        NR == FNR { if ($2 == mode) began = $1; next }
        $2 == mode { n++; last = $1 }
        END {
            least = n < 3 ? 99 : 0.15 + 0.2 * (n - 3)
            if (last - began < least) { print n " attempts in " last - began " s, and not in " least; exit 1 }
        }' "$scratch/$1/modes" "$scratch/$1/log" >&2 || fail "$1: it does not back off"
}

# waited NAME SECONDS: nothing was asked of the server for so long after its word
waited() {
    awk -v least="$2" '$2 == "status" { asked = $1; next } asked { if ($1 - asked < least) exit 1; exit }' \
        "$scratch/$1/log" || fail_with "$1: it did not wait for $2 s" "$scratch/$1/log"
}

try_statuses() {
    local n
    through s500 "" 'status&status=500'
    through s503 "" 'status&status=503&stored=1'
    through s429 "" 'status&status=429&retry_after=1&times=1'
    through s503_date "" 'status&status=503&retry_after=date:3&times=1'
    through s503_past "" 'status&status=503&retry_after=date:-86400'
    for n in 400 401 413 422; do
        through s$n "" "status&status=$n"
    done
    through turns "" 'status&status=500' reset 'status&status=500' garbage 'status&status=503' 'status&status=502'
    through s400_ingest pyroscope_api:ingest 'status&status=400'
    finish_cases
    failed s500 "HTTP 500: this is a test"
    failed s503 "HTTP 503: this is a test"
    failed s429 "HTTP 429: this is a test"
    failed s503_date "HTTP 503: this is a test"
    failed s503_past "HTTP 503: this is a test"
    waited s429 1
    waited s503_date 2 # a date is of whole seconds
    for n in 400 413 422; do
        rejected s$n "HTTP $n: this is a test"
    done
    rejected s401 "HTTP 401" # servers quote credentials that they refuse
    rejected s400_ingest "HTTP 400: this is a test"
    survived turns
    said turns 3 "it is tried again, more errors like this are only counted for 10 minutes$"
    equal "s400: IDs that came back" "$(sent_twice s400)" ""
    [ -n "$(sent_twice s500)" ] || fail "s500: what failed came back under another ID"
}

# keeps_connection NAME: not every push had a connection of its own
keeps_connection() {
    local pushes
    pushes=$(wc -l < "$scratch/$1/log")
    [ "$(cat "$scratch/$1/connections")" -lt "$pushes" ] ||
        fail "$1: $(cat "$scratch/$1/connections") connections for $pushes pushes"
}

# A push is over with the head of an answer that accepts it, and the next ones come, however long its body takes: here for
# good. A body that is late does not cost the connection.
try_bodies() {
    local name long=pyroscope_timeout_ms:600000
    begin unended $long control mode=unended run 600 settle figures stats status 7 end
    begin unended_ingest $long,pyroscope_api:ingest control mode=unended run 600 settle figures stats status 7 end
    begin late_body $long control 'mode=unended&pause=0.01' run 600 settle figures stats status 7 end
    begin unended_error pyroscope_timeout_ms:500 run 300 control 'mode=unended&status=503&times=1' meet settle figures stats status 7 end
    finish_cases
    for name in unended unended_ingest late_body; do
        unnoticed $name
        equal "$name: uncertain" "$(stat_of $name uncertain)" 0
    done
    keeps_connection late_body
    failed unended_error "HTTP 503"
}

try_answers() {
    local strange="the answer is not Pyroscope's: " short=pyroscope_timeout_ms:500 name
    through slow_reading $short slow_reading
    through slow_answer $short slow_answer
    through endless "" endless
    through endless_head "" endless_head
    through garbage "" garbage
    through portal "" portal
    through various "" garbage_body broken_gzip http10 bomb
    through various_ingest pyroscope_api:ingest garbage_body broken_gzip http10 bomb
    through close "" close
    finish_cases
    failed slow_reading "Timeout was reached: "
    failed slow_answer "Timeout was reached: "
    failed endless_head "${strange}Too large response headers: "
    failed garbage "Unsupported protocol: Received HTTP/0.9 when not allowed"
    failed portal "${strange}<title>Welcome</title>"
    for name in endless various various_ingest; do
        unnoticed $name
    done
    survived close
    said close 0-1 "Recv failure|Send failure" # the end may come when a request is on its way
}

# The queue is bounded whatever is not to be had, or may be there already: what is in it is merged, and folded.
try_bounds() {
    local i distinct=()
    for ((i = 0; i < 15; i++)); do
        distinct+=(distinct 3000 run 120)
    done
    begin small pyroscope_queue_bytes:65536 run 300 control mode=refuse run 1500 wait merged 5 control mode=ok settle figures stats
    begin small_stored pyroscope_queue_bytes:0 run 300 control 'mode=status&status=500&stored=1' run 1500 wait merged 5 \
        control mode=ok settle figures stats
    begin old pyroscope_queue_age_s:1 run 300 control mode=refuse run 1500 wait merged 5 control mode=ok settle figures stats
    # Contexts are kept, as what is recycled between two readings of a slow machine has no name.
    begin distinct pyroscope_queue_bytes:2000000,pyroscope_max_samples:2000,contexts_kept:1000000,$patient run 200 \
        control 'mode=status&status=429' "${distinct[@]}" wait folded 10000 wait merged 5 control mode=ok settle stats
    begin files "" run 300 control mode=refuse run 300 files control mode=ok meet run 300 stats files settle figures stats
    finish_cases
    for name in small small_stored old distinct; do
        least $name merged 5
    done
    for name in small small_stored old files; do
        unharmed $name
        same_figures $name
    done
    unharmed distinct
    equal "files: the error while there were none" "$(grep -m 1 '^stat last_error' "$scratch/files/out")" \
        "stat last_error Couldn't connect to server"
    most small most_queue_bytes 131072
    most small_stored most_queue_bytes 131072
    most distinct most_queue_bytes 4000000
    most distinct most_own_bytes 64000000
    least distinct folded 10000
    equal "distinct: what was allocated" "$(awk '/^fault_distinct\{.*alloc_objects/ {sum += $NF} END {print sum}' \
        "$scratch/distinct/sums")" 45000
    most_samples=$(sed -n 's/^samples //p' "$scratch/distinct/most")
    [ "$most_samples" -le 2000 ] || fail "distinct: $most_samples samples in a profile"
}

patient=shutdown_timeout_ms:600000,pyroscope_exit_timeout_ms:600000

# That it ends at all shows what it does not wait for: 600 s, after which a case has failed.
try_ends() {
    local away=(run 300 control mode=hang run 600 stats status 7 end) long=pyroscope_timeout_ms:600000
    begin hanging shutdown_timeout_ms:800,$long "${away[@]}"
    begin crawling shutdown_timeout_ms:800,$long run 300 control 'mode=slow_reading&rate=50' status 7 end
    begin refusing $patient run 300 control mode=refuse run 300 stats status 7 end
    begin no_time shutdown_timeout_ms:0,$long "${away[@]}"
    begin no_name $patient,pyroscope_url:http://pyroscope.invalid:PORT run 400 wait failures 1 stats status 7 end
    begin at_once $patient status 7 end
    finish_cases
    for name in hanging crawling refusing no_time no_name at_once; do
        unharmed $name 7
    done
    for name in hanging crawling; do
        [ "$(took_to_end $name)" -ge 500 ] || fail "$name: it took $(took_to_end $name) ms to end"
        said $name 1 '^jespan: pyroscope: .*the program ends before all was pushed: the figures of its last [0-9]+ s may be lost$'
    done
    said refusing 1-2 "^jespan: pyroscope: Couldn't connect to server: .*(; it is tried again|s are lost\$)"
    said no_time 1-2 '^jespan: pyroscope(: the program ends before| took longer than shutdown_timeout_ms)'
    said no_name 1-2 "^jespan: pyroscope: Couldn't resolve host name: Could not resolve host: pyroscope.invalid"
    least no_name queue_length 3
    equal "at_once: pushes" "$(awk '$3 == 200' "$scratch/at_once/log" | wc -l)" 1
}

# sessions NAME: how many processes and sessions pushed
sessions() {
    sed -n 's/.*,__session_id__=\([0-9a-f]*\),.*,pid=\([0-9]*\),.*/\1 \2/p' "$scratch/$1/series" | sort -u |
        awk '{sessions[$1]; pids[$2]} END {print length(sessions), length(pids)}'
}

try_forks() {
    begin fork "" run 300 fork 400 settle figures stats
    begin follow follow_fork:true run 300 fork 400 settle figures stats
    finish_cases
    unharmed fork
    unharmed follow
    same_figures fork
    equal "fork: sessions and processes" "$(sessions fork)" "1 1"
    equal "follow: sessions and processes" "$(sessions follow)" "2 2"
    ! grep -q fault_child "$scratch/fork/sums" || fail "fork: the child pushed"
    equal "follow: the child's" "$(grep fault_child "$scratch/follow/sums" | grep alloc_)" \
        $'fault_child{} alloc_objects 400\nfault_child{} alloc_space 4096000'
    same_figures follow '^fault_child| inuse_' # what it was before the fork was pushed once
}

try_connections
try_statuses
try_bodies
try_answers
try_bounds
try_ends
try_forks
finish
