/* SPDX-License-Identifier: BSD-2-Clause */
/* First use by the process and by each thread, the end of a thread, and fork. */
#include "malloc/boot.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/die.h"
#include "base/futex.h"
#include "base/lock.h"
#include "base/mailbox.h"
#include "base/meta.h"
#include "base/number.h"
#include "base/state_file.h"
#include "conf/conf.h"
#include "guard/guard.h"
#include "guard/guard_sample.h"
#include "heap/timing.h"
#include "jemalloc-hooks/extents.h"
#include "jemalloc/binding.h"
#include "jemalloc/reserve.h"
#include "malloc/libc_malloc.h"
#include "malloc/peak_looks.h"
#include "malloc/region_release.h"
#include "malloc/track.h"
#include "policy/arena_cache.h"
#include "policy/arenas.h"
#include "policy/limits.h"
#include "policy/regions.h"
#include "span/age.h"
#include "span/arena_conf.h"
#include "span/events.h"
#include "span/peaks.h"
#include "span/sampler.h"
#include "span/span.h"
#include "span/stack_context.h"
#include "span/stack_mode.h"
#include "span/tree.h"

#define NAME_CHECK_LAST 64 /* the last slow event of a thread at which its name is read where renames are not told */
#define NAMES_MOST 16 /* of a thread: each name is a context, and some programs rename their threads for each request */

static _Atomic bool booted;

/* ---- Fork, and the end of a thread ---- */

/* The CPU time since the last reading is known only in the parent, so it is noted. The child must not use explicit
 * tcaches of the parent: jemalloc's lists of them are emptied there, and removing one that is not in a list breaks the
 * list. So they are given up before. */
static COLD void before_fork(void)
{
    regions_before_fork(thread_current);
    regions_cool_idle();
    if (thread_current)
        arena_cache_end_thread(thread_current);
    lock_all_before_fork();
    limits_before_fork();
    for (struct thread *t = thread_next(thread_first()); t; t = thread_next(t))
        if (load_relaxed(&t->live))
            t->cpu_at_fork = cpu_clock_of(&t->cpu);
    state_before_fork();
}

static COLD void after_fork_in_parent(void)
{
    state_after_fork_in_parent();
    limits_after_fork_in_parent();
    lock_release_after_fork();
    regions_after_fork_in_parent();
}

static COLD void after_fork_in_child(void)
{
    state_after_fork_in_child();
    lock_release_after_fork();
    thread_after_fork(track_abandon);
    if (thread_current) {
        thread_current->thread_id = (int)getpid(); /* the child has one thread, which has the process's number */
        timing_after_fork(thread_current);
        guard_sample_after_fork(thread_current);
    }
    events_after_fork();
    sampler_after_fork();
    limits_after_fork_in_child();
    extent_arenas_after_fork();
    mailbox_after_fork();
    regions_after_fork(thread_current);
    if (thread_current)
        arena_cache_abandon(thread_current);
}

static void end_thread(struct thread *t)
{
    thread_cache_flush(t);
    regions_leave_all(t);
    arena_cache_end_thread(t);
    limits_leave_thread(t);
    thread_fast_set(NULL, NULL, false, false);
    thread_current = NULL;
    thread_state = THREAD_ENDED;
    span_leave_all(t);
    tables_empty_cache(&t->tables);
    thread_release_block(t);
    if (load_relaxed(&thread_ends_awaited)) {
        atomic_fetch_add_explicit(&thread_ends, 1, memory_order_release);
        futex_wake_all(&thread_ends);
    }
}

/* ---- The process ---- */

bool boot_is_done(void)
{
    return load_acquire(&booted);
}

bool boot_is_under_way(void)
{
    return thread_state == THREAD_REGISTERING && !boot_is_done();
}

static void boot_stacks(void)
{
    store_relaxed(&stacks_min_bytes, conf.stacks_min_bytes);
    if (!strcmp(conf.stacks, "off"))
        return;
    int error = stack_mode_set(conf.stacks);
    if (error == -EINVAL)
        WARN("stacks: '", conf.stacks, "' is not off, sampled, all, sampled@NAMES or all@NAMES; stacks are off");
    else if (error)
        WARN("stacks: no memory for their tables; stacks are off");
}

static COLD void open_state_file(void)
{
    int error = state_file_open(conf.state_file);
    if (!error) {
        meta_watch();
        atomic_fetch_or(&slow_work, SLOW_STATE);
    } else if (error != -EBUSY) {
        WARN("state_file: '", conf.state_file, "' cannot be made: ",
             error == -EINVAL   ? "%p is the only % that it may have"
             : error == -EEXIST ? "there is another file"
             : error == -EFBIG  ? "the limit of file sizes is too low (ulimit -f)"
             : error == -ENOSYS ? "the kernel is older than Linux 4.14"
                                : errno_text(-error));
    }
}

static COLD int boot_contexts(void)
{
    uint32_t n_stacks = (uint32_t)conf.max_stacks / FRAMES_PER_STACK, n_others = (uint32_t)lesser(conf.max_contexts, TAGS_MAX - n_stacks);
    int error = tree_boot(n_others, n_stacks);
    if (!error)
        error = peaks_boot(n_others + n_stacks);
    return error ? error : thread_boot((uint32_t)round_up(n_others + n_stacks, COUNTERS_PER_CHUNK), end_thread);
}

/* jemalloc is first used here, before any of its arenas has memory, so that the extent hooks see all of its memory. It
 * registers its fork handlers right before ours, both as early as possible. Handlers before fork run in reverse order
 * of registration. So handlers of others may still allocate, and our locks are taken before jemalloc's, as
 * everywhere. */
