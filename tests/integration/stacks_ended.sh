#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Dumps of programs that had ended when the sidecar wrote them: by _exit(), by a signal, and with the program's file removed. The calls in
# the program and in libc have their names. Not run: the OOM killer, which ends a program by SIGKILL too.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null 2>&1 || skip "built without jespan report"

cd "$scratch"
cat > program.c << 'END'
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *kept[100], *line;

static __attribute__((noinline)) void keep_one(int i)
{
    kept[i] = malloc(1000);
    __asm__ volatile("" : : : "memory");
}

static __attribute__((noinline)) void keep_all(void)
{
    for (int i = 0; i < 100; i++)
        keep_one(i);
    __asm__ volatile("" : : : "memory");
}

/* Ends as the argument says when a byte comes. */
int main(int argc, char **argv)
{
    char byte;
    (void)argc;
    keep_all();
    line = get_current_dir_name(); /* libc allocates for itself */
    if (read(0, &byte, 1) < 0 || !strcmp(argv[1], "exit"))
        _exit(0);
    signal(SIGSEGV, SIG_DFL);
    kill(getpid(), atoi(argv[1]));
    for (;;)
        pause();
}
END

# ended HOW [FLAG…]: the program, started and ended after its first dump. Sets dump.
ended() {
    rm -rf dumps in
    mkfifo in
    $CC -g -O1 -o program program.c "${@:2}"
    "$JESPAN_CMD" run --quiet --stacks --dump-dir dumps --interval 1 -- ./program "$1" < in 2> err &
    pid=$!
    pids+=("$pid")
    exec 7> in
    await_of "$pid" compgen -G 'dumps/heap.*.1.pb.gz' || fail_with "$*: no first dump" err
    [ "$removes" = no ] || mv program gone
    echo >&7
    exec 7>&-
    wait "$pid" 2> /dev/null || true
    await has_last || fail_with "$*: no dump of what has ended" err
    dump=$(dumps_in dumps | tail -n 1)
}

# What `jespan report` shows last was written after the end: the first dump is from while it lived.
has_last() {
    [ "$(dumps_in dumps | wc -l)" -ge 2 ]
}

# Only the program's own rows: "OBJECTS PATH"
rows() {
    "$JESPAN_CMD" report --stacks --csv --columns objects "dumps/$dump" 2> report.err | grep -o '^1,.*get_current_dir_name.*\|^100,.*keep_all.*'
}

named() {
    local found
    found=$(rows | tr -d '"' | sort -n)
    [[ $found == *"100,thread:program > main > keep_all > keep_one"* ]] || fail_with "$1: $found" report.err
    [[ $found == *"1,thread:program > main > "*"get_current_dir_name"* ]] || fail_with "$1: $found" report.err
}

removes=no
for how in exit 9 11; do
    ended "$how"
    named "ended by $how"
done
ended 9 -no-pie
named "no PIE"

# libc finds each segment as an object of its own. Only the first one has the headers, and without these there is no .eh_frame.
for kind in -pie -no-pie; do
    ended 9 "$kind" -O2 -fomit-frame-pointer -Wl,-z,max-page-size=0x200000 -Wl,-z,separate-code
    named "gaps between segments, $kind"
done

# The file of the program is another place in the file system now, so there are no names, and no wrong ones.
removes=yes
ended 9
equal "names of a file that is gone" "$("$JESPAN_CMD" report --stacks --csv --columns objects "dumps/$dump" 2> report.err | grep -c keep_)" 0
grep -q 'program: No such file' report.err || fail_with "the file that is gone is not named" report.err
mv gone program
"$JESPAN_CMD" report --stacks --csv --columns objects "dumps/$dump" > all 2> report.err
grep -q keep_one all || fail_with "no names once the file is back" report.err
finish
