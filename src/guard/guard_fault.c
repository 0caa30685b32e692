/* SPDX-License-Identifier: BSD-2-Clause */
/* The handler of SIGSEGV. */
#include "guard/guard_fault.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "guard/guard.h"
#include "guard/guard_report.h"
#include "stacks/unwind.h"

#define WRITE_BIT 2 /* of a page fault's error code on x86-64 */
#define REPORT_WAITS 200
#define REPORT_WAIT_NS 10000000

/* Each handler has what it replaced. */
#define HANDLERS 8u
static struct sigaction replaced[HANDLERS];
static uint32_t used; /* LOCK_GUARD */

/* ---- What the program did ---- */

static _Atomic uint32_t reports; /* 0: none yet, 1: one is being written, 2: it is done */
static struct unwind walk;       /* of the thread that reports */

/* The walk begins in the handler, so the calls that led to the access follow the interrupted instruction, which counts as
 * a call. */
static void take_calls(struct guard_access *access)
{
    unwind_from(&walk, __builtin_frame_address(0), UNWIND_MOST);
    for (uint32_t i = 0; i < walk.n; i++) {
        if (walk.frames[i] == access->pc + 1) {
            access->frames = &walk.frames[i + 1];
            access->n = walk.n - i - 1;
            return;
        }
    }
}

static NOINLINE void report(const siginfo_t *info, const ucontext_t *context)
{
    struct guard_access access = {.address = (uintptr_t)info->si_addr};
#ifdef __x86_64__
    access.pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    access.is_write = context->uc_mcontext.gregs[REG_ERR] & WRITE_BIT;
#else
    (void)context;
#endif
    take_calls(&access);
    guard_report_access(&access);
}

/* One report for a process. Other threads that fault meanwhile wait for it, since what they do next ends the process. */
static void report_once(const siginfo_t *info, const ucontext_t *context)
{
    uint32_t none = 0;
    if (atomic_compare_exchange_strong(&reports, &none, 1)) {
        report(info, context);
        store_release(&reports, 2);
    }
    for (int i = 0; i < REPORT_WAITS && load_acquire(&reports) == 1; i++)
        nanosleep(&(struct timespec){.tv_nsec = REPORT_WAIT_NS}, NULL);
}

/* ---- What would have happened without us ---- */

/* A fault happens again after the handler has returned. A signal that somebody sent has to be sent again. */
static void act_by_default(int number, const siginfo_t *info)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(number, &action, NULL);
    if (info->si_code <= 0)
        raise(number);
}

/* The kernel does not let a program ignore a fault. */
static void pass_on(const struct sigaction *to, int number, siginfo_t *info, void *context)
{
    if (to->sa_flags & SA_SIGINFO)
        to->sa_sigaction(number, info, context);
    else if (to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN)
        to->sa_handler(number);
    else if (to->sa_handler == SIG_DFL || info->si_code > 0)
        act_by_default(number, info);
}

static void handle(const struct sigaction *to, int number, siginfo_t *info, void *context)
{
    int saved = errno;
    if (info->si_code > 0 && guard_has(info->si_addr))
        report_once(info, context);
    errno = saved;
    pass_on(to, number, info, context);
}

#define HANDLER(i)                                                         \
    static void handle_##i(int number, siginfo_t *info, void *context)     \
    {                                                                      \
        handle(&replaced[i], number, info, context);                       \
    }
HANDLER(0) HANDLER(1) HANDLER(2) HANDLER(3) HANDLER(4) HANDLER(5) HANDLER(6) HANDLER(7)

typedef void handler(int number, siginfo_t *info, void *context);
static handler *const handlers[HANDLERS] = {handle_0, handle_1, handle_2, handle_3, handle_4, handle_5, handle_6, handle_7};

/* ---- Installing ---- */

static bool is_ours(const struct sigaction *action)
{
    for (uint32_t i = 0; action->sa_flags & SA_SIGINFO && i < HANDLERS; i++)
        if (action->sa_sigaction == handlers[i])
            return true;
    return false;
}

/* The handler runs as the replaced one would: on the same stack, with the same signals blocked. */
static struct sigaction in_place_of(const struct sigaction *old, handler *by)
{
    struct sigaction action = *old;
    action.sa_flags |= SA_SIGINFO;
    if (!(old->sa_flags & SA_SIGINFO) && (old->sa_handler == SIG_DFL || old->sa_handler == SIG_IGN))
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    action.sa_sigaction = by;
    return action;
}

/* The program may install another handler between the two calls; then that one is replaced. */
static void install(const struct sigaction *now)
{
    const struct sigaction action = in_place_of(now, handlers[used]);
    replaced[used] = *now;
    if (sigaction(SIGSEGV, &action, &replaced[used]))
        return;
    const struct sigaction right = in_place_of(&replaced[used], handlers[used]);
    if (right.sa_flags != action.sa_flags)
        sigaction(SIGSEGV, &right, NULL);
    used++;
}

COLD void guard_fault_watch(void)
{
    struct sigaction now;
    if (sigaction(SIGSEGV, NULL, &now) || is_ours(&now))
        return;
    lock(LOCK_GUARD);
    if (used < HANDLERS && !sigaction(SIGSEGV, NULL, &now) && !is_ours(&now))
        install(&now);
    unlock(LOCK_GUARD);
}
