#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The probes otel_memory:alloc and otel_memory:free, as a tracer sees them: gdb, which knows semaphores.
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
finish
