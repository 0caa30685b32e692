/* SPDX-License-Identifier: BSD-2-Clause */
/* inherit:true: a new thread starts in the context that its creator is in. Threads that services' libraries make are
 * jespan's, like the services' own, whatever the configuration says of others.
 *
 * libjespan.so stands before libc with these names. Calls go through a pointer, which is settled by the first call or
 * the constructor, whichever comes first: to libc's function (or to whoever's is next, where others stand before libc
 * too) unless threads inherit or there are services. libjespan.a has none of it: a static program cannot have two of a name.
 *
 * From the creator's call until the thread has attached it, the context is kept in use like that of an open span.
 */
#include "api/inherit.h"

#include <dlfcn.h>
#include <errno.h>

#include "base/lock.h"
#include "base/meta.h"
#include "conf/conf.h"
#include "jemalloc-hooks/extents.h"
#include "jespan/jespan.h"
#include "malloc/boot.h"
#include "malloc/track.h"
#include "report/services.h"
#include "span/span.h"
#include "span/tree.h"

/* ---- What is handed to a new thread ---- */

struct start {
    union {
        void *(*posix)(void *);
        thrd_start_t c11;
    } run;
    void *argument;
    uint32_t context;          /* held; 0 in a forked child, which has neither of the two threads */
    struct start *next, *prev; /* held, or free */
};
static struct start *free_starts, *held_starts; /* LOCK_TREE */

static void start_link(struct start *start)
{
    start->prev = NULL;
    start->next = held_starts;
    if (held_starts)
        held_starts->prev = start;
    held_starts = start;
}

static void start_unlink(struct start *start)
{
    *(start->prev ? &start->prev->next : &held_starts) = start->next;
    if (start->next)
        start->next->prev = start->prev;
}

/* JESPAN_CREDIT() is for a block of its own thread, which a new one has nothing to do with. */
static uint32_t context_to_inherit(const struct thread *t)
{
    if (t->tag == CONTEXT_ID_SELF)
        return CONTEXT_ID_SELF;
    if (!conf.inherit)
        return 0;
    for (uint32_t i = t->depth; i-- > 0;)
        if (entry_kind(&t->entries[i]) != ENTRY_CREDIT)
            return t->entries[i].context;
    return 0;
}

/* NULL: there is nothing to inherit, or no memory. Outside any span each thread has a context of its own. */
static struct start *start_hold(void *argument)
{
    struct thread *t = track_thread();
    uint32_t context = t && !extents_pause ? context_to_inherit(t) : 0; /* else jemalloc makes a thread of its own */
    if (!context)
        return NULL;
    lock(LOCK_TREE);
    struct start *start = free_starts;
    if (start)
        free_starts = start->next;
    else
        start = meta_alloc(sizeof *start);
    if (start) {
        start->argument = argument;
        start->context = context;
        contexts[context].open_spans++;
        start_link(start);
    }
    unlock(LOCK_TREE);
    return start;
}

/* Under LOCK_TREE. */
static void start_free(struct start *start)
{
    start->next = free_starts;
    free_starts = start;
}

static void start_release(struct start *start)
{
    lock(LOCK_TREE);
    if (start->context) {
        contexts[start->context].open_spans--;
        start_unlink(start);
    }
    start_free(start);
    unlock(LOCK_TREE);
}

/* In a forked child: threads that were being created, and those that created them, are not there. The forking thread may be one
 * of the latter, with a signal handler in between, and comes to start_release() yet. So what is given up here is not used again. */
static void release_all_after_fork(void)
{
    lock(LOCK_TREE);
    for (struct start *start = held_starts; start; start = start->next) {
        contexts[start->context].open_spans--;
        start->context = 0;
    }
    held_starts = NULL;
    unlock(LOCK_TREE);
}

