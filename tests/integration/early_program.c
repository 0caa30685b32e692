/* SPDX-License-Identifier: BSD-2-Clause */
/* With -DLIBRARY: a library to be preloaded, whose clock_gettime() allocates and frees as libfaketime's may, also while jespan and jemalloc
 * start. Without: a program that looks at what was allocated so, and frees it. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct kept {
    unsigned char *p;
    size_t size;
};

#ifdef LIBRARY
struct kept kept[1000];
unsigned n_kept;
static int depth;

static void keep(void *p, size_t size)
{
    if (!p || n_kept == 1000)
        return;
    if (malloc_usable_size(p) < size)
        abort();
    memset(p, (int)(n_kept % 255 + 1), size);
    kept[n_kept++] = (struct kept){p, size};
}

static void use(void)
{
    void *p = NULL;
    keep(malloc(100), 100);
    keep(malloc(0), 0);
    unsigned char *zeroed = calloc(3, 700);
    for (int i = 0; zeroed && i < 2100; i++)
        if (zeroed[i])
            abort();
    keep(zeroed, 2100);
    p = aligned_alloc(4096, 8192);
    if ((uintptr_t)p % 4096)
        abort();
    keep(p, 8192);
    if (posix_memalign(&p, 64, 5) || (uintptr_t)p % 64)
        abort();
    keep(p, 5);
    char *grown = malloc(10);
    strcpy(grown, "123456789");
    grown = realloc(grown, 3000);
    if (!grown || strcmp(grown, "123456789"))
        abort();
    free(grown);
    p = malloc((size_t)1 << 30);
    if (!p && errno != ENOMEM)
        abort();
    free(p);
    free(malloc(20));
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    if (depth++ == 0 && n_kept < 30)
        use();
    depth--;
    return (int)syscall(SYS_clock_gettime, id, now);
}
#else
extern struct kept kept[] __attribute__((weak));
extern unsigned n_kept __attribute__((weak));

int main(void)
{
    if (!&n_kept)
        return 2;
    unsigned n = n_kept; /* of the time before main() */
    for (unsigned i = 0; i < n; i++) {
        for (size_t at = 0; at < kept[i].size; at++)
            if (kept[i].p[at] != i % 255 + 1)
                return 3;
        if (i % 3 == 0) {
            unsigned char *p = realloc(kept[i].p, kept[i].size + 5000);
            if (!p || (kept[i].size && (p[0] != i % 255 + 1 || p[kept[i].size - 1] != i % 255 + 1)))
                return 4;
            memset(p, 0, kept[i].size + 5000);
            kept[i].p = p;
        }
        free(kept[i].p);
    }
    printf("%s\n", n >= 5 ? "allocated early" : "nothing was allocated early");
    return 0;
}
#endif
