/* SPDX-License-Identifier: BSD-2-Clause */
/* The pprof exporter without memory: each allocation in turn fails, also those of zlib and libc. The encoder reports
 * the failure or does without the memory, and frees all that it has. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../support/check.h"
#include "../../support/failing_malloc.h"
#include "../../support/made_snapshot.h"
#include "exporters/pprof.h"

struct counting_sink {
    struct exporter_sink sink;
    size_t bytes;
};

static int count_bytes(struct exporter_sink *sink, const void *data, size_t bytes)
{
    (void)data;
    ((struct counting_sink *)sink)->bytes += bytes;
    return 0;
}

static int encode_failing(const struct snapshot *s, enum exporter_profile profile, long failing, size_t *bytes)
{
    struct counting_sink to = {{count_bytes}, 0};
    start_failing(failing);
    int error = jespan_exporter_pprof.encode(s, profile, &to.sink);
    stop_failing();
    *bytes = to.bytes;
    return error;
}

static void check_kind(enum exporter_profile profile, const char *kind, uint32_t n)
{
    struct snapshot *s = made_snapshot(kind, n);
    size_t bytes, whole_bytes;
    long n_failed = 0;
    CHECK_EQ(encode_failing(s, profile, 0, &whole_bytes), 0);
    CHECK_EQ(n_live, 0);
    long n_allocations = n_calls;
    CHECK(n_allocations > 5);
    for (long i = 1; i <= n_allocations; i++) {
        int error = encode_failing(s, profile, i, &bytes);
        CHECK(error == 0 || error == -ENOMEM);
        CHECK_EQ(n_live, 0);
        n_failed += error != 0;
    }
    CHECK(n_failed > n_allocations / 2); /* libc can read /proc/self/maps without some of its memory */
    made_snapshot_free(s);
}

/* ---- Memory that the sink brings ---- */

static _Alignas(16) char room[8 << 20];
static size_t room_used;
static long n_taken;

static void *take(size_t bytes)
{
    void *p = room + room_used;
    room_used += (bytes + 15) & ~(size_t)15;
    CHECK(room_used <= sizeof room);
    n_taken++;
    return memset(p, 0, bytes);
}

static void give(void *p)
{
    n_taken -= p != NULL;
}

/* Then no memory comes from malloc, and the profile is the same. */
static void check_memory_of_sink(const char *kind, uint32_t n)
{
    static const struct exporter_memory memory = {take, give};
    struct snapshot *s = made_snapshot(kind, n);
    struct counting_sink to = {{count_bytes, &memory}, 0};
    size_t bytes;
    CHECK_EQ(encode_failing(s, EXPORTER_HEAP, 0, &bytes), 0);
    n_taken = 0;
    room_used = 0;
    start_failing(0);
    CHECK_EQ(jespan_exporter_pprof.encode(s, EXPORTER_HEAP, &to.sink), 0);
    stop_failing();
    CHECK_EQ(n_calls, 0);
    CHECK_EQ(n_taken, 0);
    CHECK_EQ(to.bytes, bytes);
    made_snapshot_free(s);
}

int main(void)
{
    check_memory_of_sink("small", 0);
    check_memory_of_sink("hostile", 0);
    check_memory_of_sink("rows", 5000);
    check_kind(EXPORTER_HEAP, "small", 0);
    check_kind(EXPORTER_TIME, "small", 0);
    check_kind(EXPORTER_HEAP, "hostile", 0);
    check_kind(EXPORTER_HEAP, "rows", 20000);
    return check_result();
}
