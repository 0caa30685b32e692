#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The command: help, errors and exit codes. `run` starts programs as documented. `report` prints what is documented, and
# survives any file.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

make_profile=$top_builddir/tests/support/make_profile
library=$JESPAN_LIB
unset JESPAN_LIB COLUMNS
export TZ=UTC
"$JESPAN_CMD" help report > /dev/null || skip "built without the pprof exporter"

# jespan ARGUMENT… : keeps stdout, stderr and status. The line of a sidecar at its end may come later, into the next stderr.
status=0
jespan() {
    status=0
    [ "${1-}" != run ] || set -- run --quiet "${@:2}"
    "$JESPAN_CMD" "$@" > "$scratch/out" 2> "$scratch/err" || status=$?
}

# says WHAT STATUS STDERR-PATTERN: how the last command ended
says() {
    equal "$1: status" "$status" "$2"
    # shellcheck disable=SC2053
    [[ $(cat "$scratch/err") == $3 ]] || fail_with "$1: stderr is not like: $3" "$scratch/err"
}

prints() {
    # shellcheck disable=SC2053
    [[ $(cat "$scratch/out") == $2 ]] || fail_with "$1: stdout is not like: $2" "$scratch/out"
}

# completes WORDS WORD… : what bash offers for the last word
completes() {
    local expected=$1
    shift
    # shellcheck disable=SC2016
    equal "completion of '$*'" "$(bash -c '
        . "$0/src/cmd/completion/jespan"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        compopt() { :; }
        _jespan
        echo "${COMPREPLY[*]}"' "$top_srcdir" "$JESPAN_CMD" "$@")" "$expected"
}

test_completion() {
    completes "report" rep
    completes "--dump-dir --dump-on" run --dump
    completes "dump_interval_s:" run --conf dump_int
    completes "dump_interval_s" conf dump_int
    completes "stacks" ctl 1 sta
    completes "leaks" help le
    completes "threads" top --view th
    completes "" run -- /nonexistent
}

test_help_and_usage() {
    jespan --version
    says "--version" 0 ""
    prints "--version" "jespan [0-9]*"
    jespan --help
    says "--help" 0 ""
    prints "--help" "usage: *run*report*"
    jespan help run
    says "help run" 0 ""
    prints "help run" "usage: jespan run *--dump-dir*"
    jespan report --help
    says "report --help" 0 ""
    prints "report --help" "usage: jespan report *"
    for words in "report -h" "report some-file --help" "run -h" "run --interval 5 --help"; do
        # shellcheck disable=SC2086
        jespan $words
        says "$words" 0 ""
        prints "$words" "usage: jespan ${words%% *} *"
    done
    jespan conf 'dump_k*'
    says "conf PATTERN" 0 ""
    prints "conf PATTERN" "dump_keep*default 0"
    jespan conf '*arena'
    prints "conf of Markdown" "arena
    spans with an arena of their own, NAME|NAME=PROPERTY+PROPERTY; a \* stands
    for any text
    a text"
    jespan conf nothing_like_it
    says "conf of no key" 2 "jespan: no key of the configuration matches 'nothing_like_it'"
    jespan
    says "no command" 2 "usage: *"
    jespan frobnicate
    says "unknown command" 2 "jespan: unknown command 'frobnicate'*"
    jespan help frobnicate
    says "help on an unknown command" 2 "jespan: unknown command 'frobnicate'*"
    jespan --frobnicate
    says "unknown option" 2 "jespan: unknown option '--frobnicate'*"
    jespan report
    says "report without a file" 2 "jespan: there is no INPUT*"
    jespan report a b
    says "report with two files" 2 "jespan: there is more than one INPUT*"
    local line words
    for line in "report --nope|unknown option '--nope'" "report --json -xq f|unknown option '-x'" "ps -q|unknown option '-q'" \
        "report --t 5 f|several options begin with '--t'" "report --exact=3 f|'--exact' takes no value" \
        "rss --top|'--top' needs a value" "dump -o|'-o' needs a value" "run --bogus -- true|unknown option '--bogus'" \
        "conf --x|unknown option '--x'" "serve 1 2|there is more than one PID"; do
        words=${line%%|*}
        # shellcheck disable=SC2086
        jespan $words
        says "$words" 2 "jespan: ${line#*|}; see 'jespan help ${words%% *}'"
    done
    local one other formats="--json --csv --markdown --svg --folded"
    for one in $formats; do
        for other in $formats; do
            [ "$one" != "$other" ] || continue
            jespan report "$one" "$other" "$scratch/small"
            says "report $one $other" 2 "jespan: $one and $other cannot go together"
        done
        jespan report "$one" "$one" "$scratch/small"
        says "report $one twice" 0 ""
    done
    jespan report --sort size a
    says "report --sort size" 2 "jespan: --sort: 'size'*"
    jespan report --sort wall "$scratch/small"
    says "report --sort wall of a heap dump" 2 "jespan: *small: a heap profile is sorted by inuse, alloc, objects, allocs, peak, atpeak, temporary or lifetime"
    jespan report --sort inuse "$scratch/times"
    says "report --sort inuse of a dump of times" 2 "jespan: *times: a time profile is sorted by cpu, busy, wall or opens"
    for word in x -1 1.5 4294967296; do
        jespan report --top "$word" a
        says "report --top $word" 2 "jespan: --top: '$word' is not a number from 0 to 4294967295"
    done
    jespan run
    says "run without a program" 2 "jespan: there is no PROGRAM*"
    for interval in x -1 1x "" 99999999999999999999; do
        jespan run --interval "$interval" -- true
        says "run --interval '$interval'" 2 "jespan: --interval: '$interval'*"
    done
    jespan run --interval 0.5 -- true
    says "run --interval 0.5" 2 "jespan: --interval: '0.5' is not a whole number of seconds from 0 to 31536000"
    for bytes in x -1 1x 1KB "" 1025T 99999999999999999999; do
        jespan run --dir-bytes "$bytes" -- true
        says "run --dir-bytes '$bytes'" 2 "jespan: --dir-bytes: '$bytes' is not a number of bytes from 0 to 1024T, such as 500M"
    done
    jespan run --dir-files many -- true
    says "run --dir-files many" 2 "jespan: --dir-files: 'many'*"
}

test_full_disk() {
    for words in --help --version "help report" "report $scratch/small"; do
        status=0
        # shellcheck disable=SC2086
        "$JESPAN_CMD" $words > /dev/full 2> "$scratch/err" || status=$?
        says "$words on a full disk" 1 "jespan: cannot write the output: No space left on device"
    done
    for words in --help "report $scratch/small" "report --svg $scratch/small" "html -o - $scratch/small" "symbolize -o - $scratch/small" conf ps; do
        status=0
        # shellcheck disable=SC2086
        "$JESPAN_CMD" $words >&- 2> "$scratch/err" || status=$?
        says "$words without an output" 1 "jespan: *: Bad file descriptor"
        status=0
        # shellcheck disable=SC2086
        "$JESPAN_CMD" $words > /dev/full 2> "$scratch/err" || status=$?
        says "$words on a full device" 1 "jespan: *: No space left on device"
    done
    "$JESPAN_CMD" report "$scratch/many" 2> "$scratch/err" | head -n 1 > /dev/null || true
    equal "stderr of report | head" "$(cat "$scratch/err")" ""
}

# A file that cannot be written to its end is not there, or is the one of before.
test_whole_files() {
    local words
    mkdir "$scratch/whole" "$scratch/whole/there"
    "$make_profile" rows 3000 > "$scratch/whole/rows"
    echo before > "$scratch/whole/there/file"
    ln -s there/file "$scratch/whole/link"
    for words in "html $scratch/whole/rows" "symbolize $scratch/whole/rows"; do
        for file in new there/file link; do
            status=0
            # shellcheck disable=SC2086
            (trap '' XFSZ; ulimit -f 1; exec "$JESPAN_CMD" $words -o "$scratch/whole/$file") > "$scratch/out" 2> "$scratch/err" || status=$?
            says "$words: $file" 1 "jespan: *whole/$file: File too large"
        done
        equal "$words: files" "$(find "$scratch/whole" -type f -printf '%P\n' | sort | paste -sd' ')" "rows there/file"
        equal "$words: the file of before" "$(cat "$scratch/whole/there/file")" before
    done
    chmod 600 "$scratch/whole/there/file"
    jespan html -o "$scratch/whole/link" "$scratch/whole/rows"
    says "html through a link" 0 ""
    [ -L "$scratch/whole/link" ] || fail "html through a link: the link is gone"
    equal "html through a link: mode" "$(stat -c %a "$scratch/whole/there/file")" 600
    grep -q '</html>' "$scratch/whole/link" || fail "html through a link: no page"
    (umask 027; jespan html -o "$scratch/whole/new" "$scratch/whole/rows")
    equal "html: mode" "$(stat -c %a "$scratch/whole/new")" 640
}

