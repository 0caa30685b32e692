/* SPDX-License-Identifier: BSD-2-Clause */
/* jespan's own memory, which comes from mmap(2). */
#include "base/figures.h"
#include "base/meta.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/compiler.h"
#include "base/die.h"
#include "base/lock.h"
#include "base/number.h"
#include "base/state_file.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* AddressSanitizer takes memory for the stack of a thread that a forked child lacks, where libc has unmapped that and the system has mapped
 * a chunk there. */
#if UNDER_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(p, bytes) ((void)(p))
#endif

#define PAGE_BYTES 4096

static char *chunk, *chunk_end; /* LOCK_META */
static _Atomic uint64_t alloc_bytes, map_bytes;
FIGURE_ROW(figure_alloc, "spans.stats.meta_bytes", alloc_bytes, FIGURE_NUMBER);
FIGURE_ROW(figure_map, "spans.stats.map_bytes", map_bytes, FIGURE_NUMBER);

/* Emergency memory. Only the thread in an emergency uses these variables. */
static char *aside;
static size_t aside_bytes, aside_used;
static bool aside_sufficed;
static THREAD_LOCAL bool in_emergency;

/* `at` is a hint, or NULL; `flags` are more flags of mmap(2). Most of what is mapped is never touched. So where the system gives
 * huge pages to all (transparent_hugepage is `always`), it must not give them to these pages. */
static void *map_pages_at(void *at, size_t bytes, int flags)
{
    int saved = errno;
    void *p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
    p = p == MAP_FAILED ? NULL : p;
    if (p)
        (void)madvise(p, bytes, MADV_NOHUGEPAGE); /* fails on kernels without huge pages */
    errno = saved;
    return p;
}

static void *map_pages(size_t bytes)
{
    return map_pages_at(NULL, bytes, 0);
}

void *meta_alloc(size_t bytes)
{
    jespan_assert(bytes <= META_CHUNK_BYTES);
    size_t align = bytes >= PAGE_BYTES ? PAGE_BYTES : bytes >= CACHE_LINE_BYTES ? CACHE_LINE_BYTES : 8;
    void *p = NULL;
    lock(LOCK_META);
    char *start = (char *)round_up((uintptr_t)chunk, align);
    if (!chunk || bytes > (size_t)(chunk_end - start)) {
        start = bytes <= META_CHUNK_BYTES ? map_pages(META_CHUNK_BYTES) : NULL;
        if (start) {
            ASAN_UNPOISON_MEMORY_REGION(start, META_CHUNK_BYTES);
            chunk_end = start + META_CHUNK_BYTES;
        }
        state_watch(start, META_CHUNK_BYTES);
    }
    if (start) {
        chunk = start + bytes;
        p = start;
        store_relaxed(&alloc_bytes, load_relaxed(&alloc_bytes) + bytes);
    }
    unlock(LOCK_META);
    return p;
}

COLD void meta_watch(void)
{
    lock(LOCK_META);
    chunk = chunk_end = NULL; /* the rest of it is lost */
    unlock(LOCK_META);
}

void *meta_map(size_t bytes)
{
    void *p = map_pages(bytes);
    if (p)
        atomic_fetch_add_explicit(&map_bytes, bytes, memory_order_relaxed);
    return p;
}

int meta_touch(void *p, size_t bytes)
{
    int saved = errno, error = madvise(p, bytes, MADV_POPULATE_WRITE) ? -errno : 0;
    errno = saved;
    return error;
}

void *meta_map_hot(size_t bytes, size_t hot)
{
    char *p = meta_map(bytes + META_RANGE_BYTES);
    if (!p)
        return meta_map(bytes);
    char *start = (char *)round_up((uintptr_t)p + hot, META_RANGE_BYTES) - hot;
    meta_unmap(p, (size_t)(start - p));
    meta_unmap(start + bytes, (size_t)(p + META_RANGE_BYTES - start));
    return start;
}

void meta_unmap(void *p, size_t bytes)
{
    int saved = errno;
    if (p && munmap(p, bytes) == 0)
        atomic_fetch_sub_explicit(&map_bytes, bytes, memory_order_relaxed);
    errno = saved;
}

/* ---- Arrays that grow ----
 *
 * The system maps from the top down, and the loader is what it maps first. So it maps nothing between the loader and the
 * stack by itself, which are gigabytes apart where addresses are random. The arrays lie there, right above the loader, and
 * share most of its page tables, which each fork copies. The first array is the one that is touched: it begins a page behind the
 * loader, and mostly in its last page table. Where that is not so (a static program, a stack without limit or
 * bound to grow large, addresses that are not random), they lie far below all other mappings, where the system maps nothing
 * before the process has mapped ARRAYS_BELOW bytes. Should something else be mapped in the way all the same, an array
 * cannot grow any more. */

#define STACK_ROOM ((uintptr_t)4 << 30)
#define ARRAYS_ROOM ((uintptr_t)1 << 30)
#define ARRAYS_BELOW ((uintptr_t)256 << 30)
#define ARRAY_ALIGN ((uintptr_t)2 << 20)

static char *next_array, *arrays_end; /* LOCK_BOOT */

/* Maps pages at exactly these addresses. Kernels before 4.17 do not know the flag and take the address as a hint. */
static bool map_exactly(char *start, size_t bytes)
{
    char *p = map_pages_at(start, bytes, MAP_FIXED_NOREPLACE);
    if (p && p != start)
        munmap(p, bytes);
    if (p == start)
        atomic_fetch_add_explicit(&map_bytes, bytes, memory_order_relaxed);
    return p == start;
}

