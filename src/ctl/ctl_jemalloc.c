/* SPDX-License-Identifier: BSD-2-Clause */
/* The few names of jemalloc that jespan answers itself, or that need work before jemalloc's answer.
 *
 * jemalloc does not see an object that a thread reuses from a magazine, so its figures of a thread's allocations would
 * be too low. Some calls would free or return objects without a header.
 *
 * To add a name, add a row to the table. "arena.0." in a row stands for any arena. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "ctl/ctl.h"
#include "heap/depot.h"
#include "heap/pagemap.h"
#include "heap/sums.h"
#include "jemalloc-hooks/extents.h"
#include "jemalloc/binding.h"
#include "malloc/track.h"
#include "policy/arena_cache.h"
#include "policy/arenas.h"
#include "span/tree.h"

#define PARTS_MAX 4
#define ANY_PART 1 /* of "arena.<i>.NAME" */

struct ctl_own_name {
    const char *name;
    size_t length; /* parts of its MIB */
    int (*handle)(const struct ctl_name *self, uint32_t id, const struct ctl_call *call); /* NULL: jemalloc answers */
    size_t offset; /* in struct thread_bytes */
    /* NULL: nothing to do. */
    int (*before)(const struct ctl_call *call); /* any result except 0 is the answer */
    bool (*again)(void);                        /* after jemalloc answered EAGAIN. True: call jemalloc again */
};

/* ---- thread.allocated, thread.deallocated, and pointers to them ---- */

static int read_thread_bytes(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    struct thread_bytes bytes = {0};
    struct thread *t = track_thread();
    if (t)
        bytes = track_thread_bytes(t);
    return ctl_read_u64(call, *(const uint64_t *)((const char *)&bytes + self->offset));
}

/* From now on the thread's cold path also updates the pointed-to numbers at each allocation and free. */
static int read_thread_pointer(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    struct thread *t = track_thread();
    if (!t)
        return EAGAIN;
    uint64_t *p = (uint64_t *)((char *)track_publish_bytes(t) + self->offset);
    return ctl_read(call, &p, sizeof p);
}

/* ---- Refused names ---- */

static int refuse(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    (void)id;
    (void)call;
    return EPERM;
}

/* ---- Names that jemalloc answers ---- */

/* The end of a region frees its whole arena. A thread outside the region would lose its objects there. */
static int refuse_regions_arena(const struct ctl_call *call)
{
    bool enters = call->new_value && call->new_bytes == sizeof(unsigned) && arenas_is_regions(*(const unsigned *)call->new_value);
    if (!enters && call->new_value)
        depot_close(); /* the thread is to have memory of this arena, not what others have freed */
    return enters ? EPERM : 0;
}

/* The program's own extent hooks may map pages anywhere from now on. */
static int expect_hooks(const struct ctl_call *call)
{
    if (call->new_value)
        pagemap_void_bounds();
    return 0;
}

/* jemalloc sets *old_bytes to 0 if the caller does not ask for the new number, also where old_bytes is NULL. */
static int want_number(const struct ctl_call *call)
{
    return call->old_bytes ? 0 : EINVAL;
}

static int want_number_and_expect_hooks(const struct ctl_call *call)
{
    int error = want_number(call);
    if (!error)
        depot_close(); /* the program means to place objects itself */
    return error ? error : expect_hooks(call);
}

static bool make_room(void)
{
    return thread_current && arena_cache_make_room(thread_current);
}

static const struct ctl_own_name own_names[] = {
    {"thread.allocated", 2, read_thread_bytes, .offset = offsetof(struct thread_bytes, allocated)},
    {"thread.deallocated", 2, read_thread_bytes, .offset = offsetof(struct thread_bytes, deallocated)},
    {"thread.allocatedp", 2, read_thread_pointer, .offset = offsetof(struct thread_bytes, allocated)},
    {"thread.deallocatedp", 2, read_thread_pointer, .offset = offsetof(struct thread_bytes, deallocated)},
    /* These free objects without counting each free. All figures would be wrong afterwards. */
    {"arena.0.reset", 3, .handle = refuse},
    {"arena.0.destroy", 3, .handle = refuse},
    /* This returns objects without a header. */
    {"experimental.batch_alloc", 2, .handle = refuse},
    {"thread.arena", 2, .before = refuse_regions_arena},
    {"arena.0.extent_hooks", 3, .before = expect_hooks},
    {"arenas.create", 2, .before = want_number_and_expect_hooks},
    {"tcache.create", 2, .before = want_number, .again = make_room},
};
#define OWN_NAMES (sizeof own_names / sizeof *own_names)

/* The MIBs of the rows. The first thread that needs them stores them. Two threads may both store the same values. */
static _Atomic size_t own_mibs[OWN_NAMES][PARTS_MAX];
static _Atomic bool have_mibs;

static void find_mibs(void)
{
    for (size_t i = 0; i < OWN_NAMES; i++) {
        size_t mib[PARTS_MAX], length = PARTS_MAX;
        if (jespan_je_mallctlnametomib(own_names[i].name, mib, &length))
            mib[0] = SIZE_MAX; /* this jemalloc does not have the name */
        for (size_t part = 0; part < own_names[i].length; part++)
            store_relaxed(&own_mibs[i][part], mib[part]);
    }
    store_release(&have_mibs, true);
}

/* The row "arena.0.reset" also matches "arena.17.reset". */
static bool is_called(const struct ctl_own_name *own, const char *name)
{
    if (own->length < 3)
        return !strcmp(own->name, name);
    const char *first = strchr(own->name, '.'), *last = strrchr(own->name, '.');
    size_t n = (size_t)(first - own->name) + 1;
    const char *name_last = strrchr(name, '.');
    return !strncmp(own->name, name, n) && name_last >= name + n && !strcmp(name_last, last);
}

static bool has_mib(size_t i, const size_t *mib, size_t length)
{
    const struct ctl_own_name *own = &own_names[i];
    if (length != own->length)
        return false;
    for (size_t part = 0; part < length; part++)
        if (mib[part] != load_relaxed(&own_mibs[i][part]) && !(length == 3 && part == ANY_PART))
            return false;
    return true;
}

const struct ctl_own_name *ctl_own_name_called(const char *name)
{
    for (size_t i = 0; i < OWN_NAMES; i++)
        if (is_called(&own_names[i], name))
            return &own_names[i];
    return NULL;
}

const struct ctl_own_name *ctl_own_name_of_mib(const size_t *mib, size_t length)
{
    if (!load_acquire(&have_mibs))
        find_mibs();
    for (size_t i = 0; i < OWN_NAMES; i++)
        if (has_mib(i, mib, length))
            return &own_names[i];
    return NULL;
}

bool ctl_own_name_answers(const struct ctl_own_name *own, const struct ctl_call *call, int *error)
{
    *error = 0;
    if (own && own->handle) {
        const struct ctl_name self = {own->name, own->handle, own->offset};
        *error = own->handle(&self, 0, call);
        return true;
    }
    if (own && own->before)
        *error = own->before(call);
    return *error != 0;
}

bool ctl_own_name_again(const struct ctl_own_name *own, int error)
{
    return error == EAGAIN && own && own->again && own->again();
}
