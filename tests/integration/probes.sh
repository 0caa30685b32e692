#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The probes otel_memory:alloc and otel_memory:free, as tracers see them that know semaphores: gdb, and
# bpftrace where it may load programs into the kernel.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

need gdb readelf python3
readelf -n "$JESPAN_LIB" > "$scratch/notes" 2> /dev/null
grep -q stapsdt "$scratch/notes" || skip "the library was built without sys/sdt.h"
[ "$(uname -m)" = x86_64 ] || skip "the registers are those of x86-64"

# OpenTelemetry's profiler takes the arguments from the registers of a call.
registers() {
    grep -A 3 "Name: $1\$" "$scratch/notes" | sed -n 's/ *Arguments: //p'
}
equal "arguments of alloc" "$(registers alloc)" "8@%rdi 8@%rsi 8@%rdx"
equal "arguments of free" "$(registers free)" "8@%rdi"

compile "$scratch/program" tests/integration/probes_program.c

# traced MODE: what the probes say, a line for each
traced() {
    cat > "$scratch/commands" << END
set pagination off
set debuginfod enabled off
set print thread-events off
break traced
run $1
break -probe-stap otel_memory:alloc
commands
silent
printf "alloc %lu %lu %lu\n", \$_probe_arg0, \$_probe_arg1, \$_probe_arg2
continue
end
break -probe-stap otel_memory:free
commands
silent
printf "free %lu\n", \$_probe_arg0
continue
end
continue
END
    JESPAN_CONF=stacks_sample_bytes:65536 gdb -q -nx -batch -x "$scratch/commands" "$scratch/program" > "$scratch/said" 2> "$scratch/err"
    grep -q '^requested ' "$scratch/err" || skip "gdb cannot run a program here: $(tail -n 1 "$scratch/err")"
    grep -E '^(alloc|free) [0-9 ]+$' "$scratch/said" || true
}

traced sampled > "$scratch/events"
python3 - "$scratch/events" "$(sed -n 's/^requested //p' "$scratch/err")" 2> "$scratch/wrong" << 'END' || fail_with "sampled" "$scratch/wrong"
import math, sys

live, samples, frees, weights = set(), 0, 0, 0
for line in open(sys.argv[1]):
    kind, address, *rest = line.split()
    if kind == "alloc":
        size, weight = map(int, rest)
        assert address not in live, f"{address} is sampled again, but its free was not told"
        expected = size / -math.expm1(-size / 65536)
        assert abs(weight - expected) <= 1, f"a sample of {size} bytes weighs {weight}, not {expected}"
        live.add(address)
        samples += 1
        weights += weight
    else:
        assert address in live, f"{address} is freed, but is no sample"
        live.remove(address)
        frees += 1
requested = int(sys.argv[2])
assert not live, f"{len(live)} samples of {samples} were not told to be freed"
# The standard error is 5 %: there are about 400 samples.
assert abs(weights / requested - 1) < 0.35, f"{samples} samples weigh {weights}, and {requested} bytes were requested"
END
equal "events without samples" "$(traced all | wc -l)" 0

# ---- bpftrace ----

# Fails until a tracer has raised both semaphores of the process, or the tracer has ended: that is not permitted.
is_attached_or_ended() {
    ! kill -0 "$tracer" || python3 - "$program" "$(readlink -f "$JESPAN_LIB")" "$scratch/notes" << 'END'
import re, sys

program, library, notes = sys.argv[1:]
base = min(int(line.split("-")[0], 16) for line in open(f"/proc/{program}/maps") if line.rstrip().endswith(library))
with open(f"/proc/{program}/mem", "rb") as memory:
    for semaphore in re.findall("Semaphore: 0x([0-9a-f]+)", open(notes).read()):
        memory.seek(base + int(semaphore, 16))
        if memory.read(2) == b"\0\0":
            sys.exit(1)
END
}

if ! have bpftrace; then
    echo "probes.sh: without bpftrace"
    finish
fi
mkfifo "$scratch/go"
JESPAN_CONF=stacks_sample_bytes:65536 "$scratch/program" sampled await < "$scratch/go" 2> "$scratch/err" &
program=$!
exec 3> "$scratch/go"
library=$(readlink -f "$JESPAN_LIB")
bpftrace -p "$program" -e "usdt:$library:otel_memory:alloc { @allocs = count(); @weight = sum(arg2); }
    usdt:$library:otel_memory:free { @frees = count(); }" > "$scratch/said" 2>&1 &
tracer=$!
await is_attached_or_ended || fail_with "bpftrace does not attach" "$scratch/said"
echo >&3
exec 3>&-
wait "$program" || fail_with "with bpftrace: status $?" "$scratch/err"
wait "$tracer" || true
if grep -q '^@allocs: ' "$scratch/said"; then
    allocs=$(sed -n 's/^@allocs: //p' "$scratch/said") weight=$(sed -n 's/^@weight: //p' "$scratch/said")
    requested=$(sed -n 's/^requested //p' "$scratch/err")
    equal "bpftrace: frees" "$(sed -n 's/^@frees: //p' "$scratch/said")" "$allocs"
    if [ $((weight * 100)) -lt $((requested * 65)) ] || [ $((weight * 100)) -gt $((requested * 135)) ]; then
        fail_with "bpftrace: $allocs samples weigh $weight, and $requested bytes were requested" "$scratch/said"
    fi
else
    echo "probes.sh: bpftrace cannot trace here: $(grep -v RLIMIT_MEMLOCK "$scratch/said" | tail -n 1)"
fi
finish
