/* SPDX-License-Identifier: BSD-2-Clause */
/* The program's side of the mailbox: a thread takes requests, calls mallctl and writes the answers. A signal handler can ask for one
 * change, of spans.stacks: that of stacks_signal.
 *
 * A request can only do what the table of names_permitted.c permits. It is copied before it is looked at, since the other
 * process may write meanwhile.
 *
 * The thread may be on a small stack, such as that of a coroutine. mallctl needs 10 KiB of stack, malloc 2 KiB. So it
 * runs on a stack of our own, and copies are static. No page of these is touched before the first request.
 */
#include <errno.h>
#include <string.h>

#include "base/die.h"
#include "base/lock.h"
#include "base/mailbox.h"
#include "base/meta.h"
#include "heap/classes.h"
#include "heap/thread.h"
#include "jemalloc-hooks/extents.h"
#include "span/tree.h"
#include "stacks/stacks.h"

#pragma weak mailbox_execute /* a program that is linked with parts of the core may have no mallctl */

struct mailbox mailbox;
_Atomic uint32_t slow_work;
void (*mailbox_start)(const struct thread *t); /* set once, before SLOW_START */

const char *mailbox_stacks;
static _Atomic bool is_switch_asked;

static _Atomic bool is_answering; /* one thread at a time; other threads do not wait */

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
static char *stack;             /* from the first request on */

/* With a frame pointer, so that debuggers and profilers find the way back. */
static NOINLINE void execute_on_own_stack(void)
{
#if defined(__x86_64__)
    (void)*(void *volatile *)__builtin_frame_address(0);
    __asm__ volatile("movq %%rsp, %%rbx\n\tmovq %0, %%rsp\n\tcall *%1\n\tmovq %%rbx, %%rsp"
                     :
                     : "r"(stack + STACK_BYTES), "r"(execute)
                     : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3",
                       "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
                       "cc", "memory");
#else
    execute();
#endif
}

/* The store of `taken` comes before the request is read, so the other process either sees it, or has made the request
 * invalid. */
static void take(unsigned slot, uint32_t number)
{
    struct mailbox_words *words = &mailbox.words[slot];
    atomic_store(&words->taken, number);
    memcpy(&request, &mailbox.request[slot], sizeof request);
    if (mailbox_execute && is_whole(number)) {
        execute_on_own_stack();
        memcpy(&mailbox.answer[slot], &answer, sizeof answer);
    }
    store_release(&words->answered, number);
}

/* Takes the request that was asked first. Numbers may wrap around. False: there is none. */
static bool take_oldest(void)
{
    unsigned oldest = MAILBOX_SLOTS;
    uint32_t number = 0;
    for (unsigned i = 0; i < MAILBOX_SLOTS; i++) {
        uint32_t asked = load_acquire(&mailbox.words[i].asked);
        if (asked == load_relaxed(&mailbox.words[i].taken))
            continue;
        if (oldest == MAILBOX_SLOTS || (int32_t)(asked - number) < 0) {
            oldest = i;
            number = asked;
        }
    }
    if (oldest < MAILBOX_SLOTS)
        take(oldest, number);
    return oldest < MAILBOX_SLOTS;
}

/* ---- The switch of stacks ---- */

/* As another process would (mailbox_outside.c). */
COLD void mailbox_ask_switch(void)
{
    store_relaxed(&is_switch_asked, true);
    atomic_fetch_or(&slow_work, SLOW_MAIL);
    classes_hide();
}

/* Signals have no answer, so a line says what happened. */
static void switch_stacks(void)
{
    const char *mode = load_relaxed(&stacks_mode) == STACKS_OFF ? mailbox_stacks : stacks_mode_name(STACKS_OFF);
    request = (struct mailbox_request){.verb = MAILBOX_SET, .name = "spans.stacks"};
    strncat(request.words, mode, sizeof request.words - 1);
    execute_on_own_stack();
    if (answer.error)
        WARN("stacks: the signal cannot set '", mode, "': ", errno_text(answer.error));
    else
        WARN("stacks: ", mode);
}

static void switch_if_asked(void)
{
    if (atomic_exchange(&is_switch_asked, false) && mailbox_execute)
        switch_stacks();
}

/* ---- When ---- */

/* Inside jemalloc, mallctl could wait for a lock that this thread holds. So could a request where a thread of the program does jespan's
 * work, such as starting a thread. Bytes that are held are for the context as it is (limits_hold()). */
static bool may_call(void)
{
    const struct thread *t = thread_current;
    return t && !t->n_held && !extents_pause && !lock_holds_all() && (t->tag != CONTEXT_ID_SELF || t->base == CONTEXT_ID_SELF);
}

/* If a request comes after the bit is cleared, the other process sets it again, and then hides the classes again. Without
 * memory for the stack, requests go on waiting. */
static void answer_all(void)
{
    if (atomic_exchange(&is_answering, true))
        return;
    classes_show();
    if (!stack)
        stack = meta_map(STACK_BYTES);
    if (stack) {
        atomic_fetch_and(&slow_work, ~SLOW_MAIL);
        switch_if_asked();
        for (unsigned i = 0; i < MAILBOX_SLOTS && take_oldest(); i++)
            ;
    }
    store_release(&is_answering, false);
}

COLD void mailbox_look(void)
{
    int saved = errno;
    if (!may_call())
        return;
    jespan_assert(!locks_held);
    answer_all();
    errno = saved;
}

COLD void mailbox_look_or_start(void)
{
    int saved = errno;
    uint32_t work = load_acquire(&slow_work);
    if (work & SLOW_START && may_call())
        mailbox_start(thread_current);
    errno = saved;
    if (work & SLOW_MAIL)
        mailbox_look();
}

/* Without the bit, the other process has hidden the classes after its request was taken. */
COLD void mailbox_look_for_hidden(struct thread *t)
{
    if (!(load_acquire(&slow_work) & (SLOW_MAIL | SLOW_START)))
        classes_show();
    else if (t && t->n_held)
        t->event_due = true;
    else
        mailbox_look_or_start();
}

static bool drop(struct mailbox_words *words)
{
    uint32_t asked = load_relaxed(&words->asked);
    if (load_relaxed(&words->answered) == asked)
        return false;
    store_relaxed(&words->taken, asked);
    store_relaxed(&words->answered, asked);
    return true;
}

COLD void mailbox_after_fork(void)
{
    bool dropped = load_relaxed(&is_switch_asked);
    store_relaxed(&is_switch_asked, false);
    if (load_relaxed(&is_answering))
        store_relaxed(&is_answering, false);
    for (unsigned i = 0; i < MAILBOX_SLOTS; i++)
        dropped |= drop(&mailbox.words[i]);
    if (dropped)
        atomic_fetch_and(&slow_work, ~SLOW_MAIL);
}
