# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# For test scripts that ask the service http: a program that answers, and requests. After lib.sh.

# start_program CONF: runs $program with http_listen as in CONF, or a port that is free; sets base, its address
start_program() {
    local conf=$1
    case $conf in *http_listen:*) ;; *) conf=$conf,http_listen:127.0.0.1:0 ;; esac
    : > "$scratch/said"
    coproc PROGRAM { JESPAN_CONF=module_dir:$JESPAN_MODULES,$conf exec "$program" 2>> "$scratch/said"; }
    program_pid=$PROGRAM_PID
    program_in=${PROGRAM[1]} program_out=${PROGRAM[0]}
    read -r -t 6000 word <&"$program_out" || fail "the program does not start"
    equal "the program's first word" "$word" ready
    find_base "$conf"
}

find_base() {
    local i port=
    base=http://127.0.0.1
    case $1 in *127.0.0.1:0*) ;; *) return ;; esac
    for ((i = 0; i < 30000; i++)); do
        port=$(sed -n 's/.*listens on port \([0-9]*\)$/\1/p' "$scratch/said")
        [ -z "$port" ] || break
        sleep 0.02
    done
    [ -n "$port" ] || fail_with "nobody says on which port it listens" "$scratch/said"
    base=http://127.0.0.1:$port
}

# tell WORD NUMBER: has the program do it, and waits; sets word to what it printed before
tell() {
    local line=
    echo "$1 $2" >&"$program_in"
    word=
    while read -r -t 600 line <&"$program_out" && [ "$line" != "done" ]; do word=$line; done
    equal "$1 $2" "$line" "done"
}

end_program() {
    local status=0
    exec {program_in}>&- || true
    wait "$program_pid" || status=$?
    equal "the program's end" "$status" 0
    program_pid=
}

kill_program() {
    [ -z "${program_pid-}" ] || kill "$program_pid" 2> /dev/null || true
}
cleanup_hook=kill_program

# ask PATH [OPTIONS...]: the answer's body, its status to $scratch/status, its head to $scratch/head
ask() {
    local path=$1
    shift
    curl -sS --max-time 600 --path-as-is -o "$scratch/body" -D "$scratch/head" -w '%{http_code}' "$@" "$base$path" \
        > "$scratch/status" 2> "$scratch/curl" || true
    cat "$scratch/body"
}

# status_is STATUS PATH [OPTIONS...]
status_is() {
    local expected=$1
    shift
    ask "$@" > /dev/null
    equal "status of $*" "$(cat "$scratch/status")" "$expected"
}

# header NAME: of the last answer
header() {
    tr -d '\r' < "$scratch/head" | sed -n "s/^$1: //Ip"
}

# begin_waiting PATH OPTION…: in the background; answers go on meanwhile. Returns once the service has the request.
begin_waiting() {
    : > "$scratch/sent" # another request may have been before this one
    curl -sSv --max-time 600 -o "$scratch/profile" -D "$scratch/head" "${@:2}" "$base$1" 2> "$scratch/sent" &
    waiting=$!
    until grep -q '^> GET' "$scratch/sent" || ! kill -0 "$waiting" 2> /dev/null; do sleep 0.02; done
    status_is 200 /healthz
}
