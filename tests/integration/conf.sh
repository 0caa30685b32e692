#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Configuration: JESPAN_CONF and jespan_conf, what is wrong in them is named on stderr, and the program runs on.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

program=$scratch/conf_program
with_conf=$scratch/conf_program_with
compile "$program" tests/integration/conf_program.c
compile "$with_conf" tests/integration/conf_program.c -DWITH_CONF='"max_contexts:100,thread_contexts:false,what:ever"'

defaults="contexts many thread_contexts true"

# try WHAT CONF OUT ERR : the program with JESPAN_CONF=CONF
# What the program wrote to stderr, without the line that all contexts are in use, which it makes happen
said() {
    grep -v '^jespan: all [0-9]* contexts are in use (max_contexts): ' "$scratch/err" || true
}

try() {
    local status=0
    JESPAN_CONF=$2 "$program" > "$scratch/out" 2> "$scratch/err" || status=$?
    equal "$1: status" "$status" 0
    equal "$1: output" "$(cat "$scratch/out")" "$3"
    equal "$1: stderr" "$(said)" "$4"
}

number() {
    echo "jespan: JESPAN_CONF: $1: '$2' is not a number from $3 to $4 and is ignored"
}

bool() {
    echo "jespan: JESPAN_CONF: $1: '$2' is neither true nor false and is ignored"
}

well_formed() {
    try "nothing" "" "$defaults" ""
    try "one key" "max_contexts:100" "contexts few thread_contexts true" ""
    try "two keys" "thread_contexts:false,max_contexts:500" "contexts some thread_contexts false" ""
    try "empty pairs" ",,max_contexts:100,," "contexts few thread_contexts true" ""
    try "the last one wins" "max_contexts:100,max_contexts:131072" "$defaults" ""
    try "smallest" "max_contexts:64" "contexts few thread_contexts true" ""
    try "largest" "max_contexts:16777216" "$defaults" ""
}

wrong() {
    local value
    try "unknown key" "colour:red,max_contexts:100" "contexts few thread_contexts true" \
        "jespan: JESPAN_CONF: unknown key 'colour' is ignored"
    for value in 63 16777217 -1 +100 "" " 100" 100k 0x100 1e3 99999999999999999999999999 ten; do
        try "max_contexts:$value" "max_contexts:$value" "$defaults" "$(number max_contexts "$value" 64 16777216)"
    done
    for value in "" yes 1 TRUE truest tru; do
        try "thread_contexts:$value" "thread_contexts:$value" "$defaults" "$(bool thread_contexts "$value")"
    done
    try "dump_interval_s" "dump_interval_s:soon" "$defaults" "$(number dump_interval_s soon 0 31536000)"
    try "dump_keep" "dump_keep:all" "$defaults" "$(number dump_keep all 0 1073741824)"
    try "dump_at_exit" "dump_at_exit:1" "$defaults" \
        "jespan: JESPAN_CONF: dump_at_exit: '1' is none of false|true|after|both and is ignored"
    try "follow_fork" "follow_fork:no" "$defaults" "$(bool follow_fork no)"
    try "confirm_conf" "confirm_conf:please" "$defaults" "$(bool confirm_conf please)"
    try "shutdown_timeout_ms" "shutdown_timeout_ms:3600001" "$defaults" "$(number shutdown_timeout_ms 3600001 0 3600000)"
    try "control characters" $'limit:a\nb\e[31m' "$defaults" \
        "jespan: limit: 'a?b?[31m' is not NAME=HARD, NAME=SOFT/HARD or NAME{KEY=VALUE}=HARD, in bytes with K, M, G or T, and is ignored"
    try "no colon" "verbose" "$defaults" "jespan: JESPAN_CONF: 'verbose' is not key:value and is ignored"
    try "a key with dashes" "dump-dir:/tmp" "$defaults" \
        "jespan: JESPAN_CONF: unknown key '…' is ignored; did you mean 'dump_dir'?"
    try "a typing error" "max_context:100" "$defaults" \
        "jespan: JESPAN_CONF: unknown key 'max_context' is ignored; did you mean 'max_contexts'?"
    try "a wrong key behind a secret" "pyroscope_token:s3cr3t,dump-dir:/tmp" "$defaults" \
        "jespan: JESPAN_CONF: an unknown key similar to 'dump_dir' is ignored; it is not shown, because it may be part of the value of 'pyroscope_token' before it"
    try "a comma in a secret" "pyroscope_token:s3c,r3t" "$defaults" \
        "jespan: JESPAN_CONF: the text after the comma after 'pyroscope_token' is not key:value and is ignored; it is not shown, because it may be part of the value; a value cannot contain a comma"
    try "a long value" "dump_dir:$(printf 'x%.0s' {1..1100})" "$defaults" \
        'jespan: JESPAN_CONF: dump_dir: the value is longer than 1023 bytes and is ignored'
    try "several" "a:b,max_contexts:x,thread_contexts:false" "contexts many thread_contexts false" \
        "jespan: JESPAN_CONF: unknown key 'a' is ignored"$'\n'"$(number max_contexts x 64 16777216)"
}

