#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A program that closes a descriptor twice may close the HTTP service's epoll set. It ends as without jespan, and the
# service begins again at the same address.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

program=$scratch/program
compile "$program" tests/integration/closes_twice_program.c
for times in 1 3; do
    status=0
    JESPAN_CONF=module_dir:$JESPAN_MODULES,http_listen:unix:$scratch/socket \
        timeout -k 1 600 "$program" "$scratch/socket" "$times" > "$scratch/out" 2> "$scratch/err" || status=$?
    equal "closed $times times: status" "$status" 0
    equal "closed $times times: stderr" "$(cat "$scratch/err")" ""
    [ ! -e "$scratch/socket" ] || fail "closed $times times: the socket is left"
    [ "$failures" = 0 ] || break
done
finish
