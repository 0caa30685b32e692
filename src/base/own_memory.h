/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads memory of this process that may not be there, or that another thread may unmap at any moment: the kernel reads it. */
#ifndef JESPAN_OWN_MEMORY_H
#define JESPAN_OWN_MEMORY_H

#include <errno.h>
#include <stddef.h>
#include <sys/uio.h>
#include <unistd.h>

/* Copies `bytes` at `from` to `to`. Keeps errno. Returns 0, -EFAULT (not all of them are there), or another negative errno: the
 * process may not call process_vm_readv(2). */
static inline int own_memory_read(void *to, const void *from, size_t bytes)
{
    const struct iovec local = {to, bytes}, remote = {(void *)from, bytes};
    int saved = errno;
    ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    int error = n < 0 ? -errno : n == (ssize_t)bytes ? 0 : -EFAULT;
    errno = saved;
    return error;
}

#endif
