#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Dumps: when they are written, what they are called, how many are kept; and that nothing that goes wrong with them hurts
# the program. That their contents are right is for tests/interop/pprof.sh.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/dumps.sh
. "$(dirname "$0")/../support/dumps.sh"

compile_dumping dump_program

# ran WHAT: it ended well and had nothing to say
ran() {
    equal "$1: status" "$status" 0
    equal "$1: stderr" "$(cat "$scratch/err")" ""
}

names_of() {
    local n
    for n; do
        echo "heap.$pid.$n.pb.gz"
    done
}

all_whole() {
    local name
    for name in $(dumps_in "$dir"); do
        is_whole "$dir/$name" || fail "$1: $name is not whole"
    done
    equal "$1: other files" "$(find "$dir" -type f ! -name 'heap.*.pb.gz' -printf '%f\n')" ""
}

nothing_by_default() {
    run "dump_dir:$dir" sleep 10
    ran "only a directory"
    equal "only a directory: dumps" "$(dumps_in "$dir")" ""
    run "dump_interval_s:1,dump_at_exit:true" sleep 1200 stats
    ran "no directory"
    equal "no directory: counted" "$(cut -d' ' -f3- "$scratch/out")" "dumps 0 lost 0"
}

at_exit() {
    run "dump_dir:$dir,dump_at_exit:true" stats
    ran "at exit"
    equal "at exit: dumps" "$(dumps_in "$dir")" "$(names_of 1)"
    all_whole "at exit"
    run "dump_dir:$dir,dump_at_exit:true" stats _exit
    equal "_exit: dumps" "$(dumps_in "$dir")" ""
}

# Programs that unshare(2) a user namespace must have one thread.
one_thread_before_exit() {
    local threads
    threads=$(LD_PRELOAD=$JESPAN_LIB JESPAN_CONF=dump_dir:$dir,dump_at_exit:true ls /proc/self/task)
    equal "before exit: threads" "$(wc -w <<< "$threads")" 1
    equal "before exit: dumps" "$(dumps_in "$dir")" "heap.$threads.1.pb.gz"
    threads=$(LD_PRELOAD=$JESPAN_LIB JESPAN_CONF="" ls /proc/self/task)
    equal "not configured: threads" "$(wc -w <<< "$threads")" 1
}

# glibc takes thread-local variables out of the stacks of threads.
large_thread_local() {
    local kib program=$scratch/large_thread_local
    for kib in 240 300 9000; do
        compile "$program" tests/integration/dump_tls_program.c -DKIB="$kib"
        run "dump_dir:$dir,dump_at_exit:true,dump_interval_s:60"
        ran "$kib KiB of thread-local variables"
        is_whole "$dir"/heap.*.1.pb.gz || fail "$kib KiB of thread-local variables: no dump"
    done
}

on_interval() {
    local begin_us=${EPOCHREALTIME/./}
    run "dump_dir:$dir,dump_interval_s:1" check dumps 3 stats
    [ $((${EPOCHREALTIME/./} - begin_us)) -ge 3000000 ] || fail "interval: three dumps in less than three seconds"
    ran "interval"
    equal "interval: dumps" "$(dumps_in "$dir")" "$(names_of 1 2 3)"
    equal "interval: counted" "$(cat "$scratch/out")" "pid $pid dumps 3 lost 0"
    all_whole "interval"
}

