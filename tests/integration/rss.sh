#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan rss`: the parts add up to the kernel's resident memory, on a program whose holes, mappings, and memory that was never
# touched or only read, are known, and on a redis-server that was fragmented. The context that keeps slabs is named.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
need python3
"$JESPAN_CMD" help rss > /dev/null 2>&1 || skip "built without the pprof exporter"

cat > "$scratch/check.py" << 'END'
"""check.py JESPAN PID KIND: compares with the kernel, and with what is known of a kind of program."""
import json
import re
import subprocess
import sys

jespan, pid, kind = sys.argv[1:]
report = json.loads(subprocess.run([jespan, "rss", "--json", "--top", "0", pid], stdout=subprocess.PIPE, check=True).stdout)
with open(f"/proc/{pid}/status") as file:
    kernel = int(re.search(r"VmRSS:\s*(\d+) kB", file.read()).group(1)) * 1024
parts = {name.removesuffix("_bytes"): value for name, value in report["parts"].items()}
contexts = {row["context"]: row for row in report["contexts"]}
failed = False


def near(what, value, expected, tolerance):
    global failed
    if abs(value - expected) > tolerance:
        print(f"{kind}: {what} is {value}, should be {expected} +- {tolerance:.0f}")
        failed = True


MIB = 1 << 20
near("the sum of the parts", sum(parts.values()), kernel, 0.03 * kernel)
near("RSS", report["rss_bytes"], kernel, 0.03 * kernel)
title = subprocess.run([jespan, "report", "--exact", pid], stdout=subprocess.PIPE, check=True, text=True).stdout.split("\n")[0]
near("RSS in the title of a report", int(re.search(r"  resident (\d+)$", title).group(1)), kernel, 0.03 * kernel)
near("what is in use by all contexts", sum(row["inuse_bytes"] for row in contexts.values()), report["inuse_bytes"], 0)
near("objects in use", parts["in_use"], sum(row["resident_bytes"] for row in contexts.values()), 4096)
if sum(row["resident_bytes"] for row in contexts.values()) > min(report["inuse_bytes"], report["rss_bytes"]):
    print(f"{kind}: contexts have more in memory than they have in use, or than the process has")
    failed = True
if kind == "program":
    keeper, zeroes = contexts["filler > keeper {colour=blue}"], contexts["zeroes"]
    near("objects of keeper", keeper["objects"], 4000, 0)
    near("keeper in memory", keeper["resident_bytes"], 4000 * 96, 0)
    # each slab has one or two objects of keeper, and nothing else
    slabs = 400000 * 96
    near("what keeper keeps", keeper["pinned_bytes"], slabs - 4000 * 96, 0.05 * slabs)
    near("what keeper keeps alone", keeper["pinned_alone_bytes"], slabs, 0.08 * slabs)
    near("zeroes in use", zeroes["inuse_bytes"], 64 * MIB, 0)
    near("zeroes in memory", zeroes["resident_bytes"], 16 * MIB, 64 * 4096)  # an object begins within a page
    near("other memory", parts["other"], 50 * MIB, 4 * MIB)
    near("what lies behind code", contexts["behind"]["resident_bytes"], 8 * MIB, 0)
    near("an object in several mappings", contexts["marked"]["resident_bytes"], 11 * MIB, 8192)
    near("memory that was only read", contexts["looked at"]["resident_bytes"], 2 * MIB, 8192)
    near("memory that was only read, in use", contexts["looked at"]["inuse_bytes"], 96 * MIB, 8192)
    near("buffers in memory", contexts["buffers"]["resident_bytes"], contexts["buffers"]["inuse_bytes"], 64 * 4096)
    near("what was freed", contexts.get("passing", {}).get("resident_bytes", 0), 0, 0)
    near("code", parts["code"], 6 * MIB, 5 * MIB)
if kind == "freed":
    near("memory that was freed", parts["jemalloc"], 4 * MIB, MIB)
    near("other memory", parts["other"], 0, MIB)
sys.exit(failed)
END

# check KIND PID
check() {
    python3 "$scratch/check.py" "$JESPAN_CMD" "$2" "$1" > "$scratch/out" 2>&1 || {
        "$JESPAN_CMD" rss "$2" > "$scratch/table" 2>&1 || true
        fail_with "$1" "$scratch/out" "$scratch/table"
    }
}

