/* SPDX-License-Identifier: BSD-2-Clause */
/* For little_memory.sh, as a preloaded library: calls of mmap(2) for memory fail, FAIL_COUNT of them from number
 * FAIL_FROM on. It reads the environment by hand, because it may be called before libc is initialised. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static long number_from_environment(const char *key)
{
    size_t n = strlen(key);
    long value = 0;
    for (char **entry = environ; entry && *entry; entry++)
        if (!strncmp(*entry, key, n))
            for (const char *digit = *entry + n; *digit >= '0' && *digit <= '9'; digit++)
                value = value * 10 + *digit - '0';
    return value;
}

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    static _Atomic long calls;
    long call = fd < 0 ? calls++ : -1, from = number_from_environment("FAIL_FROM=");
    if (call >= from && call - from < number_from_environment("FAIL_COUNT=")) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
}
