#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan report`: each kind of table equals another reading of the same dumps, which programs with random spans wrote. Each kind
# of input is read: files, standard input, directories, URLs, processes. Wrong words are refused.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/command.sh
. "$top_srcdir/tests/support/command.sh"
need python3 jq
export TZ=UTC

# refuses PATTERN WORD…
refuses() {
    local pattern=$1
    shift
    jespan "$@"
    says "$*" 2 "$pattern"
}

test_oracle() {
    local seed
    for seed in 1 2 3; do
        "$scratch/program" $seed "$scratch/old" "$scratch/new" || fail "seed $seed: no dumps"
        python3 -B "$top_srcdir/tests/support/report_oracle.py" "$JESPAN_CMD" "$scratch/old" "$scratch/new" > "$scratch/out" 2>&1 ||
            fail_with "seed $seed: the report differs from the oracle" "$scratch/out"
    done
}

# The title of a report has the time of the profile, so files are told apart by what else is in them.
contexts_of() {
    jespan report --csv "$@"
    equal "report $*: status" "$status" 0
    sort "$scratch/out" > "$scratch/sorted"
}

# reads WHAT FILE WORD…: the words give the same report as the file
reads() {
    local what=$1 file=$2
    shift 2
    contexts_of "$file"
    mv "$scratch/sorted" "$scratch/expected"
    contexts_of "$@"
    cmp -s "$scratch/sorted" "$scratch/expected" || fail_with "$what" "$scratch/sorted" "$scratch/expected"
}

test_inputs() {
    "$JESPAN_CMD" report --csv - < "$scratch/new" | sort > "$scratch/piped"
    contexts_of "$scratch/new"
    cmp -s "$scratch/piped" "$scratch/sorted" || fail_with "standard input" "$scratch/piped"
    gzip -dc "$scratch/new" | "$JESPAN_CMD" report --csv - | sort > "$scratch/piped"
    cmp -s "$scratch/piped" "$scratch/sorted" || fail_with "standard input, plain" "$scratch/piped"
    mkdir "$scratch/dumps"
    cp "$scratch/old" "$scratch/dumps/heap.7.9.pb.gz"
    cp "$scratch/new" "$scratch/dumps/heap.7.10.pb.gz"
    cp "$scratch/old" "$scratch/dumps/other"
    touch -d '2026-11-20 12:00:00' "$scratch"/dumps/heap*
    touch "$scratch/dumps/other"
    reads "a directory, the same time" "$scratch/new" "$scratch/dumps"
    touch -d '2026-11-20 12:10:00' "$scratch/dumps/heap.7.9.pb.gz"
    reads "a directory" "$scratch/old" "$scratch/dumps"
    reads "--at with a date" "$scratch/new" --at '2026-11-20 12:09' "$scratch/dumps"
    reads "--at with seconds" "$scratch/old" --at 2026-11-20T12:10:00 "$scratch/dumps"
    reads "--at @SECONDS" "$scratch/new" --at "@$(date -d '2026-11-20 12:09:59' +%s)" "$scratch/dumps"
    touch -d '1 hour ago' "$scratch/dumps/heap.7.9.pb.gz"
    reads "--at -30m" "$scratch/old" --at -30m "$scratch/dumps"
    reads "--at -2h" "$scratch/new" --at -2h "$scratch/dumps"
    refuses "jespan: *dumps: all dumps in the directory are younger" report --at '2026-11-20 11:59' "$scratch/dumps"
    refuses "jespan: *dumps: --at: this is not a time*" report --at noon "$scratch/dumps"
    refuses "jespan: *dumps: there is no dump in the directory" report --time "$scratch/dumps"
    refuses "jespan: *old: --at is for a directory" report --at 12:00 "$scratch/old"
}

# A server that answers one path
test_url() {
    mkdir -p "$scratch/www/debug/pprof"
    cp "$scratch/new" "$scratch/www/debug/pprof/heap"
    cp "$scratch/old" "$scratch/www/other"
    cat > "$scratch/serve.py" << 'END'
import functools, http.server, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print(server.server_address[1], flush=True)
server.serve_forever()
END
    mkfifo "$scratch/port"
    python3 "$scratch/serve.py" "$scratch/www" > "$scratch/port" 2>> "$scratch/requests" &
    server=$!
    pids+=("$server")
    read -r port < "$scratch/port"
    jespan report "http://127.0.0.1:$port"
    if grep -q 'has no libcurl' "$scratch/err"; then
        return
    fi
    reads "a URL" "$scratch/new" "http://127.0.0.1:$port"
    reads "a URL that ends with /" "$scratch/new" "http://127.0.0.1:$port/"
    reads "a URL with a process" "$scratch/new" "http://127.0.0.1:$port/?pid=17"
    reads "a URL with a path" "$scratch/old" "http://127.0.0.1:$port/other"
    local pid
    for pid in x '' 0 017 +17 17%20 17x 4294967313 99999999999; do
        refuses "jespan: http://*: 'pid=$pid' is not the number of a process" report "http://127.0.0.1:$port/?pid=$pid"
    done
    refuses "jespan: http://*: 'pid=x' is not the number of a process" report "http://127.0.0.1:$port?a=b&pid=x#c"
    reads "a URL with other parameters" "$scratch/new" "http://127.0.0.1:$port/?xpid=x#pid=x"
    refuses "jespan: http://*: HTTP status 404: *" report "http://127.0.0.1:$port/none"
    refuses "jespan: http://*: not a pprof profile" report "http://127.0.0.1:$port/debug/"
    # The page of html takes two passes, which must see the same profile
    : > "$scratch/requests"
    jespan html -o "$scratch/page" "http://127.0.0.1:$port"
    kill "$server"
    wait "$server" || true
    equal "html of a URL: status and requests" "$status $(grep -c GET "$scratch/requests")" "0 1"
    refuses "jespan: http://*: *" report "http://127.0.0.1:$port"
    refuses "jespan: unix:*: *" report "unix:$scratch/none"
}