# A directory that somebody removes is made again, and no dump is lost.
removed() {
    local again="jespan: dump_dir: $dir was removed, and is made again" dumps
    rm -rf "$dir" # dumps of the test before would end the wait below
    (await compgen -G "$dir/heap.*.1.pb.gz" > /dev/null; remove "$dir"; await [ -e "$dir" ]; remove "$dir"; touch "$scratch/removed") &
    run "dump_dir:$dir,dump_interval_s:1,dump_at_exit:true" file "$scratch/removed" dumps 4 stats
    wait
    equal "removed: status" "$status" 0
    equal "removed: stderr" "$(sort -u "$scratch/err")" "$again"
    dumps=$(sed -n "s/^pid $pid dumps \(.*\) lost 0$/\1/p" "$scratch/out")
    [ "$dumps" -ge 4 ] || fail_with "removed: counted" "$scratch/out"
    is_whole "$dir/heap.$pid.$((dumps + 1)).pb.gz" || fail "removed: the last dump is not whole"
    mkdir -p "$scratch/above/in"
    (await compgen -G "$scratch/above/in/heap.*.1.pb.gz" > /dev/null; remove "$scratch/above") &
    run "dump_dir:$scratch/above/in,dump_interval_s:1" dumps 1 losses 2 stats
    wait
    equal "removed with the one above: stderr" "$(sed 's/heap\.[0-9.]*pb/heap.pb/' "$scratch/err")" \
        "jespan: heap dump $scratch/above/in/heap.pb.gz failed: No such file or directory; further failures are only counted"
}

kept() {
    run "dump_dir:$dir,dump_interval_s:1,dump_keep:2,dump_at_exit:true" dumps 3 stats
    ran "keep"
    equal "keep: dumps" "$(dumps_in "$dir")" "$(names_of 3 4)"
    all_whole "keep"
}

# Beside each heap dump the times of the same moment: numbered, kept and counted together.
with_times() {
    local n
    run "dump_dir:$dir,dump_interval_s:1,dump_keep:2,dump_at_exit:true,dump_time:true" dumps 4 stats
    ran "times"
    equal "times: dumps" "$(ls "$dir")" "$(names_of 2 3; names_of 2 3 | sed s/heap/time/)"
    equal "times: counted" "$(cat "$scratch/out")" "pid $pid dumps 4 lost 0"
    for n in 2 3; do
        is_whole "$dir/time.$pid.$n.pb.gz" || fail "times: number $n is not whole"
        equal "times: the moment of number $n" "$(title "time.$pid.$n")" "$(title "heap.$pid.$n")"
    done
    run "dump_dir:$dir" dump_time "$dir/asked.pb.gz" stats
    ran "times asked for"
    grep -q ' CPU ' < <("$JESPAN_CMD" report "$dir/asked.pb.gz") || fail "times asked for: not what came"
    equal "times asked for: files" "$(ls "$dir")" asked.pb.gz
    run "track_time:wall" dump_time "$dir/wall.pb.gz" stats
    ran "times without CPU time"
    equal "times without CPU time" "$("$JESPAN_CMD" report --exact "$dir/wall.pb.gz" |
        awk '/ total of / { print $1, ($3 > 0), ($4 > 0) }')" "0 1 1"
}

# title NAME: the program, the time and since when, which a dump says of itself
title() {
    "$JESPAN_CMD" report "$dir/$1.pb.gz" | head -n 1
}

# held NUMBER: the names of static objects that this dump shows
held() {
    "$JESPAN_CMD" report --exact "$dir/heap.$pid.$1.pb.gz" | sed -n 's/^ *10.*  static {name=\(.*\)}/\1/p' | sort | paste -sd' '
}