# What can be read only once makes the same page as a file of that name.
test_html_of_pipes() {
    local page
    page=$("$JESPAN_CMD" html -o - /dev/fd/9 9< "$scratch/small" | md5sum)
    equal "html of a pipe" "$("$JESPAN_CMD" html -o - /dev/fd/9 9< <(cat "$scratch/small") | md5sum)" "$page"
    page=$("$JESPAN_CMD" html -o - - < <(cat "$scratch/small")) || true
    [[ $page == *'</html>'* ]] || fail "html of standard input: no page"
    equal "html of standard input that is a file" "$("$JESPAN_CMD" html -o - - < "$scratch/small" | md5sum)" "$(md5sum <<< "$page")"
    jespan html -o - - - < "$scratch/small"
    says "html of standard input, twice" 2 "jespan: -: the file is empty"
}

# A file that is more than a name is written in place, and never replaced.
test_outputs_in_place() {
    local page name words
    directory=$scratch/in_place
    mkdir "$directory"
    cd "$directory"
    cp "$scratch/small" dump
    "$JESPAN_CMD" html -o page dump
    page=$(md5sum < page)
    for name in /dev/stdout /dev/fd/1 /proc/self/fd/1 out; do
        (echo a; "$JESPAN_CMD" html -o $name dump; echo b) > out
        equal "-o $name: first and last line" "$(sed -n '1p;$p' out | paste -sd' ')" "a b"
        equal "-o $name: the page" "$(sed '1d;$d' out | md5sum)" "$page"
        echo before > log
        [ $name = out ] || "$JESPAN_CMD" html -o $name dump >> log
        [ $name = out ] || equal "-o $name >> log" "$(head -n 1 log) $(tail -n +2 log | md5sum)" "before $page"
    done
    (echo a; "$JESPAN_CMD" html -o /dev/stderr dump; echo b >&2) 2> out > /dev/null
    equal "-o /dev/stderr: last line" "$(tail -n 1 out)" b
    (echo a >&3; "$JESPAN_CMD" html -o /dev/fd/3 dump; echo b >&3) 3> out
    equal "-o /dev/fd/3: first and last line" "$(sed -n '1p;$p' out | paste -sd' ')" "a b"
    echo before > linked
    ln linked other
    jespan html -o linked dump
    equal "a file with two names" "$(md5sum < other)" "$page"
    name=$(printf '%0255d' 0)
    jespan html -o "$name" dump
    says "a name of 255 bytes" 0 ""
    equal "a name of 255 bytes" "$(md5sum < "$name")" "$page"
    ln -s none/x dangling
    ln -s loop loop
    for words in "html dump" "symbolize dump"; do
        # shellcheck disable=SC2086
        jespan $words -o dangling
        says "$words to a link to nowhere" 1 "jespan: dangling: No such file or directory"
        # shellcheck disable=SC2086
        jespan $words -o loop
        says "$words to a loop of links" 1 "jespan: loop: Too many levels of symbolic links"
        # shellcheck disable=SC2086
        jespan $words -o ''
        says "$words without a name" 2 "jespan: --output: the name is empty"
    done
    [ -L dangling ] && [ -L loop ] || fail "a link was replaced"
    gzip -k dump
    cp dump.gz kept.gz
    jespan html -o dump.gz dump
    says "a dump as the page" 2 "jespan: dump.gz: is a dump and would be lost; --output needs the name of a page"
    jespan html -o dump dump dump.gz
    says "the first dump as the page" 2 "jespan: dump: is a dump and would be lost; *"
    cmp -s dump "$scratch/small" && cmp -s dump.gz kept.gz || fail "a dump was replaced"
    equal "files that are left" "$(find . -name '*.??????' ! -name '*.gz')" ""
    cd - > /dev/null
}

# Another user's file, and directories that permit no other.
test_outputs_of_others() {
    local user=(setpriv --reuid 65534 --regid 65534 --clear-groups) directory
    directory=$(mktemp -d "${TMPDIR:-/tmp}/jespan-test.XXXXXX")
    chmod 755 "$directory" && cp "$JESPAN_CMD" "$directory/jespan" && cp "$scratch/small" "$directory/dump"
    if "${user[@]}" "$directory/jespan" --version > /dev/null 2>&1; then
        mkdir "$directory/closed" "$directory/sticky"
        chmod 1777 "$directory/sticky"
        for name in closed/mine sticky/theirs closed/old; do
            echo before > "$directory/$name"
            chmod 666 "$directory/$name"
        done
        chown 65534 "$directory/closed/mine"
        ! "${user[@]}" "$directory/jespan" html -o "$directory/closed/new" "$directory/dump" 2> "$scratch/err" ||
            fail "a page in a closed directory"
        for name in closed/mine sticky/theirs; do
            "${user[@]}" "$directory/jespan" html -o "$directory/$name" "$directory/dump" 2> "$scratch/err" ||
                fail_with "html -o $name" "$scratch/err"
            grep -q '</html>' "$directory/$name" || fail "html -o $name: no page"
        done
        equal "the owner of another's file" "$(stat -c %u "$directory/sticky/theirs")" "$(id -u)"
        chown 65534 "$directory/closed/old"
        jespan html -o "$directory/closed/old" "$directory/dump"
        equal "the owner of another's file, by root" "$(stat -c %u "$directory/closed/old")" 65534
        chmod 444 "$directory/closed/mine"
        ! "${user[@]}" "$directory/jespan" html -o "$directory/closed/mine" "$directory/dump" 2> "$scratch/err" ||
            fail "a page over a file that is only to be read"
    fi
    rm -rf "$directory"
}

# A signal leaves no part of a file. It comes where the file would get its name.
test_outputs_signals() {
    local signal name file=$scratch/signals
    ! grep -q '__[at]san_init' < <(nm "$JESPAN_CMD" 2> /dev/null) || return 0
    printf '#include <signal.h>\n#include <stdlib.h>\nint rename(const char *a, const char *b) { (void)a, (void)b; raise(atoi(getenv("RAISED"))); return -1; }\n' > "$scratch/rename.c"
    $CC -shared -fPIC -o "$scratch/rename.so" "$scratch/rename.c"
    mkdir "$file"
    echo before > "$file/page"
    for signal in 1 2 15; do
        status=0
        { (RAISED=$signal LD_PRELOAD=$scratch/rename.so exec "$JESPAN_CMD" html -o "$file/page" "$scratch/small") || status=$?; } 2> /dev/null
        equal "signal $signal: status" "$status" $((128 + signal))
        equal "signal $signal: files" "$(echo "$file"/*) $(cat "$file/page")" "$file/page before"
    done
    # SIGKILL: where a file can be written before it has a name
    if have python3 && python3 -c 'import os, sys; os.open(sys.argv[1], os.O_TMPFILE | os.O_WRONLY)' "$file" 2> /dev/null; then
        printf '#include <signal.h>\nint linkat(int a, const char *b, int c, const char *d, int e) { (void)a, (void)b, (void)c, (void)d, (void)e; raise(SIGKILL); return -1; }\n' > "$scratch/link.c"
        $CC -shared -fPIC -o "$scratch/link.so" "$scratch/link.c"
        for name in page new; do
            status=0
            { (LD_PRELOAD=$scratch/link.so exec "$JESPAN_CMD" html -o "$file/$name" "$scratch/small") || status=$?; } 2> /dev/null
            equal "SIGKILL, $name: status" "$status" 137
            equal "SIGKILL, $name: files" "$(echo "$file"/*) $(cat "$file/page")" "$file/page before"
        done
    fi
    status=0
    (ulimit -f 1; exec "$JESPAN_CMD" html -o "$file/page" "$scratch/small") 2> "$scratch/err" || status=$?
    says "a file that becomes too large" 1 "jespan: *page: File too large"
    equal "a file that becomes too large: files" "$(echo "$file"/*) $(cat "$file/page")" "$file/page before"
}