# What arenas make of it: tests/integration/arenas.c.
wrong_arenas() {
    local rules="a=wet+wiped|b=limit:0+limit:17000000T+limit:5m+node:-1+decay:-2+by:|=wiped|c=huge+nohuge|d=off+wiped"
    try "arena" "arena:$rules" "$defaults" "jespan: arena: 'a=wet' is not a known property or has a bad value, and is ignored
jespan: arena: 'b=limit:0' is not a known property or has a bad value, and is ignored
jespan: arena: 'b=limit:17000000T' is not a known property or has a bad value, and is ignored
jespan: arena: 'b=limit:5m' is not a known property or has a bad value, and is ignored
jespan: arena: 'b=node:-1' is not a known property or has a bad value, and is ignored
jespan: arena: 'b=decay:-2' is not a known property or has a bad value, and is ignored
jespan: arena: 'b=by:' is not a known property or has a bad value, and is ignored
jespan: arena: '=wiped' has no name, and is ignored
jespan: arena: 'c' has properties that contradict each other, and is ignored
jespan: arena: 'd' has properties that contradict each other, and is ignored"
}

wrong_limits() {
    local item wrong="" rules="" rest="is not NAME=HARD, NAME=SOFT/HARD or NAME{KEY=VALUE}=HARD, in bytes with K, M, G or T, and is ignored"
    for item in a =1M a= a=0 a=0/0 a=1X a=1M/x 'a{b}=1M' 'a{=c}=1M' '{b=c}=1M' 'a{b=c=1M'; do
        wrong+="jespan: limit: '$item' $rest"$'\n'
        rules+="$item|"
    done
    try "limit" "limit:${rules}b=2M/1M|c=1M/2M|d=1M/" "$defaults" \
        "${wrong}jespan: limit: 'b=2M/1M' has a soft limit above its hard limit, and is ignored"
}

# What the sampler makes of its keys is tried in tests/unit/span/test_sampler.c.
wrong_samplers() {
    local rest="is not always, never, a probability such as 0.01, or a rate such as 100/s, and is ignored"
    try "sampler" "sampler:sometimes" "$defaults" "jespan: sampler: 'sometimes' $rest"
    try "sampler_sites" "sampler_sites:a=1/m|b|c=0.5" "$defaults" \
        "jespan: sampler_sites: 'a=1/m' $rest"$'\n'"jespan: sampler_sites: 'b' is not NAME=SAMPLER and is ignored"
    try "both" "sampler:0.5,sampler_sites:a*=never|b=10/s" "$defaults" ""
}

too_long() {
    local long
    long=$(printf 'x%.0s' $(seq 1 2000))
    JESPAN_CONF=dump_dir:$long,max_contexts:100 "$program" > "$scratch/out" 2> "$scratch/err" || fail "a long value ended it"
    equal "a long value: output" "$(cat "$scratch/out")" "contexts few thread_contexts true"
    equal "a long value: lines on stderr" "$(grep -c '^jespan: JESPAN_CONF: ' "$scratch/err")" 1
}

# Where make install puts the modules; the library has it built in.
installed_module_dir() {
    sed -n 's/^pkglibdir *= *//p' "$top_builddir/Makefile" > "$scratch/pkglibdir"
    make -s -C "$top_builddir" -f - print 2> /dev/null <<< $'include Makefile\nprint:\n\t@echo $(pkglibdir)' ||
        cat "$scratch/pkglibdir"
}