/* Below the most that the stack may become. 0: it has no bound. */
static uintptr_t end_above_loader(void)
{
    uintptr_t stack = getauxval(AT_RANDOM); /* the kernel puts these bytes on the stack */
    struct rlimit most;
    if (getrlimit(RLIMIT_STACK, &most) || most.rlim_cur > STACK_ROOM || stack < STACK_ROOM)
        return 0;
    return stack - STACK_ROOM;
}

/* The end of the loader's last segment. */
static uintptr_t end_of_loader(uintptr_t loader)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)loader;
    uintptr_t end = loader;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        const Elf64_Phdr *segment = (const Elf64_Phdr *)(loader + header->e_phoff + i * sizeof *segment);
        if (segment->p_type == PT_LOAD && loader + segment->p_vaddr + segment->p_memsz > end)
            end = loader + segment->p_vaddr + segment->p_memsz;
    }
    return round_up(end, PAGE_BYTES);
}

static void choose_addresses(void)
{
    uintptr_t here = (uintptr_t)meta_alloc(CACHE_LINE_BYTES);
    uintptr_t loader = getauxval(AT_BASE), end = end_above_loader();
    uintptr_t start = loader ? end_of_loader(loader) + PAGE_BYTES : 0;
    if (loader > here && end > start + ARRAYS_ROOM) {
        next_array = (char *)start;
        arrays_end = (char *)end;
    } else if (here > 2 * ARRAYS_BELOW) {
        next_array = (char *)((here - ARRAYS_BELOW) & ~(ARRAY_ALIGN - 1));
        arrays_end = (char *)here;
    }
}

/* Where the addresses are not free, maps the whole array elsewhere. */
COLD int meta_array_begin(struct meta_array *a, size_t most)
{
    if (!next_array)
        choose_addresses();
    most = round_up(most, PAGE_BYTES);
    if ((uintptr_t)next_array + most <= (uintptr_t)arrays_end && map_exactly(next_array, PAGE_BYTES)) {
        *a = (struct meta_array){.start = next_array, .mapped = PAGE_BYTES, .most = most};
        next_array = (char *)round_up((uintptr_t)next_array + most + ARRAY_ALIGN, ARRAY_ALIGN);
        return 0;
    }
    *a = (struct meta_array){.start = meta_map(most), .mapped = most, .most = most};
    return a->start ? 0 : -ENOMEM;
}

COLD bool meta_array_grow(struct meta_array *a, size_t bytes)
{
    bytes = round_up(bytes, PAGE_BYTES);
    if (bytes <= a->mapped)
        return true;
    if (!map_exactly(a->start + a->mapped, bytes - a->mapped))
        return false;
    if (a->is_watched)
        state_watch(a->start + a->mapped, bytes - a->mapped);
    a->mapped = bytes;
    return true;
}

COLD void meta_array_watch(struct meta_array *a)
{
    a->is_watched = state_is_on();
    state_watch(a->start, a->mapped);
}

/* ---- Emergency memory ---- */

COLD int meta_set_aside(size_t bytes)
{
    if (!aside && bytes) {
        aside = meta_map(bytes);
        if (!aside)
            return -ENOMEM;
        aside_bytes = bytes;
    }
    int saved = errno;
    if (aside)
        memset(aside, 0, aside_bytes);
    if (aside && mlock(aside, aside_bytes))
        errno = saved; /* without the lock, it is only touched */
    return 0;
}

void meta_emergency_begin(void)
{
    in_emergency = aside_sufficed = true;
    aside_used = 0;
}

bool meta_emergency_end(void)
{
    in_emergency = false;
    return aside_sufficed;
}

static void *borrow_aside(size_t bytes)
{
    if (bytes > aside_bytes - aside_used) {
        aside_sufficed = false;
        return NULL;
    }
    void *p = aside + aside_used;
    aside_used += lesser(round_up(bytes, CACHE_LINE_BYTES), aside_bytes - aside_used);
    return memset(p, 0, bytes);
}

void *meta_emergency_alloc(size_t bytes)
{
    void *p = in_emergency ? borrow_aside(bytes) : NULL;
    return p ? p : meta_map(bytes);
}

/* The last piece can be used again at once, the others when all later ones are returned. */
void meta_return(void *p, size_t bytes)
{
    size_t at = (size_t)((char *)p - aside);
    if (!aside || (char *)p < aside || at >= aside_bytes)
        meta_unmap(p, bytes);
    else if (at + round_up(bytes, CACHE_LINE_BYTES) == aside_used)
        aside_used = at;
}

uint64_t meta_alloc_bytes(void)
{
    return load_relaxed(&alloc_bytes);
}

uint64_t meta_map_bytes(void)
{
    return load_relaxed(&map_bytes);
}

/* ---- A bump allocator ---- */

struct bump_chunk {
    struct bump_chunk *next;
    size_t used;
};

void *bump_alloc(struct bump *r, size_t bytes)
{
    jespan_assert(bytes <= META_CHUNK_BYTES / 2);
    struct bump_chunk *c = r->chunks;
    if (!c || META_CHUNK_BYTES - c->used < bytes) {
        c = meta_map(META_CHUNK_BYTES);
        if (!c)
            return NULL;
        *c = (struct bump_chunk){r->chunks, sizeof *c};
        r->chunks = c;
    }
    c->used += bytes;
    return (char *)c + c->used - bytes;
}

void bump_free(struct bump *r)
{
    while (r->chunks) {
        struct bump_chunk *c = r->chunks;
        r->chunks = c->next;
        meta_unmap(c, META_CHUNK_BYTES);
    }
}