# Before the destructors of static objects, however late these came, and after them.
static_objects() {
    local how
    # shellcheck disable=SC2086
    $CXX -std=gnu++17 -O1 -g -I"$top_srcdir/include" -o "$scratch/dump_exit_program" \
        "$top_srcdir/tests/integration/dump_exit_program.cc" \
        -L"${JESPAN_LIB%/*}" -Wl,-rpath,"${JESPAN_LIB%/*}" -ljespan -lpthread
    local program=$scratch/dump_exit_program
    for how in return exit; do
        run "dump_dir:$dir,dump_at_exit:true" $how
        ran "static objects: $how"
        equal "static objects: $how: dumps" "$(dumps_in "$dir")" "$(names_of 1)"
        equal "static objects: $how: before" "$(held 1)" "early late"
    done
    run "dump_dir:$dir,dump_at_exit:both,dump_interval_s:60" return
    ran "static objects: both"
    equal "static objects: both: dumps" "$(dumps_in "$dir")" "$(names_of 1 2)"
    equal "static objects: both: before" "$(held 1)" "early late"
    equal "static objects: both: after" "$(held 2)" ""
    run "dump_dir:$dir,dump_at_exit:after" return
    ran "static objects: after"
    equal "static objects: after: dumps" "$(dumps_in "$dir")" "$(names_of 1)"
    equal "static objects: after" "$(held 1)" ""
    for how in thread main_ends; do
        run "dump_dir:$dir,dump_at_exit:both" $how
        ran "static objects: $how"
        equal "static objects: $how: dumps" "$(dumps_in "$dir")" "$(names_of 1)"
        equal "static objects: $how: after" "$(held 1)" ""
    done
    equal "static objects: the end of main" "$(sed 1d "$scratch/out")" "dumps when main had ended: 0"
    # What destructors take is not jespan's time.
    run "dump_dir:$dir,dump_at_exit:both,shutdown_timeout_ms:5000" slow
    ran "static objects: slow"
    equal "static objects: slow: dumps" "$(dumps_in "$dir")" "$(names_of 1 2)"
}

# Processes that come and go, as helpers of scripts do, leave no dump.
short_lives() {
    run "dump_dir:$dir,dump_at_exit:true,dump_at_exit_min_ms:60000" stats
    ran "a short life"
    equal "a short life: dumps" "$(dumps_in "$dir")" ""
    run "dump_dir:$dir,dump_at_exit:true,dump_at_exit_min_ms:200" sleep 250 stats
    ran "a longer life"
    equal "a longer life: dumps" "$(dumps_in "$dir")" "$(names_of 1)"
    run "dump_dir:$dir,dump_at_exit:true,dump_at_exit_min_ms:60000,dump_interval_s:1" dumps 1 stats
    equal "a short life with an interval: dumps" "$(dumps_in "$dir")" "$(names_of 1)"
}

# Two programs of one process id, one after another, as in a container that is started again: each has its own files.
lives() {
    local life
    run "dump_dir:$dir,dump_interval_s:1,dump_keep:1,dump_at_exit:true" dumps 1 become "$program" dumps 1 stats
    ran "lives"
    life=$(dumps_in "$dir" | sed -n "s/^heap\.$pid\.\([0-9]\{13\}\)\.2\.pb\.gz$/\1/p")
    equal "lives: dumps" "$(dumps_in "$dir")" "$(printf 'heap.%s.pb.gz\n' "$pid.1" "$pid.$life.2")"
    all_whole "lives"
}

# What has the next name is left alone, whatever it is.
taken_names() {
    rm -rf "$dir"
    mkdir "$dir"
    status=0
    # shellcheck disable=SC2016
    JESPAN_CONF=module_dir:$JESPAN_MODULES,dump_dir:$dir,dump_interval_s:1 \
        sh -c 'mkdir "$1/heap.$$.2.pb.gz"; exec "$2" dumps 2 stats' sh "$dir" "$program" \
        > "$scratch/out" 2> "$scratch/err" || status=$?
    pid=$(sed -n 's/^pid \([0-9]*\) .*/\1/p' "$scratch/out")
    ran "a directory"
    equal "a directory: counted" "$(cat "$scratch/out")" "pid $pid dumps 2 lost 0"
    equal "a directory: dumps" "$(dumps_in "$dir")" "$(names_of 1 2 3)"
    [ -d "$dir/heap.$pid.2.pb.gz" ] || fail "a directory is gone"
}

# A bound for the whole directory, over processes and lives.
bounded_directory() {
    local n
    rm -rf "$dir"
    mkdir "$dir"
    for n in 1 2 3 4 5; do
        JESPAN_CONF=module_dir:$JESPAN_MODULES,dump_dir:$dir,dump_at_exit:true,dump_dir_files:3 "$program" stats \
            > "$scratch/out.$n" 2>> "$scratch/err" || fail "a bounded directory: run $n"
        sleep 0.02 # file times go in steps of some milliseconds
    done
    equal "a bounded directory" "$(dumps_in "$dir" | sort)" \
        "$(sed -n 's/^pid \([0-9]*\) .*/heap.\1.1.pb.gz/p' "$scratch"/out.[345] | sort)"
    rm "$scratch"/out.[1-5]
}

