#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan top URL`: what a program answers over HTTP is shown as what is read from outside, also hostile names, in all views; a
# program that ends, and answers that are wrong.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/http.sh
. "$(dirname "$0")/../support/http.sh"

[ -f "$JESPAN_MODULES/http.so" ] || skip "built without the service http"
"$JESPAN_CMD" help top > /dev/null 2>&1 || skip "built without the pprof exporter"
"$JESPAN_CMD" report http://127.0.0.1:1/ 2> "$scratch/err" || ! grep -q 'no libcurl' "$scratch/err" || skip "built without libcurl"
program=$scratch/http_program
compile "$program" tests/integration/http_program.c

# top OPTION…: the rows that are not jespan's own, which grow with each answer. Of rows that are equal, any is the first.
top() {
    "$JESPAN_CMD" top --once --interval 0.05 "$@" > "$scratch/top" 2> "$scratch/err" || true
    sed 1d "$scratch/top" | grep -v '(jespan)' | sed $'s/\xef\xbf\xbd/?/g' | sort || true
}

start_program "arena:hold,stacks:all,limit:hold=1M/2G|inside=1G"
tell grow 100
"$JESPAN_CMD" ps > "$scratch/ps"
for options in "" "--flat" "--flat --filter inside" "--view stacks" "--view arenas" "--view limits" "--view threads --filter http_program"; do
    # shellcheck disable=SC2086
    by_pid=$(top $options "$program_pid")
    ! grep -q 'permission denied' "$scratch/err" || skip "this system lets no process read another"
    # shellcheck disable=SC2086
    equal "top $options: by URL" "$(top $options "$base")" "$by_pid"
done
equal "a row" "$(top --flat "$base/" | grep -c ' 4.0 KiB .* hold > inside {tenant=green, tenant=blue, request=17}$')" 1
equal "growth" "$("$JESPAN_CMD" top --count 2 --interval 0.05 "$base/?pid=$program_pid" | grep -c 'KiB  *0  *0  *100 .* grow$')" 2
equal "threads" "$(top --view threads "$base" | grep -c " http_program $program_pid in thread:http_program$")" 1
equal "limits" "$(top --view limits "$base" | grep -cE ' 2.0 GiB +1.0 MiB +0  hold| 1.0 GiB +- +0  hold > inside')" 2
"$JESPAN_CMD" report "$base" > "$scratch/expected"
for page in "/?pid=$program_pid" "?pid=$program_pid" "/?x=y&pid=$program_pid" "/#x" "?x=y"; do
    equal "report of the page $page" "$("$JESPAN_CMD" report "$base$page" 2>&1 | grep -v '(jespan)\|total\|after')" \
        "$(grep -v '(jespan)\|total\|after' "$scratch/expected")"
done
equal "report of another process" "$("$JESPAN_CMD" report "$base/?pid=1" 2>&1)" \
    "jespan: $base/?pid=1: process 1 is not served here, or has ended; /processes has a list"

# It ends long before top asks again, since a request under way would get another answer.
"$JESPAN_CMD" top --interval 2 "$base" > "$scratch/batch" 2> "$scratch/err" &
batch=$!
await_of "$batch" grep -q inside "$scratch/batch"
end_program
wait "$batch" || fail "the end of a program: status $?"
equal "the end of a program" "$(sed 's/after.*//' "$scratch/err")" "jespan: $base: Failed to connect to 127.0.0.1 port ${base##*:} "

start_program "http_listen:unix:$scratch/socket"
await "$JESPAN_CMD" report "unix:$scratch/socket" || fail "nobody listens"
for command in report "top --once --interval 0.05"; do
    status=0
    # shellcheck disable=SC2086
    "$JESPAN_CMD" $command "unix:$scratch/socket?pid=$program_pid" > "$scratch/top" 2> "$scratch/err" || status=$?
    equal "$command of a socket and a process" "$status $(cat "$scratch/err")" "0 "
done
equal "a socket and another process" "$("$JESPAN_CMD" report "unix:$scratch/socket?pid=1" 2>&1)" \
    "jespan: unix:$scratch/socket?pid=1: process 1 is not served here, or has ended; /processes has a list"
end_program

status=0
"$JESPAN_CMD" top --once "unix:$scratch/none" > "$scratch/top" 2> "$scratch/err" || status=$?
equal "nobody listens: status" "$status" 2
equal "nobody listens" "$(cat "$scratch/err")" "jespan: unix:$scratch/none: cannot connect to this socket"

for pid in x '' 0 017 +17 17%20; do
    for page in "/?pid=$pid" "?x=y&pid=$pid"; do
        equal "top of $page" "$("$JESPAN_CMD" top --once "$base$page" 2>&1)" "jespan: $base$page: 'pid=$pid' is not the number of a process"
    done
