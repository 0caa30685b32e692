#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Accesses to memory that the program must not touch, with guard_sample:1: the status and all that is on stderr. The names
# of the frames come from addr2line, by the addresses that the report has.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

need addr2line
program=$scratch/guard
compile "$program" tests/integration/guard_program.c
ulimit -c 0
SEGV=139
ABRT=134

# meet MISTAKE [KEY:VALUE…]: sets status, $object and $report. There, addresses in the object are relative, frames of the
# program have names, others are left out, and threads have no numbers.
meet() {
    status=0
    { (JESPAN_CONF=guard_sample:1${2:+,$2} exec "$program" "$1") > "$scratch/out" 2> "$scratch/err" || status=$?; } 2> /dev/null
    object=$(head -n 1 "$scratch/out")
    report=$(translate < "$scratch/err")
}

translate() {
    local line
    while IFS= read -r line; do
        case $line in
            *"#"*"$program+0x"*) line="    $(addr2line -fe "$program" "0x${line##*+0x}" | head -n 1)" ;;
            *"    #"*) continue ;;
        esac
        [ "$line" != "    _start" ] || continue
        echo "$line"
    done | sed -E "s/ by thread [0-9]+ \(guard\)/ by thread/; s/at 0x$object/at OBJECT/; s/0x$(printf '%x' $((0x$object + 16)))/OBJECT+16/;
                   s/0x$object/OBJECT/; s/(write to|read of) 0x[0-9a-f]+,/\1 ADDRESS,/; s/^jespan: //"
}

names="  'addr2line -Cfipe FILE 0x…' prints the function and line of FILE+0x…"
owner="owned by request{route=/look};cache"

# calls FUNCTION…
calls() {
    printf '    %s\n' "$@" main
}

check() {
    meet "$1"
    equal "$1: status" "$status" "$2"
    equal "$1: report" "$report" "$3"
}

check use_after_free_write $SEGV "use after free: write to ADDRESS, 4 bytes after the start of a freed object of 24 bytes
  object of 24 bytes at OBJECT, $owner
  accessed by thread:
$(calls write_to use_after_free_write)
  freed by thread:
$(calls release use_after_free_write)
  allocated by thread:
$(calls allocate use_after_free_write)
$names"
check use_after_free_read $SEGV "use after free: read of ADDRESS, 4998 bytes after the start of a freed object of 5008 bytes
  object of 5008 bytes at OBJECT, $owner
  accessed by thread:
$(calls read_from use_after_free_read)
  freed by thread:
$(calls release use_after_free_read)
  allocated by thread:
$(calls allocate use_after_free_read)
$names"
check overflow $SEGV "overflow: write to ADDRESS, 0 bytes after the end of an object of 4096 bytes
  object of 4096 bytes at OBJECT, $owner
  accessed by thread:
$(calls write_to overflow)
  allocated by thread:
$(calls allocate overflow)
$names"
overflow_read="overflow: read of ADDRESS, 100 bytes after the end of an object of 4096 bytes
  object of 4096 bytes at OBJECT, $owner
  accessed by thread:
$(calls read_from overflow_read)
  allocated by thread:
$(calls allocate overflow_read)
$names"
check overflow_read $SEGV "$overflow_read"
check underflow $SEGV "underflow: write to ADDRESS, 1 byte before the start of an object of 4096 bytes
  object of 4096 bytes at OBJECT, $owner
  accessed by thread:
$(calls write_to underflow)
  allocated by thread:
$(calls allocate underflow)
$names"
check overflow_seen_late $ABRT "overflow, found when the object was freed: write to ADDRESS, 0 bytes after the end of an object of 25 bytes
  object of 25 bytes at OBJECT, $owner
  freed by thread:
$(calls release overflow_seen_late)
  allocated by thread:
$(calls allocate overflow_seen_late)
$names"
check double_free $ABRT "double free of OBJECT
  object of 100 bytes at OBJECT, $owner
  freed again by thread:
$(calls release double_free)
  freed by thread:
$(calls release double_free)
  allocated by thread:
$(calls allocate double_free)
$names"
check free_inside $ABRT "free of a pointer that is not allocated: OBJECT+16, 16 bytes after the start of an object
  object of 100 bytes at OBJECT, $owner
  freed here by thread:
$(calls release free_inside)
  allocated by thread:
$(calls allocate free_inside)
$names"
check realloc_after_free $ABRT "double free of OBJECT
  object of 100 bytes at OBJECT, $owner
  freed again by thread:
$(calls realloc_after_free)
  freed by thread:
$(calls release realloc_after_free)
  allocated by thread:
$(calls allocate realloc_after_free)
$names"

# The trace that the thread works for, published by another library, wrongly, and by jespan.
trace_lines() {
    grep -A 1 '^  in trace' <<< "$report" || true
}

meet underflow_in_trace
equal "underflow_in_trace: status" "$status" $SEGV
equal "underflow_in_trace" "$(trace_lines)" "  in trace 4bf90000000000000000000000000036, span a0000000000000b7
  allocated by thread:"
meet underflow_wrong_trace
equal "underflow_wrong_trace: status" "$status" $SEGV
equal "underflow_wrong_trace" "$(trace_lines)" ""
meet double_free_in_trace otel_context:true
equal "double_free_in_trace: status" "$status" $ABRT
equal "double_free_in_trace" "$(trace_lines)" "  in trace 4bf92f3577b34da6a3ce929d0e0e4736, span 00f067aa0ba902b7
  freed by thread:"
meet double_free_in_trace
equal "double_free_in_trace, not published" "$(trace_lines)" ""

# The program's own handlers, which it installs after jespan's.
meet recovers
equal "recovers: status" "$status" 7
equal "recovers: output" "$(tail -n 1 "$scratch/out")" recovered
equal "recovers: report" "$(sed '/^    recover/d' <<< "$report")" "$overflow_read"
check other_fault $SEGV ""
check sent_signal $SEGV ""
check handlers_restored $SEGV ""

# The child's mistake is the child's: its copy of the object is freed, the parent's is not.
meet forked
equal "forked: status" "$status" 11
equal "forked: one report" "$(grep -c 'use after free' <<< "$report")" 1

# Without guard_sample there is no handler and no guarded object.
(JESPAN_CONF='' exec "$program" overflow_read) > /dev/null 2> "$scratch/err" || fail "guard_sample:0: the program ended by a fault"
equal "guard_sample:0: stderr" "$(cat "$scratch/err")" ""

# The command has an option for it.
status=0
{ "$JESPAN_CMD" run --in-process --interval 0 --dump-dir "$scratch/dumps" --guard=1 -- "$program" overflow > "$scratch/out" \
    2> "$scratch/err" || status=$?; } 2> /dev/null
equal "jespan run --guard=1: status" "$status" $SEGV
grep -q '^jespan: overflow: write to' "$scratch/err" || fail_with "jespan run --guard=1: no report" "$scratch/err"
finish
