/* SPDX-License-Identifier: BSD-2-Clause */
/* The program's side of the mailbox: a thread takes the request, calls mallctl and writes the answer.
 *
 * Whatever the request contains, nothing is done but what the table of ctl_outside.c permits. It is copied before it is
 * looked at, since the other process may write meanwhile.
 *
 * The thread may be on a small stack, as of a coroutine, and mallctl needs 10 KiB of it where malloc needs 2. So it runs
 * on a stack of our own, and copies are static. No page of these is touched before the first request.
 */
#include <errno.h>
#include <string.h>

#include "base/die.h"
#include "base/lock.h"
#include "base/mailbox.h"
#include "heap/thread.h"
#include "jemalloc-hooks/extents.h"

#pragma weak mailbox_execute /* a program that is linked with parts of the core may have no mallctl */

struct mailbox mailbox;
_Atomic uint32_t slow_work;

static _Atomic bool is_answering; /* one thread at a time. It is not waited for */

static struct mailbox_request request;
static struct mailbox_answer answer;

static bool is_whole(uint32_t number)
{
    return request.number == number && request.check == mailbox_check(&request) &&
           memchr(request.name, '\0', sizeof request.name) && memchr(request.words, '\0', sizeof request.words);
}

static void execute(void)
{
    mailbox_execute(&request, &answer);
}

#define STACK_BYTES (256 << 10) /* signal handlers run on it too */

/* With a frame pointer, so that debuggers and profilers find the way back. */
static NOINLINE void execute_on_own_stack(void)
{
#if defined(__x86_64__)
    static _Alignas(64) char stack[STACK_BYTES];
    (void)*(void *volatile *)__builtin_frame_address(0);
    __asm__ volatile("movq %%rsp, %%rbx\n\tmovq %0, %%rsp\n\tcall *%1\n\tmovq %%rbx, %%rsp"
                     :
                     : "r"(stack + sizeof stack), "r"(execute)
                     : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3",
                       "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
                       "cc", "memory");
#else
    execute();
#endif
}

/* The store of `taken` comes before the request is read, so the other process either sees it, or has made the request
 * invalid. */
static void take(uint32_t number)
{
    atomic_store(&mailbox.taken, number);
    memcpy(&request, &mailbox.request, sizeof request);
    if (mailbox_execute && is_whole(number)) {
        execute_on_own_stack();
        memcpy(&mailbox.answer, &answer, sizeof answer);
    }
    store_release(&mailbox.answered, number);
}

/* Inside jemalloc, mallctl could wait for a lock that this thread holds. Bytes that are held are for the context as it
 * is (limits_hold()). */
static bool may_call(void)
{
    const struct thread *t = thread_current;
    return t && !t->n_held && !extents_pause && !lock_holds_all();
}

/* If a request comes after the bit is cleared, the other process sets it again. */
COLD void mailbox_look(void)
{
    int saved = errno;
    if (!may_call() || atomic_exchange(&is_answering, true))
        return;
    jespan_assert(!locks_held);
    atomic_fetch_and(&slow_work, ~SLOW_MAIL);
    uint32_t asked = load_acquire(&mailbox.asked);
    if (asked != load_relaxed(&mailbox.taken))
        take(asked);
    store_release(&is_answering, false);
    errno = saved;
}

COLD void mailbox_after_fork(void)
{
    uint32_t asked = load_relaxed(&mailbox.asked);
    if (load_relaxed(&is_answering))
        store_relaxed(&is_answering, false);
    if (load_relaxed(&mailbox.answered) == asked)
        return;
    store_relaxed(&mailbox.taken, asked);
    store_relaxed(&mailbox.answered, asked);
    atomic_fetch_and(&slow_work, ~SLOW_MAIL);
}
