/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies out of the memory of a process. */
#include "snapshot/space.h"

#include <errno.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "base/descriptor.h"
#include "base/process_stat.h"

/* The sanitizer is not told: a sequence lock around the copy finds what it would report. Whole words, so that none is
 * torn. */
__attribute__((no_sanitize("thread"))) static void copy_own(void *to, const volatile void *from, size_t bytes)
{
    size_t i = 0;
    if (!(((uintptr_t)from | (uintptr_t)to) & 7))
        for (; i + 8 <= bytes; i += 8)
            *(volatile uint64_t *)((char *)to + i) = *(const volatile uint64_t *)((const volatile char *)from + i);
    if (!(((uintptr_t)from | (uintptr_t)to) & 3))
        for (; i + 4 <= bytes; i += 4)
            *(volatile uint32_t *)((char *)to + i) = *(const volatile uint32_t *)((const volatile char *)from + i);
    for (; i < bytes; i++)
        ((volatile char *)to)[i] = ((const volatile char *)from)[i];
}

static int open_memory(struct space *space)
{
    char path[PROCESS_PATH_BYTES];
    if (space->memory)
        return 0;
    int fd = descriptor_open(process_path(path, space->pid, "mem"), O_RDONLY, 0);
    if (fd < 0)
        return errno == ENOENT ? -ESRCH : errno == EACCES ? -EPERM : -errno;
    space->memory = fd;
    return 0;
}

/* Reads 0 bytes when the process has ended. */
static int copy_by_file(struct space *space, const struct piece *pieces, size_t n)
{
    int error = open_memory(space);
    for (const struct piece *p = pieces; !error && p < pieces + n; p++) {
        if (p->from > INT64_MAX)
            return -EFAULT;
        ssize_t bytes = pread(space->memory, p->to, p->bytes, (off_t)p->from);
        if (bytes != (ssize_t)p->bytes)
            error = bytes == 0 ? -ESRCH : bytes > 0 || errno == EIO ? -EFAULT : -errno;
    }
    return error;
}

#define PIECES_AT_ONCE 256 /* more gain nothing, and take stack */

/* One system call. The kernel copies piece by piece, in their order. Not inlined: a snapshot of this process must fit
 * on a small stack, and needs none of this. */
static NOINLINE int copy_some(struct space *space, const struct piece *pieces, size_t n)
{
    struct iovec to[PIECES_AT_ONCE], from[PIECES_AT_ONCE];
    size_t wanted = 0;
    if (space->by_file || space->by_thread)
        return copy_by_file(space, pieces, n);
    for (size_t i = 0; i < n; i++) {
        to[i] = (struct iovec){pieces[i].to, pieces[i].bytes};
        from[i] = (struct iovec){(void *)(uintptr_t)pieces[i].from, pieces[i].bytes};
        wanted += pieces[i].bytes;
    }
    ssize_t bytes = process_vm_readv(space->pid, to, n, from, n, 0);
    if (bytes == (ssize_t)wanted)
        return 0;
    if (bytes < 0 && (errno == ENOSYS || errno == EPERM))
        return copy_by_file(space, pieces, n);
    return bytes >= 0 ? -EFAULT : -errno;
}

/* The first thread has ended (pthread_exit(3)), or the thread whose file was open, and all others of that program. */
static NOINLINE int copy_by_another_thread(struct space *space, const struct piece *pieces, size_t n)
{
    int error = -ESRCH;
    for (int tries = 0; tries < 3 && error == -ESRCH; tries++) { /* the thread that is found may end just now */
        space_close(space);
        error = open_memory(space);
        if (!error)
            error = copy_by_file(space, pieces, n);
    }
    space->by_thread = error != -ESRCH;
    if (!space->by_thread)
        space_close(space);
    return error;
}

int space_copy(struct space *space, const struct piece *pieces, size_t n)
{
    int error = 0;
    if (space->core)
        return space->copy(space->core, pieces, n);
    if (!space->pid) {
        for (; n; n--, pieces++)
            copy_own(pieces->to, (const void *)(uintptr_t)pieces->from, pieces->bytes);
        return 0;
    }
    for (size_t now; !error && n; n -= now, pieces += now) {
        now = n < PIECES_AT_ONCE ? n : PIECES_AT_ONCE;
        error = copy_some(space, pieces, now);
        if (error == -ESRCH)
            error = copy_by_another_thread(space, pieces, now);
    }
    return error;
}

void space_close(struct space *space)
{
    if (space->memory)
        close(space->memory);
    space->memory = 0;
}
