#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A server with a leak runs with stacks. `jespan leaks` and `jespan report` name the lines and the requests: from its dump, and
# while it runs.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

unset COLUMNS DEBUGINFOD_URLS
cd "$scratch"
source=$top_srcdir/tests/integration/leaks_server.cc

# jespan ARGUMENT… : keeps stdout, stderr and status
jespan() {
    status=0
    "$JESPAN_CMD" "$@" > "$scratch/out" 2> "$scratch/err" || status=$?
    [ ! -s "$scratch/err" ] || fail_with "jespan $* has something to say" "$scratch/err"
}

line_of() {
    grep -n "$1" "$source" | cut -d: -f1
}

# shows WHAT LINES: a paragraph of the last output
shows() {
    [[ $'\n\n'$(cat out)$'\n\n' == *$'\n\n'"$2"$'\n\n'* ]] || fail_with "$1: there is no"$'\n'"$2" out
}

check_leaks() {
    local request=$'    in request {route=/note}\n' calls
    calls="        handle(sessions&, char const*, int)  leaks_server.cc:$(line_of 'all.get(')
        main  leaks_server.cc:$(line_of 'handle(all, i')"
    shows "$1" "250.0 KiB in 250 objects
${request}        sessions::get(std::string const&)  leaks_server.cc:$(line_of 'the text of the note')
$calls"
    shows "$1" "2.0 KiB in 250 objects
${request}        sessions::get(std::string const&)  leaks_server.cc:$(line_of '// the note')
$calls"
    grep -q "  leaks_server.cc:$(line_of "the plugin's")\$" out || fail_with "$1: the plugin's memory" out
    grep -qE "^        call_back  symbols_library.c:[0-9]+\$" out || fail_with "$1: the plugin's function" out
}

$CC -g -O2 -shared -fPIC -o plugin.so "$top_srcdir/tests/integration/symbols_library.c"
for flags in -O2 -O1\ -no-pie\ -fno-pie; do
    # shellcheck disable=SC2086
    $CXX -std=gnu++17 -g $flags -I"$top_srcdir/include" -o server "$source" -L"${JESPAN_LIB%/*}" \
        -Wl,-rpath,"${JESPAN_LIB%/*}" -ljespan -ldl
    rm -rf dumps
    "$JESPAN_CMD" run --quiet --stacks --dump-dir dumps --interval 0 -- ./server ./plugin.so || fail "$flags: the server ends with $?"
    jespan leaks --error-exitcode 9 dumps
    equal "$flags: status of leaks" "$status" 9
    check_leaks "$flags"
    jespan leaks --outlived dumps
    check_leaks "$flags: --outlived"
    ! grep -q '^    in thread:server' out || fail_with "$flags: --outlived" out
    echo 'leak:sessions::get' > supp
    jespan leaks --error-exitcode 9 --suppressions supp --min-bytes 200K dumps
    equal "$flags: status with a suppression" "$status" 0
    jespan report --by line --filter 'request{route=/note}' dumps
    grep -qE "^250.0 KiB .* 250.0 KiB +250 .*  leaks_server.cc:$(line_of 'the text of the note')  sessions::get" out ||
        fail_with "$flags: report --by line" out
    jespan report dumps
    grep -qE '  request \{route=/note\}$' out || fail_with "$flags: report" out
    equal "$flags: contexts of the route" "$(grep -c 'route=/note' out)" 1
done

# The _start of a stripped program has no name
"${STRIP:-strip}" -o stripped server
"$JESPAN_CMD" run --quiet --stacks --dump-dir stripped.dumps --interval 0 -- ./stripped ./plugin.so || fail "stripped: the server ends with $?"
for command in leaks 'report --stacks --tree'; do
    # shellcheck disable=SC2086
    "$JESPAN_CMD" $command stripped.dumps > out 2> err || fail_with "stripped: $command ends with $?" err
    grep -q '^jespan: note: .* calls have no name: stripped ' err || fail_with "stripped: $command does not say why names are missing" err
    grep -qE 'stripped\+0x' out || fail_with "stripped: $command" out
    ! grep -q '__libc_start' out || fail_with "stripped: $command shows how libc starts a program" out
done
# The kernel loads a program elsewhere in each run. A call without a name is still the same call
cat > nameless.c << 'END'
#include <stdlib.h>
static void *objects[60];
static __attribute__((noinline)) void inner(int i) { objects[i] = malloc(1000); __asm__ volatile(""); }
static __attribute__((noinline)) void outer(int i) { inner(i); __asm__ volatile(""); }
int main(int argc, char **argv) { (void)argv; for (int i = 0; i < 50 + argc; i++) i % 3 ? outer(i) : inner(i); return 0; }
END
$CC -O1 -fno-builtin -fPIE -pie -s -o nameless nameless.c || fail "the program without names cannot be built"
"$JESPAN_CMD" run --quiet --stacks --dump-dir once --interval 0 -- ./nameless
"$JESPAN_CMD" run --quiet --stacks --dump-dir twice --interval 0 -- ./nameless
"$JESPAN_CMD" run --quiet --stacks --dump-dir more --interval 0 -- ./nameless 1
for by in "--stacks" "--by function"; do
    # shellcheck disable=SC2086
    "$JESPAN_CMD" report $by --diff once twice > out
    equal "$by of two equal runs" "$(grep -cE '^0 (contexts|rows) have (grown|shrunk)' out)" 2
    grep -qE ' 50\.[0-9] KiB|51 KiB|5[0-9]\.[0-9] KiB' out || fail_with "$by: the runs have nothing" out
    # shellcheck disable=SC2086
    "$JESPAN_CMD" report $by --diff once more > out
    grep -qE '^\+1\.0 KiB .*nameless\+0x' out || fail_with "$by of a run with one object more" out
done

# While it runs
mkfifo input
"$JESPAN_CMD" run --quiet --stacks --dump-dir dumps --interval 0 -- ./server ./plugin.so wait < input > said &
server=$!
exec 3> input
await_of "$server" grep -q process said || fail "the server does not wait"
jespan leaks "$(sed -n 's/^process //p' said)"
equal "leaks of a process: status" "$status" 0
check_leaks "a process"
grep -q '^    in waiting$' out || fail_with "a process: the open span" out
jespan leaks --outlived "$(sed -n 's/^process //p' said)"
check_leaks "--outlived of a process"
! grep -qE '^    in (waiting|thread:server)$' out || fail_with "--outlived of a process" out
exec 3>&-
wait $server || fail "the server ends with $?"
finish
