/* SPDX-License-Identifier: BSD-2-Clause */
/* Random objects for the oracle. They are allocated, resized and freed in every way, and the model is told of each
 * step.
 *
 * An object knows its owner in the model, so any thread may free it. Its first and last bytes have a mark. The mark
 * shows objects that overlap, and contents that a resize lost.
 */
#ifndef JESPAN_TESTS_OBJECTS_H
#define JESPAN_TESTS_OBJECTS_H

#include <string.h>

#include "model.h"

struct object {
    char *p;
    size_t requested, usable;
    size_t align; /* 0: none was asked for */
    uint64_t mark;
    struct model_node *owner;
};

struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *r)
{
    r->state ^= r->state << 13;
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    return r->state * 0x2545f4914f6cdd1dull >> 16;
}

static inline size_t random_below(struct random *r, size_t n)
{
    return random_next(r) % n;
}

/* Out of 1000: mostly small, as in real heaps, with zero and 4 MB among them. */
static inline size_t random_size(struct random *r)
{
    static const struct {
        unsigned below;
        size_t limit;
    } bands[] = {{5, 1}, {600, 256}, {860, 4096}, {960, 64 << 10}, {997, 512 << 10}, {1000, (4 << 20) + 1}};
    unsigned draw = (unsigned)random_below(r, 1000), i = 0;
    while (draw >= bands[i].below)
        i++;
    return random_below(r, bands[i].limit);
}

static inline void object_mark(struct object *o, uint64_t mark)
{
    o->mark = mark;
    memcpy(o->p, &mark, o->usable < sizeof mark ? o->usable : sizeof mark); /* a guarded object may have less than 8 bytes */
    if (o->usable >= 2 * sizeof mark)
        memcpy(o->p + o->usable - sizeof mark, &mark, sizeof mark);
}

static inline void object_verify_head(const struct object *o)
{
    if (memcmp(o->p, &o->mark, o->requested < sizeof o->mark ? o->requested : sizeof o->mark) != 0)
        check_fail("%p: %zu bytes: overwritten, or lost in a resize", (void *)o->p, o->requested);
}

static inline void object_verify(const struct object *o)
{
    object_verify_head(o);
    if (o->usable >= 16 && memcmp(o->p + o->usable - 8, &o->mark, sizeof o->mark) != 0)
        check_fail("%p: the last of %zu bytes were overwritten", (void *)o->p, o->usable);
}

static inline void object_verify_zero(const char *p, size_t bytes)
{
    size_t ends = bytes < 64 ? bytes : 64;
    for (size_t i = 0; i < ends; i++)
        if (p[i] || p[bytes - 1 - i])
            check_fail("%p: %zu bytes are not zero", (const void *)p, bytes);
}

enum object_how { MALLOC, CALLOC, REALLOC_NULL, ARRAY_NULL, POSIX, ALIGNED, MEMALIGN, VALLOC, MALLOCX, MALLOCX_ALIGN, WAYS };

static inline char *object_get(enum object_how how, size_t n, size_t align)
{
    void *p = NULL;
    switch (how) {
    case MALLOC: return F(malloc)(n);
    case CALLOC: return n % 4 ? F(calloc)(1, n) : F(calloc)(n / 4, 4);
    case REALLOC_NULL: return F(realloc)(NULL, n);
    case ARRAY_NULL: return n % 8 ? F(reallocarray)(NULL, n, 1) : F(reallocarray)(NULL, n / 8, 8);
    case POSIX: return F(posix_memalign)(&p, align, n) == 0 ? p : NULL;
    case ALIGNED: return F(aligned_alloc)(align, n);
    case MEMALIGN: return F(memalign)(align, n);
    case VALLOC: return F(valloc)(n);
    case MALLOCX: return F(mallocx)(n, FLAG_ZERO);
    default: return F(mallocx)(n, FLAG_ALIGN(align));
    }
}

static inline bool object_how_aligned(enum object_how how)
{
    return how == POSIX || how == ALIGNED || how == MEMALIGN || how == VALLOC || how == MALLOCX_ALIGN;
}

static inline void object_take(struct object *o, struct random *r, struct model_node *current)
{
    o->usable = F(malloc_usable_size)(o->p);
    o->owner = current;
    if (o->usable < o->requested)
        check_fail("%p: %zu usable bytes of %zu", (void *)o->p, o->usable, o->requested);
    model_alloc(current, o->usable, o->requested);
    object_mark(o, random_next(r));
}