# spans.dump onto what is no file: it is written into, or refused, and never replaced.
# As root with devices of the test's own: without what is tested here, the machine's would be gone.
into_others() {
    local null=/dev/null full=/dev/full
    if [ "$(id -u)" = 0 ]; then
        null=$scratch/null full=$scratch/full_device
        if ! mknod "$null" c 1 3 || ! mknod "$full" c 1 7 || ! : > "$null"; then
            echo "dump.sh: no devices can be made here: dumps into devices are not tried"
            return
        fi 2> "$scratch/err"
    fi
    mkfifo "$scratch/fifo"
    exec {held}<> "$scratch/fifo" # the reader's open() waits for a writer
    "$JESPAN_CMD" report "$scratch/fifo" > "$scratch/report" {held}>&- &
    until [ "/proc/$!/exe" -ef "$JESPAN_CMD" ] && [[ $(readlink "/proc/$!/fd/"*) == *"$scratch/fifo"* ]]; do
        kill -0 $! || break
        sleep 0.05
    done
    run "max_contexts:1000" dump "$scratch/fifo" dump "$null" stats
    exec {held}>&-
    ran "a FIFO with a reader"
    equal "a FIFO with a reader: counted" "$(cat "$scratch/out")" "pid $pid dumps 2 lost 0"
    if [ ! -p "$scratch/fifo" ] || [ ! -c "$null" ]; then
        fail "a FIFO or device was replaced"
        kill $!
        return
    fi
    wait $!
    grep -q 'handle > parse' "$scratch/report" || fail_with "a FIFO with a reader" "$scratch/report"
    run "max_contexts:1000" dump "$scratch/fifo" dump "$full" dump "$dir" stats
    equal "a FIFO without: stderr" "$(cat "$scratch/err")" "dump: ENXIO
dump: ENOSPC
dump: EISDIR"
    if [ ! -p "$scratch/fifo" ] || [ ! -c "$full" ]; then
        fail "a FIFO or device was replaced"
    fi
}

# The reporter waits for nothing at exit: not for the interval, and it does not keep the program.
short_program() {
    run "dump_dir:$dir,dump_interval_s:3600,dump_at_exit:true" stats
    ran "short program"
    equal "short program: dumps" "$(dumps_in "$dir")" "$(names_of 1)"
}

forks_and_execs() {
    local child parent
    run "dump_dir:$dir,dump_at_exit:true" fork stats
    ran "fork"
    equal "fork: dumps" "$(dumps_in "$dir")" "$(names_of 1)"
    run "dump_dir:$dir,dump_at_exit:true,follow_fork:true" fork stats
    ran "follow_fork"
    parent=$pid
    child=$(sed -n 's/^pid \([0-9]*\) .*/\1/p' "$scratch/out" | head -n 1)
    equal "follow_fork: dumps" "$(dumps_in "$dir")" "$(printf 'heap.%d.1.pb.gz\n' "$child" "$parent" | sort -V)"
    all_whole "follow_fork"
    run "dump_dir:$dir,dump_at_exit:true" exec "$program" stats
    ran "exec"
    equal "exec: dumps" "$(dumps_in "$dir" | wc -l)" 2
    all_whole "exec"
}

# Directories that cannot be written to: said once, counted each time. (Root may write anywhere that is a directory.)
unwritable() {
    local where=$1 what=$2 error=$3
    run "dump_dir:$where,dump_interval_s:1,dump_at_exit:true" losses 2 stats check
    equal "$what: status" "$status" 0
    equal "$what: stderr" "$(cat "$scratch/err")" \
        "jespan: heap dump $where/heap.$pid.1.pb.gz failed: $error; further failures are only counted"
    equal "$what: counted" "$(cat "$scratch/out")" "pid $pid dumps 0 lost 2"
}

