/* SPDX-License-Identifier: BSD-2-Clause */
/* Figures of jemalloc's and glibc's own names, compared with their manuals and with the test's own count. */
#define _GNU_SOURCE
#include <jespan/jespan.h>
#include <limits.h>
#include <pthread.h>

#include "../support/ctl.h"

#define OBJECTS 400
#define ROUNDS 4000
#define FLAG_TCACHE_NONE 0x100

/* ---- thread.allocated and its kin ---- */

/* The bytes that this thread allocated and freed, by malloc_usable_size(). */
struct model {
    uint64_t allocated, deallocated;
    void *live[OBJECTS];
    uint64_t random;
};

static uint64_t draw(struct model *m)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return m->random >> 33;
}

static size_t draw_size(struct model *m)
{
    static const size_t most[] = {64, 500, 5000, 50000, 500000};
    return draw(m) % most[draw(m) % 5] + 1;
}

static void *got(struct model *m, void *p)
{
    CHECK(p);
    m->allocated += malloc_usable_size(p);
    return p;
}

static void *allocate(struct model *m)
{
    void *p = NULL;
    size_t size = draw_size(m);
    switch (draw(m) % 6) {
    case 0:
        return got(m, calloc(1, size));
    case 1:
        return got(m, aligned_alloc(64, size));
    case 2:
        return posix_memalign(&p, 256, size) ? NULL : got(m, p);
    case 3:
        return got(m, mallocx(size, FLAG_TCACHE_NONE));
    default:
        return got(m, malloc(size));
    }
}

static void release(struct model *m, void *p)
{
    m->deallocated += malloc_usable_size(p);
    if (p && draw(m) % 8 == 0)
        dallocx(p, FLAG_TCACHE_NONE);
    else
        free(p);
}

/* jemalloc's manual: bytes ever allocated and deallocated by the thread; a resize in place, too, gives up all of the old size. */
static void *resize(struct model *m, void *p)
{
    if (!p)
        return allocate(m);
    size_t old = malloc_usable_size(p);
    void *q = realloc(p, draw_size(m));
    m->deallocated += old;
    return got(m, q);
}

static void work(struct model *m, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        void **object = &m->live[draw(m) % OBJECTS];
        if (draw(m) % 4 == 0) {
            *object = resize(m, *object);
        } else {
            release(m, *object);
            *object = draw(m) % 3 ? allocate(m) : NULL;
        }
    }
}

static void release_all(struct model *m)
{
    for (int i = 0; i < OBJECTS; i++) {
        release(m, m->live[i]);
        m->live[i] = NULL;
    }
}

struct pointers {
    uint64_t *allocated, *deallocated;
};

static uint64_t *ctl_pointer(const char *name)
{
    uint64_t *p = NULL;
    size_t size = sizeof p, mib[2], length = 2;
    CHECK_EQ(mallctl(name, &p, &size, NULL, 0), 0);
    uint64_t *again = NULL;
    size = sizeof again;
    CHECK_EQ(mallctlnametomib(name, mib, &length), 0);
    CHECK_EQ(mallctlbymib(mib, length, &again, &size, NULL, 0), 0);
    CHECK(p && p == again);
    return p;
}

static void check_names(const struct model *m, uint64_t allocated, uint64_t deallocated)
{
    CHECK_EQ(ctl_u64("thread.allocated") - allocated, m->allocated);
    CHECK_EQ(ctl_u64("thread.deallocated") - deallocated, m->deallocated);
}

static uint64_t ctl_by_mib(const char *name)
{
    uint64_t value = 0;
    size_t mib[2], length = 2, size = sizeof value;
    CHECK_EQ(mallctlnametomib(name, mib, &length), 0);
    CHECK_EQ(mallctlbymib(mib, length, &value, &size, NULL, 0), 0);
    return value;
}

/* The report: 1,000 times malloc(100) and free, which is 112 bytes each. */
static void same_object_again(void)
{
    uint64_t allocated = ctl_by_mib("thread.allocated"), deallocated = ctl_by_mib("thread.deallocated");
    for (int i = 0; i < 1000; i++)
        free(opaque_pointer(malloc(100)));
    CHECK_EQ(ctl_by_mib("thread.allocated") - allocated, 112000);
    CHECK_EQ(ctl_by_mib("thread.deallocated") - deallocated, 112000);
}

