# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For scripts that push to fault_server.py: cases, each with a server and a program of its own, side by side, and what can be
# checked of any of them afterwards.
# shellcheck source=tests/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

program=$scratch/program
cases=() # that run

unset http_proxy https_proxy all_proxy no_proxy HTTPS_PROXY ALL_PROXY NO_PROXY
have python3 || skip "python3 is missing"
have curl || skip "curl is missing"

# start_server NAME [OPTION…]: its files are in $scratch/NAME; sets $port and $control
start_server() {
    local directory=$scratch/$1
    shift
    mkdir -p "$directory"
    python3 -B "$top_srcdir/tests/support/fault_server.py" "$directory/ports" "$@" > "$directory/server" 2>&1 &
    pids+=($!)
    await [ -s "$directory/ports" ] || true
    read -r port control < "$directory/ports" || { cat "$directory/server" >&2 && exit 1; }
}

# ask NAME PATH: what the server's control answers
ask() {
    local port control
    read -r port control < "$scratch/$1/ports"
    curl -s --noproxy '*' "http://127.0.0.1:$control/$2"
}

# The service that pushes.
service=pyroscope

# What each case has in its configuration; later words win. Machines may be busy, so only who waits for a time-out has a
# short one.
common="pyroscope_app:faults,series_labels:tenant|span_id,pyroscope_interval_ms:100,shutdown_timeout_ms:5000"
common+=",pyroscope_inuse_interval_ms:0"
common+=",module_dir:$JESPAN_MODULES"
server_options=()

