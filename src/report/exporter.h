/* SPDX-License-Identifier: BSD-2-Clause */
/* An exporter: a module that turns snapshots into one format.
 *
 * The module `NAME` is the shared object NAME.so in the module directory, or an archive linked into a static program,
 * and defines one symbol, `jespan_exporter_NAME`. It is opened with dlopen(RTLD_LOCAL), so what it links stays out of
 * the program's way. Encoding is a pure function of the snapshot. All calls come from one thread at a time, in the
 * context "(jespan)", with no lock of jespan's held: an exporter may use malloc.
 */
#ifndef JESPAN_EXPORTER_H
#define JESPAN_EXPORTER_H

#include <stddef.h>
#include <stdint.h>

#include "snapshot/snapshot.h"

#define EXPORTER_ABI 3

/* What is shown of a snapshot. */
enum exporter_profile {
    EXPORTER_HEAP, /* who allocated what, and holds it */
    EXPORTER_TIME, /* how long spans took: opens, and self wall, busy and CPU time */
    EXPORTER_N_PROFILES,
};

/* Memory that is not malloc's, for a dump that must succeed where malloc has none. `take` gives zeroed memory, aligned
 * as malloc's is, or NULL; `give` takes it back, NULL too. */
struct exporter_memory {
    void *(*take)(size_t bytes);
    void (*give)(void *memory);
};

/* Where an exporter's bytes go, and where the memory that encoding needs comes from. `write` returns 0 or a negative
 * errno, which encode() passes on. */
struct exporter_sink {
    int (*write)(struct exporter_sink *sink, const void *data, size_t bytes);
    const struct exporter_memory *memory; /* NULL: malloc */
};

struct exporter {
    uint32_t abi; /* EXPORTER_ABI */
    const char *name;
    const char *suffix; /* of files, with its dot: ".pb.gz" */
    /* Returns 0 or a negative errno: EINVAL for a profile that the exporter does not know, and what comes from the sink
     * or from want of memory. */
    int (*encode)(const struct snapshot *snapshot, enum exporter_profile profile, struct exporter_sink *sink);
};

#define EXPORTER_DEFINE(name_) extern const struct exporter jespan_exporter_##name_

#endif
