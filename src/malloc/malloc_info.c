/* SPDX-License-Identifier: BSD-2-Clause */
/* glibc's functions that report on the heap or tune it. Without these, glibc would report on its own heap, which is
 * idle. docs/mallctl.md says what each returns. malloc_stats() is in ctl/stats_print.c. */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>

#include "heap/sums.h"
#include "jemalloc-hooks/extents.h"
#include "malloc/boot.h"
#include "malloc/family.h"
#include "malloc/track.h"
#include "span/tree.h"

/* The figures of the heap, in bytes. */
struct heap_figures {
    uint64_t committed, peak_mapped; /* from the system */
    uint64_t inuse;                  /* by the program */
    uint64_t cached;                 /* freed by the program, kept by its threads */
};

/* Figures are read one after the other while threads go on, so they are lowered until no difference is negative. */
static struct heap_figures read_figures(void)
{
    struct thread *t = track_thread();
    if (t)
        track_flush_any(t);
    if (!boot_is_done())
        return (struct heap_figures){0};
    const struct totals all = sums_of_all(tree_end());
    struct heap_figures f = {.committed = extents_figure(&extents_heap.committed_bytes),
                             .peak_mapped = extents_figure(&extents_heap.peak_mapped_bytes),
                             .inuse = totals_inuse_bytes(&all), .cached = sums_pending_bytes()};
    if ((int64_t)f.inuse < 0)
        f.inuse = 0;
    if (f.committed < f.inuse)
        f.committed = f.inuse;
    if (f.cached > f.committed - f.inuse)
        f.cached = f.committed - f.inuse;
    return f;
}

EXPORT struct mallinfo2 FAMILY(mallinfo2)(void)
{
    const struct heap_figures f = read_figures();
    return (struct mallinfo2){.arena = f.committed, .uordblks = f.inuse, .fordblks = f.committed - f.inuse, .fsmblks = f.cached};
}

static int at_most_int(size_t n)
{
    return n < INT_MAX ? (int)n : INT_MAX;
}

EXPORT struct mallinfo FAMILY(mallinfo)(void)
{
    const struct mallinfo2 wide = FAMILY(mallinfo2)();
    return (struct mallinfo){.arena = at_most_int(wide.arena), .uordblks = at_most_int(wide.uordblks),
                             .fordblks = at_most_int(wide.fordblks), .fsmblks = at_most_int(wide.fsmblks)};
}

static uint64_t given_back(void)
{
    return load_relaxed(&extents_heap.purged_lazy_bytes) + load_relaxed(&extents_heap.purged_forced_bytes);
}

/* `pad` is what to keep at the top of glibc's heap. It has no meaning here. */
EXPORT int FAMILY(malloc_trim)(size_t pad)
{
    (void)pad;
    int saved = errno;
    uint64_t given = given_back(), mapped = extents_figure(&extents_heap.mapped_bytes);
    FAMILY(mallctl)("thread.tcache.flush", NULL, NULL, NULL, 0);
    FAMILY(mallctl)("arena.4096.purge", NULL, NULL, NULL, 0); /* MALLCTL_ARENAS_ALL */
    errno = saved;
    return given_back() > given || extents_figure(&extents_heap.mapped_bytes) < mapped;
}

/* glibc prints the same elements for each heap and for all together. Only the latter have a line of mmap(2). */
static bool print_totals(FILE *stream, const struct heap_figures *f, const char *mapped)
{
    const unsigned long long committed = f->committed, rest = f->committed - f->inuse - f->cached;
    return fprintf(stream, "<total type=\"fast\" count=\"0\" size=\"%llu\"/>\n<total type=\"rest\" count=\"0\" size=\"%llu\"/>\n%s"
                           "<system type=\"current\" size=\"%llu\"/>\n<system type=\"max\" size=\"%llu\"/>\n"
                           "<aspace type=\"total\" size=\"%llu\"/>\n<aspace type=\"mprotect\" size=\"%llu\"/>\n",
                   (unsigned long long)f->cached, rest, mapped, committed, (unsigned long long)f->peak_mapped, committed, committed) > 0;
}

/* The XML of glibc's version 1, with one heap. */
EXPORT int FAMILY(malloc_info)(int options, FILE *stream)
{
    if (options) {
        errno = EINVAL;
        return -1;
    }
    const struct heap_figures f = read_figures();
    bool printed = fputs("<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n</sizes>\n", stream) >= 0 && print_totals(stream, &f, "") &&
                   fputs("</heap>\n", stream) >= 0 &&
                   print_totals(stream, &f, "<total type=\"mmap\" count=\"0\" size=\"0\"/>\n") && fputs("</malloc>\n", stream) >= 0;
    return printed ? 0 : -1;
}

/* Parameters of glibc are accepted and change nothing: jemalloc is tuned by MALLOC_CONF. */
EXPORT int FAMILY(mallopt)(int parameter, int value)
{
    (void)value;
    switch (parameter) {
    case M_MXFAST:
    case M_TRIM_THRESHOLD:
    case M_TOP_PAD:
    case M_MMAP_THRESHOLD:
    case M_MMAP_MAX:
    case M_CHECK_ACTION:
    case M_PERTURB:
    case M_ARENA_TEST:
    case M_ARENA_MAX:
        return 1;
    default:
        return 0;
    }
}