static inline void object_make(struct object *o, struct random *r, struct model_node *current)
{
    enum object_how how = random_below(r, 3) ? MALLOC : random_below(r, WAYS);
    size_t n = random_size(r), align = (size_t)8 << random_below(r, random_below(r, 8) ? 6 : 14);
    if (how == MALLOCX && n == 0)
        n = 1; /* jemalloc leaves mallocx(0) undefined */
    if (how == MALLOCX_ALIGN && n == 0)
        n = 1;
    *o = (struct object){.p = object_get(how, n, align), .requested = n};
    if (!o->p) {
        check_fail("way %d: no memory for %zu bytes, alignment %zu", how, n, align);
        _exit(1);
    }
    if (object_how_aligned(how))
        o->align = how == VALLOC ? 4096 : align;
    if (o->align && (uintptr_t)o->p % o->align)
        check_fail("way %d: %p is not aligned to %zu", how, (void *)o->p, o->align);
    if (how == CALLOC || how == MALLOCX)
        object_verify_zero(o->p, n);
    object_take(o, r, current);
}

/* The size for a sized form may be any from the requested bytes to the usable bytes. */
static inline void object_give(const struct object *o, struct random *r)
{
    size_t n = random_below(r, 2) ? o->requested : o->usable;
    int flags = o->align ? FLAG_ALIGN(o->align) : 0;
    switch (random_below(r, 8)) {
    case 0: F(dallocx)(o->p, 0); break;
    case 1: F(sdallocx)(o->p, n ? n : o->usable, flags); break;
    case 2:
    case 3:
        if (o->align)
            F(free_aligned_sized)(o->p, o->align, o->requested);
        else
            F(free_sized)(o->p, o->requested);
        break;
    default: F(free)(o->p);
    }
}

static inline void object_free(struct object *o, struct random *r)
{
    object_verify(o);
    model_free(o->owner, o->usable);
    object_give(o, r);
    o->p = NULL;
}

/* Tells the model of a realloc(): a free and an allocation, whether or not the object stays in place. */
static inline void object_replace(struct object *o, char *p, size_t n, struct random *r, struct model_node *current)
{
    struct object old = *o;
    o->p = p;
    o->requested = n;
    object_verify_head(&(struct object){.p = p, .mark = old.mark, .requested = n < old.requested ? n : old.requested});
    object_take(o, r, current);
    model_free(old.owner, old.usable);
}

static inline void object_resize_in_place(struct object *o, size_t n, struct random *r, struct model_node *current)
{
    size_t before = o->usable, after = F(xallocx)(o->p, n ? n : 1, 0, o->align ? FLAG_ALIGN(o->align) : 0);
    CHECK_EQ(after, F(sallocx)(o->p, 0));
    if (after != before)
        object_replace(o, o->p, n ? n : 1, r, current);
}

static inline void object_resize(struct object *o, struct random *r, struct model_node *current)
{
    size_t n = random_below(r, 2) ? random_size(r) : o->requested + random_below(r, 512), way = random_below(r, 8);
    int flags = o->align ? FLAG_ALIGN(o->align) : 0;
    object_verify(o);
    if (way == 0) {
        object_resize_in_place(o, n, r, current);
        return;
    }
    if (n == 0) { /* realloc(p, 0) frees or not as jemalloc is configured; conformance.c looks at it */
        object_free(o, r);
        return;
    }
    if (way > 1) /* the others do not keep the alignment */
        o->align = 0;
    char *p = way == 1 ? F(rallocx)(o->p, n, flags) : way == 2 ? F(reallocarray)(o->p, n, 1) : F(realloc)(o->p, n);
    if (p)
        object_replace(o, p, n, r, current);
    else
        check_fail("no memory to resize to %zu bytes", n);
}

/* Makes the object another context's. */
static inline void object_credit(struct object *o, struct model_node *to)
{
    if (o->owner == to)
        return;
    model_count_figure(o->owner, MOVED_OUT_OBJECTS, 1);
    model_count_figure(o->owner, MOVED_OUT_BYTES, o->usable);
    model_unpin(o->owner);
    CHECK_EQ(jespan_credit(o->p, to->id), 0);
    model_pin(to);
    model_count_figure(to, MOVED_IN_OBJECTS, 1);
    model_count_figure(to, MOVED_IN_BYTES, o->usable);
    o->owner = to;
}

#endif