# Values of a run's environment. What is tested is the command, so nothing needs to be tracked.
environment_of() {
    jespan run "$@" -- env
    equal "run $* -- env: status" "$status" 0
    conf=$(sed -n 's/^JESPAN_CONF=//p' "$scratch/out")
    [[ $conf == *,sidecar:/proc/[0-9]*/fd/[0-9]* ]] || fail "JESPAN_CONF without a sidecar: $conf"
    conf=${conf%,sidecar:*}
    preload=$(sed -n 's/^LD_PRELOAD=//p' "$scratch/out")
}

test_run_environment() {
    local conf preload
    environment_of --dump-dir "$scratch/a/b"
    equal "LD_PRELOAD" "$preload" "$(realpath "$library")"
    [ -d "$scratch/a/b" ] || fail "--dump-dir was not created"
    [[ $conf == "dump_interval_s:10,dump_at_exit:true,"*"dump_dir:$(realpath "$scratch/a/b")" ]] ||
        fail "JESPAN_CONF: $conf"
    environment_of --dump-dir "$scratch/a" --interval 0 --keep 3 --time --follow-fork --conf max_contexts:99
    [[ $conf == *",dump_interval_s:0,dump_keep:3,dump_time:true,follow_fork:true,max_contexts:99" ]] || fail "JESPAN_CONF: $conf"
    environment_of --dump-dir "$scratch/a" --dir-files 7 --dir-bytes 3K --only 'a*|b'
    [[ $conf == *",dump_dir_files:7,dump_dir_bytes:3072,only_programs:a*|b" ]] || fail "JESPAN_CONF: $conf"
    environment_of --arena 'a|b=huge' --limit 'a=1M|b{k=v}=2M/3M' --dump-on 'oom|peak' --dump-dir "$scratch/a"
    [[ $conf == *",dump_on:oom|peak,limit:a=1M|b{k=v}=2M/3M,arena:a|b=huge" ]] || fail "JESPAN_CONF: $conf"
    export JESPAN_CONF="dump_dir:$scratch/a,dump_interval_s:7" LD_PRELOAD=libc.so.6
    environment_of --interval 5
    [[ $conf == "dump_interval_s:10,"*",$JESPAN_CONF,"*"dump_interval_s:5" ]] || fail "JESPAN_CONF: $conf"
    equal "LD_PRELOAD with another" "$preload" "$(realpath "$library"):libc.so.6"
    unset JESPAN_CONF LD_PRELOAD
    (cd "$scratch/a/b" && "$JESPAN_CMD" run --quiet -- env > "$scratch/out")
    grep -q "dump_dir:$(realpath "$scratch/a/b")/jespan.env.[0-9]*,sidecar:" "$scratch/out" ||
        fail_with "the default is not a directory in the current one" "$scratch/out"
    (cd "$scratch/a/b" && "$JESPAN_CMD" run --in-process -- env > "$scratch/out")
    grep -q "dump_dir:$(realpath "$scratch/a/b")/jespan.env.[0-9]*,sidecar:$" "$scratch/out" ||
        fail_with "--in-process has a sidecar" "$scratch/out"
}

# Services are configured; dumps are left to options that ask for them.
test_run_services() {
    local conf preload option
    local url=http://me:secret@127.0.0.1:1/x listen=unix:$scratch/s
    environment_of --pyroscope $url --app "an app" --http "$listen" --conf max_contexts:99
    [[ ,$conf == *",pyroscope_url:$url,pyroscope_app:an app,http_listen:$listen,max_contexts:99" ]] ||
        fail "JESPAN_CONF: $conf"
    [[ $conf != *dump_* ]] || fail "dumps beside services: $conf"
    environment_of --otlp $url
    [[ ,$conf == *",otlp_url:$url" && $conf != *dump_* ]] || fail "JESPAN_CONF: $conf"
    environment_of --http 127.0.0.1:0
    [[ $conf == *http_listen:127.0.0.1:0 && $conf != *dump_* && $conf != *pyroscope* ]] || fail "JESPAN_CONF: $conf"
    for option in "--dump-dir=$scratch/d" --interval=10 --keep=3 --dir-files=3 --dir-bytes=1M --time --dump-on=oom; do
        (cd "$scratch" && "$JESPAN_CMD" run --pyroscope $url "$option" -- env > "$scratch/out" 2> /dev/null)
        grep -q "^JESPAN_CONF=dump_interval_s:10,dump_at_exit:true,.*dump_dir:/.*,pyroscope_url:$url,sidecar:" "$scratch/out" ||
            fail_with "no dumps with $option" "$scratch/out"
    done
    (cd "$scratch" && "$JESPAN_CMD" run --quiet --app shop -- env > "$scratch/out")
    grep -q '^JESPAN_CONF=.*dump_dir:.*,pyroscope_app:shop,sidecar:' "$scratch/out" || fail_with "--app alone" "$scratch/out"
}

test_run_services_wrong() {
    local url long option
    for url in ftp://me:secret@host me:secret@host http: http:// https:// HTTP://secret //secret httpx://secret; do
        jespan run --pyroscope "$url" -- true
        says "--pyroscope $url" 2 "jespan: --pyroscope: the URL is not http://*"
        ! grep -q secret "$scratch/err" || fail_with "--pyroscope $url is shown" "$scratch/err"
        jespan run --otlp "$url" -- true
        says "--otlp $url" 2 "jespan: --otlp: the URL is not http://*"
    done
    long=$(printf 'x%.0s' $(seq 1024))
    for option in --pyroscope --otlp --app --http --limit --arena --dump-on --only; do
        jespan run "$option" "" -- true
        says "$option ''" 2 "jespan: $option: the value is empty"
        jespan run "$option" http://me:sec,ret@host -- true
        says "$option with a comma" 2 "jespan: $option: the value cannot contain a ','"
        jespan run "$option" "http://$long" -- true
        says "$option, too long" 2 "jespan: $option: the value is longer than 1023 bytes"
    done
    for option in --limit --arena --dump-on --only; do
        jespan run "$option" '||' -- true
        says "$option '||'" 2 "jespan: $option: the list '||' has no items"
    done
}

test_run_passes_through() {
    jespan run --dump-dir "$scratch/d" -- sh -c 'echo out; echo err >&2; exit 3'
    says "exit 3" 3 "err"
    prints "exit 3" "out"
    { jespan run --dump-dir "$scratch/d" sh -c 'kill -KILL $$'; } 2> /dev/null # where the shell tells of it
    equal "status of a killed program" "$status" 137
    # shellcheck disable=SC2016
    "$JESPAN_CMD" run --quiet --dump-dir "$scratch/d" -- sh -c 'echo $$' > "$scratch/out" &
    wait $!
    equal "process id" "$(cat "$scratch/out")" "$!"
    jespan run --dump-dir "$scratch/d" -- echo --help -- -x
    prints "arguments" "--help -- -x"
}

test_run_errors() {
    jespan run -- "$scratch/none"
    says "no such file" 127 "jespan: cannot run '*none': No such file or directory"
    jespan run -- no-such-program-here
    says "not on PATH" 127 "jespan: cannot run 'no-such-program-here': No such file or directory"
    touch "$scratch/plain"
    jespan run -- "$scratch/plain"
    says "not executable" 126 "jespan: cannot run '*plain': Permission denied"
    jespan run -- "$scratch"
    says "a directory" 126 "jespan: cannot run '*': Permission denied"
    jespan run --dump-dir "$scratch/with,comma" -- true
    says "a comma" 2 "jespan: --dump-dir: the value cannot contain a ','"
    [ ! -e "$scratch/with,comma" ] || fail "a comma: the directory was made"
    jespan run --dump-dir "$scratch/plain" -- true
    says "dump dir is a file" 125 "jespan: cannot write dumps to '*plain': Not a directory"
    jespan run --dump-dir /proc/none -- true
    says "dump dir cannot be made" 125 "jespan: cannot write dumps to '/proc/none': *"
    jespan run --lib "$scratch/none.so" -- true
    says "no such library" 125 "jespan: cannot use the library '*none.so': No such file or directory"
    cp "$library" "$scratch/a:b.so"
    jespan run --lib "$scratch/a:b.so" -- true
    says "a colon" 125 "jespan: *a:b.so: LD_PRELOAD cannot name*"
    local other
    echo text > "$scratch/text.so"
    head -c 4096 "$library" > "$scratch/cut.so"
    for other in "$scratch/text.so" "$scratch/cut.so" /dev/null "$(command -v true)" "$(readlink -f "/proc/$$/exe")"; do
        [ -f "$other" ] || continue
        jespan run --lib "$other" -- true
        says "not jespan: $other" 125 "jespan: *: not a jespan library for this machine; name a libjespan.so with --lib or JESPAN_LIB"
    done
}