static int boot_locked(void)
{
    jespan_assert(lock_is_held(LOCK_BOOT));
    standard_error_boot();
    conf_boot();
    timing_boot();
    sampler_boot();
    arena_conf_read(conf.arena, conf_warn_item, "arena");
    if (conf.state_file[0])
        open_state_file();
    reserve_spend();
    binding_boot();
    limits_first_use = track_begin_limits;
    int error = limits_boot();
    if (!error)
        error = boot_contexts();
    if (error)
        return error;
    extents_boot();
    classes_boot();
    guard_boot();
    if (guard_region.bytes)
        atomic_fetch_or(&slow_work, SLOW_GUARD);
    binding_find_batches();
    magazine_boot();
    peak_looks_boot();
    first_use_end();
    boot_stacks();
    return -pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static COLD void say_no_memory(int error)
{
    static _Atomic bool said;
    if (!atomic_exchange(&said, true))
        WARN("no memory to start: ", errno_text(error), "; allocations fail");
}

/* libc's names lead here before a constructor of another library can load a third one that finds them. Not under the lock: the linker
 * has one for its list of objects. */
static bool boot(void)
{
    static bool tried;
    if (boot_is_done())
        return true;
    lock(LOCK_BOOT);
    if (!tried) {
        tried = true;
        int error = boot_locked();
        if (error)
            say_no_memory(-error);
        store_release(&booted, !error);
    }
    unlock(LOCK_BOOT);
    libc_malloc_redirect();
    return boot_is_done();
}

/* ---- A thread ---- */

static _Atomic bool renames_are_told;

COLD void boot_renames_are_told(void)
{
    store_relaxed(&renames_are_told, true);
    if (thread_current && thread_current->next_name_check) /* 0: a rename was told before */
        thread_current->next_name_check = UINT32_MAX;
}

COLD void boot_thread_renamed(void)
{
    struct thread *t = thread_current;
    if (!t || t->names >= NAMES_MOST || !conf.thread_contexts)
        return;
    t->next_name_check = 0;
    thread_make_alloc_review(t); /* the next allocation looks at the name. This may be a signal handler, which must not */
}

COLD void boot_other_renamed(int thread_id)
{
    lock(LOCK_THREADS);
    for (struct thread *t = thread_next(thread_first()); t; t = thread_next(t))
        if (load_relaxed(&t->live) && t->thread_id == thread_id)
            store_relaxed(&t->is_renamed, true);
    unlock(LOCK_THREADS);
}

/* Where jespan is not told when a thread is renamed, we look often at first and then less and less often: most are renamed soon after
 * their start. Each look is prctl(2), which may be forbidden to a thread that has a seccomp filter. */
static COLD void check_name(struct thread *t)
{
    char name[sizeof t->name] = "";
    store_relaxed(&t->is_renamed, false);
    t->next_name_check = load_relaxed(&renames_are_told) ? UINT32_MAX : t->slow_events ? 2 * t->slow_events : 1;
    if (t->base == CONTEXT_ID_SELF || prctl(PR_GET_NAME, name) || !strcmp(name, t->name))
        return;
    t->names++;
    if (span_set_base_by_name(t, name) == 0)
        thread_rename(t, name);
}

static COLD void do_slow_work(struct thread *t, uint32_t work)
{
    if (work & SLOW_AGE && clock_ticks() >= t->period_end)
        span_grow_older(t);
    if (work & SLOW_MAIL)
        mailbox_look();
    if (work & SLOW_GUARD)
        guard_sample_tick(t);
    if (work & SLOW_STATE)
        state_look();
}

void boot_look_at_new_name(struct thread *t)
{
    if (!t->next_name_check)
        check_name(t);
}

static bool name_may_differ(const struct thread *t)
{
    return t->slow_events >= t->next_name_check || (load_relaxed(&t->is_renamed) && t->names < NAMES_MOST);
}

void boot_slow_event(struct thread *t)
{
    uint32_t work = load_relaxed(&slow_work);
    if (unlikely(work))
        do_slow_work(t, work);
    if (t->slow_events < NAME_CHECK_LAST) {
        t->slow_events++;
        cpu_clock_doubt(&t->cpu);
    }
    if (unlikely(name_may_differ(t)) && conf.thread_contexts)
        check_name(t);
}

static struct thread *register_thread(void)
{
    jespan_assert(thread_state == THREAD_REGISTERING);
    reserve_spend();
    struct thread *t = thread_acquire_block();
    if (!t)
        return NULL;
    magazine_start(t);
    track_begin_bytes(t);
    thread_introduce(t, (int)syscall(SYS_gettid));
    t->slow_events = t->names = 0;
    t->next_name_check = UINT32_MAX;
    if (conf.thread_contexts)
        check_name(t);
    if (!t->base && span_set_base(t, CONTEXT_ID_ROOT)) {
        thread_release_block(t);
        return NULL;
    }
    guard_sample_start(t);
    extents_watch_thread();
    thread_copy_to_state(t);
    return t;
}

bool track_may_allocate(const struct thread *t)
{
    return t || (thread_state != THREAD_NEW && (boot_is_done() || boot_is_under_way()));
}

COLD struct thread *track_thread_slow(void)
{
    if (likely(thread_current))
        return thread_current;
    if (thread_state != THREAD_NEW)
        return NULL;
    int saved = errno;
    thread_state = THREAD_REGISTERING;
    struct thread *t = NULL;
    if (reserve_begin()) {
        t = boot() ? register_thread() : NULL;
        reserve_end();
    } else if (!boot_is_done()) {
        say_no_memory(ENOMEM);
    }
    thread_current = t;
    if (t)
        span_review(t);
    thread_state = THREAD_NEW;
    if (t && unlikely(load_relaxed(&slow_work) & SLOW_MAIL))
        mailbox_look();
    errno = saved;
    return t;
}
