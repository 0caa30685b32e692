#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The sidecar: what it leaves of programs that end in every way, what a program can notice of it, and `jespan serve`.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null || skip "built without the pprof exporter"
program=$scratch/sidecar_program
compile "$program" tests/integration/sidecar_program.c
export XDG_RUNTIME_DIR=$scratch
cd "$scratch"

kills=${SIDECAR_KILLS:-50}

# begin NAME ACTION…: the program under a sidecar, with dumps in NAME; sets pid and sidecar. Its input is open until `release`.
begin() {
    local name=$1
    shift
    rm -f "$name.in" && mkfifo "$name.in"
    "$JESPAN_CMD" run --dump-dir "$name" "${options[@]}" -- "$program" "$@" < "$name.in" > "$name.out" 2> "$name.err" &
    pid=$! # run becomes the program
    pids+=("$pid")
    exec {input}> "$name.in"
    await [ -s "$name.out" ] || fail_with "$name: the program does not start" "$name.err"
    sidecar=$(sidecar_of "$pid")
}
options=()

release() {
    exec {input}>&-
}

is_gone() {
    [ -z "$1" ] || ! kill -0 "$1" 2> /dev/null
}

# dump_of NAME PATTERN: the only dump, whose name is like that
dump_of() {
    local found
    mapfile -t found < <(compgen -G "$1/$2")
    [ ${#found[@]} = 1 ] || fail "$1: not one dump $2: $(ls "$1")"
    echo "${found[0]}"
}

# row FILE SPAN: "bytes in use, objects, bytes allocated"
row() {
    COLUMNS=300 "$JESPAN_CMD" report --exact "$1" > "$scratch/report" || fail_with "$1 cannot be read" "$scratch/report"
    awk -v name="$2" '$5 == name { print $1, $3, $4 }' "$scratch/report"
}

# Helpers that a script executes for a moment are not pushed, unless they have spans.
test_helpers() {
    have python3 && [ -f "$JESPAN_MODULES/pyroscope.so" ] || return 0
    cat > "$scratch/counts.py" << 'END'
import http.server

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        with open("pushed", "a") as file:
            file.write("a push\n")
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
END
    python3 "$scratch/counts.py" > counts.port &
    local server=$!
    : > pushed
    pids+=("$server")
    await [ -s counts.port ]
    # shellcheck disable=SC2016
    "$JESPAN_CMD" run --quiet --pyroscope "http://127.0.0.1:$(cat counts.port)" -- \
        bash -c 'for i in 1 2 3 4 5; do env > /dev/null; done; "$0" hold 1; env > /dev/null; exit 0' "$program" 2> helpers.err
    # shellcheck disable=SC2016
    await eval '[ "$(wc -l < pushed)" -ge 2 ]' || fail_with "no pushes" helpers.err
    kill "$server"
    equal "pushes of the shell and of what has spans" "$(wc -l < pushed)" 2
}

# A program that had nothing in use was read. Its file has its time.
test_empty_program() {
    echo 'int main(void) { return 0; }' | $CC -x c - -o nothing
    "$JESPAN_CMD" run --flame nothing.folded -- ./nothing 2> nothing.err
    await grep -q . nothing.err || fail "no line of a program without memory"
    equal "a program without memory" "$(sed 's/process [0-9]*/process N/; s/;.*//' nothing.err)" "jespan: nothing (process N) ended with status 0"
    grep -q '^thread:nothing ' nothing.folded || fail_with "no time of a program without memory" nothing.folded
}

# A static program cannot be read, and has no name then. The one that it starts is read.
test_static_program() {
    $CC -static -x c - -o static << 'END' 2> /dev/null || return 0
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) { if (argc > 1 && fork() == 0) execv(argv[1], argv + 1); wait(NULL); return 0; }
END
    "$JESPAN_CMD" run --dump-dir by_static --interval 0 -- ./static "$program" status 0 2> static.err
    await grep -q '; next: jespan report' static.err || fail_with "no line of a static program" static.err
    equal "a static program" "$(sed '/^jespan: warning: /d; s/process [0-9]*/process N/g; s/ in use, .*//' static.err)" \
        "jespan: process N ended with status 0; sidecar_program (process N) had most of all processes: at its peak 32 B"
}

# A child executes a program when the first program has ended. The pipe is open until the child's program ends.
test_late_program() {
    local i shell
    for i in 1 2 3 4 5; do
        rm -rf late
        # shellcheck disable=SC2016
        shell=$("$JESPAN_CMD" run --quiet --dump-dir late --interval 0 -- \
            sh -c 'echo $$; { while kill -0 $$; do :; done; exec "$0" hold 1; } 2> /dev/null & exit 0' "$program")
        equal "dumps of a program that begins late, $i" "$(find late -name 'heap.*' ! -name "heap.$shell.*" | wc -l)" 1
    done
}

# No empty directory is left. A directory that cannot be made does not keep the program from running.
test_directory() {
    local status=0 option
    mkdir empty readonly && cd empty
    "$JESPAN_CMD" run --quiet --only nothing -- true
    await eval '[ -z "$(ls)" ]' || fail "a program that is left out leaves $(ls)"
    "$JESPAN_CMD" run --in-process -- sh -c 'kill -9 $$' 2> /dev/null || true
    equal "left by a program that is killed" "$(ls)" ""
    "$JESPAN_CMD" run --in-process -- ./nothing 2> /dev/null || true
    equal "left by no program" "$(ls)" ""
    "$JESPAN_CMD" run --in-process -- "$program" status 0
    [ -n "$(find jespan.sidecar_program.* -name 'heap.*.pb.gz')" ] || fail "no dump with --in-process: $(ls)"
    rm -r jespan.*
    # shellcheck disable=SC2016
    "$JESPAN_CMD" run --in-process -- sh -c 'ln -s .. jespan.sh.$$; exec "$0" status 0' "$program" 2> err
    grep -q "dump $PWD/jespan\.sh\.[0-9]* failed: Not a directory" err || fail_with "a link was followed" err
    [ -z "$(find .. -maxdepth 1 -name 'heap.*')" ] || fail "a dump behind a link"
    rm jespan.sh.* err
    "$JESPAN_CMD" run --dump-dir named --only nothing -- true 2> only.err
    await grep -q . only.err || fail "nobody says that the program is left out"
    equal "a program that is left out" "$(sed 's/process [0-9]*/process N/' only.err)" \
        "jespan: process N ended with status 0; its program is left out (only_programs), or it ended before it could be read; it left no dump"
    "$JESPAN_CMD" run --flame only.folded --only nothing -- true 2> only.err
    await grep -q . only.err || fail "nobody says that there is no flame graph"
    equal "a flame graph of a program that is left out" "$(sed 's/process [0-9]*/process N/' only.err)" \
        "jespan: process N ended with status 0; its program is left out (only_programs), or it ended before it could be read; it left no figures"
    cp /bin/true $'odd\033name'
    "$JESPAN_CMD" run --dump-dir named -- $'./odd\033name' 2> only.err
    await grep -q '^jespan: odd?name (process' only.err || fail_with "a name with an escape" only.err
    rm only.err $'odd\033name'
    [ -d named ] || fail "a directory that was named is gone"
    cd /proc
    for option in --sidecar --in-process; do
        status=0
        "$JESPAN_CMD" run --quiet "$option" -- "$program" status 7 2> "$scratch/readonly.err" || status=$?
        equal "$option: status" "$status" 7
        grep -q "^jespan: warning: no dumps will be written: 'jespan\.sidecar_program\.[0-9]*' cannot be created: .*; name a directory \
with --dump-dir$" "$scratch/readonly.err" || fail_with "$option: no warning" "$scratch/readonly.err"
    done
    cd "$scratch"
    status=0
    "$JESPAN_CMD" run --dump-dir /proc/none -- true 2> readonly.err || status=$?
    equal "a directory that was named: status" "$status" 125
}

test_exit() {
    local status=0 dump
    "$JESPAN_CMD" run --dump-dir exit -- "$program" children hold 256 status 7 2> exit.err || status=$?
    equal "status" "$status" 7
    dump=$(dump_of exit 'heap.*.1.pb.gz') # the program waited for it
    equal "what the program held at exit" "$(row "$dump" held)" "1048576 256 1048576"
    await grep -q "^jespan: sidecar_program (process [0-9]*) ended with status 7; .* held .*; next: jespan report $scratch/$dump$" exit.err ||
        fail_with "no line at the end" exit.err
    "$JESPAN_CMD" run --quiet --dump-dir quiet -- "$program" hold 1 2> quiet.err
    dump_of quiet 'heap.*.1.pb.gz' > /dev/null
    equal "stderr with --quiet" "$(cat quiet.err)" ""
    (mkdir default && cd default && "$JESPAN_CMD" run --quiet -- "$program" hold 1 > /dev/null)
    dump_of default 'jespan.sidecar_program.*/heap.*.1.pb.gz' > /dev/null
}

# The next command of the line at the end can be copied, whatever the program and the directory are called.
test_names() {
    local name directory command
    mkdir names
    cd names
    for name in 'a b' "it's" $'two\nlines' 'größe' 'a,b' '%s' '-x' '$HOME' "$(printf 'y%.0s' {1..250})"; do
        cp "$program" "./$name"
        for directory in "" "in ${name//,/}"; do
            "$JESPAN_CMD" run --interval 0 ${directory:+--dump-dir "${directory:0:100}"} -- "./$name" hold 3 2> err
            await grep -q "; next: jespan report" err || fail_with "$name: no line at the end" err
            equal "lines of $name" "$(wc -l < err)" 1
            command=$(sed -n 's/.*; next: jespan //p' err)
            eval "\"\$JESPAN_CMD\" $command" > report 2>&1 || fail_with "$name: $command" err report
            grep -q ' held$' report || fail_with "$name: the report" report
        done
    done
    cd ..
}

# The line at the end names a context as `jespan report` does. A wrong key is reported by the program, and not twice.
test_line() {
    local path="request > cache {shard=7, tenant=blue, route=/doc}" dump
    JESPAN_CONF=nonsense:1 "$JESPAN_CMD" run --dump-dir labels -- "$program" label 256 2> labels.err
    dump=$(dump_of labels 'heap.*.1.pb.gz')
    await grep -q "; next: jespan report" labels.err || fail_with "no line at the end" labels.err
    [ "$(grep -oF " by $path (1.0 MiB)" labels.err | wc -l)" = 2 ] || fail_with "the line does not name $path" labels.err
    COLUMNS=300 "$JESPAN_CMD" report "$dump" > report.out
    grep -qF "  $path" report.out || fail_with "the report does not name $path" report.out
    equal "the wrong key" "$(grep -c "unknown key 'nonsense'" labels.err)" 1
}

# A wrong key is named once for a script and all that it executes. A key that the script adds is named too.
test_wrong_key() {
    # shellcheck disable=SC2016
    JESPAN_CONF=nonsense:1 "$JESPAN_CMD" run --quiet --dump-dir wrong -- \
        sh -c '"$0" status 0; "$0" status 0; JESPAN_CONF=$JESPAN_CONF,foolish:2 "$0" status 0; exec "$0" status 0' "$program" 2> wrong.err
    equal "the wrong key" "$(grep -c "unknown key 'nonsense'" wrong.err)" 2
    equal "the key that was added" "$(grep -c "unknown key 'foolish'" wrong.err)" 1
    # shellcheck disable=SC2016
    JESPAN_CONF=nonsense:1 "$JESPAN_CMD" run --quiet --dump-dir wrong -- sh -c '"$0" status 0; exec "$0" status 0' "$program" 2> wrong.err
    equal "the wrong key, of a tree" "$(grep -c "unknown key 'nonsense'" wrong.err)" 1
}

# Nothing of ours is in the program: no thread, no descriptor, no library but ours, no child.
test_unnoticed() {
    begin unnoticed say hold 256 wait
    equal "threads" "$(ls "/proc/$pid/task")" "$pid"
    equal "descriptors of ours" "$(find "/proc/$pid/fd" -type l -printf '%l\n' | grep -c 'memfd\|socket:\|anon_inode')" 0
    grep -q '/libcurl\|/libmicrohttpd\|/libprotobuf\|pprof\.so' "/proc/$pid/maps" && fail "a library of ours is in the program"
    equal "signals that it blocks and ignores" "$(grep -E '^Sig(Blk|Ign|Cgt)' "/proc/$pid/status")" "$(signals_of_plain)"
    [ -n "$sidecar" ] || fail "there is no sidecar"
    [ "$(awk '/^VmRSS/ { print $2 }' "/proc/$sidecar/status")" -le 8192 ] || fail "the sidecar takes more than 8 MiB"
    equal "the sidecar's session" "$(ps -o sid= -p "$sidecar" | tr -d ' ')" "$sidecar"
    release
    wait "$pid" || fail "the program fails"
    await is_gone "$sidecar" || fail "the sidecar stays"
}

signals_of_plain() {
    mkfifo plain.in
    "$program" say wait < plain.in > plain.out &
    local plain=$!
    exec {plain_in}> plain.in
    await [ -s plain.out ]
    grep -E '^Sig(Blk|Ign|Cgt)' "/proc/$plain/status"
    exec {plain_in}>&-
    wait "$plain"
}

# Before Linux 6.15, the system may not tell how a process ended.
is_told() {
    local major minor
    IFS=.- read -r major minor _ < /proc/sys/kernel/osrelease
    [ "$major" -gt 6 ] || [[ $major = 6 && $minor -ge 15 ]]
}

# Each program is killed at another moment after its first dump.
test_killed() {
    local i killed=() dump first
    for ((i = 0; i < kills; i++)); do
        "$JESPAN_CMD" run --quiet --dump-dir "killed.$i" --interval 1 -- "$program" hold 256 churn 2> "killed.$i.err" &
        killed+=($!)
    done
    pids+=("${killed[@]}")
    for ((i = 0; i < kills; i++)); do
        await [ -e "killed.$i/heap.${killed[i]}.1.pb.gz" ] || fail_with "killed.$i: no first dump" "killed.$i.err"
        sleep "0.0$((RANDOM % 90 + 10))"
        kill -9 "${killed[i]}"
    done
    for ((i = 0; i < kills; i++)); do
        await compgen -G "killed.$i/heap.*.killed.pb.gz" || fail_with "killed.$i: no dump of what was killed" "killed.$i.err"
        dump=$(dump_of "killed.$i" 'heap.*.killed.pb.gz')
        equal "$dump: held" "$(row "$dump" held)" "1048576 256 1048576"
        read -r bytes objects all <<< "$(row "$dump" churn)"
        [ "$objects" -ge 0 ] && [ "$objects" -le 101 ] && [ "$bytes" -ge 0 ] && [ "$bytes" -le $((102 * 1024)) ] ||
            fail "$dump: churn holds $bytes bytes in $objects objects"
        read -r _ _ first <<< "$(row "killed.$i/heap.${killed[i]}.1.pb.gz" churn)"
        [ "$all" -ge "${first:-0}" ] || fail "$dump: churn allocated $all bytes, and $first bytes before that"
        grep -aq 'read [0-9]* ms before the process was killed by signal 9' <(zcat "$dump") || fail "$dump does not say how old it is"
    done
}

# A reading is from before the sidecar was stopped, so the last dump is at least as old as the time until the end.
test_age() {
    local stopped_us least_ms stated_ms
    options=(--interval 1)
    begin age hold 256 say wait
    options=()
    await compgen -G 'age/heap.*.1.pb.gz' > /dev/null
    kill -STOP "$sidecar"
    await grep -q '^State:.T' "/proc/$sidecar/status"
    stopped_us=${EPOCHREALTIME/./}
    sleep 0.2
    least_ms=$(((${EPOCHREALTIME/./} - stopped_us) / 1000))
    kill -9 "$pid"
    kill -CONT "$sidecar"
    await compgen -G 'age/heap.*.killed.pb.gz' > /dev/null
    stated_ms=$(zcat "$(dump_of age 'heap.*.killed.pb.gz')" | grep -aoE 'read [0-9]+ ms before the process was killed by signal 9' | tr -dc '0-9 ' | cut -d' ' -f2)
    [ "$stated_ms" -ge "$least_ms" ] || fail "the last dump says that it is $stated_ms ms old, and it is $least_ms at least"
    release
}

# The sidecar is killed or stopped: the program notices nothing.
test_sidecar_dies() {
    local signal
    for signal in KILL STOP; do
        begin "dies.$signal" say hold 1 wait
        kill -"$signal" "$sidecar"
        release
        wait "$pid" || fail "the program fails when its sidecar gets SIG$signal"
        kill -9 "$sidecar" 2> /dev/null || true
    done
}

# The sidecar is stopped while the program waits for it at its end.
test_sidecar_stops_late() {
    have python3 && [ -f "$JESPAN_MODULES/pyroscope.so" ] || return 0
    python3 -c 'import signal, socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
print(s.getsockname()[1], flush=True)
signal.pause()' > deaf.port &
    pids+=($!)
    await [ -s deaf.port ]
    options=(--pyroscope "http://127.0.0.1:$(cat deaf.port)" 
        --conf "shutdown_timeout_ms:3600000,pyroscope_exit_timeout_ms:3600000,pyroscope_timeout_ms:600000")
    begin late say hold 1 wait
    options=()
    release
    await [ -e "late/heap.$pid.1.pb.gz" ] || fail_with "late: no dump" late.err
    kill -STOP "$sidecar"
    await is_gone "$pid" || fail "a program waits for a sidecar that is stopped"
    kill -9 "$sidecar"
    wait "$pid" || fail "the program fails when its sidecar is stopped late"
}

# A program that changes its user, under a sidecar that may not read it then, as in a container without CAP_SYS_PTRACE
test_unreadable() {
    local status=0 without=(setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace)
    have setpriv && have python3 && "${without[@]}" true 2> /dev/null || return 0
    mkfifo unreadable.in
    "${without[@]}" "$JESPAN_CMD" run --interval 1 --dump-dir unreadable -- python3 -c '
import os, sys
sys.stdin.readline()
os.setgid(65534)
os.setuid(65534)
sys.stdin.readline()
sys.exit(5)' < unreadable.in 2> unreadable.err &
    pid=$!
    pids+=("$pid")
    exec {input}> unreadable.in
    await compgen -G 'unreadable/heap.*' > /dev/null || fail_with "unreadable: no first dump" unreadable.err
    echo >&"$input"
    await grep -q "^jespan: process $pid cannot be read any more, as it runs as another user" unreadable.err ||
        fail_with "unreadable: nobody says so" unreadable.err
    echo >&"$input"
    release
    wait "$pid" || status=$?
    equal "unreadable: status" "$status" 5
    # The system says status 0 of it until its parent, which takes its time, has waited for it.
    "${without[@]}" python3 -c '
import os, sys, time
pid = os.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
time.sleep(1)
os.waitpid(pid, 0)' "$JESPAN_CMD" run --dump-dir unknown -- python3 -c '
import os
b = bytearray(1 << 20)
os.setgid(65534)
os.setuid(65534)
os.kill(os.getpid(), 9)' 2> unknown.err
    await grep -qE " (ended|was killed)" unknown.err || fail_with "unreadable: no line at the end" unknown.err
    ! grep -q "with status" unknown.err || fail_with "unreadable: a wrong status" unknown.err
}

# A service manager tells the program and its sidecar to end at the same time. The program takes a while, and ends by itself.
test_all_are_told() {
    cat > "$scratch/takes_a_while" << 'END'
#!/bin/bash
trap 'sleep 0.3; echo > "$0.told"; exit 7' TERM
echo ready
while :; do sleep 0.05; done
END
    chmod +x "$scratch/takes_a_while"
    "$JESPAN_CMD" run --interval 0 --dump-dir told -- "$scratch/takes_a_while" > told.out 2> told.err &
    pid=$!
    pids+=("$pid")
    await [ -s told.out ] || fail_with "told: the program does not start" told.err
    sidecar=$(sidecar_of "$pid")
    kill -TERM "$sidecar" "$pid"
    wait "$pid" && fail "told: the program does not end as it wishes"
    await is_gone "$sidecar" || fail "told: the sidecar stays"
    ! is_told || grep -q "ended with status 7" told.err || fail_with "told: the end is not reported" told.err
    begin told_once hold 256 say wait
    kill -TERM "$sidecar"
    kill -TERM "$sidecar"
    await is_gone "$sidecar" || fail "told: the sidecar stays with a program that goes on"
    equal "told: what the program holds" "$(row "$(dump_of told_once 'heap.*')" held)" "1048576 256 1048576"
    release
    wait "$pid" || fail "told: the program fails"
}

# Process 1 of a namespace: it stays, passes signals on, and waits for orphans and the sidecar.
test_process_1() {
    local status=0 unshare=(unshare -p -f --mount-proc) run=("$JESPAN_CMD" run --quiet) outside
    "${unshare[@]}" true 2> /dev/null || return 0
    equal "process 1, numbers" "$("${unshare[@]}" "${run[@]}" --dump-dir one -- "$program" hold 256 say)" 2
    equal "process 1, what the program held at exit" "$(row "$(dump_of one 'heap.2.1.pb.gz')" held)" "1048576 256 1048576"
    "${unshare[@]}" "${run[@]}" --dump-dir one -- "$program" status 9 || status=$?
    equal "process 1, status" "$status" 9
    status=0
    timeout -k 5 300 "${unshare[@]}" env --ignore-signal=CHLD "${run[@]}" --dump-dir one -- "$program" status 9 || status=$?
    equal "process 1, status where SIGCHLD was ignored" "$status" 9
    equal "process 1, what the program inherits" \
        "$("${unshare[@]}" env --ignore-signal=CHLD "${run[@]}" --dump-dir one -- grep SigIgn /proc/self/status)" \
        "$(env --ignore-signal=CHLD grep SigIgn /proc/self/status)"
    # Orphans that end one by one are no seconds: it waits for the sidecar, and that for the last process.
    # shellcheck disable=SC2016
    equal "process 1, with many orphans" "$("${unshare[@]}" "${run[@]}" --dump-dir one --interval 0 --follow-fork -- \
        sh -c 'for i in $(seq 150); do (sleep 0.$(printf %03d $((i * 3)))) & done; (sleep 2; echo the last) & kill -9 $$')" "the last"
    # shellcheck disable=SC2016
    "${unshare[@]}" "${run[@]}" --dump-dir one -- \
        sh -c '(true &); for i in $(seq 12000); do [ -n "$(ps -eo state= | grep Z)" ] || exit 0; sleep 0.05; done; exit 1' ||
        fail "process 1 does not wait for orphans"
    for signal in KILL TERM; do
        mkfifo "one.$signal.in"
        "${unshare[@]}" "${run[@]}" --interval 1 --dump-dir "one.$signal" -- "$program" hold 256 say wait < "one.$signal.in" > "one.$signal.out" &
        pids+=($!)
        outside=$!
        exec {input}> "one.$signal.in"
        await [ -e "one.$signal/heap.2.1.pb.gz" ] || fail "process 1: no first dump"
        pid=$(pgrep -P "$outside") # process 1
        if [ "$signal" = KILL ]; then
            kill -KILL "$(pgrep -P "$pid" -x sidecar_program)"
        else
            kill -TERM "$pid"
        fi
        status=0
        wait "$outside" || status=$?
        release
        equal "process 1, status after SIG$signal" "$status" $((128 + $(kill -l "$signal")))
        ! is_told || dump_of "one.$signal" 'heap.2.*.killed.pb.gz' > /dev/null
    done
}

# in_namespace NAME COMMAND…: runs it as process 2 of a PID namespace. It ends as the program that holds memory.
in_namespace() {
    local name=$1 status=0 dump
    shift
    unshare -p -f --mount-proc "$JESPAN_CMD" run --quiet --follow-fork --interval 0 --dump-dir "$name" -- "$@" "$program" || status=$?
    equal "$name: status" "$status" 9
    dump=$(cd "$name" && dumps_in . | grep '^heap\.2\.' | tail -n 1)
    [ -n "$dump" ] || fail "$name: no dump of process 2"
    equal "$name: process 2" "$(row "$name/$dump" held)" "1048576 256 1048576"
}

# Numbers of a namespace in another one are not taken for those of the sidecar's: of executed programs and of forked ones.
# shellcheck disable=SC2016
test_namespaces() {
    unshare -p -f --mount-proc true 2> /dev/null || return 0
    in_namespace executed bash -c 'unshare -p -f sh -c "\"\$0\" hold 16; exit 3" "$0"; exec "$0" hold 256 status 9'
    in_namespace forked unshare -p bash -c 'sleep 1000 & (exit 3); kill -9 $!; exec "$0" hold 256 status 9'
}

# left_out LINES COMMAND…: how often the sidecar says that processes are left out
left_out() {
    local lines=$1
    shift
    # The pipe ends with the sidecar.
    "$JESPAN_CMD" run --quiet --dump-dir left -- "$@" 2>&1 > /dev/null | cat > left.err
    equal "left out: status of $*" "${PIPESTATUS[0]}" 0
    equal "left out: lines about $*" "$(grep -c 'has children in one, which are left out here' left.err)" "$lines"
}

# Processes in another namespace are left out with a word, and can be served by their number here.
test_left_out() {
    local inside
    unshare -Upf --mount-proc true 2> left.err || {
        echo "left out: not tested, the kernel refuses PID namespaces: $(cat left.err)" >&2
        return 0
    }
    left_out 1 unshare -Upf --mount-proc sh -c 'env; env; :'
    left_out 1 unshare -Upf sh -c 'env; env; :'
    left_out 0 sh -c 'env; (env); :'
    mkfifo left.in
    "$JESPAN_CMD" run --dump-dir left -- unshare -Upf --mount-proc "$program" hold 256 say wait < left.in > left.out 2> left.err &
    pid=$!
    pids+=("$pid")
    exec {input}> left.in
    await [ -s left.out ] || fail_with "left out: the program does not start" left.err
    inside=$(pgrep -P "$pid" -x sidecar_program)
    "$JESPAN_CMD" ps > left.ps
    equal "left out: its sidecar" "$(awk -v pid="$inside" '$1 == pid { print $6 }' left.ps)" -
    "$JESPAN_CMD" serve --quiet --interval 1 --dump-dir served "$inside" {input}>&- &
    pids+=($!)
    await [ -e "served/heap.$inside.1.pb.gz" ] || fail "left out: jespan serve writes no dump"
    equal "left out: what it holds" "$(row "served/heap.$inside.1.pb.gz" held)" "1048576 256 1048576"
    release
    wait "$pid"
    # bwrap calls clone() itself. Its child has another /proc, so neither of them can say it.
    "$JESPAN_CMD" run --quiet --dump-dir left -- bwrap --bind / / --unshare-pid --proc /proc \
        "$program" hold 256 say wait < left.in > left.out 2> left.err &
    pid=$!
    pids+=("$pid")
    exec {input}> left.in
    await grep -q 'has children in one, which are left out here' left.err || fail_with "left out: nothing about clone()" left.err
    release
    wait "$pid"
}

# A number in the page may be that of a process of another sidecar.
test_another_page() {
    local other page other_input
    begin other say wait
    other=$pid other_input=$input
    options=(--interval 1)
    begin mine say wait
    options=()
    page=$(find "/proc/$sidecar/fd" -lname '*memfd:jespan-sidecar*' | head -n 1)
    [ -n "$page" ] || fail "the sidecar has no page"
    printf '%b' "$(printf '\\x%02x' $((other & 255)) $((other >> 8 & 255)) $((other >> 16 & 255)))" |
        dd of="$page" bs=1 seek=$((32 + 24 * 1300)) conv=notrunc 2> /dev/null
    await [ -e "mine/heap.$pid.2.pb.gz" ] || fail_with "mine: no dumps" mine.err
    release
    wait "$pid"
    await is_gone "$sidecar" || fail "a sidecar serves a process of another one"
    exec {other_input}>&-
    wait "$other"
}

test_odd_programs() {
    local dump status=0
    begin closes close say hold 256 wait
    release
    wait "$pid"
    dump=$(dump_of closes 'heap.*.1.pb.gz')
    equal "a program that closes all descriptors" "$(row "$dump" held)" "1048576 256 1048576"
    begin daemon hold 256 say daemon wait
    wait "$pid" || fail "the daemon's first process fails"
    await is_gone "$sidecar" || fail "the sidecar outlives the program for which it was started"
    release
    # shellcheck disable=SC2016
    "$JESPAN_CMD" run --quiet --dump-dir executes -- sh -c 'exec "$0" hold 256 status 9' "$program" || status=$?
    equal "status of an executed program" "$status" 9
    equal "an executed program" "$(row "$(dump_of executes 'heap.*.1.pb.gz')" held)" "1048576 256 1048576"
    options=(--interval 1)
    begin again say wait exec hold 256 status 9
    options=()
    await [ -e "again/heap.$pid.1.pb.gz" ] || fail_with "again: no first dump" again.err
    release
    status=0
    wait "$pid" || status=$?
    equal "status of a program that was executed between two readings" "$status" 9
    dump=$(dumps_in again | tail -n 1)
    equal "a program that was executed between two readings" "$(row "again/$dump" held)" "1048576 256 1048576"
    if plain=$(unshare -Ur id -u 2> /dev/null); then
        equal "unshare -Ur" "$("$JESPAN_CMD" run --quiet --dump-dir unshare -- unshare -Ur id -u)" "$plain"
    fi
}

# A terminal that hangs up, and ^C, reach the processes of its foreground group. The sidecar is not among them.
test_hangup() {
    local leader
    setsid "$JESPAN_CMD" run --quiet --dump-dir hangup --interval 1 -- "$program" hold 256 say churn > hangup.out &
    pids+=($!)
    await [ -s hangup.out ]
    read -r leader < hangup.out
    await [ -e "hangup/heap.$leader.1.pb.gz" ] || fail "no first dump"
    kill -HUP -- "-$leader"
    await compgen -G 'hangup/heap.*.killed.pb.gz' || fail "no dump after SIGHUP"
    grep -aq 'was killed by signal 1' <(zcat hangup/heap.*.killed.pb.gz) || fail "the dump does not name SIGHUP"
}

# A dump for an event, and the last one.
test_dump_on() {
    local status=0
    "$JESPAN_CMD" run --quiet --dump-on limit --limit held=64K --dump-dir events -- "$program" hold 256 2> events.err || status=$?
    equal "status of a program that is refused memory" "$status" 4
    equal "a dump for an event" "$(row "$(dump_of events 'heap.*.[12].limit.pb.gz')" held)" "65536 16 65536"
    equal "the last dump after an event" "$(row "$(dump_of events 'heap.*.[12].pb.gz')" held)" "65536 16 65536"
}

# A system that lets no process read another: the thread in the program reports.
test_refused() {
    echo '#include <errno.h>
long process_vm_readv(void) { errno = EPERM; return -1; }' > refuses.c
    $CC -shared -fPIC -o refuses.so refuses.c
    LD_PRELOAD=$scratch/refuses.so "$JESPAN_CMD" run --dump-dir refused -- "$program" hold 256 2> refused.err
    equal "a system that refuses" "$(row "$(dump_of refused 'heap.*.1.pb.gz')" held)" "1048576 256 1048576"
    equal "what is said" "$(cat refused.err)" \
        "jespan: warning: a sidecar cannot read the program: Operation not permitted; a thread in the program reports instead"
    if ! unshare -m umount -l /proc 2> /dev/null; then
        echo "not run: /proc cannot be unmounted here"
        return
    fi
    # shellcheck disable=SC2016
    unshare -m sh -c 'umount -l /proc; exec "$0" run --dump-dir noproc -- "$1" hold 256' "$JESPAN_CMD" "$program" 2> noproc.err
    equal "without /proc" "$(row "$(dump_of noproc 'heap.*.1.pb.gz')" held)" "1048576 256 1048576"
    equal "what is said without /proc" "$(cat noproc.err)" \
        "jespan: warning: a sidecar cannot read the program: /proc is not mounted; a thread in the program reports instead"
}

# The sidecar lives with low limits, or a line says that there is none. The last dump is exact in both cases.
test_limits() {
    local limit dump
    for limit in "n 64" "n 24" "Sf 16" "f 16"; do
        # shellcheck disable=SC2086
        (ulimit -$limit && "$JESPAN_CMD" run --dump-dir "limit $limit" -- "$program" hold 256) 2> limit.err
        dump=$(dump_of "limit $limit" 'heap.*.1.pb.gz')
        equal "ulimit -$limit" "$(row "$dump" held)" "1048576 256 1048576"
        await grep -q '^jespan: ' limit.err || fail_with "ulimit -$limit: nothing is said" limit.err
        grep -q '^jespan: sidecar_program (process' limit.err ||
            { [ "$limit" = "f 16" ] && grep -q '^jespan: warning: a sidecar cannot start: File too large (ulimit -f); ' limit.err; } ||
            fail_with "ulimit -$limit" limit.err
    done
}

test_disk_full() {
    local status=0
    mkdir full
    unshare -rm mount -t tmpfs none full 2> full.err || return 0
    # shellcheck disable=SC2016
    unshare -rm sh -c 'mount -t tmpfs -o size=4k none full && echo > full/all && exec "$@"' sh \
        "$JESPAN_CMD" run --dump-dir full -- "$program" hold 256 status 8 > /dev/null 2> full.err || status=$?
    equal "status with a full disk" "$status" 8
    await grep -q 'dump .* failed: No space left on device' full.err || fail_with "nobody says that the disk is full" full.err
}

# Somebody removes the directory while the program runs.
test_directory_removed() {
    options=(--interval 1)
    begin removed hold 256 say wait
    await compgen -G 'removed/heap.*.1.pb.gz' > /dev/null
    remove removed
    await compgen -G 'removed/heap.*' > /dev/null
    remove removed
    kill -9 "$pid"
    await is_gone "$sidecar"
    options=()
    equal "held at the end" "$(row "$(dump_of removed 'heap.*.killed.pb.gz')" held)" "1048576 256 1048576"
    grep -q "^jespan: dump_dir: $PWD/removed was removed, and is made again$" removed.err || fail_with "nobody says so" removed.err
    release
}

test_serve() {
    local status=0 served dump
    mkfifo serve.in
    "$program" say hold 256 wait < serve.in > serve.out &
    served=$!
    exec {served_in}> serve.in
    await [ -s serve.out ]
    "$JESPAN_CMD" serve --dump-dir serve --interval 1 "$served" 2> serve.err &
    local server=$!
    await [ -e "serve/heap.$served.1.pb.gz" ] || fail_with "no dump of a process that ran already" serve.err
    equal "a process that ran already" "$(row "serve/heap.$served.1.pb.gz" held)" "1048576 256 1048576"
    kill -9 "$served"
    wait "$server" || fail_with "serve fails" serve.err
    if is_told; then
        dump_of serve 'heap.*.killed.pb.gz' > /dev/null
        grep -q '^jespan: sidecar_program .* was killed by signal 9; ' serve.err || fail_with "no line at the end" serve.err
    fi
    exec {served_in}>&-
    begin used say hold 256 wait
    "$JESPAN_CMD" serve --conf dump_format:none --dump-dir new/one "$pid" 2> serve.err {input}>&- &
    server=$!
    await [ -d new/one ] || fail_with "serve makes no directory" serve.err
    (cd /proc && exec "$JESPAN_CMD" serve "$pid" {input}>&-) 2> serve.again || status=$?
    equal "serve where no directory can be made" "$status" 125
    grep -q "^jespan: '.*' cannot be created: .*; name a directory with --dump-dir\$" serve.again ||
        fail_with "serve where no directory can be made" serve.again
    status=0
    release
    wait "$pid" "$server" || fail_with "serve without an exporter" serve.err
    equal "a directory without a dump" "$(find . -name new)" ""
    "$JESPAN_CMD" serve "$$" 2> serve.err || status=$?
    equal "serve of a process without jespan" "$status" 125
    grep -q "^jespan: process $$: " serve.err || fail_with "serve of a process without jespan" serve.err
    status=0
    "$JESPAN_CMD" serve nobody 2> serve.err || status=$?
    equal "serve of no number" "$status" 2
}

# The sidecar answers for the program, and /spans names the program.
test_http() {
    have curl && have jq && [ -f "$JESPAN_MODULES/http.so" ] || return 0
    options=(--http "unix:$scratch/socket" --arena held)
    begin http say hold 256 wait
    await [ -S socket ] || fail_with "no socket" http.err
    curl -s --unix-socket socket http://localhost/metrics > metrics # the first request
    grep -qx 'jespan_span_inuse_bytes{span="held"} 1048576' metrics || fail "no figures of spans in the first answer"
    curl -s --unix-socket socket http://localhost/spans > spans
    for name in mapped_bytes committed_bytes allocated_bytes resident_bytes threads meta_bytes; do
        grep -Eq "^jespan_$name [1-9][0-9]*\$" metrics || fail_with "no $name in the sidecar's figures" metrics
    done
    grep -Eq '^jespan_arena_inuse_bytes\{arena="held",value="",number="1"\} 1048576$' metrics || fail_with "no arena" metrics
    equal "/spans" "$(jq -r '"\(.pid) \(.program)", (.spans[] | select(.name == "held").inuse_bytes)' spans)" \
        "$pid sidecar_program"$'\n'1048576
    curl -s --unix-socket socket http://localhost/metrics > metrics
    grep -q '^jespan_http_requests_total 2$' metrics || fail "no figures of the service"
    curl -s --unix-socket socket http://localhost/debug/pprof/cmdline | tr '\0' ' ' > words
    grep -qx "$program say hold 256 wait" words ||
        fail "/debug/pprof/cmdline is not the program's"
    release
    wait "$pid"
    options=()
}

test_exit
test_names
test_line
test_directory
test_empty_program
test_static_program
test_late_program
test_helpers
test_wrong_key
test_unnoticed
test_sidecar_dies
test_sidecar_stops_late
test_unreadable
test_all_are_told
test_process_1
test_namespaces
test_left_out
test_another_page
test_odd_programs
if is_told; then
    test_killed
    test_hangup
fi
test_dump_on
test_refused
test_limits
test_disk_full
test_directory_removed
test_age
test_serve
test_http
finish