# A directory in which files can be made, and which cannot be read. Root could read it.
unreadable() {
    local drop=()
    [ "$(id -u)" != 0 ] || drop=(setpriv "--bounding-set=-dac_override,-dac_read_search")
    rm -rf "$dir"
    mkdir -m 333 "$dir"
    status=0
    if "${drop[@]}" ls "$dir" > "$scratch/out" 2>&1; then
        echo "dump.sh: all directories can be read here: one that cannot be is not tried"
        return
    fi
    JESPAN_CONF=module_dir:$JESPAN_MODULES,dump_dir:$dir,dump_interval_s:1,dump_keep:1 "${drop[@]}" "$program" dumps 2 stats \
        > "$scratch/out" 2> "$scratch/err" || status=$?
    chmod 700 "$dir"
    pid=$(sed -n 's/^pid \([0-9]*\) .*/\1/p' "$scratch/out")
    ran "unreadable directory"
    equal "unreadable directory: counted" "$(cat "$scratch/out")" "pid $pid dumps 2 lost 0"
    equal "unreadable directory: dumps" "$(dumps_in "$dir" | sed -E 's/\.[0-9]{13}\././')" "$(names_of 2)"
}

# A file may grow to nothing: every write fails, as on a full disk. SIGXFSZ is ignored, as a program that expects this does.
limited_file_size() {
    local conf=module_dir:$JESPAN_MODULES,dump_dir:$dir,dump_interval_s:1
    rm -rf "$dir"
    mkdir "$dir"
    status=0
    # What the program says goes through pipes, which have no such limit.
    {
        (trap '' XFSZ && ulimit -f 0 && JESPAN_CONF=$conf exec "$program" losses 2 stats check 2>&1 1>&4) |
            cat > "$scratch/err"
    } 4>&1 | cat > "$scratch/out" || status=$?
    pid=$(sed -n 's/^pid \([0-9]*\) .*/\1/p' "$scratch/out")
    equal "file size limit: status" "$status" 0
    equal "file size limit: stderr" "$(cat "$scratch/err")" \
        "jespan: heap dump $dir/heap.$pid.1.pb.gz failed: File too large; further failures are only counted"
    equal "file size limit: counted" "$(cat "$scratch/out")" "pid $pid dumps 0 lost 2"
    equal "file size limit: files" "$(ls -A "$dir")" ""
}

# shellcheck disable=SC2317 # the cleanup hook
unmount() {
    mountpoint -q "$scratch/full" && umount "$scratch/full"
}

# A file system of 16 KiB that is full at first, and has room again later.
full_disk() {
    mkdir "$scratch/full"
    if ! mount -t tmpfs -o size=16k none "$scratch/full" 2> /dev/null; then
        echo "dump.sh: mounting is not allowed here: a full disk is tried with a file size limit only"
        return
    fi
    cleanup_hook=unmount
    head -c 16384 /dev/zero > "$scratch/full/filler" 2> /dev/null || true
    run "dump_dir:$scratch/full,dump_interval_s:1" losses 2 exec "$scratch/make_room" dumps 1 stats check
    equal "full disk: status" "$status" 0
    equal "full disk: stderr" "$(cat "$scratch/err")" \
        "jespan: heap dump $scratch/full/heap.$pid.1.pb.gz failed: No space left on device; further failures are only counted"
    grep -qx "pid $pid dumps 1 lost [2-9]" "$scratch/out" || fail_with "full disk: counted" "$scratch/out"
    equal "full disk: dumps" "$(dumps_in "$scratch/full")" "heap.$pid.1.pb.gz"
    is_whole "$scratch/full/heap.$pid.1.pb.gz" || fail "full disk: the dump after there was room is not whole"
    umount "$scratch/full"
    cleanup_hook=:
}

