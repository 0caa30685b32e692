/* SPDX-License-Identifier: BSD-2-Clause */
/* Without memory, every function returns NULL with ENOMEM. Nothing is lost, and all figures stay right. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "../support/ctl.h"
#include "../support/maps.h"

#define PAGE ((size_t)4096)

#define CHECK_ENOMEM(call)                                                                                             \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        CHECK((call) == NULL);                                                                                         \
        CHECK_EQ(errno, ENOMEM);                                                                                       \
    } while (0)

static bool is_all(const char *p, size_t n, char c)
{
    while (n > 0 && p[n - 1] == c)
        n--;
    return n == 0;
}

struct chain {
    struct chain *next;
};

static size_t fill(size_t n, struct chain **chain)
{
    size_t count = 0;
    errno = 0;
    for (struct chain *c; (c = malloc(n)) != NULL; count++) {
        c->next = *chain;
        *chain = c;
    }
    CHECK_EQ(errno, ENOMEM);
    return count;
}

static void drain(struct chain *chain)
{
    while (chain) {
        struct chain *next = chain->next;
        free(chain);
        chain = next;
    }
}

/* In a child: no address space is left, for jespan's own needs neither. */
static int run_out(size_t n)
{
    struct chain *chain = NULL;
    char *volatile kept = malloc(1000);
    memset(kept, 5, 1000);
    struct rlimit limit = {address_space_bytes() + ((size_t)96 << 20), RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    size_t count = fill(n, &chain);
    CHECK(count * n > (size_t)16 << 20);
    CHECK_ENOMEM(malloc(opaque((size_t)200 << 20)));
    CHECK_ENOMEM(calloc(opaque(1), (size_t)200 << 20));
    CHECK_ENOMEM(realloc(kept, opaque((size_t)200 << 20)));
    CHECK_ENOMEM(aligned_alloc(64, opaque((size_t)200 << 20)));
    void *p = NULL;
    CHECK_EQ(posix_memalign(&p, 64, opaque((size_t)200 << 20)), ENOMEM);
    CHECK(is_all(kept, 1000, 5));
    ctl_check_identity("out of memory");
    drain(chain);
    chain = NULL;
    ctl_check_identity("memory again");
    size_t again = fill(n, &chain);
    if (again <= count / 4) /* jemalloc alone gets down to 38 %: address space that it keeps is cut into other sizes */
        check_fail("of %zu objects, only %zu could be had a second time", count, again);
    drain(chain);
    free(kept);
    return check_result();
}

static void out_of_memory(void)
{
    static const size_t sizes[] = {24, 1000, 20000, (size_t)1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0)
            _exit(run_out(sizes[i]));
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        if (status)
            check_fail("out of memory with objects of %zu bytes: status %#x", sizes[i], status);
    }
}

int main(void)
{
    out_of_memory();
    return check_result();
}
