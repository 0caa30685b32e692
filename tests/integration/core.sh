#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan report` and `jespan leaks` of a core: who held the memory of a program that died, with its lines. Cores that are cut
# off, damaged, of other programs, and of programs that have been replaced since.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/command.sh
. "$top_srcdir/tests/support/command.sh"

need python3

cat > "$scratch/crash.c" << 'END'
#include <stdlib.h>
#include <unistd.h>

#include <jespan/jespan.h>

static void *volatile kept;

__attribute__((noinline)) static void fill(int objects)
{
    while (objects--) {
        void **p = malloc(1000);
        *p = kept;
        kept = p;
    }
    __asm__ volatile("");
}

int main(int argc, char **argv)
{
    (void)argv;
    {
        JESPAN("request", "route", "/a");
        fill(100);
        JESPAN("cache");
        fill(300);
    }
    fill(50);
    JESPAN("last");
    if (argc == 1)
        abort();
    (void)!write(1, "ready\n", 6);
    pause();
    return 0;
}
END
$CC -g -O1 -I"$top_srcdir/include" -I"$top_builddir/include" -o "$scratch/crash" "$scratch/crash.c" -L"$top_builddir/.libs" -ljespan \
    -lpthread -Wl,-rpath,"$top_builddir/.libs" || fail "the program was not built"
cd "$scratch"

# kernel_core: the file core, unless the kernel gives its cores to a program (core_pattern)
kernel_core() {
    rm -f core*
    ulimit -c unlimited 2> /dev/null || true
    { JESPAN_CONF=$conf ./crash || true; } > said 2> /dev/null
    [ ! -s said ] || fail_with "the program says something" said
    compgen -G 'core*' > /dev/null || return 1
    mv core* core 2> /dev/null || true
}

# gdb_core: the file core, by gcore(1)
gdb_core() {
    local pid
    command -v gcore > /dev/null || return 1
    rm -f core* words
    mkfifo words
    JESPAN_CONF=$conf ./crash wait > words &
    pid=$!
    read -r < words
    gcore -o core "$pid" > said 2>&1 || fail_with gcore said
    kill "$pid"
    wait "$pid" 2> /dev/null || true
    mv "core.$pid" core
}

# rows_of FILE: the usable bytes in use as 1,000 for each object, and the context
rows_of() {
    jespan report --csv "$1"
    says "$1" 0 ""
    sed -n 's/^[0-9]*,[^,]*,\([0-9]*\),[^,]*,\(.*\)$/\1000,\2/p' out | LC_ALL=C sort -rn
}

# A shared jemalloc loads libstdc++, which allocates one object when it starts.
pool=$(ldd "$scratch/crash" | grep -c 'libstdc++' || true)
rows="300000,\"request > cache {route=/a}\"
100000,\"request {route=/a}\"
$((50 + pool))000,\"thread:crash\""
line=$(grep -n 'malloc(1000)' crash.c | cut -d: -f1)

# has_all WHO: the core has all, with the lines
has_all() {
    equal "$1: rows" "$(rows_of core)" "$rows"
    jespan report core
    grep -q "^$(realpath crash)  20" out || fail_with "$1: the program's name" out
    jespan leaks core
    says "$1: leaks" 0 ""
    grep -qx "        fill  crash.c:$line" out || fail_with "$1: the line" out
    [[ $(tail -n 1 out) == "in use: "*" in $((450 + pool)) objects of "* ]] || fail_with "$1: leaks" out
    jespan report --time core
    grep -q '  last$' out || fail_with "$1: the span that was open" out
    jespan report --diff core core
    says "$1: the difference to itself" 0 ""
}

# The figures are in the state file then, which has no place in a core.
lacks_state() {
    jespan report core
    says "$1 with a state file" 2 \
        "jespan: core: the figures were in a state file, which the core does not have: read the state file (the key state_file)"
}

for maker in gdb_core kernel_core; do
    conf=state_file:$scratch/state
    $maker || continue
    lacks_state "$maker"
    conf=stacks:all
    $maker
    has_all "$maker"
done
[ -f core ] || skip "the kernel gives its cores to a program (core_pattern), and there is no gcore"

# Another program has the path now.
mv crash was
cp "$(command -v sleep)" crash
equal "another program" "$(rows_of core)" "$rows"
rm crash
equal "no program" "$(rows_of core)" "$rows"
mv was crash

head -c 100 core > "cut"
jespan report cut
says "a header" 2 "jespan: cut: the core is cut off; is there a limit on its size (ulimit -c)?"
head -c 300000 core > "cut"
jespan report cut
says "cut off" 2 "jespan: cut: the core is cut off; is there a limit on its size (ulimit -c)?"
cp core narrow
printf '\1' | dd of=narrow bs=1 seek=4 conv=notrunc 2> /dev/null # ELFCLASS32
jespan report narrow
[ "$status" = 2 ] || fail_with "another class" err

# Whatever is in the head, the command answers.
cat > damage.py << 'END'
import random
import sys

seed, source, target = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dice = random.Random(seed)
data = bytearray(open(source, "rb").read())
for _ in range(dice.choice([1, 3, 10, 100])):
    data[dice.randrange(16, 0x3000)] = dice.choice([0, 255, 0x7F, 0x80, dice.randrange(256)])
open(target, "wb").write(data)
END
for seed in $(seq 40); do
    python3 damage.py "$seed" core damaged
    jespan report --stacks damaged
    case $status in
    0 | 2) ;;
    *) fail_with "damage $seed: status $status" err ;;
    esac
done

# As many segments and files as there can be. By one comparison for each pair it would take minutes.
cat > many.py << 'END'
import struct

SEGMENTS, FILES, BASE = 65534, 1000000, 1 << 32
content = struct.pack("<QQ", FILES, 1)
content += b"".join(struct.pack("<QQQ", BASE + i * 4096, BASE + (i + 1) * 4096, 0) for i in range(FILES)) + b"\0" * FILES
note = struct.pack("<III", 5, len(content), 0x46494C45) + b"CORE\0\0\0\0" + content + b"\0" * (-len(content) % 4)
at = 64 + 56 * SEGMENTS
with open("many", "wb") as out:
    out.write(b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, SEGMENTS, 0, 0, 0))
    out.write(struct.pack("<IIQQQQQQ", 4, 0, at, 0, 0, len(note), 0, 1))
    for i in range(SEGMENTS - 1):
        out.write(struct.pack("<IIQQQQQQ", 1, 4, 0, BASE * 2 + i * 4096, 0, 0, 1 << 20, 1))
    out.write(note)
END
python3 many.py
status=0
timeout -k 1 30 "$JESPAN_CMD" report many > out 2> err || status=$?
equal "many segments and files: $(cat err)" "$status" 2
finish
