#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan top` in a pipe; then on a terminal, driven in tmux: the tree, the filter, sorting, pause, the views, the keys, sizes of
# the terminal, and a process that ends while it is watched.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
"$JESPAN_CMD" help top > /dev/null 2>&1 || skip "built without the pprof exporter"

# shellcheck disable=SC2317 # the cleanup hook
end_all() {
    tmux -S "$scratch/tmux" kill-server 2> /dev/null
    # shellcheck disable=SC2086
    kill -KILL $pid $batch $plain 2> /dev/null
    wait
}
cleanup_hook=end_all
pid=
batch=
plain=

compile "$scratch/top_program" tests/integration/top_program.c
mkfifo "$scratch/in" "$scratch/out"
JESPAN_CONF='limit:cache=1G|parse=1M/4M,arena:parse,stacks:all' "$scratch/top_program" < "$scratch/in" > "$scratch/out" &
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

# view NAME: the view's rows, each blank for several
view() {
    "$JESPAN_CMD" top --once --interval 0.1 --view "$1" "$pid" | sed 1d | tr -s ' '
}
equal "arenas" "$(view arenas)" " IN USE GROWTH/s MAPPED MOST REFUSED ARENA
 112.0 KiB 0 2.0 MiB - 0 parse"
equal "limits" "$(view limits)" " IN USE USED LIMIT SOFT REFUSED CONTEXT, WITH ALL BELOW IT
 224.0 KiB 0.0% 1.0 GiB - 0 request > cache
 112.0 KiB 2.7% 4.0 MiB 1.0 MiB 0 request > parse {route=/doc}"
equal "stacks" "$(view stacks | head -n 3)" " IN USE GROWTH/s OBJECTS STACK, FROM THE CALL THAT ALLOCATED
 224.0 KiB 0 1 cache top_program.c:22 < main top_program.c:30 in request > cache
 112.0 KiB 0 1 parse top_program.c:15 < main top_program.c:29 in request > parse {route=/doc}"
equal "stacks: --filter" "$("$JESPAN_CMD" top --once --interval 0.1 --view stacks --filter PARSE "$pid" | sed 1,2d | wc -l)" 1
equal "a view without rows" "$("$JESPAN_CMD" top --once --interval 0.1 --view arenas --filter fish "$pid" | sed 1,2d)" ""
mkfifo "$scratch/none"
exec 5<> "$scratch/none"
"$scratch/top_program" <&5 > "$scratch/plain" 3>&- 4<&- 5<&- &
plain=$!
await_of "$plain" grep -q ready "$scratch/plain"
for words in "arenas (no span has an arena" "limits (no span has a limit" "stacks (the program takes no stacks"; do
    equal "${words%% *}: none" \
        "$("$JESPAN_CMD" top --once --interval 0.1 --view "${words%% *}" "$plain" | sed 1,2d | cut -c "1-$((${#words} - 7))")" "${words#* }"
done
kill "$plain"

"$JESPAN_CMD" top --interval 0.1 "$pid" > "$scratch/batch" 2> "$scratch/err" 3>&- 4<&- &
batch=$!
await grep -q request "$scratch/batch"
grow 50000000

for words in "" "fish" "$$" "2147483647" "1 2" "--sort fish 1" "--view fish 1" "--interval 0 1" "--count x 1"; do
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
    tm send-keys 3
    expect "arenas" shows "MAPPED" "KiB .*parse" "view: arenas"
    tm send-keys v
    expect "limits" shows "LIMIT" "1.0 GiB .*request > cache" "4.0 MiB .*request > parse"
    tm send-keys / fish Enter
    expect "no limit of that name" lacks "parse"
    tm send-keys / Enter
    tm send-keys 5
    expect "stacks" shows "STACK" "cache top_program.c:22 < "
    tm send-keys h
    expect "the keys" shows "3 4 5 .*arenas, limits, stacks" "any key: back"
    tm send-keys q
    expect "the keys are gone" shows "STACK" "cache top_program.c:22 < " "view: stacks"
    tm send-keys v '?'
    expect "the keys again" shows "any key: back"
    tm send-keys 4
    expect "any key only leaves the keys" shows "WITH ALL BELOW IT" "view: contexts"
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

# A program without jespan, executed by the same process. The last figures stay.
mkfifo "$scratch/again"
first=$pid
"$scratch/top_program" sleep 1000 < "$scratch/again" > "$scratch/begun" &
pid=$!
exec 3> "$scratch/again"
await grep -q ready "$scratch/begun"
"$JESPAN_CMD" top --interval 0.1 --count 0 "$pid" 3>&- > "$scratch/table" 2> "$scratch/executes" &
other=$!
if tm has-session 2> /dev/null; then
    tm kill-session
    await watch LC_ALL=C.UTF-8
    expect "before it executes" shows "top_program $pid  in use" "parse"
fi
await grep -q parse "$scratch/table"
exec 3>&-
if tm has-session 2> /dev/null; then
    expect "after it executed" shows "ENDED" "parse" "executes a program without jespan"
    tm send-keys t t 2 1
    expect "keys after it executed" shows "ENDED" "parse" "executes a program without jespan"
    tm send-keys q
    expect "the status" shows "status 0"
fi
status=0
wait "$other" || status=$?
equal "the batch, after it executed: status" "$status" 2
grep -qx "jespan: $pid: the process executes a program without jespan now" "$scratch/executes" ||
    fail_with "the batch, after it executed" "$scratch/executes"
kill "$pid"

status=0
wait "$batch" || status=$?
equal "the batch: status" "$status" 0
equal "the batch: its end" "$(cat "$scratch/err")" "jespan: $first: the process has ended"
finish
