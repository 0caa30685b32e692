#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan threads` against threads that count for themselves: those that have ended and those of the same name are kept apart,
# figures are equal or within bounds. THREADS=10000 is the long version (20 s): as many that have ended, and LIVE=10000 that live at once.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
need python3
"$JESPAN_CMD" help threads > /dev/null 2>&1 || skip "built without the pprof exporter"

cat > "$scratch/check.py" << 'END'
"""check.py REPORT.json SAYS NAMES.json: the report against what the threads say, and the names of mallctl against the report."""
import json
import sys

with open(sys.argv[1]) as file:
    report = json.load(file)
with open(sys.argv[2]) as file:
    says = [line.split() for line in file if line.strip() != "ready"]
threads = {}
for thread in report["threads"]:
    if thread["id"] in threads:
        print("two threads have the number", thread["id"])
    threads[thread["id"]] = thread
failed = len(threads) < len(says) + 1
if failed:
    print(f"{len(threads)} threads, should be more than {len(says)}")
for number, name, live, *figures in says:
    thread = threads.get(int(number), {})
    allocated, freed, by_others, in_use = map(int, figures)
    is_right = (thread and thread["name"].split("-")[0] == name and thread["live"] == (live == "1") and thread["threads"] == 1
                and thread["alloc_bytes"] == allocated and thread["free_bytes"] == freed
                and thread["inuse_bytes"][0] <= in_use <= thread["inuse_bytes"][1]
                and thread["freed_by_others_bytes"][0] <= by_others <= thread["freed_by_others_bytes"][1]
                and (not thread["live"] or thread["context"] == "wait"))
    if not is_right:
        print(f"{name} {number} should have live {live}, {allocated}, {freed}, {by_others}, {in_use}: {thread}")
        failed = True
all_freed, cells_freed = sum(t["free_bytes"] for t in threads.values()), sum(c["free_bytes"] for c in report["cells"])
if all_freed != cells_freed:
    print(f"threads freed {all_freed}, by context {cells_freed}")
    failed = True
if sum(c["alloc_bytes"] - c["free_bytes"] for c in report["cells"]) != report["inuse_bytes"]:
    print("the cells are not what is in use")
    failed = True
with open(sys.argv[3]) as file:
    names = json.load(file)
wanted = {"spans.threads.count": sum(t["id"] > 0 for t in threads.values())}
for number, t in threads.items():
    values = {"name": t["name"], "live": int(t["live"]), "threads": t["threads"], "inuse_least_bytes": t["inuse_bytes"][0],
              "inuse_most_bytes": t["inuse_bytes"][1], "freed_by_others_least_bytes": t["freed_by_others_bytes"][0],
              "freed_by_others_most_bytes": t["freed_by_others_bytes"][1]}
    values.update((name, t[name]) for name in ("alloc_objects", "alloc_bytes", "free_objects", "free_bytes"))
    if number > 0:
        wanted.update((f"spans.threads.{number}.{name}", value) for name, value in values.items())
for name in sorted(wanted.keys() | names.keys()):
    if wanted.get(name) != names.get(name):
        print(f"{name} is {names.get(name)}, should be {wanted.get(name)}")
        failed = True
sys.exit(failed)
END

compile "$scratch/program" tests/integration/threads_program.c

# start CONF [live]: the program; what it says is in $scratch/says
start() {
    local n=${THREADS:-1000}
    [ "${2:-}" != live ] || n=${LIVE:-${THREADS:-300}}
    rm -f "$scratch/says"
    # shellcheck disable=SC2086
    JESPAN_CONF=$1 "$scratch/program" "$n" "$RANDOM" ${2:-} > "$scratch/says" 2> "$scratch/said" &
    pids+=($!)
    await_of $! grep -q ready "$scratch/says" && return
    fail_with "the program does not begin: $*" "$scratch/said"
    finish
}

for conf in track_time:wall stacks:all "stacks:all live"; do
    # shellcheck disable=SC2086
    start $conf
    status=0
    "$JESPAN_CMD" threads --json "${pids[-1]}" > "$scratch/json" 2> "$scratch/err" || status=$?
    if grep -q 'permission denied' "$scratch/err"; then
        skip "this system lets no process read another"
    fi
    equal "$conf: status" "$status" 0
    "$JESPAN_CMD" ctl --json "${pids[-1]}" list 'spans.threads.*' > "$scratch/names"
    python3 "$scratch/check.py" "$scratch/json" "$scratch/says" "$scratch/names" > "$scratch/out" 2>&1 || fail_with "$conf" "$scratch/out"
done

# What people read: four threads of one name, a bound, and who freed
"$JESPAN_CMD" threads --top 0 "${pids[0]}" > "$scratch/table"
equal "live threads of one name" "$(grep -c '^same .* <= .* wait$' "$scratch/table")" 4
equal "ended threads of one name" "$(grep -c '^same .*(ended)$' "$scratch/table")" 4
grep -q '^Freed, by the thread' "$scratch/table" && grep -q ' work$' "$scratch/table" || fail_with "the matrix" "$scratch/table"
equal "--top" "$("$JESPAN_CMD" threads --top 1 "${pids[0]}" | grep -c 'more threads')" 1

# One by one, from outside
thread=$(awk '$2 == "same" { print $1 }' "$scratch/says" | head -1)
equal "ctl get" "$("$JESPAN_CMD" ctl "${pids[-1]}" get "spans.threads.$thread.name")" same
for name in 2147483647.live 4294967297.live 0.live; do
    status=0
    "$JESPAN_CMD" ctl "${pids[-1]}" get "spans.threads.$name" 2> "$scratch/err" || status=$?
    equal "$name" "$status $(cat "$scratch/err")" "1 jespan: ${pids[-1]}: spans.threads.$name does not exist in it"
done
for name in "$thread.fish" "fish.live" "$thread." ids; do
    status=0
    "$JESPAN_CMD" ctl "${pids[-1]}" get "spans.threads.$name" 2> "$scratch/err" || status=$?
    equal "$name" "$status $(cat "$scratch/err")" "1 jespan: ${pids[-1]}: spans.threads.$name is no name that can be read from outside"
done

for words in "" "fish" "$$" "2147483647" "1 2" "--top x 1" "--sort fish 1"; do
    status=0
    # shellcheck disable=SC2086
    "$JESPAN_CMD" threads $words > /dev/null 2> "$scratch/err" || status=$?
    equal "threads $words: status" "$status" 2
done
equal "no number of a process" "$("$JESPAN_CMD" threads fish 2>&1)" "jespan: 'fish' is not the number of a process"
equal "no such process" "$("$JESPAN_CMD" threads 2147483647 2>&1)" "jespan: 2147483647: there is no such process"
for format in "" --json; do
    status=0
    # shellcheck disable=SC2086
    "$JESPAN_CMD" threads $format "${pids[0]}" > /dev/full 2> "$scratch/err" || status=$?
    equal "threads $format on a full disk: status" "$status" 1
    equal "threads $format on a full disk" "$(cat "$scratch/err")" "jespan: cannot write the output: No space left on device"
done
finish
