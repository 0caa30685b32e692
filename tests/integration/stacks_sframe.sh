#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Stacks through a library that has .sframe and no .eh_frame: with frames of all kinds, and with a damaged section. The section is of the
# version that the assembler here writes. tests/unit/stacks/test_sframe.c has the others.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null 2>&1 || skip "built without jespan report"
as --help > "$scratch/options"
grep -q -e --gsframe "$scratch/options" || skip "the assembler writes no .sframe"

# GNU as writes the section. So gcc compiles the library, whatever the compiler of this build.
cat > "$scratch/library.c" << 'END'
#include <stdlib.h>
__asm__(".cfi_sections .sframe");
#define NOINLINE __attribute__((noinline))
#define KEEP(x) __asm__ volatile("" : : "r"(x) : "memory")
static NOINLINE void *innermost(size_t n)
{
    void *p = malloc(n);
    KEEP(p);
    return p;
}
static NOINLINE void *with_room(size_t n)
{
    char room[300];
    KEEP(room);
    void *p = innermost(n);
    KEEP(p);
    return p;
}
static NOINLINE void *with_frame_pointer(size_t n)
{
    char *room = __builtin_alloca(n * 3 + 1);
    KEEP(room);
    void *p = with_room(n);
    KEEP(p);
    return p;
}
static NOINLINE void *with_registers(size_t n, size_t a, size_t b, size_t c)
{
    void *p = with_frame_pointer(n);
    KEEP(a + b + c);
    KEEP(p);
    return p;
}
void *outer(size_t n)
{
    void *p = with_registers(n, n + 1, n * 3, n * 5);
    KEEP(p);
    return p;
}
END
cat > "$scratch/program.c" << 'END'
extern void *outer(unsigned long n);
int main(void)
{
    for (unsigned long i = 0; i < 1000; i++)
        outer(112);
    return 0;
}
END
cd "$scratch"
gcc -g -O2 -fPIC -shared -Wa,--gsframe -Wl,-z,noseparate-code -o liblibrary.so library.c
gcc -g -O2 -o program program.c -L. -llibrary -Wl,-rpath,.
readelf -lW liblibrary.so > segments
grep -q GNU_SFRAME segments || fail "the library has no .sframe"
readelf --debug-dump=frames liblibrary.so | grep FDE && fail "the library has .eh_frame"
cp liblibrary.so good.so

# run REPORT-OPTION…: the program, and a report in `report`
run() {
    rm -rf dumps
    mkdir dumps
    JESPAN_CONF=stacks:all,dump_dir:dumps,dump_at_exit:true preloaded ./program || fail "the program failed"
    "$JESPAN_CMD" report "$@" dumps > report
}

run --stacks --folded
equal "the stack" "$(sed -n 's/ 112000$//p' report)" "thread:program;main;outer;with_registers;with_frame_pointer;with_room;innermost"

# What is damaged is not used, or leads elsewhere. The program goes on, and all objects are counted.
read -r at bytes < <(awk '$1 == "GNU_SFRAME" { print $2, $5 }' segments)
for ((i = 0; i < bytes; i += 7)); do
    cp good.so liblibrary.so
    printf '\xff' | dd of=liblibrary.so bs=1 seek=$((at + i)) conv=notrunc status=none
    run --folded
    equal "objects with a damaged byte $i" "$(sed -n 's/^thread:program //p' report)" 112000
done
finish
