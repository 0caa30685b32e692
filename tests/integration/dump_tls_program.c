/* SPDX-License-Identifier: BSD-2-Clause */
/* For dump.sh: has KIB kilobytes of thread-local variables, and uses them. */
#include <stdlib.h>

static _Thread_local char large[KIB * 1024];

int main(void)
{
    void *volatile p = malloc(1000);
    for (char *volatile at = large; at < large + sizeof large; at++)
        *at = 1;
    free(p);
    return 0;
}
