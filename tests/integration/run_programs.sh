#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan run`: which programs and libraries it starts with, and the dumps of these programs.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/command.sh
. "$top_srcdir/tests/support/command.sh"

library=$JESPAN_LIB
unset JESPAN_LIB

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
    mkdir -p "$scratch/moved/bin" "$scratch/moved/lib/jespan"
    cp "$JESPAN_CMD" "$scratch/moved/bin/jespan"
    cp "$library" "$scratch/moved/lib/libjespan.so"
    cp "$JESPAN_MODULES/pprof.so" "$scratch/moved/lib/jespan/"
    "$scratch/moved/bin/jespan" run --dump-dir "$scratch/d" -- env > "$scratch/out"
    grep -q "^LD_PRELOAD=$(realpath "$scratch")/moved/lib/libjespan.so$" "$scratch/out" || fail "a moved installation"
    grep -q "module_dir:$(realpath "$scratch")/moved/lib/jespan," "$scratch/out" || fail "its modules"
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

test_run_unreadable_command
test_run_library_without_sections
test_run_damaged_library
test_run_finds_the_library
test_run_loader
test_run_warns_of_privileges
test_run_fifo
test_run_nested
test_run_nested_http
test_run_dumps
test_run_helpers
finish