# An address that is malformed is refused before the program starts. Passwords are not shown.
test_run_addresses() {
    local address line
    while IFS='|' read -r address line; do
        jespan run --http "$address" -- touch "$scratch/started"
        says "--http $address" 2 "jespan: --http: '$address': $line"
        jespan run --conf "max_contexts:100,http_listen:$address" -- touch "$scratch/started"
        says "http_listen:$address" 2 "jespan: --conf: http_listen: '$address': $line"
    done << 'END'
foo|it must be ADDRESS:PORT or unix:PATH
127.0.0.1:x|the port must be a number from 0 to 65535
127.0.0.1:65536|the port must be a number from 0 to 65535
example.org:80|the address must be an IP address (\[…\] around IPv6) or localhost
unix:|the path after unix: is missing
END
    while IFS='|' read -r address line; do
        for line in "--pyroscope $address|--pyroscope: $line" "--otlp $address|--otlp: $line" \
            "--conf otlp_url:$address|--conf: otlp_url: $line" "--conf pyroscope_url:$address|--conf: pyroscope_url: $line"; do
            jespan run "${line%% *}" "$(cut -d'|' -f1 <<< "${line#* }")" -- touch "$scratch/started"
            says "${line%%|*}" 2 "jespan: ${line#*|}"
        done
    done << 'END'
foo|the URL is not http://… or https://…
ftp://host/|the URL is not http://… or https://…
http://|the URL is not http://… or https://…
http:///path|the URL has no host
http://:4040|the URL has no host
http://user:secret@:4040|the URL has no host
http://host:4040x/|the port must be a number from 1 to 65535
http://host:0|the port must be a number from 1 to 65535
http://host:|the port must be a number from 1 to 65535
https://user:secret@[::1]:99999|the port must be a number from 1 to 65535
http://a host|the URL contains a blank or a control character
http://host/?tenant=secret|the URL must be without ? and #
END
    jespan serve --http foo $$
    says "serve --http foo" 2 "jespan: --http: 'foo': it must be ADDRESS:PORT or unix:PATH"
    [ ! -e "$scratch/started" ] || fail "the program was started"
    for address in http://host https://host:4040/a/b http://user:p@ss:w/d@host http://[::1]:4040 http://ümläut.example:1; do
        jespan run --quiet --otlp "$address" --only none -- true
        says "--otlp $address" 0 ""
    done
    jespan run --quiet --dump-dir "$scratch/no_services" --conf http_listen:,otlp_url:,pyroscope_url: -- true
    says "no addresses" 0 ""
}

# So are items of lists, with their own names.
test_run_lists() {
    local option item line
    local -A right=([--limit]="a=1M" [--arena]="a" [--alert]="inuse(a)>1M" [--dump-on]="oom")
    while read -r option item line; do
        jespan run "$option" "$item" -- touch "$scratch/started"
        says "$option $item" 2 "jespan: $option: '$item' $line"
        jespan run "$option" "${right[$option]}|$item" -- touch "$scratch/started"
        says "$option, a right item before" 2 "jespan: $option: '$item' $line"
    done << 'END'
--limit a is not NAME=HARD, NAME=SOFT/HARD or NAME{KEY=VALUE}=HARD, in bytes with K, M, G or T
--limit a=64Q is not NAME=HARD, *
--limit a{b}=1M is not NAME=HARD, *
--limit =1M is not NAME=HARD, *
--limit a=2M/1M has a soft limit above its hard limit
--arena a=wet is not a known property or has a bad value
--arena a=limit:5m is not a known property or has a bad value
--arena =huge has no name
--alert inuse is not a rule such as inuse(SPAN)>1G, growth(SPAN)>10M/min or outlived(\*)>64M
--alert inuse(a)<1G is not a rule such as *
--alert growth(a)>1M is not a rule such as *
--dump-on boom is none of oom|limit|peak|signal
--dump-on OOM is none of oom|limit|peak|signal
END
    jespan run --arena 'a=huge+nohuge' -- touch "$scratch/started"
    says "--arena with a contradiction" 2 "jespan: --arena: 'a' has properties that contradict each other"
    jespan run --limit 'request > cache=1G' -- touch "$scratch/started"
    says "--limit of a path" 2 "jespan: --limit: 'request > cache=1G' is for a path; *"
    jespan run --stacks='all@a,max_contexts:64' -- touch "$scratch/started"
    says "--stacks with a comma" 2 "jespan: --stacks: the value cannot contain a ','"
    jespan run --dump-dir "$scratch/refused/a/" --flame /nonexistent/a -- touch "$scratch/started"
    says "a refused run" 125 "jespan: --flame: cannot write *"
    [ ! -e "$scratch/refused" ] || fail "a refused run leaves its directory"
    mkdir "$scratch/refused"
    jespan run --dump-dir "$scratch/refused/a" --flame /nonexistent/a -- touch "$scratch/started"
    equal "a refused run: the directory of before" "$(find "$scratch/refused")" "$scratch/refused"
    jespan run --dump-dir "$scratch/refused" --flame /nonexistent/a -- touch "$scratch/started"
    [ -d "$scratch/refused" ] || fail "a refused run removes the directory of before"
    jespan serve --alert 'inuse' $$
    says "serve --alert" 2 "jespan: --alert: 'inuse' is not a rule such as *"
    [ ! -e "$scratch/started" ] || fail "the program was started"
    jespan run --quiet --dump-dir "$scratch/lists" --limit 'a=1M||b{k=*}=1M/2M|c=1/' --arena 'a=off|b|c*=by:k+decay:5/-1' \
        --alert 'inuse( a > b {c=d} ) >= 1M|growth(*)>1K/min|' --dump-on '|peak|oom' -- true
    says "right lists" 0 ""
}

# The directory of a configuration is the user's: the program may make it, so it runs.
test_run_conf_directory() {
    local directory reason says_so
    echo text > "$scratch/a_file"
    while IFS='|' read -r directory reason; do
        directory=$scratch/$directory
        says_so="jespan: warning: dump_dir: '$directory' cannot be written to: $reason; dumps will fail"
        jespan run --quiet --interval 0 --conf "dump_dir:$scratch/a,dump_dir:$directory" -- echo runs
        equal "--conf dump_dir:$directory: the first line" "$(head -n 1 "$scratch/err")" "$says_so"
        prints "--conf dump_dir:$directory" runs
        JESPAN_CONF=dump_dir:$directory jespan run --quiet --interval 0 -- true
        equal "JESPAN_CONF=dump_dir:$directory: the first line" "$(head -n 1 "$scratch/err")" "$says_so"
        JESPAN_CONF=dump_dir:$directory jespan run --quiet --interval 0 --dump-dir "$scratch/d" -- true
        says "--dump-dir beside dump_dir:$directory" 0 ""
        JESPAN_CONF=dump_dir:$directory jespan run --quiet --interval 0 --conf dump_dir: -- true
        says "--conf dump_dir: beside dump_dir:$directory" 0 ""
    done << 'END'
missing|No such file or directory
missing/below|No such file or directory
a_file|Not a directory
END
    mkdir -p "$scratch/there"
    jespan run --quiet --interval 0 --conf "dump_dir:$scratch/there" -- true
    says "--conf dump_dir" 0 ""
    equal "--conf dump_dir: dumps" "$(dumps_in "$scratch/there" | wc -l)" 1
    (cd "$scratch" && jespan run --quiet --interval 0 --conf dump_dir:jespan.mine.1 -- true; says "--conf dump_dir of a default name" 0 ""; [ "$failures" = 0 ]) ||
        fail "--conf dump_dir of a default name"
    [ -e "$scratch/jespan.mine.1" ] || fail "the first dump makes no directory of a default name"
}

# A file that cannot be written is refused before the program starts, and none is made.
test_outputs() {
    local option path said words directory=$scratch/outputs
    local -A wrong=([none/x]="No such file or directory" [.]="Is a directory" [new/]="Is a directory" [plain/x]="Not a directory")
    mkdir "$directory"
    cd "$directory"
    echo kept > plain
    for option in --flame --flame-events --flame-svg --trace; do
        for path in "${!wrong[@]}"; do
            jespan run $option "$path" -- touch started
            says "$option $path" 125 "jespan: $option: cannot write '$path': ${wrong[$path]}"
        done
        jespan run $option - -- touch started
        says "$option -" 2 "jespan: $option: '-' is not possible, since standard output belongs to PROGRAM; './-' is a file of that name"
        for path in /dev/stdout /dev/fd/1 /proc/self/fd/1; do
            jespan run $option $path -- touch started
            says "$option $path" 2 "jespan: $option: '$path' is not possible, since standard output belongs to PROGRAM"
        done
        equal "files after wrong $option" "$(echo ./*)" ./plain
        said=
        [ $option != --flame-events ] || said="jespan: $directory/*: no span of true was seen, so the file is empty"
        echo kept > plain
        jespan run $option plain -- true
        says "$option of a file that is there" 0 "${said/is empty/stays as it was}"
        [ -z "$said" ] || equal "$option of a file that is there" "$(cat plain)" kept
        jespan run $option ./- -- true
        says "$option ./-" 0 "$said"
        [ -e ./- ] || fail "$option ./- is not written"
        rm -f ./-
        jespan run --quiet $option new/file --dump-dir new --interval 0 -- true
        says "$option in a new directory of dumps" 0 "$said"
        equal "files of $option in a new directory of dumps" "$(echo new/* | sed 's/[0-9]\{2,\}/N/')" "new/file new/heap.N.1.pb.gz"
        rm -r new
        jespan run $option none/x --interval 5 -- touch started
        says "$option none/x and dumps" 125 "jespan: $option: cannot write 'none/x': No such file or directory"
        equal "files after wrong $option and dumps" "$(echo ./*)" ./plain
    done
    mkdir below
    ln -s below link
    ln -s a to_a
    ln -s "$directory/to_a" below/to_a
    ln -s none/x dangling
    ln -s loop loop
    jespan run --flame dangling -- touch started
    says "--flame of a link to nowhere" 125 "jespan: --flame: cannot write 'dangling': No such file or directory"
    jespan run --flame loop -- touch started
    says "--flame of a loop of links" 125 "jespan: --flame: cannot write 'loop': Too many levels of symbolic links"
    for words in "--flame a --flame-events a" "--flame a --flame-events to_a" "--flame-events to_a --trace a" "--flame to_a --trace link/to_a" "--flame-svg a --trace ./a" "--flame below/a --trace link/a" "--flame-svg plain --flame below/../plain"; do
        # shellcheck disable=SC2086
        jespan run $words -- touch started
        # shellcheck disable=SC2086
        set -- $words
        case $words in --flame-svg\ plain*) set -- "$3" "$4" "$1" "$2" ;; esac
        says "one file: $words" 2 "jespan: $1 and $3 name the same file, '$4'"
    done
    rm -r below link to_a dangling loop
    jespan run --flame-svg /dev/null --trace /dev/null --flame a --flame-events b -- true
    says "two outputs to a device" 0 "jespan: $directory/b: no span of true was seen, so the file is empty"
    jespan check --no-outlived --junit a --markdown ./a -- touch started
    says "check with one file" 2 "jespan: --junit and --markdown name the same file, './a'"
    rm -f a b
    jespan run --dump-dir - -- touch started
    says "--dump-dir -" 2 "jespan: --dump-dir: '-' is not possible, since standard output belongs to PROGRAM; './-' is a file of that name"
    for option in --junit --markdown; do
        jespan check --no-outlived $option none/x -- touch started
        says "check $option none/x" 125 "jespan: $option: cannot write 'none/x': No such file or directory"
        jespan check --no-outlived $option - -- touch started
        says "check $option -" 2 "jespan: $option: '-' is not possible, *"
    done
    [ ! -e started ] || fail "the program was started"
    cd - > /dev/null
}