compile "$scratch/program" tests/integration/rss_program.c
mkfifo "$scratch/ready"
"$scratch/program" > "$scratch/ready" &
pids+=($!)
IFS= read -r said < "$scratch/ready"
[ "$said" = "ready " ] || echo "not run: there was no room for code before the heap"
"$JESPAN_CMD" rss ${pids[0]} > "$scratch/table" 2> "$scratch/err" || ! grep -qE 'permission denied|No such file' "$scratch/err" ||
    skip "this system lets no process read another"
check program "${pids[0]}"
grep -q 'resident memory (RSS)' "$scratch/table" && grep -q 'filler > keeper {colour=blue}$' "$scratch/table" ||
    fail_with "the table" "$scratch/table"
kill -STOP "${pids[0]}"
check program "${pids[0]}"
kill -CONT "${pids[0]}"

# Objects that are credited to a stack belong to the row of the stack's span.
JESPAN_CONF=stacks:all "$scratch/program" > "$scratch/ready" &
pids+=($!)
read -r _ < "$scratch/ready"
check program "${pids[1]}"

# Pages of which nothing is in use belong to the heap until they are given back.
compile "$scratch/freed" tests/integration/rss_freed_program.c
"$scratch/freed" > "$scratch/ready" &
pids+=($!)
read -r _ < "$scratch/ready"
check freed "${pids[2]}"

# The line at the end tells of memory that is not malloc's.
# ended PYTHON: the part about resident memory, with the figure in MiB cut to tens
ended() {
    "$JESPAN_CMD" run --interval 0 --dump-dir "$scratch/dumps" -- python3 -c "$1" 2>&1 |
        sed -n "s/.*; its resident memory was up to \([0-9]*\)[0-9]\.[0-9] MiB: 'jespan rss PID' shows why while it runs; .*/\1/p"
}
maps='import mmap, time; m = mmap.mmap(-1, 100 << 20); [m.write(bytes(1 << 20)) for _ in range(100)]; time.sleep(1.5)'
found=$(ended "$maps")
[ "${found:-0}" -ge 10 ] && [ "$found" -le 14 ] || fail "100 MiB of a mapping in the line at the end: ${found}0 MiB"
equal "100 MiB of malloc in the line at the end" "$(ended "m = bytearray(100 << 20)")" ""

for words in "rss" "rss fish" "rss $$" "rss 2147483647" "rss 1 2" "rss --top x 1"; do
    status=0
    # shellcheck disable=SC2086
    "$JESPAN_CMD" $words > /dev/null 2> "$scratch/err" || status=$?
    equal "$words: status" "$status" 2
done
equal "no number of a process" "$("$JESPAN_CMD" rss fish 2>&1)" "jespan: 'fish' is not the number of a process"
for format in "" --json; do
    status=0
    # shellcheck disable=SC2086
    "$JESPAN_CMD" rss $format "${pids[0]}" > /dev/full 2> "$scratch/err" || status=$?
    equal "rss $format on a full disk: status" "$status" 1
    equal "rss $format on a full disk" "$(cat "$scratch/err")" "jespan: cannot write the output: No space left on device"
done

# Values of many sizes; then most of them are deleted.
if have redis-server && have redis-cli; then
    cd "$scratch"
    LD_PRELOAD=$JESPAN_LIB redis-server --port 0 --unixsocket "$scratch/redis" --save "" --appendonly no --activedefrag no > "$scratch/log" 2>&1 &
    pids+=($!)
    await redis-cli -s "$scratch/redis" ping || fail_with "redis does not answer" "$scratch/log"
    redis-cli -s "$scratch/redis" eval 'for i = 1, 100000 do redis.call("SET", "k" .. i, string.rep("x", i % 700)) end' 0 > "$scratch/cli"
    redis-cli -s "$scratch/redis" eval 'for i = 1, 100000 do if i % 16 ~= 0 then redis.call("DEL", "k" .. i) end end' 0 > "$scratch/cli"
    await redis-cli -s "$scratch/redis" ping
    check redis "${pids[3]}"
fi
finish
