/* SPDX-License-Identifier: BSD-2-Clause */
/* The exporter `pprof`: gzipped pprof profiles of the heap or of time. */
#include <errno.h>
#include <stddef.h>

#include "pprof.h"
#include "pprof_parts.h"
#include "report/exporter.h"

static int encode(const struct snapshot *snapshot, enum exporter_profile profile, struct exporter_sink *sink)
{
    const struct pprof_kind *kind = pprof_kind_find(profile);
    return kind ? pprof_encode(snapshot, kind, PPROF_GZIP, sink) : -EINVAL;
}

const struct exporter jespan_exporter_pprof = {
    .abi = EXPORTER_ABI,
    .name = "pprof",
    .suffix = ".pb.gz",
    .encode = encode,
    .identify = pprof_head_identify,
};