test_refusals() {
    refuses "jespan: --by: 'size' is none of *" report --by size "$scratch/new"
    refuses "jespan: --by: 'label:' is none of *" report --by label: "$scratch/new"
    refuses "jespan: --filter: '{a}': a label is KEY=VALUE" report --filter '{a}' "$scratch/new"
    refuses "jespan: --filter: '{a=b': a '{' needs a '}'*" report --filter '{a=b' "$scratch/new"
    refuses "jespan: --filter: 'a>>b': a name is missing" report --filter 'a>>b' "$scratch/new"
    refuses "jespan: --filter: '': a name is missing" report --filter '' "$scratch/new"
    refuses "jespan: --filter: 'a|': a name is missing" report --filter 'a|' "$scratch/new"
    refuses "jespan: --filter: '~(a': *" report --filter '~(a' "$scratch/new"
    refuses "jespan: --filter: '!~': a regular expression is missing" report --filter '!~' "$scratch/new"
    refuses "jespan: --min-bytes: '1x' is not a number of bytes such as 500K" report --min-bytes 1x "$scratch/new"
    refuses "jespan: *new: --min-bytes is for bytes: *" report --min-bytes 1 --sort objects "$scratch/new"
    refuses "jespan: *new: --columns: 'x' is none of them; the columns are inuse, share, objects, *" report --columns inuse,x "$scratch/new"
    refuses "jespan: *new: --columns: '' is none of them; the columns are inuse, share, objects, *" report --columns '' "$scratch/new"
    refuses "jespan: --tree is for paths*" report --tree --by name "$scratch/new"
    refuses "jespan: --tree and --diff*" report --tree --diff "$scratch/old" "$scratch/new"
    refuses "jespan: --diff needs two*" report --diff "$scratch/new"
    refuses "jespan: *new: --time is for*" report --time "$scratch/new"
}

test_formats() {
    jespan report --markdown --by label:tenant "$scratch/new"
    grep -q '^|---:|---:|---:|---:|---|$' "$scratch/out" || fail_with "--markdown" "$scratch/out"
    grep -q 'and \\|' "$scratch/out" || fail_with "--markdown does not escape" "$scratch/out"
    local all shown
    all=$("$JESPAN_CMD" report --json --tree "$scratch/new" | jq '.rows | length')
    shown=$("$JESPAN_CMD" report --json --top 3 --tree "$scratch/new" | jq '.rows | length')
    [ "$shown" -lt "$all" ] || fail "--tree --top 3 shows all of $all rows"
    equal "--tree --top 3: n_rows" "$("$JESPAN_CMD" report --json --top 3 --tree "$scratch/new" | jq .n_rows)" "$all"
    jespan report --top 3 --tree "$scratch/new"
    equal "--tree --top 3" "$(wc -l < "$scratch/out") $(tail -n 2 "$scratch/out" | grep -o '[(t].*' | tr '\n' ' ')" \
        "$((shown + 4)) ($((all - shown)) more) total of $all contexts "
    jespan report --markdown --top 3 --tree "$scratch/new"
    equal "--markdown --tree --top 3" "$(tail -n 2 "$scratch/out" | sed 's/.*| \(.*\) |$/\1/' | tr '\n' ' ')" \
        "($((all - shown)) more) **total of $all** "
    jespan report --markdown --exact --top 2 --by name --columns inuse "$scratch/new"
    equal "--markdown --top 2" "$(awk '/^\| [0-9]/ { n += 1; sum += n < 4 ? $2 : -$2 } END { print n, sum }' "$scratch/out")" "4 0"
    jespan report --diff "$scratch/old" "$scratch/old"
    grep -q '^0 contexts have grown$' "$scratch/out" && grep -q '^0 contexts have shrunk$' "$scratch/out" ||
        fail_with "no difference" "$scratch/out"
}

# A pager gets what is longer than nothing, and may end early.
test_pager() {
    have script || return 0
    PAGER="sed 's/^/paged: /'" TERM=dumb timeout 600 script -qec "'$JESPAN_CMD' report '$scratch/new'" /dev/null < /dev/null > "$scratch/out"
    grep -q '^paged: .*CONTEXT' "$scratch/out" || fail_with "PAGER" "$scratch/out"
    JESPAN_PAGER="head -n 1" timeout 600 script -qec "'$JESPAN_CMD' report --top 0 '$scratch/new'; echo status \$?" /dev/null < /dev/null > "$scratch/out"
    grep -q '^status 0' "$scratch/out" || fail_with "JESPAN_PAGER that ends early" "$scratch/out"
    # ^C reaches report too, which must not leave the terminal to a pager that stays
    # shellcheck disable=SC2016 # the pager's variable
    JESPAN_PAGER='read -r _; kill -INT $PPID; kill -QUIT $PPID; cat' timeout 600 \
        script -qec "'$JESPAN_CMD' report '$scratch/new'; echo status \$?" /dev/null < /dev/null > "$scratch/out"
    grep -q '^status 0' "$scratch/out" || fail_with "^C in the pager" "$scratch/out"
}

compile "$scratch/program" tests/integration/report_program.c
test_oracle
test_inputs
test_url
test_refusals
test_formats
test_pager
finish
