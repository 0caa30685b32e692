/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory for what is allocated while jespan starts. */
#include "malloc/early.h"

#include <errno.h>

/* In front of each object. */
struct early_head {
    _Alignas(16) size_t size;
};

_Alignas(4096) char early_memory[EARLY_BYTES];
static size_t used;

COLD void *early_alloc(size_t size, size_t alignment)
{
    size_t mask = (alignment < sizeof(struct early_head) ? sizeof(struct early_head) : alignment) - 1;
    uintptr_t start = (uintptr_t)early_memory, at = (start + used + sizeof(struct early_head) + mask) & ~mask;
    size += !size;
    if (size > EARLY_BYTES || at - start > EARLY_BYTES - size) {
        errno = ENOMEM;
        return NULL;
    }
    used = at - start + size;
    ((struct early_head *)at)[-1].size = size;
    return (void *)at; /* NOLINT */
}

size_t early_usable(const void *p)
{
    return ((const struct early_head *)p)[-1].size;
}
