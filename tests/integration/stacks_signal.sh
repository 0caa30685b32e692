#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A signal switches stacks on and off (stacks_signal), with no thread and no other process.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

compile "$scratch/program" tests/integration/stacks_signal_program.c

# says WHAT CONF OUTPUT STDERR ACTION...
says() {
    local what=$1 conf=$2 output=$3 stderr=$4 status=0
    shift 4
    JESPAN_CONF=$conf "$scratch/program" "$@" > "$scratch/out" 2> "$scratch/err" || status=$?
    equal "$what: status" "$status" 0
    equal "$what: output" "$(paste -sd' ' "$scratch/out")" "$output"
    equal "$what: stderr" "$(cat "$scratch/err")" "$stderr"
}

on='jespan: stacks: all' off='jespan: stacks: off'
says "on and off" stacks_signal:USR2 "off none all some off" "$on"$'\n'"$off" \
    mode stacks signal 12 take mode take stacks signal 12 take mode
says "by a big allocation" stacks_signal:12 "all" "$on" signal 12 big mode
says "two before an allocation are one" stacks_signal:USR2 "all" "$on" signal 12 signal 12 take mode
says "a mode" 'stacks_signal:SIGUSR1=sampled@req*' "sampled@req*" 'jespan: stacks: sampled@req*' signal 10 take mode
says "a mode for other spans" 'stacks_signal:USR1=all@other' "all@other none" 'jespan: stacks: all@other' signal 10 take take mode stacks
says "on from the start" stacks:sampled,stacks_signal:USR2=all@request "sampled off all@request" \
    "$off"$'\njespan: stacks: all@request' mode signal 12 take mode signal 12 take mode
says "no thread" stacks_signal:USR2 1 "" threads
says "the program's handler" stacks_signal:USR2 "handled off" "" handler 12 signal 12 take mode
says "in a child" stacks_signal:USR2 all "$on" fork signal 12 take mode
says "what a parent was asked is not for its child" stacks_signal:USR2 off "" signal 12 fork take mode
says "a child of a parent with stacks" stacks_signal:USR2 "all off" "$on"$'\n'"$off" signal 12 take mode fork signal 12 take mode

status=0
"$scratch/program" signal 12 2> "$scratch/err" || status=$?
equal "not asked for: status" "$status" $((128 + 12))
status=0
JESPAN_CONF=stacks_signal:USR2,only_programs:other "$scratch/program" signal 12 2> "$scratch/err" || status=$?
equal "left out: status" "$status" $((128 + 12))

for text in FOO KILL SEGV 0 65 12x "$(printf '%0100d' 12)"; do
    says "no signal '$text'" "stacks_signal:$text" off \
        "jespan: stacks_signal: '${text:0:31}' is not a signal that can switch stacks, and is ignored" take mode
done
for mode in '' on off all@ off@request; do
    says "no mode '$mode'" "stacks_signal:USR2=$mode" off \
        "jespan: stacks_signal: '$mode' is not sampled, all, sampled@NAMES or all@NAMES; the signal is ignored" take mode
done
status=0
JESPAN_CONF="stacks_signal:USR2=all@$(printf '%0600d' 1)" "$scratch/program" signal 12 2> "$scratch/err" || status=$?
equal "a long mode: status" "$status" $((128 + 12))
equal "a long mode: stderr" "$(head -c 40 "$scratch/err")" "jespan: stacks_signal: 'all@000000000000"
says "the signal of dumps" "dump_dir:$scratch,dump_on:signal,dump_signal:USR2,stacks_signal:USR2,module_dir:$JESPAN_MODULES" off \
    "jespan: stacks_signal: 'USR2' is ignored: there is a handler for this signal" take mode
finish
