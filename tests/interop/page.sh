#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The page of the service `http`, opened in Chromium, and the flame graph of google/pprof that is fed by it.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/pprof_tool.sh
. "$top_srcdir/tests/support/pprof_tool.sh"

need python3 chromium chromedriver tesseract npm # npm: without it, the page has no pictures

# start NAME OPTIONS: the program; its address in $address
start() {
    JESPAN_CONF=module_dir:$JESPAN_MODULES,http_listen:127.0.0.1:0$2 "$program" 2> "$scratch/$1.said" &
    pids+=($!)
    wait_for_line "$scratch/$1.said" 's/.*listens on port \([0-9]*\).*/\1/p'
    address=http://127.0.0.1:$line
}

# wait_for_line FILE SED-SCRIPT: what the script prints of it, in $line
wait_for_line() {
    local _
    for _ in {1..6000}; do
        line=$(sed -n "$2" "$1" 2> /dev/null) || true # it may not be there yet
        [ -z "$line" ] || return 0
        sleep 0.1
    done
    fail_with "nothing listens" "$1"
    finish
}

# start_pprof: its pages are about the program at $address, and at $pprof_address
start_pprof() {
    local port
    port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
    HOME=$scratch PPROF_TMPDIR=$scratch "$pprof_bin/pprof" -http="127.0.0.1:$port" -no_browser "$address/debug/pprof/heap" \
        > "$scratch/pprof" 2>&1 &
    pids+=($!)
    wait_for_line "$scratch/pprof" 's/^Serving web UI on //p'
    pprof_address=$line
}

program=$scratch/page_program
compile "$program" tests/interop/page_program.c
start open ',http_history_s:1,limit:bounded=1M|request=40M'
start_pprof
open_address=$address
start stacks ,stacks:all
stacks_address=$address
# Two programs under a sidecar
# shellcheck disable=SC2016
program=$program scratch=$scratch "$JESPAN_CMD" run --quiet --stacks=all --http 127.0.0.1:0 --conf "module_dir:$JESPAN_MODULES" -- \
    bash -c '"$program" & echo $! > "$scratch/second"; exec "$program"' 2> "$scratch/sidecar.said" &
pids+=($!)
wait_for_line "$scratch/sidecar.said" 's/.*listens on port \([0-9]*\).*/\1/p'
sidecar_address=http://127.0.0.1:$line
pids+=("$(cat "$scratch/second")")
start closed ,http_token:open-sesame
TMPDIR=$scratch python3 -B "$top_srcdir/tests/interop/page.py" "$scratch" "$open_address" "$stacks_address" "$sidecar_address" "$address" open-sesame \
    "$pprof_address" || failures=1
# pprof takes names in angle brackets for parameters of templates.
HOME=$scratch "$pprof_bin/pprof" -top -unit=B -nodecount=1000 "$scratch/page.pb" > "$scratch/top" 2> "$scratch/pprof.said" ||
    fail_with "pprof does not read the profile of the page" "$scratch/pprof.said"
equal "the profile of the page" \
    "$(awk 'rows && $1 != "0" { name = $6; for (i = 7; i <= NF; i++) name = name " " $i; print $1, name } /flat%/ { rows = 1 }' \
        "$scratch/top" | grep -v '<unknown>' | sort)" "$(sort "$scratch/page.expected")"
finish
