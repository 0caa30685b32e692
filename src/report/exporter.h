/* SPDX-License-Identifier: BSD-2-Clause */
/* An exporter: a module that writes snapshots in one format.
 *
 * The module `NAME` is the shared object NAME.so in the module directory, or an archive linked into a static program.
 * It defines one symbol, `jespan_exporter_NAME`. It is opened with dlopen(RTLD_LOCAL), so the program does not see its
 * libraries. Encoding is a pure function of the snapshot. One thread at a time calls it, in the context "(jespan)",
 * with no lock of jespan held, so an exporter may use malloc.
 */
#ifndef JESPAN_EXPORTER_H
#define JESPAN_EXPORTER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "snapshot/snapshot.h"

#define EXPORTER_ABI 10

/* The exporters that come with jespan, and the suffixes of their files. So a process knows the dumps of other processes
 * in its directory, whatever their format, and a static program finds what is linked with it. To add one, add a row here
 * and a line in exporters/local.mk. */
#define EXPORTER_TABLE(ROW) \
    ROW(folded, ".folded") \
    ROW(pprof, ".pb.gz")

/* The figures that are shown. */
enum exporter_profile {
    EXPORTER_HEAP, /* allocated and live memory */
    EXPORTER_TIME, /* times of spans: opens, and own wall, busy and CPU time */
    EXPORTER_N_PROFILES,
};

/* Memory for a dump that must succeed when malloc has none. `take` returns zeroed memory, aligned as by malloc, or
 * NULL. `give` frees it and accepts NULL. */
struct exporter_memory {
    void *(*take)(size_t bytes);
    void (*give)(void *memory);
};

/* Takes the encoded bytes, and provides memory for encoding. `write` returns 0 or a negative errno, which encode()
 * returns too. */
struct exporter_sink {
    int (*write)(struct exporter_sink *sink, const void *data, size_t bytes);
    const struct exporter_memory *memory; /* NULL: malloc */
};

struct exporter {
    uint32_t abi; /* EXPORTER_ABI */
    const char *name;
    const char *suffix; /* of files, with its dot: ".pb.gz" */
    /* Returns 0 or a negative errno: EINVAL for a profile that the exporter does not know, ENOMEM, or an error of the
     * sink. */
    int (*encode)(const struct snapshot *snapshot, enum exporter_profile profile, struct exporter_sink *sink);
    /* Reads the main program of a process from /proc, for snapshot->program. A pid of 0 is the calling process. NULL: the
     * format does not show the program. */
    void (*identify)(struct program *program, pid_t pid);
};

#define EXPORTER_DEFINE(name_) extern const struct exporter jespan_exporter_##name_

#endif
