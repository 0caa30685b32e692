#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# One sidecar for a tree of processes: forked children, and programs that are executed in other processes.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null || skip "built without the pprof exporter"
program=$scratch/sidecar_program
compile "$program" tests/integration/sidecar_program.c
export XDG_RUNTIME_DIR=$scratch
cd "$scratch"

# held FILE: "bytes in use, objects" of the span
held() {
    COLUMNS=300 "$JESPAN_CMD" report --exact "$1" > report || fail_with "$1 cannot be read" report
    awk '$5 == "held" { print $1, $3 }' report
}

n_sidecars() {
    local one n=0
    for one in /proc/[0-9]*; do
        [[ $( (tr '\0' ' ' < "$one/cmdline") 2> /dev/null) != "jespan serve --from-run "*"$1 " ]] || n=$((n + 1))
    done
    echo $n
}

# Each child has dumps under its own number, and is waited for at its end as the program is.
test_forked() {
    local dump n=0
    "$JESPAN_CMD" run --quiet --follow-fork --interval 0 --dump-dir forked -- "$program" hold 256 say fork 8 say hold 16 > forked.out
    equal "processes that were forked" "$(wc -l < forked.out)" 9
    while read -r pid; do
        dump=forked/heap.$pid.1.pb.gz
        [ -e "$dump" ] || { fail "no dump of process $pid: $(ls forked)"; continue; }
        equal "process $((++n))" "$(held "$dump")" "$([ $n = 1 ] && echo 1048576 256 || echo 1114112 272)"
    done < forked.out
    equal "dumps" "$(ls forked | wc -l)" 9
    "$JESPAN_CMD" run --quiet --interval 0 --dump-dir unfollowed -- "$program" hold 256 fork 2 hold 16
    equal "dumps without --follow-fork" "$(ls unfollowed | wc -l)" 1
}

# A process of the tree is killed. The others go on, with the same sidecar.
test_killed() {
    local main child
    mkfifo killed.in
    "$JESPAN_CMD" run --quiet --follow-fork --interval 1 --dump-dir killed -- "$program" hold 1 fork 2 hold 256 say wait < killed.in > killed.out &
    main=$!
    pids+=("$main")
    exec {input}> killed.in
    await eval '[ "$(wc -l < killed.out)" = 2 ]'
    { read -r child && read -r other; } < killed.out
    await [ -e "killed/heap.$child.1.pb.gz" ]
    await [ -e "killed/heap.$other.1.pb.gz" ]
    equal "sidecars" "$(n_sidecars "$main")" 1
    kill -9 "$child"
    await [ -e "killed/heap.$child.2.pb.gz" -o -e "killed/heap.$child.2.killed.pb.gz" ] || fail "no last dump of a child"
    exec {input}>&-
    ! wait "$main" || fail "the program does not see how its child ended"
    equal "a child that ends" "$(held "$(ls -v killed/heap."$other".* | tail -n 1)")" "1052672 257"
    await eval '[ "$(n_sidecars "$main")" = 0 ]' || fail "the sidecar stays"
}

# Executed programs have dumps if they lived for a second. Of a hundred helpers, none has. The shell has one if it ends by
# exit(), or was read before it ended by _exit().
test_executed() {
    "$JESPAN_CMD" run --interval 0 --dump-dir executed -- \
        sh -c '"$0" hold 16 say & "$0" hold 32 say; wait' "$program" > executed.out 2> executed.err
    await [ -s executed.err ]
    grep -Eq '; (2 dumps of 2|3 dumps of 3) processes are in ' executed.err || fail_with "the line at the end" executed.err
    for pid in $(cat executed.out); do
        held "executed/heap.$pid.1.pb.gz"
    done | sort -n > executed.held
    equal "executed programs" "$(paste -sd' ' executed.held)" "65536 16 131072 32"
    "$JESPAN_CMD" run --quiet --conf dump_at_exit_min_ms:600000 --dump-dir helpers -- \
        sh -c 'for i in $(seq 100); do "$0" hold 1; done' "$program"
    await eval '[ -n "$(ls helpers)" ]' # some shells end by _exit(), and wait for nobody
    equal "dumps of a script with helpers" "$(ls helpers | wc -l)" 1
}

# The program ends, and leaves a daemon that was executed. It waits for the daemon's line, since the sidecar ends with the
# last program that it knows.
test_daemon() {
    local daemon main
    mkfifo daemon.in daemon.line
    "$JESPAN_CMD" run --quiet --interval 1 --dump-dir daemon -- \
        sh -c '"$0" hold 16 close say wait <&3 > daemon.line & read -r pid < daemon.line; echo "$pid" > daemon.out; exec true' \
        "$program" 3<> daemon.in &
    main=$!
    wait "$main" || fail "the program fails"
    await [ -s daemon.out ]
    daemon=$(cat daemon.out)
    pids+=("$daemon")
    if await compgen -G "daemon/heap.$daemon.2.pb.gz"; then
        kill -9 "$daemon"
        await eval '[ "$(n_sidecars "$main")" = 0 ]' || fail "the sidecar stays"
        equal "a daemon's last dump" "$(held "$(ls -v daemon/heap."$daemon".* | tail -n 1)")" "65536 16"
    else
        fail "no dumps of a daemon"
    fi
}

