/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies out of the memory of a process: this one, or another, which does not notice.
 *
 * Others may write there meanwhile, so a copy may be torn. The caller checks the data that must be whole: sequence
 * locks (tree.h), and bounds for each number. An address of another process is never followed except through here.
 */
#ifndef JESPAN_SPACE_H
#define JESPAN_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct core_file;
struct piece;
struct space {
    pid_t pid;  /* 0: this process */
    bool by_thread; /* the first thread of the process has ended: `memory` is of another one, also when that has ended */
    bool by_file; /* reads /proc/PID/mem: this process as if it were another, or a system without process_vm_readv(2) */
    int memory;   /* that file; 0: not opened */
    /* A process that dumped core has core_file_copy() here, and the core; others have NULL. The function is called through
     * a pointer, because the library does not contain it. */
    int (*copy)(struct core_file *core, const struct piece *pieces, size_t n);
    struct core_file *core;
};

struct piece {
    void *to;
    uint64_t from; /* an address there */
    size_t bytes;
};

/* Copies all pieces, each after the one before it. Returns 0 or a negative errno: ESRCH: the process has ended; EPERM:
 * not permitted; EFAULT: there is no memory at an address, and some pieces may be copied. */
int space_copy(struct space *space, const struct piece *pieces, size_t n);
void space_close(struct space *space);

static inline uint64_t space_address(const volatile void *p)
{
    return (uint64_t)(uintptr_t)p;
}

#endif