# A command that its user may execute and not read.
test_run_unreadable_command() {
    local user=(setpriv --reuid 65534 --regid 65534 --clear-groups) directory
    directory=$(mktemp -d "${TMPDIR:-/tmp}/jespan-test.XXXXXX")
    chmod 711 "$directory" && cp "$JESPAN_CMD" "$directory/jespan" && chmod 711 "$directory/jespan"
    if "${user[@]}" test -x "$directory/jespan" -a -r "$library" 2> /dev/null; then
        "${user[@]}" "$directory/jespan" run --lib "$library" --dump-dir "$directory" -- true 2> "$scratch/err" || true
        grep -q "cannot write dumps to '$directory': Permission denied" "$scratch/err" ||
            fail_with "a command that cannot be read" "$scratch/err"
        "${user[@]}" "$directory/jespan" run --lib "$library" --flame-svg "$directory/x" -- true 2> "$scratch/err" || true
        grep -q -- "--flame-svg: cannot write '$directory/x': Permission denied" "$scratch/err" ||
            fail_with "a file without permission" "$scratch/err"
    fi
    rm -rf "$directory"
}

# The loader needs no section headers, and finds symbols by either kind of hash table.
test_run_library_without_sections() {
    local style conf preload
    cp "$library" "$scratch/bare.so"
    printf '\0\0\0\0\0\0\0\0' | dd of="$scratch/bare.so" bs=1 seek=40 conv=notrunc status=none # e_shoff
    printf '\0\0\0\0' | dd of="$scratch/bare.so" bs=1 seek=60 conv=notrunc status=none # e_shnum, e_shstrndx
    environment_of --lib "$scratch/bare.so" --dump-dir "$scratch/bare" --conf "module_dir:$JESPAN_MODULES"
    equal "no section headers: LD_PRELOAD" "$preload" "$(realpath "$scratch/bare.so")"
    [ -n "$(dumps_in "$scratch/bare")" ] || fail "no section headers: no dump"
    echo 'int jespan_attach(void) { return 0; } int jespan_other(void) { return 1; }' > "$scratch/hashed.c"
    echo 'extern int jespan_attach(void); int hashed(void) { return jespan_attach(); }' > "$scratch/undefined.c"
    for style in gnu sysv both; do
        $CC -shared -fPIC -Wl,--hash-style=$style -o "$scratch/hashed.so" "$scratch/hashed.c"
        environment_of --lib "$scratch/hashed.so" --dump-dir "$scratch/d"
        equal "--hash-style=$style" "$preload" "$(realpath "$scratch/hashed.so")"
        $CC -shared -fPIC -Wl,--hash-style=$style -o "$scratch/undefined.so" "$scratch/undefined.c"
        jespan run --lib "$scratch/undefined.so" -- true
        says "undefined, --hash-style=$style" 125 "jespan: *: not a jespan library for this machine; *"
    done
}

# Any byte may be wrong. Nothing is run: there is no such directory for dumps.
test_run_damaged_library() {
    local at limit
    $CC -shared -fPIC -Wl,--hash-style=both -o "$scratch/whole.so" "$scratch/hashed.c"
    limit=$(stat -c %s "$scratch/whole.so")
    for ((at = 4; at < limit; at += 1 + at / 40)); do
        cp "$scratch/whole.so" "$scratch/damaged.so"
        printf '\xff\xff\xff\x7f' | dd of="$scratch/damaged.so" bs=1 seek="$at" conv=notrunc status=none
        jespan run --lib "$scratch/damaged.so" --dump-dir /proc/none -- true
        [ "$status" = 125 ] || fail_with "a library damaged at $at: status $status" "$scratch/err"
    done
}

test_run_finds_the_library() {
    local conf
    mkdir -p "$scratch/moved/bin" "$scratch/moved/lib/jespan"
    cp "$JESPAN_CMD" "$scratch/moved/bin/jespan"
    cp "$library" "$scratch/moved/lib/libjespan.so"
    cp "$JESPAN_MODULES/pprof.so" "$scratch/moved/lib/jespan/"
    "$scratch/moved/bin/jespan" run --dump-dir "$scratch/d" -- env > "$scratch/out"
    grep -q "^LD_PRELOAD=$(realpath "$scratch")/moved/lib/libjespan.so$" "$scratch/out" || fail "a moved installation"
    grep -q "module_dir:$(realpath "$scratch")/moved/lib/jespan," "$scratch/out" || fail "its modules"
}