static void *any_work(void *seed)
{
    struct model m = {.random = (uintptr_t)seed};
    uint64_t allocated = ctl_u64("thread.allocated"), deallocated = ctl_u64("thread.deallocated");
    CHECK(allocated < 4096 && deallocated < 4096); /* what libc did to start the thread, nothing of a thread before */
    work(&m, ROUNDS);
    check_names(&m, allocated, deallocated);
    struct pointers p = {ctl_pointer("thread.allocatedp"), ctl_pointer("thread.deallocatedp")};
    for (int i = 0; i < 50; i++) {
        work(&m, ROUNDS / 50);
        CHECK_EQ(*p.allocated - allocated, m.allocated);
        CHECK_EQ(*p.deallocated - deallocated, m.deallocated);
    }
    {
        JESPAN("inside", "k", "v");
        work(&m, ROUNDS / 10);
    }
    check_names(&m, allocated, deallocated);
    CHECK_EQ(*p.allocated - allocated, m.allocated);
    CHECK_EQ(*p.deallocated - deallocated, m.deallocated);
    release_all(&m);
    check_names(&m, allocated, deallocated);
    return NULL;
}

/* One after another, so that each gets the block of the one before; then at once. */
static void threads(void)
{
    pthread_t id[4];
    for (uintptr_t i = 0; i < 4; i++) {
        CHECK_EQ(pthread_create(&id[0], NULL, any_work, (void *)(i + 1)), 0);
        pthread_join(id[0], NULL);
    }
    for (uintptr_t i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&id[i], NULL, any_work, (void *)(i + 10)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(id[i], NULL);
}

static void *free_it(void *p)
{
    uint64_t allocated = ctl_u64("thread.allocated"), deallocated = ctl_u64("thread.deallocated");
    free(p);
    CHECK_EQ(ctl_u64("thread.deallocated") - deallocated, 112);
    CHECK_EQ(ctl_u64("thread.allocated") - allocated, 0);
    return NULL;
}

static void freed_by_another(void)
{
    uint64_t deallocated = ctl_u64("thread.deallocated");
    void *p = opaque_pointer(malloc(100));
    pthread_t id;
    CHECK_EQ(pthread_create(&id, NULL, free_it, p), 0);
    pthread_join(id, NULL);
    CHECK_EQ(ctl_u64("thread.deallocated") - deallocated, 0);
}

static void read_only(void)
{
    static const char *const names[] = {"thread.allocated", "thread.deallocated", "thread.allocatedp", "thread.deallocatedp"};
    for (int i = 0; i < 4; i++) {
        uint64_t value = 0;
        size_t size = 4;
        CHECK_EQ(mallctl(names[i], &value, &size, NULL, 0), EINVAL);
        CHECK_EQ(mallctl(names[i], NULL, NULL, &value, sizeof value), EPERM);
        CHECK_EQ(mallctl(names[i], NULL, NULL, NULL, 0), 0);
    }
}

/* ---- Names that would take or give objects behind jespan's back ---- */

static void refused(void)
{
    struct {
        void **objects;
        size_t count, size;
        int flags;
    } batch = {(void *[4]){NULL}, 4, 64, 0};
    size_t filled = 0, bytes = sizeof filled, mib[3], length = 3;
    CHECK_EQ(mallctl("experimental.batch_alloc", &filled, &bytes, &batch, sizeof batch), EPERM);
    CHECK_EQ(filled, 0);
    CHECK_EQ(mallctl("arena.0.reset", NULL, NULL, NULL, 0), EPERM);
    CHECK_EQ(mallctl("arena.3.destroy", NULL, NULL, NULL, 0), EPERM);
    CHECK_EQ(mallctlnametomib("arena.0.reset", mib, &length), 0);
    mib[1] = 2;
    CHECK_EQ(mallctlbymib(mib, length, NULL, NULL, NULL, 0), EPERM);
    CHECK_EQ(mallctl("arena.0.purge", NULL, NULL, NULL, 0), 0);
}

/* ---- glibc's ---- */

#define BIG ((size_t)64 << 20)

/* glibc's manual: uordblks are bytes in use, arena is what came from the system, both without what mmap got apart. */
static void mallinfo_counts(void)
{
    struct mallinfo2 before = mallinfo2();
    CHECK_EQ(before.uordblks, ctl_u64("spans.all.inuse_bytes"));
    CHECK_EQ(before.arena, before.uordblks + before.fordblks);
    char *big = malloc(BIG);
    memset(opaque_pointer(big), 1, BIG);
    struct mallinfo2 with = mallinfo2();
    CHECK_EQ(with.uordblks - before.uordblks, malloc_usable_size(big));
    CHECK(with.arena + with.hblkhd >= before.uordblks + BIG);
    CHECK_EQ(with.arena, with.uordblks + with.fordblks);
    CHECK(with.fsmblks <= with.fordblks);
    free(big);
    CHECK_EQ(mallinfo2().uordblks, before.uordblks);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void mallinfo_is_bounded(void)
{
    size_t huge = (size_t)3 << 30;
    void *p = opaque_pointer(malloc(huge));
    CHECK(p);
    struct mallinfo m = mallinfo();
    CHECK_EQ(m.uordblks, INT_MAX);
    CHECK_EQ(m.arena, INT_MAX);
    free(p);
    CHECK_EQ(mallinfo().uordblks, mallinfo2().uordblks);
}
#pragma GCC diagnostic pop

/* glibc's manual: 1 if memory was given back to the system, 0 if there was none to give. */
static void trim(void)
{
    void *small[4096];
    for (int i = 0; i < 4096; i++)
        memset(small[i] = opaque_pointer(malloc(8000)), 1, 8000);
    for (int i = 0; i < 4096; i++)
        free(small[i]);
    CHECK_EQ(malloc_trim(0), 1);
    malloc_trim(0); /* jemalloc may keep pages to be purged at leisure the first time */
    CHECK_EQ(malloc_trim(0), 0);
}

static void tune(void)
{
    static const int known[] = {M_MXFAST, M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX, M_CHECK_ACTION,
                                M_PERTURB, M_ARENA_TEST, M_ARENA_MAX};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CHECK_EQ(mallopt(known[i], 1), 1);
    CHECK_EQ(mallopt(12345, 1), 0);
}

static void info(void)
{
    char text[4096] = "", wanted[128];
    FILE *f = fmemopen(text, sizeof text, "w");
    CHECK(f != NULL);
    errno = 0;
    CHECK_EQ(malloc_info(1, f), -1);
    CHECK_EQ(errno, EINVAL);
    void *keep = opaque_pointer(malloc(BIG));
    CHECK_EQ(malloc_info(0, f), 0);
    fclose(f);
    snprintf(wanted, sizeof wanted, "<system type=\"current\" size=\"");
    const char *at = strstr(text, wanted);
    CHECK(at && strtoull(at + strlen(wanted), NULL, 10) >= BIG);
    CHECK(!strncmp(text, "<malloc version=\"1\">", 20) && strstr(text, "</malloc>"));
    free(keep);
}

static void stats_go_to_stderr(void)
{
    char text[512] = "";
    int ends[2], saved = dup(STDERR_FILENO);
    CHECK_EQ(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    malloc_stats();
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(ends[1]);
    CHECK(read(ends[0], text, sizeof text - 1) > 0);
    close(ends[0]);
    const char *at = strstr(text, "in use bytes     =");
    CHECK(at && strstr(text, "system bytes     ="));
    CHECK(at && strtoull(at + 18, NULL, 10) > 0);
}

int main(void)
{
    same_object_again();
    threads();
    freed_by_another();
    read_only();
    refused();
    mallinfo_counts();
    mallinfo_is_bounded();
    trim();
    tune();
    info();
    stats_go_to_stderr();
    same_object_again();
    return check_failures != 0;
}