# begin NAME CONF ACTION…: starts a case; PORT in the configuration stands for that of its server. Without a URL there it is
# that server's.
begin() {
    local name=$1 conf=$2 directory=$scratch/$1 port control
    shift 2
    start_server "$name" "${server_options[@]}"
    conf="${service}_url:http://127.0.0.1:$port,$conf"
    conf=$common,${conf//PORT/$port}
    cases+=("$name")
    (
        status=0
        FAULT_SERVICE=$service FAULT_CONTROL=$control JESPAN_CONF=$conf timeout "${case_seconds:-600}" "$program" "$@" > "$directory/out" 2> "$directory/err" ||
            status=$?
        echo "$status ${EPOCHREALTIME/[.,]/}" > "$directory/status"
    ) &
    echo $! > "$directory/pid"
}

# finish_cases [SERVER…]: waits for the cases that were begun, and keeps what their servers know, and those.
finish_cases() {
    local name what
    for name in "${cases[@]}"; do
        wait "$(cat "$scratch/$name/pid")" || true
    done
    for name in "${cases[@]}" "$@"; do
        for what in sums log modes heads series wrong most connections; do
            ask "$name" "$what" > "$scratch/$name/$what"
        done
    done
    end_programs
    pids=() cases=()
}

# stat NAME WHAT: of the figures of the service at the time of `stats`
stat_of() {
    sed -n "s/^stat $2 //p" "$scratch/$1/out" | tail -n 1
}

# least NAME WHAT N, most NAME WHAT N: bounds of a figure in stats
least() {
    [ "$(stat_of "$1" "$2")" -ge "$3" ] || fail "$1: $2 is $(stat_of "$1" "$2"), less than $3"
}
most() {
    [ "$(stat_of "$1" "$2")" -le "$3" ] || fail "$1: $2 is $(stat_of "$1" "$2"), more than $3"
}

# Of what the program did, by its own words: sums by the key, without those of nothing.
own_figures() {
    sed -n 's/^figure //p' "$scratch/$1/out" |
        awk '{n = $NF; sub(/ [0-9]+$/, ""); sum[$0] += n} END {for (key in sum) if (sum[key]) print key, sum[key]}' | sort
}

# same_figures NAME [PATTERN]: what the server accepted is what the program did, to the byte, and to a nanosecond or so, as
# ticks are turned into nanoseconds anew each time; but for lines with the pattern. CPU time may be put right after it was told,
# when a thread turns out to have been preempted: then the server has a little more for good.
same_figures() {
    own_figures "$1" | grep -vE "${2-^$}" > "$scratch/$1/own" || true
    grep '^fault_' "$scratch/$1/sums" | grep -vE "${2-^$}" > "$scratch/$1/accepted" || true
    [ -s "$scratch/$1/own" ] || fail "$1: the program has no figures"
    awk '{ n = $NF; kind = $(NF - 1); sub(/ [0-9]+$/, "") }
        NR == FNR { own[$0] = n; next }
        { off = n - own[$0]; leave = kind == "wall" || kind == "cpu" ? 5 + n / 10000 : 0 }
        off > leave + (kind == "cpu" ? 2e7 : 0) || off < -leave { print $0 ": " n ", and the program has " own[$0] + 0 }
        { delete own[$0] }
        END { for (key in own) print key ": none, and the program has " own[key] }' \
        "$scratch/$1/own" "$scratch/$1/accepted" > "$scratch/$1/difference"
    [ ! -s "$scratch/$1/difference" ] ||
        fail_with "$1: the server has other sums than the program" "$scratch/$1/difference" "$scratch/$1/err"
}

# unharmed NAME [STATUS]: its own status, and nothing wrong was sent. A thread of the program that waited for the server would
# hang where pyroscope_timeout_ms is 600000: then the case's status is 124.
unharmed() {
    local status end
    read -r status end < "$scratch/$1/status"
    equal "$1: status" "$status" "${2-0}"
    [ "$status" = "${2-0}" ] || fail_with "$1: it said" "$scratch/$1/err"
    equal "$1: what was wrong" "$(head -n 5 "$scratch/$1/wrong")" ""
}

# said NAME N PATTERN: that many lines on stderr match (a digit, or a range of digits), and there are no others
said() {
    [[ $(grep -cE "$3" "$scratch/$1/err" || true) =~ ^[$2]$ ]] || fail_with "$1: not $2 lines like $3" "$scratch/$1/err"
    equal "$1: other lines" "$(grep -vE "$3" "$scratch/$1/err" | head -n 3 || true)" ""
}

# took_to_end NAME: milliseconds from the program's last action to the end of the process
took_to_end() {
    local status end
    read -r status end < "$scratch/$1/status"
    echo $(((end - $(sed -n 's/^end //p' "$scratch/$1/out")) / 1000))
}

# ---- Cases, and what must hold of them ----

# through NAME CONF MODE…: quiet work, work under each mode, and quiet work again
through() {
    local name=$1 conf=$2 mode actions=()
    shift 2
    for mode; do
        actions+=(control "mode=$mode" run 200 meet)
    done
    begin "$name" "$conf" run 200 "${actions[@]}" control mode=ok run 200 settle figures stats status 7 end
}

# survived NAME: it is as if nothing had happened
survived() {
    unharmed "$1" 7
    same_figures "$1"
    equal "$1: last_status" "$(stat_of "$1" last_status)" 200
    equal "$1: last_error" "$(stat_of "$1" last_error)" ""
    equal "$1: folded" "$(stat_of "$1" folded)" 0
}

# failed NAME MESSAGE: the same after failures that pass
failed() {
    survived "$1"
    least "$1" failures 1
    equal "$1: rejected" "$(stat_of "$1" rejected)" 0
    said "$1" 1-2 "^jespan: $service: $2.*; it is tried again, more errors like this are only counted for 10 minutes\$"
}

# rejected NAME MESSAGE: the same after requests that were refused for good: none went out twice as it was
rejected() {
    survived "$1"
    least "$1" rejected 1
    equal "$1: failures" "$(stat_of "$1" failures)" "$(stat_of "$1" rejected)"
    least "$1" merged "$(stat_of "$1" rejected)" # more, if the server has no processor for long
    said "$1" 1 "^jespan: $service: $2.*; its figures go into the next push, more errors like this are only counted for 10 minutes\$"
}

# unnoticed NAME: the same after answers with which an exporter can live
unnoticed() {
    survived "$1"
    equal "$1: failures" "$(stat_of "$1" failures)" 0
    said "$1" 0 .
}

# sent_twice NAME: IDs
sent_twice() {
    cut -d ' ' -f 5 "$scratch/$1/log" | sort | uniq -d | grep -v '^-$' || true
}
