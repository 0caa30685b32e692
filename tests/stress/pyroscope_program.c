/* SPDX-License-Identifier: BSD-2-Clause */
/* For pyroscope_day.sh: holds SPANS spans open, each with a tenant and a span_id of its own and memory of its own, and in
 * each of two halves of SECONDS opens and closes TOTAL / 2 others, at a steady rate, and then waits until the server has
 * all. Prints
 *
 *   cpu PUSHES MICROSECONDS   each 100 ms: CPU time of the thread "pyroscope"
 *   level OWN RESIDENT        at the end of each half: bytes that "(jespan)" holds and resident ones, the least of a while
 *   total OBJECTS BYTES       what all those spans allocated
 *
 * usage: pyroscope_program SPANS TOTAL SECONDS
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <time.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"

#define TENANTS 50

static const struct jespan_site site = {.name = "day_request"};
static uint64_t opened, allocated_objects, allocated_bytes;

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static size_t read_file(const char *path, char *text, size_t bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, bytes - 1) : 0;
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* The thread's, 0 where there is none. */
static int find_thread(const char *name)
{
    char path[64], text[64];
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; !found && tasks && (task = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", task->d_name);
        if (read_file(path, text, sizeof text) && strncmp(text, name, strlen(name)) == 0)
            found = atoi(task->d_name);
    }
    closedir(tasks);
    return found;
}

/* Reads the CPU clock of a thread by the kernel's encoding: clock_getcpuclockid(3). */
static uint64_t cpu_us(int thread)
{
    return thread ? now_ns((clockid_t)(~(unsigned)thread << 3 | 6)) / 1000 : 0;
}

static uint64_t resident_bytes(void)
{
    char text[128];
    read_file("/proc/self/statm", text, sizeof text);
    return strtoull(strchr(text, ' '), NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A span with labels that no other has. */
static jespan_span_t *open_span(void)
{
    char tenant[24], span_id[24];
    snprintf(tenant, sizeof tenant, "tenant %llu", (unsigned long long)opened % TENANTS);
    snprintf(span_id, sizeof span_id, "%016llx", (unsigned long long)++opened);
    const struct jespan_label labels[] = {JESPAN_LABEL("tenant", tenant), JESPAN_LABEL("span_id", span_id)};
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, labels, 2);
    if (!span)
        check_fail("span %llu: %s", (unsigned long long)opened, strerror(errno));
    return span;
}

static void *allocate_in(jespan_span_t *span, size_t bytes)
{
    CHECK_EQ(jespan_enter(span), 0);
    void *p = opaque_pointer(malloc(bytes));
    CHECK_EQ(jespan_exit(span), 0);
    allocated_objects++;
    allocated_bytes += malloc_usable_size(p);
    return p;
}

static void one_request(void)
{
    jespan_span_t *span = open_span();
    free(allocate_in(span, 100 + opened % 1000));
    jespan_close(span);
}

static void hold(uint64_t n)
{
    jespan_span_t **spans = calloc(n + 1, sizeof *spans);
    for (uint64_t i = 0; i < n; i++) {
        spans[i] = open_span();
        allocate_in(spans[i], 64);
    }
}

static uint64_t stat_of(const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "spans.stats.pyroscope.%s", name);
    return ctl_u64(full);
}

/* Whether less than four periods of three profiles were pushed. A busy machine needs longer for them. */
static bool needs_more_periods(uint64_t ticks)
{
    return ticks < 600000 && stat_of("pushes") < 12;
}

/* In ticks, so that the rate is steady. Where no span passes, periods are what counts. */
static void pass(uint64_t total, uint64_t ms, int thread)
{
    uint64_t began_ns = now_ns(CLOCK_MONOTONIC), first = opened;
    for (uint64_t tick = 1; tick <= ms || (!total && needs_more_periods(tick)); tick++) {
        while (opened - first < total * tick / ms)
            one_request();
        uint64_t until_ns = began_ns + tick * 1000000u;
        struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        if (tick % 100 == 0)
            printf("cpu %llu %llu\n", (unsigned long long)stat_of("pushes"), (unsigned long long)cpu_us(thread));
    }
}

/* A period that is being made is not in the queue, but the least of some moments is between two. */
static void print_level(void)
{
    uint64_t own = UINT64_MAX, resident = UINT64_MAX, queued = UINT64_MAX;
    for (int i = 0; i < 600000 && (queued = stat_of("queue_length")) > 0; i++)
        usleep(1000);
    CHECK_EQ(queued, 0);
    for (int i = 0; i < 200; i++) {
        own = ctl_u64("spans.2.inuse_bytes") < own ? ctl_u64("spans.2.inuse_bytes") : own;
        resident = resident_bytes() < resident ? resident_bytes() : resident;
        usleep(1000);
    }
    printf("level %llu %llu\n", (unsigned long long)own, (unsigned long long)resident);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    uint64_t total = strtoull(argv[2], NULL, 10), ms = strtoull(argv[3], NULL, 10) * 1000;
    hold(strtoull(argv[1], NULL, 10));
    int thread = find_thread("pyroscope");
    for (int i = 0; i < 600000 && !thread; i++) { /* it has just begun, and has no name yet */
        usleep(1000);
        thread = find_thread("pyroscope");
    }
    CHECK(thread > 0);
    for (int half = 0; half < 2; half++) {
        pass(total / 2, ms / 2, thread);
        if (total)
            print_level();
    }
    printf("total %llu %llu\n", (unsigned long long)allocated_objects, (unsigned long long)allocated_bytes);
    return check_result();
}
