/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan report` of a file that is damaged or hostile. The first byte says which options are used, the rest is the file. The number of
 * bytes says how many rows are shown, and whether samples are left in the file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "command_parts.h"
#include "fuzz.h"
#include "src/analysis/report.h"

/* ---- A run ---- */

static int file = -1;

static const char *read_input(struct report_input *input, size_t bytes)
{
    const struct report_source source = {.frames = REPORT_SPANS, .kept_bytes = bytes & 4 ? 32 : 0};
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return report_input_read(input, path, &source);
}

static void choose(struct report_query *query, struct report_options *options, struct report_filter **filter, unsigned what)
{
    static const char *const by[] = {"path", "name", "site", "thread", "label:tenant", "function", "line", "library"};
    *options = (struct report_options){.columns = 100, .format = what >> 3 & 3, .tree = what & 32, .chains = what & 32};
    report_by_find(by[what & 7], &query->by, &query->argument);
    query->inclusive = query->with_own = what & 64;
    if (what & 128)
        report_filter_add(filter, "!{tenant=*}|** > parse");
    query->filter = *filter;
}

static void fuzz_one(const uint8_t *data, size_t bytes)
{
    static struct report_input inputs[2];
    struct report_query query = {0};
    struct report_options options;
    struct report_filter *filter = NULL;
    unsigned what = bytes ? data[0] : 0, n = what % 16 == 15 ? 2 : 1;
    FUZZ_REQUIRE(ftruncate(file, 0) == 0);
    FUZZ_REQUIRE(!bytes || pwrite(file, data + 1, bytes - 1, 0) == (ssize_t)bytes - 1);
    choose(&query, &options, &filter, what);
    options.top = bytes & 3;
    const char *reason = read_input(&inputs[0], bytes);
    if (n == 2 && !reason)
        reason = read_input(&inputs[1], bytes);
    else
        n = 1;
    if (!reason)
        reason = report_print(inputs, n, &query, &options);
    FUZZ_REQUIRE(!reason || *reason);
    for (unsigned i = 0; i < n; i++)
        report_input_free(&inputs[i]);
    report_filter_free(filter);
}

static void fuzz_begin(void)
{
    file = memfd_create("profile", MFD_CLOEXEC);
    FUZZ_REQUIRE(file >= 0 && freopen("/dev/null", "w", stdout));
}
