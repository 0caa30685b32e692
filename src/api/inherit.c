/* SPDX-License-Identifier: BSD-2-Clause */
/* inherit:true: a new thread starts in the context that its creator is in. Threads of the libraries that services use
 * belong to jespan, like the services' own, whatever the configuration says.
 *
 * libjespan.so interposes pthread_create() and thrd_create(). Calls go through a pointer. The first call or the
 * constructor sets it. It leads to the next function of that name, usually libc's, unless threads inherit or there are
 * services. libjespan.a interposes nothing: a static program cannot have two functions of a name.
 *
 * From the creator's call until the thread has attached the context, it counts as in use, like that of an open span.
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

/* ---- The start of a new thread ---- */

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

/* Skips entries of JESPAN_CREDIT(), which are for blocks of their own thread only. */
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

/* Keeps the context in use for a new thread. NULL: there is nothing to inherit, or no memory. Outside any span each
 * thread has a context of its own. */
static struct start *start_hold(void *argument)
{
    struct thread *t = track_thread();
    /* with extents_pause, jemalloc creates a thread of its own */
    uint32_t context = t && !extents_pause ? context_to_inherit(t) : 0;
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

/* In a forked child, threads that were being created and their creators do not exist. But the forking thread may be
 * a creator, interrupted by a signal handler that forks. It will call start_release(). So a start that is given up
 * here is not used again. */
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

/* A thread of jespan's has "(jespan)" as its base context too, for the time outside of spans. */
static void take_context(uint32_t context)
{
    struct thread *t = context == CONTEXT_ID_SELF ? track_thread() : NULL;
    if (t)
        span_set_base(t, CONTEXT_ID_SELF);
    else if (context)
        jespan_attach(context);
}

/* On the new thread. If there is no memory to attach the context, the thread stays outside any span. It leaves the
 * context when it ends. */
static struct start start_take(struct start *start)
{
    /* without the links, which other threads change */
    struct start copy = {.run = start->run, .argument = start->argument, .context = start->context};
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

/* A build that does not interpose calls the functions that the names refer to. With a sanitizer they are the
 * sanitizer's. */
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

/* Several threads may do this at once, with the same result. During first use the configuration is not known yet,
 * and the next call does it again. */
static COLD __attribute__((constructor)) void choose_functions(void)
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
    choose_functions();
    create_posix *create = load_relaxed(&posix);
    if (create == posix_first)
        create = load_relaxed(&posix_next);
    return create ? create(thread, attributes, run, argument) : EAGAIN;
}

static COLD int c11_first(thrd_t *thread, thrd_start_t run, void *argument)
{
    choose_functions();
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