make_room() {
    printf '#!/bin/sh\nexec rm %s/full/filler\n' "$scratch" > "$scratch/make_room"
    chmod +x "$scratch/make_room"
}

# Killed at any moment: a dump under its name is whole. What was being written has another name.
# kill_one NUMBER: at the first sight of its first dump, begun or finished, or a moment later
kill_one() {
    local child name tries=2000000
    JESPAN_CONF=module_dir:$JESPAN_MODULES,dump_dir:$dir,dump_interval_s:1 "$program" passing 4000 churn \
        > "$scratch/out.$1" 2> "$scratch/err.$1" &
    child=$!
    name="$dir/heap.$child.1.pb.gz"
    [ $(($1 % 4)) = 0 ] || name+='*'
    until compgen -G "$name" > /dev/null || [ "$tries" = 0 ]; do
        tries=$((tries - 1))
        [ $((tries % 8)) != 0 ] || sleep 0.001
    done
    [ $(($1 % 3)) != 0 ] || sleep "0.00$(($1 % 10))"
    kill -KILL "$child"
    wait "$child" 2> /dev/null || true
}

killed() {
    local batch i name whole=0
    rm -rf "$dir"
    mkdir "$dir"
    for batch in 0 1 2; do
        for i in 0 1 2 3 4 5 6 7; do
            kill_one $((batch * 8 + i)) &
        done
        wait
    done
    cat "$scratch"/err.* > "$scratch/err"
    equal "killed: stderr" "$(cat "$scratch/err")" ""
    for name in $(dumps_in "$dir"); do
        is_whole "$dir/$name" || fail "killed: $name is not whole"
        whole=$((whole + 1))
    done
    [ "$whole" -gt 0 ] || fail "killed: no dump was ever written, so nothing was tried"
}

no_module() {
    run "dump_dir:$dir,dump_at_exit:true,module_dir:/nonexistent" stats check
    equal "no module: status" "$status" 0
    grep -q '^jespan: exporter pprof: /nonexistent/pprof.so' "$scratch/err" ||
        fail_with "no module: the module is not named" "$scratch/err"
    grep -q ' failed: there is no exporter pprof; further' "$scratch/err" ||
        fail_with "no module: the dump fails for another reason" "$scratch/err"
    equal "no module: dumps" "$(dumps_in "$dir")" ""
}

# A name may be as long as the file system lets it be.
long_names() {
    local name n
    for n in 240 255; do
        name=$(printf "%0${n}d" 0)
        run "max_contexts:1000" dump "$dir/$name" dump "$dir/$name" stats
        equal "$n bytes: stderr" "$(cat "$scratch/err")" ""
        equal "$n bytes: files" "$(ls "$dir")" "$name"
        is_whole "$dir/$name" || fail "$n bytes: not whole"
        rm "$dir/$name"
    done
    run "max_contexts:1000" dump "$dir/${name}0" stats
    equal "256 bytes: stderr" "$(cat "$scratch/err")" "dump: ENAMETOOLONG"
}

# An explicit path, and one that is no good.
asked_for() {
    run "max_contexts:1000" dump "$dir/asked.pb.gz" dump "$dir/none/asked.pb.gz" stats check
    equal "asked for: status" "$status" 0
    equal "asked for: stderr" "$(cat "$scratch/err")" "dump: ENOENT"
    equal "asked for: counted" "$(cat "$scratch/out")" "pid $pid dumps 1 lost 1"
    is_whole "$dir/asked.pb.gz" || fail "asked for: not whole"
}

nothing_by_default
at_exit
one_thread_before_exit
large_thread_local
on_interval
removed
kept
with_times
short_program
static_objects
short_lives
lives
taken_names
bounded_directory
into_others
forks_and_execs
touch "$scratch/file"
unwritable "$scratch/missing" "missing directory" "No such file or directory"
unwritable "$scratch/file" "no directory at all" "Not a directory"
unwritable /proc "unwritable directory" "No such file or directory"
unreadable
limited_file_size
make_room
full_disk
killed
no_module
long_names
asked_for
finish