# One port for all. ?pid= chooses.
test_http() {
    have curl && have jq && [ -f "$JESPAN_MODULES/http.so" ] || return 0
    local main child
    get() {
        curl -s --unix-socket socket "http://localhost$1"
    }
    is_sampled() { # PATH "PID BYTES": what the span "held" has in the last sample
        [ "$(get "$1" | jq -r '(.contexts[] | select(.name == "held").number) as $held
            | "\(.pid) \(.samples[-1].totals[] | select(.[0] == $held)[1])"')" = "$2" ]
    }
    mkfifo http.in
    JESPAN_CONF=http_history_s:1 "$JESPAN_CMD" run --quiet --follow-fork --http "unix:$scratch/socket" -- "$program" say hold 16 fork 1 say hold 256 wait < http.in > http.out &
    pids+=($!)
    exec {input}> http.in
    await eval '[ "$(wc -l < http.out)" = 2 ]'
    { read -r main && read -r child; } < http.out
    await eval '[ "$(get /processes | jq ".processes | length")" = 2 ]' || fail "not all processes are served"
    equal "/processes" "$(get /processes | jq -r '.processes[] | "\(.pid) \(.program)"')" "$main sidecar_program"$'\n'"$child sidecar_program"
    of_span='"\(.pid)", (.spans[] | select(.name == "held").inuse_bytes)'
    equal "/spans" "$(get /spans | jq -r "$of_span")" "$main"$'\n'65536
    equal "/spans of a child" "$(get "/spans?pid=$child" | jq -r "$of_span")" "$child"$'\n'1114112
    equal "/debug/pprof/cmdline of a child" "$(get "/debug/pprof/cmdline?pid=$child" | tr '\0' ' ')" "$program say hold 16 fork 1 say hold 256 wait"
    get "/debug/pprof/heap?pid=$child" > heap.pb.gz
    equal "/debug/pprof/heap of a child" "$(held heap.pb.gz)" "1114112 272"
    await is_sampled "/history?pid=$child" "$child 1114112" || fail "the history of a child is wrong"
    await is_sampled /history "$main 65536" || fail "the history of the first process is wrong"
    for wrong in 1 0 x "$$" ''; do
        equal "/spans?pid=$wrong" "$(curl -s -o wrong -w '%{http_code}' --unix-socket socket "http://localhost/spans?pid=$wrong")" 404
    done
    exec {input}>&-
    wait "${pids[-1]}" || fail "the program fails"
}

# A process that executes another program begins a new history. HTTP was asked about another process in between, so the sidecar
# has freed what it knew of the program before, and the next program may get that memory.
test_history_of_exec() {
    have curl && have jq && [ -f "$JESPAN_MODULES/http.so" ] || return 0
    local main other
    # past PID FILTER: what jq finds in the history
    past() {
        curl -s --unix-socket past "http://localhost/history?pid=$1" | jq -r "$2"
    }
    has_samples() {
        local n
        n=$(past "$1" '.samples | length')
        [ "${n:-0}" -ge 2 ]
    }
    is_new() {
        [ "$(past "$main" '.samples[0].events[0].kind')" = program ]
    }
    mkfifo exec.in other.in
    # shellcheck disable=SC2016
    JESPAN_CONF=http_history_s:1 "$JESPAN_CMD" run --quiet --follow-fork --http "unix:$scratch/past" -- \
        sh -c '"$0" say wait <&3 > other.out & echo $$; read -r line; exec "$0" hold 16 wait 3<&-' "$program" 3< other.in < exec.in > exec.out &
    pids+=($!)
    exec {other_input}> other.in {input}> exec.in
    await [ -s exec.out -a -s other.out ]
    main=$(cat exec.out) other=$(cat other.out)
    await has_samples "$main" || fail "the shell has no history"
    await has_samples "$other" || fail "the other process has no history"
    echo >&"$input"
    await is_new || fail "the history goes on in another program"
    equal "programs in the history" "$(past "$main" '[.contexts[] | select(.kind == "root")] | length')" 1
    exec {input}>&- {other_input}>&-
    wait "${pids[-1]}" || fail "the program fails"
}

test_forked
test_killed
test_executed
test_daemon
test_http
test_history_of_exec
finish
