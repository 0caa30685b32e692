#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# bindings/rust: what the spans of Rust programs hold, to the byte, in threads and in tasks that move between threads; and the
# layer without jespan.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/fetched.sh
. "$top_srcdir/tests/support/fetched.sh"

need cargo
$CC -std=c11 -Wall -Wextra -Werror -fno-builtin -fsyntax-only -I"$top_srcdir/include" "$top_srcdir/bindings/rust/abi.c" 2> "$scratch/abi" ||
    fail_with "bindings/rust/src is not what the headers say" "$scratch/abi"

# cargo writes beside Cargo.toml
mkdir -p "$scratch/source/tests/interop" "$scratch/source/bindings"
cp -r "$top_srcdir/tests/interop/rust" "$scratch/source/tests/interop"
cp -r "$top_srcdir/bindings/rust" "$scratch/source/bindings"
chmod -R u+w "$scratch/source"
unset RUSTFLAGS CARGO_TARGET_DIR
export CARGO_INCREMENTAL=0 CARGO_TERM_COLOR=never
export LIBRARY_PATH=${JESPAN_LIB%/*} LD_LIBRARY_PATH=${JESPAN_LIB%/*}

# cargo_build TARGET-DIRECTORY ARGUMENT…: with the versions of Cargo.lock
cargo_build() {
    cargo build -q --locked --manifest-path "$scratch/source/tests/interop/rust/Cargo.toml" --target-dir "$@"
}

fill_target() {
    cargo_build "$1/target" --features link
}

cargo fetch -q --locked --manifest-path "$scratch/source/tests/interop/rust/Cargo.toml" 2> "$scratch/fetched" ||
    skip "the crates can neither be fetched nor found in cargo's cache: $(tail -n 1 "$scratch/fetched")"
lock=$({ rustc --version && cat "$top_srcdir/tests/interop/rust/Cargo.lock"; } | sha256sum | cut -c 1-12)
build_once "rust-$lock" fill_target
cp -a "$built/target" "$scratch/target"
cargo_build "$scratch/target" --offline --features link > "$scratch/build" 2>&1 || fail_with "the crate does not compile" "$scratch/build"

# run DIRECTORY COMMAND…: a program, which writes a dump into DIRECTORY at its end
run() {
    mkdir "$scratch/$1"
    JESPAN_CONF=module_dir:$JESPAN_MODULES,dump_dir:$scratch/$1,dump_at_exit:true,dump_time:true "${@:2}" > "$scratch/$1.said" 2> "$scratch/$1.stderr" ||
        fail_with "$1: status $?" "$scratch/$1.stderr"
}

# report DIRECTORY OPTION…: rows of figures and a context, with one space between
report() {
    COLUMNS=1000 "$JESPAN_CMD" report --exact "${@:2}" "$scratch/$1"/heap.*.pb.gz | awk '{ $1 = $1; print }'
}

# opens DIRECTORY: how many spans "task" and "step" were opened
opens() {
    "$JESPAN_CMD" report --time --by name --csv --columns opens "$scratch/$1" | awk -F, '$2 ~ /task|step/ { n += $1 } END { print n }'
}

# agrees PROGRAM ARGUMENT…: each context that the oracle knows has the bytes in use and allocated that the oracle counted
agrees() {
    run "$1" "$scratch/target/debug/$1" "${@:2}"
    report "$1" --columns inuse,alloc | sort > "$scratch/$1.report"
    [ -s "$scratch/$1.said" ] || fail "$1: the oracle said nothing"
    sort "$scratch/$1.said" | comm -23 - "$scratch/$1.report" > "$scratch/$1.missing"
    [ ! -s "$scratch/$1.missing" ] || fail_with "$1: the oracle says otherwise" "$scratch/$1.missing" "$scratch/$1.report"
}

agrees threads
agrees tasks
spans=${RUST_SPANS:-100000} # RUST_SPANS=1000000 takes minutes
agrees many_tasks "$spans"
equal "spans of tasks" "$(opens many_tasks)" "$spans"

# What tracing-flame writes: the same stacks in the same order, each with the same time. Not compared are the warm-up of each thread,
# and time outside all spans, which tracing-flame writes to the parents of the next span.
compare_with_tracing_flame() {
    python3 - "$scratch/theirs" "$scratch/ours" 2> "$scratch/said" << 'END'
import sys
from collections import Counter

orders, times = [], []
for path in sys.argv[1:]:
    order, time = {}, Counter()
    for line in open(path):
        stack, ns = line.replace("; ", ";").rsplit(" ", 1)
        thread = stack.split(";")[0]
        if "warm-up" not in stack and ";" in stack and (thread == "ThreadId(1)-main" or stack.endswith("Inner")):
            order.setdefault(thread, []).append(stack)
            time[stack] += int(ns)
    orders.append(order)
    times.append(time)
assert sum(map(len, orders[0].values())) == 45, orders[0]
assert orders[0] == orders[1], orders
worst = max((abs(times[1][stack] / theirs - 1), stack) for stack, theirs in times[0].items())
print(f"tracing-flame: {len(times[0])} stacks, whose times differ by {worst[0]:.2%} at most")
sys.exit(2 if worst[0] > 0.03 else 0)
END
}

# A thread that loses its processor between the readings of the two layers makes their times differ. So the best of five runs counts.
same_as_tracing_flame() {
    local try status
    for try in 1 2 3 4 5; do
        "$JESPAN_CMD" run --quiet --flame-events "$scratch/ours" -- "$scratch/target/debug/flame" "$scratch/theirs" 2> "$scratch/said" ||
            fail_with "flame: status $?" "$scratch/said"
        status=0
        compare_with_tracing_flame || status=$?
        [ $status = 2 ] || break
    done
    [ $status = 0 ] || fail_with "run $try: not what tracing-flame writes, status $status" "$scratch/said"
}
if "$JESPAN_CMD" help report > /dev/null; then
    same_as_tracing_flame
fi

run many "$scratch/target/debug/many" 200000
equal "objects of 100,000 spans below others" "$(report many --by name --columns allocs | grep 'inner$')" "100000 inner"

# A program that names the allocator is linked with jespan.
run linked "$scratch/target/debug/shop"

# Another one is not, and its layer looks for jespan in the process.
cargo_build "$scratch/target" --offline --bin shop > "$scratch/build" 2>&1 || fail_with "the crate does not compile without 'link'" "$scratch/build"
run preloaded preloaded "$scratch/target/debug/shop"
run without "$scratch/target/debug/shop"
for way in linked preloaded; do
    equal "$way: pages that are kept" "$(report "$way" --columns objects --filter cache | grep '{')" "751 request > cache {route=/look}"
done
finish
