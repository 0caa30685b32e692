#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The real google/pprof finds the lines of plugins that were loaded one after the other at the same address, in the dump of a program
# that has unloaded them.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/pprof_tool.sh
. "$(dirname "$0")/../support/pprof_tool.sh"

need addr2line
compile "$scratch/program" tests/integration/stacks_unloaded_program.c -ldl
cd "$scratch"
mkdir dumps
for name in one two; do
    printf '#include <stdlib.h>\nvoid *outer(size_t n)\n{\n    void *p = malloc(n);\n    __asm__ volatile("" : : "r"(p) : "memory");\n    return p;\n}\n' > $name.c
    $CC -g -O1 -fPIC -shared -Wl,--build-id -o $name.so $name.c
done

JESPAN_CONF=stacks:all,dump_dir:dumps,dump_at_exit:true ./program ./one.so=300 ./two.so=200 < /dev/null > said || fail "the program fails"
equal "one place" "$(sort -u said | wc -l)" 1
pprof -top -lines -nodefraction=0 -sample_index=inuse_objects dumps/*.pb.gz > top
for line in one.c:4 two.c:4; do
    grep -q "outer .*$line" top || fail_with "no $line" top
done
equal "objects" "$(sed -n 's/^ *\([0-9]*\) .* outer .*\/\([a-z]*\.c:4\).*/\2 \1/p' top | sort | paste -sd ' ')" "one.c:4 300 two.c:4 200" ||
    fail_with "objects" top
finish