/* What is jespan's is so outside of spans, too. */
static void take_context(uint32_t context)
{
    struct thread *t = context == CONTEXT_ID_SELF ? track_thread() : NULL;
    if (t)
        span_set_base(t, CONTEXT_ID_SELF);
    else if (context)
        jespan_attach(context);
}

/* On the new thread. Without memory it stays outside any span. The context is left when the thread ends. */
static struct start start_take(struct start *start)
{
    struct start copy = {.run = start->run, .argument = start->argument, .context = start->context}; /* links are others' */
    take_context(copy.context);
    start_release(start);
    return copy;
}

static void *run_posix(void *start)
{
    struct start s = start_take(start);
    return s.run.posix(s.argument);
}

static int run_c11(void *start)
{
    struct start s = start_take(start);
    return s.run.c11(s.argument);
}

/* ---- The functions ---- */

typedef int create_posix(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef int create_c11(thrd_t *, thrd_start_t, void *);

static create_posix posix_first;
static create_c11 c11_first;
static _Atomic(create_posix *) posix_next, posix = posix_first;
static _Atomic(create_c11 *) c11_next, c11 = c11_first;

static int posix_inheriting(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    struct start *start = start_hold(argument);
    if (!start)
        return load_relaxed(&posix_next)(thread, attributes, run, argument);
    start->run.posix = run;
    int error = load_relaxed(&posix_next)(thread, attributes, run_posix, start);
    if (error)
        start_release(start);
    return error;
}

static int c11_inheriting(thrd_t *thread, thrd_start_t run, void *argument)
{
    struct start *start = start_hold(argument);
    if (!start)
        return load_relaxed(&c11_next)(thread, run, argument);
    start->run.c11 = run;
    int result = load_relaxed(&c11_next)(thread, run_c11, start);
    if (result != thrd_success)
        start_release(start);
    return result;
}

/* A build that stands before nothing takes what the names mean there, which may be a sanitizer's. */
static void find_next(void)
{
    create_posix *next_posix = pthread_create;
    create_c11 *next_c11 = thrd_create;
    if (INTERPOSES) {
        next_posix = (create_posix *)(uintptr_t)dlsym(RTLD_NEXT, "pthread_create");
        next_c11 = (create_c11 *)(uintptr_t)dlsym(RTLD_NEXT, "thrd_create");
    }
    store_relaxed(&posix_next, next_posix);
    store_relaxed(&c11_next, next_c11);
}

/* Any number of threads at once come to the same. In the middle of first use the configuration is not known yet, so
 * that the next call settles it. */
static COLD __attribute__((constructor)) void settle(void)
{
    find_next();
    track_thread();
    if (!boot_is_done())
        return;
    bool handed_on = conf.inherit || services_are_configured();
    static atomic_flag prepared = ATOMIC_FLAG_INIT;
    if (handed_on && !atomic_flag_test_and_set(&prepared))
        pthread_atfork(NULL, NULL, release_all_after_fork);
    store_release(&posix, handed_on ? posix_inheriting : load_relaxed(&posix_next));
    store_release(&c11, handed_on ? c11_inheriting : load_relaxed(&c11_next));
}

static COLD int posix_first(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    settle();
    create_posix *create = load_relaxed(&posix);
    if (create == posix_first)
        create = load_relaxed(&posix_next);
    return create ? create(thread, attributes, run, argument) : EAGAIN;
}

static COLD int c11_first(thrd_t *thread, thrd_start_t run, void *argument)
{
    settle();
    create_c11 *create = load_relaxed(&c11);
    if (create == c11_first)
        create = load_relaxed(&c11_next);
    return create ? create(thread, run, argument) : thrd_error;
}

EXPORT int FAMILY(pthread_create)(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                                  void *argument)
{
    return load_acquire(&posix)(thread, attributes, run, argument);
}

EXPORT int FAMILY(thrd_create)(thrd_t *thread, thrd_start_t run, void *argument)
{
    return load_acquire(&c11)(thread, run, argument);
}
