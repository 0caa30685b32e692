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

#include "../src/snapshot.h"

#define EXPORTER_ABI 1

/* Where an exporter's bytes go. `write` returns 0 or a negative errno, which encode() passes on. */
struct exporter_sink {
    int (*write)(struct exporter_sink *sink, const void *data, size_t bytes);
};

struct exporter {
    uint32_t abi; /* EXPORTER_ABI */
    const char *name;
    const char *suffix; /* of files, with its dot: ".pb.gz" */
    /* Returns 0 or a negative errno. */
    int (*encode)(const struct snapshot *snapshot, struct exporter_sink *sink);
};

#define EXPORTER_DEFINE(name_) extern const struct exporter jespan_exporter_##name_

#endif
