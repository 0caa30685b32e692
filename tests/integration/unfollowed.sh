#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Forked processes that are not followed write nothing, and their parent says so: once, and only where they stay and execute
# nothing. Programs that execute helpers hear nothing.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

mkfifo "$scratch/never" # reading from it waits, in bash itself
export scratch

# Bash programs whose child lives until the file "done" is there. read is bash's own.
# shellcheck disable=SC2016
echo 'until [ -e "$scratch/done" ]; do read -rt 0.1 <> "$scratch/never"; done' > "$scratch/stay"
# shellcheck disable=SC2016
forks='( . "$scratch/stay" ) & ( . "$scratch/stay" ) & . "$scratch/stay"; wait'
# shellcheck disable=SC2016
executes='bash "$scratch/stay" & . "$scratch/stay"; wait'

pids=()
end() {
    touch "$scratch/done"
}
cleanup_hook=end

# begin NAME CONF PROGRAM
begin() {
    mkdir "$scratch/$1"
    JESPAN_CONF=module_dir:$JESPAN_MODULES,dump_dir:$scratch/$1,dump_interval_s:1,$2 LD_PRELOAD=$JESPAN_LIB \
        bash -c "$3" 2> "$scratch/$1.err" &
    pids+=($!)
    echo $! > "$scratch/$1.pid"
}

# has_dumps NAME N: the program itself does
has_dumps() {
    [ -e "$scratch/$1/heap.$(cat "$scratch/$1.pid").$2.pb.gz" ]
}

# others NAME: how many processes beside the program itself have dumps
others() {
    find "$scratch/$1" -name 'heap.*' ! -name "heap.$(cat "$scratch/$1.pid").*" | sed 's/.*heap\.\([0-9]*\)\..*/\1/' | sort -u | wc -l
}

line='^jespan: forked processes such as [0-9]+ are not followed: .*; add --follow-fork to jespan run, or follow_fork:true to JESPAN_CONF, to follow them'
begin forks "" "$forks"
begin executes "" "$executes"
begin hidden follow_fork:false "$forks"
begin followed follow_fork:true "$forks"
begin served "dump_dir:,http_listen:unix:$scratch/socket" "$forks"
# scraped_line: asks once more, and looks
scraped_line() {
    curl -sf -o "$scratch/page" --noproxy '*' --unix-socket "$scratch/socket" http://localhost/metrics && grep -qE "$line" "$scratch/served.err"
}
if have curl && [ -e "$JESPAN_MODULES/http.so" ]; then
    await scraped_line || fail_with "served: it does not say so" "$scratch/served.err"
fi
# A thread forks and ends.
cat > "$scratch/thread.py" << 'END'
import os, threading, time
done = os.environ["scratch"] + "/done"
def stay():
    while not os.path.exists(done):
        time.sleep(0.05)
def fork():
    if os.fork() == 0:
        stay()
        os._exit(0)
thread = threading.Thread(target=fork)
thread.start()
thread.join()
stay()
os.wait()
END
if have python3; then
    # shellcheck disable=SC2016
    begin thread "" 'exec python3 -W ignore -B "$scratch/thread.py"'
    await grep -qE "$line" "$scratch/thread.err" || fail_with "thread: it does not say so" "$scratch/thread.err"
fi
await grep -qE "$line" "$scratch/forks.err" || fail_with "forks: it does not say so" "$scratch/forks.err"
for name in forks executes hidden followed; do
    await has_dumps $name 4 || fail_with "$name: there are no dumps" "$scratch/$name.err"
done
end
wait "${pids[@]}"
equal "forks: lines" "$(grep -cE "$line" "$scratch/forks.err")" 1
equal "forks: processes beside it that wrote" "$(others forks)" 0
for name in executes hidden followed; do
    equal "$name: stderr" "$(cat "$scratch/$name.err")" ""
done
equal "executes: processes beside it that wrote" "$(others executes)" 1
equal "hidden: processes beside it that wrote" "$(others hidden)" 0
equal "followed: processes beside it that wrote" "$(others followed)" 2
finish
