/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of an exporter: from malloc, or from the sink. */
#ifndef JESPAN_EXPORTER_MEMORY_H
#define JESPAN_EXPORTER_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "report/exporter.h"

/* Returns n × bytes of zeroed memory. NULL: no memory. */
static inline void *exporter_memory_take(const struct exporter_memory *memory, size_t n, size_t bytes)
{
    if (!memory)
        return calloc(n, bytes);
    return bytes > 0 && n > SIZE_MAX / bytes ? NULL : memory->take(n * bytes);
}

static inline void exporter_memory_give(const struct exporter_memory *memory, void *p)
{
    if (!memory)
        free(p);
    else
        memory->give(p);
}

/* Like realloc() from `old_bytes` to more bytes. */
static inline void *exporter_memory_grow(const struct exporter_memory *memory, void *p, size_t old_bytes, size_t bytes)
{
    if (!memory)
        return realloc(p, bytes);
    void *larger = memory->take(bytes);
    if (larger && old_bytes > 0)
        memcpy(larger, p, old_bytes);
    if (larger)
        memory->give(p);
    return larger;
}

#endif