test_run_warns() {
    printf '#include <stdlib.h>\nint main(void) { return getenv("LD_PRELOAD") && *getenv("LD_PRELOAD"); }\n' > "$scratch/musl.c"
    ln -s "$(realpath /lib64/ld-linux-x86-64.so.2)" "$scratch/ld-musl-of-glibc.so.1"
    $CC -Wl,--dynamic-linker="$scratch/ld-musl-of-glibc.so.1" -o "$scratch/musl" "$scratch/musl.c"
    jespan run --quiet --dump-dir "$scratch/d" -- "$scratch/musl"
    says "a program for musl" 0 "jespan: warning: *musl is for musl: jespan cannot track it*"
    echo 'int main(void) { return 0; }' > "$scratch/nothing.c"
    $CC -static -o "$scratch/static" "$scratch/nothing.c" 2> /dev/null || return 0
    jespan run --dump-dir "$scratch/d" -- "$scratch/static"
    says "a static program" 0 "jespan: warning: *static is statically linked*"
    printf '#!%s\n' "$scratch/static" > "$scratch/script"
    chmod +x "$scratch/script"
    jespan run --dump-dir "$scratch/d" -- "$scratch/script"
    says "a script for it" 0 "jespan: warning: *static is statically linked*"
}

# The loader preloads libraries into the program that it gets as an argument.
test_run_loader() {
    local loader
    loader=$(LC_ALL=C readelf -l "$(command -v env)" | sed -n 's/.*program interpreter: \(.*\)]/\1/p')
    jespan run --dump-dir "$scratch/d" -- "$loader" "$(command -v env)"
    says "the loader as program" 0 ""
}

# Only root can make a program that raises privileges for root too: those of another user.
test_run_warns_of_privileges() {
    local mode
    [ "$(id -u)" = 0 ] || return 0
    for mode in 4755 2755; do
        cp "$(command -v sleep)" "$scratch/raised"
        chown 65534:65534 "$scratch/raised"
        chmod $mode "$scratch/raised"
        jespan run --dump-dir "$scratch/d" -- "$scratch/raised" 0
        says "mode $mode" 0 "jespan: warning: *raised runs with raised privileges: jespan cannot track it"
    done
}

# The interpreter of a script may be a FIFO that nobody writes to.
test_run_fifo() {
    mkfifo "$scratch/fifo"
    printf '#!%s\n' "$scratch/fifo" > "$scratch/script"
    chmod +x "$scratch/script"
    status=0
    timeout 600 "$JESPAN_CMD" run --quiet --dump-dir "$scratch/d" -- "$scratch/script" > "$scratch/out" 2> "$scratch/err" || status=$?
    says "a FIFO as interpreter" 126 "jespan: cannot run '*script': Permission denied"
}

# The library is preloaded once, and the inner PROGRAM dumps however short it runs.
test_run_nested() {
    local preload
    jespan run --dump-dir "$scratch/outer" -- "$JESPAN_CMD" run --quiet --dump-dir "$scratch/inner" -- env
    preload=$(sed -n 's/^LD_PRELOAD=//p' "$scratch/out")
    equal "nested: LD_PRELOAD" "$preload" "$(realpath "$library")"
    jespan run --dump-dir "$scratch/outer" -- sh -c "'$JESPAN_CMD' run --quiet --dump-dir '$scratch/short' -- sleep 0; exit 3"
    says "nested" 3 ""
    equal "nested: dumps of the inner program" "$(dumps_in "$scratch/short" | wc -l)" 1
    local mode
    for mode in --sidecar --in-process; do
        rm -rf "$scratch/outer" "$scratch/inner"
        jespan run --interval 0 --dump-dir "$scratch/outer" -- "$JESPAN_CMD" run "$mode" --quiet --interval 0 --dump-dir "$scratch/inner" -- sh -c 'exec sleep 0'
        says "nested, $mode" 0 ""
        equal "nested, $mode: dumps of the inner run" "$(dumps_in "$scratch/inner" | wc -l)" 1
        equal "nested, $mode: dumps of the outer run" "$(dumps_in "$scratch/outer" | wc -l)" 0
    done
    rm -rf "$scratch/outer" "$scratch/inner"
    jespan run --quiet --interval 0 --dump-dir "$scratch/outer" -- sh -c "'$JESPAN_CMD' run --quiet --interval 0 --dump-dir '$scratch/inner' -- sleep 0; exit 0"
    equal "nested in a shell: dumps of the inner run" "$(dumps_in "$scratch/inner" | wc -l)" 1
    equal "nested in a shell: dumps of the outer run" "$(dumps_in "$scratch/outer" | wc -l)" 1
    [ "$(dumps_in "$scratch/outer")" != "$(dumps_in "$scratch/inner")" ] || fail "nested in a shell: both of one program"
}

# The first run keeps its address. The second has another one, which stderr or the directory shows.
test_run_nested_http() {
    jespan run --http 127.0.0.1:61999 -- sh -c "'$JESPAN_CMD' run --quiet --interval 0 --dump-dir '$scratch/inner' -- env; exit 0"
    grep -q '^JESPAN_CONF=.*,http_listen:127\.0\.0\.1:0,' "$scratch/out" || fail_with "nested: no address of its own" "$scratch/out"
    jespan run --http 127.0.0.1:61999 -- "$JESPAN_CMD" run --quiet --interval 0 --dump-dir "$scratch/inner" --http :61998 -- env
    [[ $(sed 's/^JESPAN_CONF=.*,http_listen/http_listen/p' "$scratch/out") == *http_listen::61998* ]] ||
        fail_with "nested: not the address that was given" "$scratch/out"
    mkdir "$scratch/sockets"
    # shellcheck disable=SC2016
    jespan run --http "unix:$scratch/sockets/s" -- timeout 600 sh -c '
        "$0" run --quiet --dump-dir "$2" -- sh -c "until test -S \$0/s && test -S \$0/s.\$\$; do sleep 0.01; done; ls \$0" "$1"
        exit 0' "$JESPAN_CMD" "$scratch/sockets" "$scratch/inner"
    says "nested: --http unix:" 0 ""
    prints "nested: --http unix:" "s*s.[0-9]*"
}

test_run_dumps() {
    local dump
    jespan run --dump-dir "$scratch/dumps" --interval 0 -- sh -c 'exec sleep 0'
    dump=$(find "$scratch/dumps" -name 'heap.*.pb.gz' | head -n 1)
    [ -n "$dump" ] || { fail "no dump"; return; }
    jespan report "$dump"
    says "report of a real dump" 0 ""
    prints "report of a real dump" "*thread:*total of * contexts*"
}

# dumped OPTION… -- PROGRAM… : of what programs dumps came, and their process ids
dumped() {
    local file
    rm -rf "$scratch/dumps"
    status=0
    "$JESPAN_CMD" run --quiet --dump-dir "$scratch/dumps" "$@" > "$scratch/out" 2> "$scratch/err" &
    child=$!
    wait $! || status=$?
    equal "$*: status" "$status" 0
    for file in "$scratch"/dumps/*; do
        [ -e "$file" ] || continue
        "$JESPAN_CMD" report "$file" | sed -n '1s/  .*//; 1s/.*\///p'
    done | sort > "$scratch/programs"
}

