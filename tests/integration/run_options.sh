#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan run`: what its options make of the environment of PROGRAM, and wrong ones.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/command.sh
. "$top_srcdir/tests/support/command.sh"

library=$JESPAN_LIB
unset JESPAN_LIB

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

test_run_environment
test_run_services
test_run_services_wrong
test_run_passes_through
test_run_errors
test_run_addresses
test_run_conf_directory
test_run_lists
test_run_warns
finish
