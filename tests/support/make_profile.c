/* SPDX-License-Identifier: BSD-2-Clause */
/* make_profile [time] KIND [N]: writes a snapshot that is built by hand to stdout, as a pprof file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporters/pprof.h"
#include "made_snapshot.h"

static int write_stdout(struct exporter_sink *sink, const void *data, size_t bytes)
{
    (void)sink;
    return fwrite(data, 1, bytes, stdout) == bytes ? 0 : -EIO;
}

int main(int argc, char **argv)
{
    enum exporter_profile profile = EXPORTER_HEAP;
    if (argc > 1 && strcmp(argv[1], "time") == 0) {
        profile = EXPORTER_TIME;
        argc--;
        argv++;
    }
    struct snapshot *s = argc < 2 ? NULL : made_snapshot(argv[1], argc < 3 ? 0 : (uint32_t)strtoul(argv[2], NULL, 10));
    if (s == NULL) {
        fprintf(stderr, "usage: make_profile [time] empty|small|twins|hostile|chain N|rows N\n");
        return 2;
    }
    struct exporter_sink sink = {write_stdout};
    int error = jespan_exporter_pprof.encode(s, profile, &sink);
    made_snapshot_free(s);
    return error != 0 || fflush(stdout) != 0;
}