# Helpers of a script are left out: those that end at once, and those of other names.
test_run_helpers() {
    have bash || return 0
    cp "$(command -v sleep)" "$scratch/server"
    cp "$(command -v sleep)" "$scratch/helper"
    cat > "$scratch/script" << END
#!$(command -v bash)
$scratch/helper 0
readlink / || true
$scratch/server "\${1:-0}"
$scratch/helper 0
END
    chmod +x "$scratch/script"
    dumped --conf dump_at_exit_min_ms:600000 -- "$scratch/script"
    equal "helpers: the program alone" "$(paste -sd' ' "$scratch/programs")" bash
    [ -e "$scratch/dumps/heap.$child.1.pb.gz" ] || fail "helpers: no dump of the program"
    dumped -- "$scratch/script" 1.1
    grep -qx server "$scratch/programs" || fail_with "helpers: one that lives" "$scratch/programs"
    dumped --interval 0 -- "$scratch/script"
    equal "helpers: all asked for" "$(paste -sd' ' "$scratch/programs")" "bash helper helper readlink server"
    dumped --conf dump_at_exit:both --only 'server' -- "$scratch/script"
    equal "--only, both" "$(paste -sd' ' "$scratch/programs")" "server server"
    dumped --interval 0 --only 'nothing|serv*|read*k' -- "$scratch/script"
    equal "--only NAME" "$(paste -sd' ' "$scratch/programs")" "readlink server"
    dumped --interval 0 --only "$(realpath "$scratch")/s*" -- "$scratch/script"
    equal "--only PATH" "$(paste -sd' ' "$scratch/programs")" server
    dumped --interval 0 --only script -- "$scratch/script"
    equal "--only SCRIPT" "$(paste -sd' ' "$scratch/programs")" bash
    dumped --interval 0 --conf 'only_programs:|' -- "$scratch/script"
    equal "only_programs without a name" "$(paste -sd' ' "$scratch/programs")" "bash helper helper readlink server"
    dumped --interval 0 --only nothing --dump-on peak --conf on_limit:dump -- "$scratch/script"
    equal "--only nothing" "$(cat "$scratch/programs" "$scratch/err")" ""
}

expected_table() {
    cat << 'END'
 IN USE   SHARE  OBJECTS  ALLOCATED  CONTEXT
1.0 MiB   99.5%       50    3.0 MiB  request > parse {tenant=green, format=, route=/doc, tenant=blue}
4.0 KiB    0.4%        2    4.0 KiB  (jespan)
 1000 B    0.1%       10    1.5 KiB  (root)
  300 B    0.0%        3    9.8 KiB  request {route=/doc, tenant=blue}
   64 B    0.0%        1       64 B  request {route=/put, shard=7, request=4096, zero=0, below=-12}
    0 B    0.0%        0  120.6 KiB  (retired)
    0 B    0.0%        0   62.5 KiB  request > parse {route=/put, shard=7, request=4096, zero=0, below=-12}
1.0 MiB  100.0%       66    3.2 MiB  total of 7 contexts
END
}

test_report_table() {
    jespan report "$scratch/small"
    says "report" 0 ""
    equal "table" "$(tail -n +2 "$scratch/out")" "$(expected_table)"
    [[ $(head -n 1 "$scratch/out") == */make_profile"  2026-11-18 11:06:52 +0000  after 12.3 s" ]] ||
        fail_with "title" "$scratch/out"
    jespan report --top 2 --exact --sort alloc "$scratch/small"
    cp "$scratch/out" "$scratch/exact"
    jespan report --top 2 --bytes --sort alloc "$scratch/small"
    equal "--bytes" "$(cat "$scratch/out")" "$(cat "$scratch/exact")"
    equal "--top 2 --exact --sort alloc" "$(tail -n +2 "$scratch/out")" "$(printf '%s\n' \
        " IN USE   SHARE  OBJECTS  ALLOCATED  CONTEXT" \
        "1048576   93.9%       50    3145728  request > parse {tenant=green, format=, route=/doc, tenant=blue}" \
        "      0    3.7%        0     123456  (retired)" \
        "   5460    2.4%       16      79660  (5 more)" \
        "1054036  100.0%       66    3348844  total of 7 contexts")"
    gzip -dc "$scratch/small" > "$scratch/plain.pb"
    jespan report "$scratch/plain.pb"
    equal "table of a plain file" "$(tail -n +2 "$scratch/out")" "$(expected_table)"
    jespan report "$scratch/empty"
    prints "a profile without samples" "*total of 0 contexts"
}

expected_times() {
    cat << 'END'
     CPU   SHARE      BUSY     WALL  OPENS     MEAN  CONTEXT
200.0 ms   69.8%  250.0 ms    3.0 s    100  30.0 ms  request {route=/doc, tenant=blue}
 80.0 ms   27.9%   90.0 ms  90.0 ms     60   1.5 ms  request > parse {tenant=green, format=, route=/doc, tenant=blue}
  5.0 ms    1.7%   1.1 min  1.1 min   1000  65.0 ms  (retired)
  1.5 ms    0.5%    12.0 s     0 ns      0           (root)
 15.5 µs    0.0%   15.5 µs  15.5 µs     20   775 ns  request > parse {route=/put, shard=7, request=4096, zero=0, below=-12}
  999 ns    0.0%     2.0 h     0 ns      0           thread:main
    0 ns    0.0%      0 ns     0 ns      1     0 ns  idle
286.5 ms  100.0%     2.0 h  1.1 min   1181           total of 7 contexts
END
}

test_report_times() {
    COLUMNS=200 jespan report "$scratch/times"
    says "report of times" 0 ""
    equal "times" "$(tail -n +2 "$scratch/out")" "$(expected_times)"
    jespan report --top 2 --exact --sort wall "$scratch/times"
    equal "times --top 2 --exact --sort wall" "$(tail -n +2 "$scratch/out")" "$(printf '%s\n' \
        "      CPU   SHARE           BUSY         WALL  OPENS      MEAN  CONTEXT" \
        "  5000000   95.5%    64000000000  65000000000   1000  65000000  (retired)" \
        "200000000    4.4%      250000000   3000000000    100  30000000  request {route=/doc, tenant=blue}" \
        " 81516499    0.1%  7212090015500     90015500     81            (5 more)" \
        "286516499  100.0%  7276340015500  68090015500   1181            total of 7 contexts")"
}

# Two places in the code with the same name and parent are told apart; with different parents they are anyway.
test_report_twins() {
    jespan report "$scratch/twins"
    equal "table of names that repeat" "$(sed '1,2d; s/^.* B  //' "$scratch/out")" "$(printf '%s\n' \
        "sessions (src/table.c:40)" "sessions (src/table.c:97)" "sessions (src/table.c:40) > parse" \
        "sessions (src/table.c:97) > parse" "total of 4 contexts")"
    jespan report --inclusive "$scratch/twins"
    equal "the same, inclusive" "$(sed '1,2d; s/^.* B  //' "$scratch/out")" "$(printf '%s\n' \
        "sessions (src/table.c:40)" "sessions (src/table.c:97)" "sessions (src/table.c:40) > parse" \
        "sessions (src/table.c:97) > parse" "total of 4 contexts")"
}

# Each context with those below it, also one that has nothing of its own; opens stay its own.
test_report_inclusive() {
    COLUMNS=200 jespan report --inclusive --top 6 "$scratch/times"
    equal "times --inclusive" "$(tail -n +2 "$scratch/out")" "$(printf '%s\n' \
        "     CPU   SHARE      BUSY     WALL  OPENS     MEAN  CONTEXT" \
        "280.0 ms   97.7%  340.0 ms    3.1 s    100  30.9 ms  request {route=/doc, tenant=blue}" \
        " 80.0 ms   27.9%   90.0 ms  90.0 ms     60   1.5 ms  request > parse {tenant=green, format=, route=/doc, tenant=blue}" \
        "  5.0 ms    1.7%   1.1 min  1.1 min   1000  65.0 ms  (retired)" \
        "  1.5 ms    0.5%    12.0 s     0 ns      0           (root)" \
        " 15.5 µs    0.0%   15.5 µs  15.5 µs      0           request {route=/put, shard=7, request=4096, zero=0, below=-12}" \
        " 15.5 µs    0.0%   15.5 µs  15.5 µs     20   775 ns  request > parse {route=/put, shard=7, request=4096, zero=0, below=-12}" \
        "                                                     (2 more)" \
        "286.5 ms  100.0%     2.0 h  1.1 min   1181           total of 8 contexts")"
    jespan report --inclusive --exact "$scratch/small"
    equal "--inclusive" "$(grep request "$scratch/out")" "$(printf '%s\n' \
        "1048876   99.5%       53    3155728  request {route=/doc, tenant=blue}" \
        "1048576   99.5%       50    3145728  request > parse {tenant=green, format=, route=/doc, tenant=blue}" \
        "     64    0.0%        1      64064  request {route=/put, shard=7, request=4096, zero=0, below=-12}" \
        "      0    0.0%        0      64000  request > parse {route=/put, shard=7, request=4096, zero=0, below=-12}")"
}