# Without other settings, all keys have the defaults of the table. One of them is a path of this build.
confirmed() {
    local table=$top_srcdir/src/conf/conf_keys.def plain=$scratch/plain
    JESPAN_CONF=confirm_conf:true "$program" > "$scratch/out" 2> "$plain" || fail "confirm_conf: status $?"
    equal "confirm_conf: keys" "$(sed -n 's/^jespan: \([a-z0-9_]*\):.*/\1/p' "$plain")" \
        "$(sed -n 's/^KEY_[A-Z]*(\([a-z0-9_]*\),.*/\1/p' "$table")"
    equal "confirm_conf: module_dir" "$(grep ' module_dir:' "$plain")" "jespan: module_dir:$(installed_module_dir)"
    equal "confirm_conf: defaults" "$(grep -v ' module_dir:' "$plain")" \
        "$(sed -n 's/^KEY_[A-Z]*(\([a-z0-9_]*\), "\([^"]*\)",.*/jespan: \1:\2/p' "$table" |
            sed 's/^\(jespan: confirm_conf\):false$/\1:true/')"
}

# What is set is shown, but for secrets. All else is shown as without it.
confirmed_settings() {
    local conf=max_contexts:100,dump_interval_s:7,confirm_conf:true,pyroscope_proxy:http://me:secret@proxy:3128/
    conf+=,http_token:secret
    PYROSCOPE_AUTH_TOKEN=secret PYROSCOPE_LABELS=a=1,b=2 JESPAN_CONF=$conf "$program" > "$scratch/out" 2> "$scratch/err" ||
        fail "confirm_conf with settings: status $?"
    equal "confirm_conf with settings" "$(said | diff "$scratch/plain" - | sed -n 's/^> //p')" \
"jespan: max_contexts:100
jespan: dump_interval_s:7
jespan: pyroscope_labels:a=1|b=2
jespan: pyroscope_token:***
jespan: pyroscope_proxy:http://***@proxy:3128/
jespan: http_token:***"
}

# However wrong a URL is, what may be a password in it is not shown.
wrong_urls() {
    local url
    for url in http:/me:secret@host http:///me:secret@host http://me:se/cret@host 'http://me:se#cret@host' \
        http://me:secret@b@host me:secret://a@host; do
        JESPAN_CONF=confirm_conf:true,pyroscope_proxy:$url "$program" > "$scratch/out" 2> "$scratch/err" ||
            fail "$url: the program failed"
        grep -qE '^jespan: pyroscope_proxy:(http://)?\*\*\*@host$' "$scratch/err" ||
            fail_with "$url: how it is shown" "$scratch/err"
    done
}

# The program's own, then the environment's on top, key by key; each complaint says where it comes from.
precedence() {
    local own="jespan: jespan_conf: unknown key 'what' is ignored"
    program=$with_conf
    try "jespan_conf" "" "contexts few thread_contexts false" "$own"
    try "JESPAN_CONF over jespan_conf" "max_contexts:131072" "contexts many thread_contexts false" "$own"
    try "both" "thread_contexts:true,foo:1" "contexts few thread_contexts true" \
        "$own"$'\n'"jespan: JESPAN_CONF: unknown key 'foo' is ignored"
}

# Variables that others defined: read from the environment, named in complaints.
variables() {
    PYROSCOPE_UPLOAD_INTERVAL=soon try "a variable" "max_contexts:100" "contexts few thread_contexts true" \
        'jespan: PYROSCOPE_UPLOAD_INTERVAL: the value is not a duration such as 15s, 500ms or 1m and is ignored'
}

# A program with setuid reads nothing of the environment, and opens nothing whatever it says itself. It is what the
# dynamic linker calls secure, which a file system mounted without setuid has not.
secured() {
    local program=$scratch/conf_program_setuid status=0
    compile "$program" tests/integration/conf_program.c \
        -DWITH_CONF='"confirm_conf:true,dump_dir:/d,reporters:r,pyroscope_url:http://u,http_listen:127.0.0.1:1,limit:a=1M/2M,on_limit:event"' \
        -DWITH_THREADS
    [ "$(id -u)" = 0 ] && chmod a+rx "$scratch" && chown 65534 "$program" && chmod u+s "$program" || return 0
    JESPAN_CONF=max_contexts:100 PYROSCOPE_APPLICATION_NAME=a "$program" > "$scratch/out" 2> "$scratch/err" || status=$?
    [ "$status" = 0 ] && grep -qx 'jespan: max_contexts:131072' "$scratch/err" || return 0
    equal "setuid: keys that are off" "$(grep -cxE 'jespan: (dump_dir|reporters|pyroscope_(url|app)|http_listen):' "$scratch/err")" 5
    equal "setuid: threads" "$(sed -n 's/^threads //p' "$scratch/out")" 1
}

# jemalloc's own configuration still reaches it.
malloc_conf() {
    compile "$scratch/stats" tests/integration/dump_program.c
    MALLOC_CONF=stats_print:true "$scratch/stats" stats > "$scratch/out" 2> "$scratch/err" || fail "MALLOC_CONF ended it"
    grep -q 'Begin jemalloc statistics' "$scratch/err" || fail_with "MALLOC_CONF does not reach jemalloc" "$scratch/err"
    MALLOC_CONF=no_such_option:true "$scratch/stats" > "$scratch/out" 2> "$scratch/err" || fail "MALLOC_CONF ended it"
    grep -q 'no_such_option' "$scratch/err" || fail_with "jemalloc does not complain of MALLOC_CONF" "$scratch/err"
}

well_formed
wrong
wrong_samplers
wrong_arenas
wrong_limits
too_long
confirmed
confirmed_settings
wrong_urls
variables
precedence
secured
malloc_conf
finish
