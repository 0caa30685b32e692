/* SPDX-License-Identifier: BSD-2-Clause */
/* A core file that is damaged or hostile: its segments and notes (snapshot/core_file.c). The input is the file. What it says of
 * its mappings is then read, and copied at their bounds. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "snapshot/core_file.h"
#include "snapshot/view.h"

static int file = -1;
static char path[40];

static void fuzz_begin(void)
{
    file = memfd_create("core", MFD_CLOEXEC);
    FUZZ_REQUIRE(file >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
}

static void copy_at(struct core_file *core, uint64_t at, size_t bytes)
{
    static char to[20000];
    const struct piece pieces[] = {{to, at, 1}, {to, at, bytes}};
    core_file_copy(core, pieces, 2);
}

static void copy_about(struct core_file *core, uint64_t at)
{
    copy_at(core, at, 1);
    copy_at(core, at, 20000);
    copy_at(core, at - 1, 2);
    copy_at(core, at - 10000, 20000);
}

static void copy_what_is_mapped(struct core_file *core, const uint8_t *data, size_t bytes)
{
    uint64_t start, end, number;
    for (const char *line = core_file_maps(core); *line; line = strchr(line, '\n') + 1) {
        FUZZ_REQUIRE(sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2 && strchr(line, '\n'));
        copy_about(core, start);
        copy_about(core, end);
    }
    for (size_t i = 64; i + sizeof number <= bytes && i < 2000; i += sizeof number) {
        memcpy(&number, data + i, sizeof number);
        copy_about(core, number);
    }
    copy_about(core, UINT64_MAX);
}

static void fuzz_one(const uint8_t *data, size_t bytes)
{
    struct core_file *core;
    struct view *view;
    FUZZ_REQUIRE(ftruncate(file, 0) == 0 && pwrite(file, data, bytes, 0) == (ssize_t)bytes);
    if (core_file_open(&core, path) == 0) {
        FUZZ_REQUIRE(strlen(core_file_program(core)->file) > 0);
        copy_what_is_mapped(core, data, bytes);
        core_file_close(core);
    }
    if (view_open_core(&view, path) == 0) {
        snapshot_free(view_snapshot(view, NULL));
        view_close(view);
    }
}
