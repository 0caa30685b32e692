#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan top` on a terminal, driven in tmux: the tree, the filter, sorting, pause, threads, sizes of the terminal, and a process
# that ends while it is watched. Then its output in a pipe.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
"$JESPAN_CMD" help top > /dev/null 2>&1 || skip "built without the pprof exporter"

# shellcheck disable=SC2317 # the cleanup hook
end_all() {
    tmux -S "$scratch/tmux" kill-server 2> /dev/null
    # shellcheck disable=SC2086
    kill -KILL $pid $batch 2> /dev/null
    wait
}
cleanup_hook=end_all
pid=
batch=

compile "$scratch/top_program" tests/integration/top_program.c
mkfifo "$scratch/in" "$scratch/out"
"$scratch/top_program" < "$scratch/in" > "$scratch/out" &
pid=$!
exec 3> "$scratch/in" 4< "$scratch/out"
read -r _ <&4

# grow BYTES: the program allocates that in request > cache
grow() {
    echo "$1" >&3
    read -r _ <&4
}

# --- In a pipe --------------------------------------------------------------------------------------------------------

"$JESPAN_CMD" top --once --interval 0.1 "$pid" > "$scratch/once" 2> "$scratch/err" || ! grep -q 'permission denied' "$scratch/err" ||
    skip "this system lets no process read another"
equal "--once: the tree" "$(sed -n '4,5s/^ *\([0-9.]* KiB\).*   *0  *[0-9]  /\1/p' "$scratch/once" | tr '\n' ';')" \
    "224.0 KiB    cache;112.0 KiB    parse {route=/doc};"
equal "--flat and --filter" "$("$JESPAN_CMD" top --once --flat --filter PARSE --interval 0.1 "$pid" | sed 1,2d | grep -c 'request > parse {route=/doc}$')" 1
equal "a narrow line" "$(COLUMNS=30 "$JESPAN_CMD" top --once --interval 0.1 "$pid" | LC_ALL=C.UTF-8 awk 'length > 40' | wc -l)" 0
equal "by name" "$("$JESPAN_CMD" top --count 1 --interval 0.1 --threads top_program | grep -c "top_program $pid in request$")" 1
"$JESPAN_CMD" top --interval 0.1 "$pid" > "$scratch/batch" 2> "$scratch/err" 3>&- 4<&- &
batch=$!
await grep -q request "$scratch/batch"
grow 50000000

for words in "" "fish" "$$" "2147483647" "1 2" "--sort fish 1" "--interval 0 1" "--count x 1"; do
    status=0
    # shellcheck disable=SC2086
    "$JESPAN_CMD" top $words > "$scratch/wrong" 2>&1 || status=$?
    equal "top $words: status" "$status" 2
done

# --- On a terminal ----------------------------------------------------------------------------------------------------

tm() {
    tmux -S "$scratch/tmux" -f /dev/null "$@" 3>&- 4<&-
}

# shows TEXT…: the screen has these lines somewhere, in that order; lacks TEXT: it has no such line
shows() {
    local pattern text
    text=$(tm capture-pane -p | tr '\n' ';')
    pattern=$(printf '%s.*' "$@")
    [[ $text =~ $pattern ]]
}
lacks() {
    ! shows "$1" && shows "IN USE"
}

# expect WHAT shows|lacks TEXT…
expect() {
    local what=$1
    shift
    await "$@" || {
        tm capture-pane -p > "$scratch/screen" 2>&1 || true
        fail_with "$what" "$scratch/screen"
        finish
    }
}

watch() {
    tm new-session -d -x 100 -y 16 "$* '$JESPAN_CMD' top --interval 0.1 $pid; echo status \$?; exec cat" > "$scratch/new" 2>&1
}

if have tmux && grep -q '^#define JESPAN_WITH_NCURSES 1' "$top_builddir/config.h"; then
    watch TERM=fish
    expect "an unknown terminal" shows "the terminal 'fish' is unknown" "status 2"
    tm kill-session
    await watch LC_ALL=C.UTF-8
    expect "the tree" shows "top_program $pid  in use" "- request" "    cache" "    parse" "q quit"
    tm send-keys Left
    expect "collapsed" shows "\+ request"
    expect "collapsed" lacks "parse"
    tm send-keys Right
    expect "expanded" shows "- request" "cache" "parse"
    tm send-keys / pars Enter
    expect "filtered" shows "WITH pars" "request" "parse"
    expect "filtered" lacks "cache"
    tm send-keys / Enter
    expect "all again" shows "cache"
    tm send-keys t
    expect "flat" shows "request > cache"
    tm send-keys t s
    expect "sorted by growth" shows "sort: growth"
    tm send-keys S
    expect "sorted by bytes" shows "sort: inuse"
    tm send-keys p
    expect "pause" shows PAUSED
    before=$(tm capture-pane -p | grep cache)
    grow 100000000
    tm send-keys j k
    equal "figures in the pause" "$(tm capture-pane -p | grep cache)" "$before"
    tm send-keys p
    expect "what has grown" shows "160.* MiB .*cache|14[0-9]\.[0-9] MiB .*cache"
    tm send-keys 2
    expect "threads" shows "THREAD" "top_program $pid in request"
    tm send-keys 1
    for size in "20 3" "1 1" "34 6" "200 50"; do
        # shellcheck disable=SC2086
        set -- $size
        tm resize-window -x "$1" -y "$2"
        tm send-keys Down End Home
    done
    expect "a wide terminal" shows "OBJECTS" "cache"
    tm resize-window -x 34 -y 8
    expect "a narrow terminal" shows "IN USE  *CONTEXT" "cache"
    expect "a narrow terminal" lacks "OBJECTS"
    tm resize-window -x 100 -y 16
fi
exec 3>&-
wait "$pid"
if tm has-session 2> "$scratch/none"; then
    expect "the end" shows "ENDED" "cache" "the process has ended"
    tm send-keys q
    expect "the status" shows "status 0"
fi
status=0
wait "$batch" || status=$?
equal "the batch: status" "$status" 0
equal "the batch: its end" "$(cat "$scratch/err")" "jespan: $pid: the process has ended"
finish