done
for url in http:// https:///x http://:80/ unix: "unix:?pid=7" "http://?pid=7"; do
    for command in report "top --once"; do
        status=0
        # shellcheck disable=SC2086
        "$JESPAN_CMD" $command "$url" > "$scratch/top" 2> "$scratch/err" || status=$?
        equal "$command $url" "$status $(sed "s|^jespan: [^ ]*: ||" "$scratch/err")" "2 the URL has no host"
    done
done

# --- Answers of others ------------------------------------------------------------------------------------------------

have python3 || finish
cat > "$scratch/answers.py" << 'END'
import http.server, sys, urllib.parse
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(open(sys.argv[1], "rb").read())
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
print(server.server_port, flush=True)
server.serve_forever()
END
coproc ANSWERS { exec python3 "$scratch/answers.py" "$scratch/answer"; }
program_pid=$ANSWERS_PID
read -r port <&"${ANSWERS[0]}"

root='{"id":1,"parent":0,"kind":"root","name":"(root)","labels":{}}'
while IFS= read -r spans; do
    printf '{"pid":7,"program":"p","all":{"inuse_bytes":1},"spans":[%s]}' "$spans" > "$scratch/answer"
    top "http://127.0.0.1:$port" > "$scratch/none"
    equal "wrong: $spans" "$(cat "$scratch/err")" "jespan: http://127.0.0.1:$port: the answer is not that of a program with jespan"
done << END

$root,{"id":5,"parent":6,"name":"a"},{"id":6,"parent":5,"name":"b"}
$root,{"id":5,"parent":5,"name":"a"}
$root,{"id":5,"parent":1,"name":"a"},{"id":5,"parent":1,"name":"b"}
$root,{"id":4294967290,"parent":1,"name":"a"}
$root,{"id":5,"parent":1,"name":"a
$root,{"id":5,"parent":1,"name":"\\x"}
$root,{"id":"5"}
$(printf '[%.0s' {1..100})
END
printf '{"pid":7,"other":[{"a":[null,true,-1.5e3,"\\\\"]}],"program":"p\\u001b","spans":[%s,%s]}' "$root" \
    '{"id":5,"parent":77,"kind":"span","name":"\u00e4\ud83d\ude00\u0000\ud800\n\"","total":{"peak_bytes":8192},"peak_bytes":7168,"inuse_bytes":2048,"inuse_objects":1}' > "$scratch/answer"
equal "odd, but right" "$(LC_ALL=C.UTF-8 top --flat "http://127.0.0.1:$port" | grep -v CONTEXT | tr -s ' ')" ' 2.0 KiB 7.0 KiB 0 0 1 ä😀???"'

# An error is none of the process's end, also if it comes after good readings
status=0
"$JESPAN_CMD" top --interval 0.05 "http://127.0.0.1:$port" > "$scratch/batch" 2> "$scratch/err" &
batch=$!
await_of "$batch" grep -q CONTEXT "$scratch/batch"
echo none > "$scratch/answer"
wait "$batch" || status=$?
equal "a wrong answer later: status" "$status" 2
equal "a wrong answer later" "$(cat "$scratch/err")" "jespan: http://127.0.0.1:$port: the answer is not that of a program with jespan"

# Threads and limits that make no sense: those that can be read are shown, until the first mistake
while IFS= read -r more; do
    printf '{"pid":7,"program":"p","all":{"inuse_bytes":1},"spans":[%s],%s}' "$root" "$more" > "$scratch/answer"
    for view in threads limits; do
        top --view "$view" "http://127.0.0.1:$port" > "$scratch/odd"
        equal "odd $view: $more" "$(cat "$scratch/err") $(grep -c ' THREAD$\| CONTEXT' "$scratch/odd")" " 1"
    done
done << END
"threads":[{"live":true,"id":-1,"context_id":99999999999999999999,"name":"$(printf 'x%.0s' {1..100})","alloc_bytes":1e400}]
"threads":[{"live":1,"id":"x","context_id":null}],"limits":[{"id":1,"hard_bytes":-5},{"id":4294967297},{"id":1}]
"threads":{"live":true},"limits":{"id":1}
"threads":[null,[],{}],"limits":[null,[],{}]
"threads":[{"live":true,"name":"\u0000\u001b[31m"}],"limits":[{"id":1,"soft_bytes":18446744073709551615}]
END
printf '{"pid":7,"spans":[%s],"threads":[%s],"limits":[%s]}' "$root" '{"id":5,"name":"w\u001b","live":true,"context_id":1},{"live":false,"id":6}' \
    '{"id":1,"soft_bytes":1024,"hard_bytes":2048,"refusals":3},{"id":9,"hard_bytes":1}' > "$scratch/answer"
equal "threads" "$(top --view threads "http://127.0.0.1:$port" | grep -v THREAD | tr -s ' ')" " 0 0 0 0.0% w? 5 in (root)"
equal "limits" "$(top --view limits "http://127.0.0.1:$port" | grep -v CONTEXT | tr -s ' ')" " 0 B 0.0% 2.0 KiB 1.0 KiB 3 (root)"
finish