# A tree of 30,000 contexts, where each is the parent of 8 and has a label of its own: sums made without it, by number.
# Row i is called span and i % 1000, and holds 16 i bytes.
test_report_inclusive_tree() {
    COLUMNS=1000 jespan report --inclusive --exact "$scratch/many"
    sed -n 's/^ *\([0-9]*\) .*span\([0-9]*\) {.*/\2 \1/p' "$scratch/out" | sort -n -k1,1 -k2,2 > "$scratch/actual"
    awk 'BEGIN {
        for (i = 29999; i > 0; i--) { sum[i] += 16 * i; if (i > 8) sum[int((i - 1) / 8)] += sum[i] }
        for (i = 1; i < 30000; i++) print i % 1000, sum[i]
    }' | sort -n -k1,1 -k2,2 > "$scratch/expected"
    equal "number of contexts" "$(wc -l < "$scratch/actual")" 29999
    cmp -s "$scratch/actual" "$scratch/expected" || fail_with "a tree with --inclusive" "$scratch/actual" "$scratch/expected"
}

# Paths that were cut have no common beginning: each frame of each is a context.
test_report_inclusive_deep() {
    jespan report --inclusive "$scratch/hostile"
    says "hostile --inclusive" 0 ""
    local option
    for option in --inclusive --tree --svg; do
        jespan report "$option" "$scratch/deep"
        says "deep $option" 2 "jespan: *deep: too many contexts for $option"
        prints "deep $option" ""
    done
    jespan report --svg --inclusive "$scratch/deep"
    says "deep --svg --inclusive" 2 "jespan: *deep: too many contexts for --svg"
}

# Lines of at most so many columns, control characters only at their ends
test_report_width() {
    local columns file width
    for columns in 60 80 133 1000; do
        for file in small hostile deep; do
            COLUMNS=$columns jespan report "$scratch/$file"
            says "$file at $columns" 0 ""
            width=$(LC_ALL=C.UTF-8 wc -L < "$scratch/out")
            [ "$width" -le "$columns" ] || fail_with "$file at $columns is $width wide" "$scratch/out"
            ! grep -q $'[\x01-\x09\x0b-\x1f\x7f]' "$scratch/out" || fail "$file at $columns has control characters"
        done
        COLUMNS=$columns jespan report "$scratch/times"
        width=$(LC_ALL=C.UTF-8 wc -L < "$scratch/out")
        [ "$width" -le $((columns + 1)) ] || fail_with "times at $columns is $width wide" "$scratch/out"
    done
    for columns in -5 x ""; do
        COLUMNS=$columns jespan report "$scratch/deep"
        width=$(LC_ALL=C.UTF-8 wc -L < "$scratch/out")
        [ "$width" -le 120 ] || fail_with "COLUMNS='$columns': $width wide" "$scratch/out"
    done
}

# The heading is bold on a terminal that can show it, unless NO_COLOR is set. The terminal has 70 columns.
test_report_terminal() {
    local variables
    have script || return 0
    for variables in TERM=xterm TERM=dumb TERM= "TERM=xterm NO_COLOR=1" "-u TERM"; do
        # shellcheck disable=SC2086
        env $variables script -qec "stty cols 70; '$JESPAN_CMD' report --no-pager '$scratch/deep'" /dev/null < /dev/null > "$scratch/out"
        equal "$variables: bold lines" "$(grep -c $'\x1b\\[1m' "$scratch/out")" "$([ "$variables" = TERM=xterm ] && echo 1 || echo 0)"
        [ "$(tr -d '\r' < "$scratch/out" | sed $'s/\x1b[^m]*m//g' | LC_ALL=C.UTF-8 wc -L)" -le 70 ] || fail_with "$variables: too wide" "$scratch/out"
    done
}

# Too little memory is no fault of the file.
test_report_no_memory() {
    ( # "tiny" is of test_report_bad_files
        ulimit -v 150000
        jespan report "$scratch/tiny"
        says "no memory" 2 "jespan: *tiny: out of memory"
        [ "$failures" = 0 ]
    ) || fail "no memory"
}

test_report_bad_files() {
    jespan report "$scratch/none"
    says "no file" 2 "jespan: *none: No such file or directory"
    mkdir "$scratch/nothing"
    jespan report "$scratch/nothing"
    says "a directory" 2 "jespan: *nothing: there is no dump in the directory"
    : > "$scratch/zero"
    jespan report "$scratch/zero"
    says "an empty file" 2 "jespan: *zero: the file is empty"
    jespan report "$0"
    says "a script" 2 "jespan: *: not a pprof profile"
    head -c 200 "$scratch/small" > "$scratch/half"
    jespan report "$scratch/half"
    says "a truncated file" 2 "jespan: *half: the file is truncated"
    head -c 100 "$scratch/plain.pb" > "$scratch/half.pb"
    jespan report "$scratch/half.pb"
    says "a truncated plain file" 2 "jespan: *half.pb: not a pprof profile"
    printf '\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f' > "$scratch/long"
    jespan report "$scratch/long"
    says "a huge length" 2 "jespan: *long: not a pprof profile"
    cp "$scratch/many" "$scratch/damaged"
    printf 'damaged' | dd of="$scratch/damaged" bs=1 seek=50000 conv=notrunc status=none
    jespan report "$scratch/damaged"
    says "a damaged file" 2 "jespan: *damaged: the gzip data is damaged"
    printf '\x0a\x02\x08\x01\x32\x00\x32\x03cpu' > "$scratch/cpu"
    jespan report "$scratch/cpu"
    says "a CPU profile" 2 "jespan: *cpu: neither a heap profile nor a time profile*"
    cat "$scratch/small" "$scratch/small" > "$scratch/joined"
    jespan report "$scratch/joined"
    says "two files in one" 2 "jespan: *joined: not a pprof profile"
    # a sample that is no sample, references to nothing, and a text where a number should be
    printf '\x0a\x02\x08\x01\x32\x00\x32\x0binuse_space\x12\x02\x0a\x7f' > "$scratch/sample"
    jespan report "$scratch/sample"
    says "a damaged sample" 2 "jespan: *sample: not a pprof profile"
    jespan report --inclusive "$scratch/sample"
    says "a damaged sample, --inclusive" 2 "jespan: *sample: not a pprof profile"
    printf '\x0a\x02\x08\x01\x32\x00\x32\x0binuse_space\x12\x0d\x0a\x02\x07\x08\x12\x01\x05\x1a\x04\x08\x63\x10\x63' > "$scratch/nowhere"
    jespan report "$scratch/nowhere"
    says "references to nothing" 0 ""
    prints "references to nothing" "*5 B *0x0 > 0x0 {=}*"
    printf '\x0a\x02\x08\x01\x32\x00\x32\x0binuse_space\x4a\x01x' > "$scratch/text"
    jespan report "$scratch/text"
    says "a text for a number" 2 "jespan: *text: not a pprof profile"
    # a file of 145 KiB with 17 million empty samples, each of which takes much more memory than its bytes
    {
        printf '\x0a\x02\x08\x01\x32\x00\x32\x0binuse_space'
        head -c 34000000 <(yes $'\x12' | tr '\n' '\0')
    } | gzip -1 > "$scratch/tiny"
    jespan report "$scratch/tiny"
    says "millions of empty samples" 2 "jespan: *tiny: too many samples, functions or strings"
    jespan report /dev/zero
    says "an endless file" 2 "jespan: /dev/zero: more than 1 GiB unpacked"
}

"$make_profile" time small > "$scratch/times"
for kind in small twins hostile empty "chain 3000" "rows 30000"; do
    # shellcheck disable=SC2086
    "$make_profile" $kind > "$scratch/${kind%% *}"
done
mv "$scratch/rows" "$scratch/many"
mv "$scratch/chain" "$scratch/deep"
test_help_and_usage
test_completion
test_full_disk
test_whole_files
test_html_of_pipes
test_outputs_in_place
test_outputs_of_others
test_outputs_signals
test_run_environment
test_run_services
test_run_services_wrong
test_run_passes_through
test_run_errors
test_run_addresses
test_run_conf_directory
test_run_lists
test_outputs
test_run_unreadable_command
test_run_library_without_sections
test_run_damaged_library
test_run_finds_the_library
test_run_warns
test_run_loader
test_run_warns_of_privileges
test_run_fifo
test_run_nested
test_run_nested_http
test_run_dumps
test_run_helpers
test_report_table
test_report_times
test_report_twins
test_report_inclusive
test_report_inclusive_tree
test_report_inclusive_deep
test_report_width
test_report_terminal
test_report_bad_files
test_report_no_memory
finish
