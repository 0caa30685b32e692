/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports of what happened to a guarded object. */
#include "guard/guard_report.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/die.h"
#include "base/encode.h"
#include "base/lock.h"
#include "base/otel_context.h"
#include "guard/guard.h"
#include "heap/pagemap.h"
#include "span/context_path.h"
#include "span/tree.h"
#include "stacks/unwind.h"

#define PATH_BYTES 400 /* a line has 511 */

struct decimal {
    char text[NUMBER_BYTES];
};

static const char *decimal(struct decimal *d, uint64_t value)
{
    return number_text(d->text, value, 10);
}

static const char *hexadecimal(struct decimal *d, uintptr_t value)
{
    return number_text(d->text, value, 16);
}

/* ---- Frames ---- */

/* The file of the code, and its address there; NULL: code of no file. The program itself has no name in the list of
 * objects. */
static const char *file_of(uintptr_t address, char path[PATH_BYTES], uintptr_t *in_file)
{
    struct dl_find_object object;
    if (_dl_find_object((void *)address, &object))
        return NULL;
    const char *name = object.dlfo_link_map->l_name;
    *in_file = address - object.dlfo_link_map->l_addr;
    if (name && name[0])
        return name;
    ssize_t n = readlink("/proc/self/exe", path, PATH_BYTES - 1);
    path[n > 0 ? n : 0] = '\0';
    return path;
}

/* `address` is in the instruction that called. */
static void say_frame(uint32_t i, uintptr_t address)
{
    struct decimal index, offset;
    char path[PATH_BYTES];
    uintptr_t in_file = address;
    const char *file = file_of(address, path, &in_file);
    WARN("    #", decimal(&index, i), " ", file ? file : "", file ? "+0x" : "0x", hexadecimal(&offset, in_file));
}

static void say_thread(const char *what, pid_t thread, const char *name, const char *end)
{
    struct decimal number;
    WARN("  ", what, " by thread ", decimal(&number, (uint64_t)thread), name[0] ? " (" : "", name, name[0] ? ")" : "", end);
}

static void say_place(const char *what, const struct guard_place *place)
{
    if (!place->thread)
        return;
    say_thread(what, place->thread, place->name, place->n ? ":" : ", at an unknown place");
    for (uint32_t i = 0; i < place->n; i++)
        say_frame(i, place->frames[i] - 1);
}

/* The trace that the calling thread works for, where a library publishes it. */
static void say_trace(void)
{
    struct otel_context context;
    char trace[2 * OTEL_TRACE_ID_BYTES + 1], span[2 * OTEL_SPAN_ID_BYTES + 1];
    if (!otel_context_read(&context))
        return;
    hex_encode(trace, context.trace_id, OTEL_TRACE_ID_BYTES);
    hex_encode(span, context.span_id, OTEL_SPAN_ID_BYTES);
    WARN("  in trace ", trace, ", span ", span);
}

static void say_access_place(const struct guard_access *access)
{
    say_thread("accessed", gettid(), thread_current ? thread_current->name : "", ":");
    say_frame(0, access->pc);
    for (uint32_t i = 0; i < access->n && i < GUARD_FRAMES; i++)
        say_frame(i + 1, access->frames[i] - 1);
    say_trace();
}

/* ---- The object ---- */

static void say_object(const struct guard_slot *slot)
{
    struct decimal bytes, start;
    char path[GUARD_OWNER_BYTES];
    const char *owner = slot->owner;
    uint32_t state = load_acquire(&slot->state);
    page_entry_t *page = pagemap_page(slot->start);
    uint32_t tag = page ? page_entry_big_tag(load_relaxed(page)) & ~TAG_SURVIVOR : 0;
    if (state == GUARD_LIVE && tag)
        owner = context_path(tree_whole(tag), path, sizeof path);
    WARN("  object of ", decimal(&bytes, slot->bytes), " bytes at 0x", hexadecimal(&start, slot->start), ", owned by ", owner);
}

static void say_history(const struct guard_slot *slot)
{
    if (load_acquire(&slot->state) == GUARD_FREED)
        say_place("freed", &slot->freed);
    say_place("allocated", &slot->allocated);
    WARN("  'addr2line -Cfipe FILE 0x…' prints the function and line of FILE+0x…");
}

/* "8 bytes into", "0 bytes beyond the end of", "1 byte before". */
static const char *relation(const struct guard_slot *slot, uintptr_t address, uintptr_t *bytes)
{
    if (address < slot->start) {
        *bytes = slot->start - address;
        return " before the start of";
    }
    *bytes = address - slot->start;
    if (*bytes < slot->bytes)
        return " after the start of";
    *bytes -= slot->bytes;
    return " after the end of";
}

/* ---- Reports ---- */

static void say_access(const struct guard_access *access, const struct guard_slot *slot)
{
    struct decimal address, distance, size;
    uintptr_t bytes;
    const char *where = relation(slot, access->address, &bytes);
    bool is_freed = load_acquire(&slot->state) != GUARD_LIVE;
    const char *what = is_freed ? "use after free: " : access->address < slot->start ? "underflow: " : "overflow: ";
    WARN(what, access->is_write ? "write to" : "read of", " 0x",
         hexadecimal(&address, access->address), ", ", decimal(&distance, bytes), bytes == 1 ? " byte" : " bytes", where,
         is_freed ? " a freed object of " : " an object of ", decimal(&size, slot->bytes), slot->bytes == 1 ? " byte" : " bytes");
}

COLD void guard_report_access(const struct guard_access *access)
{
    const struct guard_slot *slot = guard_nearest(access->address);
    struct decimal address;
    if (slot)
        say_access(access, slot);
    else
        WARN("wild access: ", access->is_write ? "write to" : "read of", " 0x", hexadecimal(&address, access->address),
             ", where no object was");
    if (slot)
        say_object(slot);
    say_access_place(access);
    if (slot)
        say_history(slot);
}

static _Noreturn void die_with(const struct guard_slot *slot, struct guard_place *place, const char *what)
{
    if (slot)
        say_object(slot);
    say_place(what, place);
    say_trace();
    if (slot)
        say_history(slot);
    abort();
}

COLD _Noreturn void guard_die_of_free(const void *p)
{
    const struct guard_slot *slot = guard_nearest((uintptr_t)p);
    struct guard_place place;
    struct decimal address, distance;
    uintptr_t bytes = 0;
    guard_note_place(&place, thread_current);
    bool is_twice = slot && slot->start == (uintptr_t)p, is_inside = slot && !is_twice;
    const char *where = is_inside ? relation(slot, (uintptr_t)p, &bytes) : "";
    WARN(is_twice ? "double free of 0x" : "free of a pointer that is not allocated: 0x", hexadecimal(&address, (uintptr_t)p),
         is_inside ? ", " : "", is_inside ? decimal(&distance, bytes) : "", is_inside ? bytes == 1 ? " byte" : " bytes" : "", where,
         is_inside ? load_acquire(&slot->state) == GUARD_LIVE ? " an object" : " a freed object" : "");
    die_with(slot, &place, is_twice ? "freed again" : "freed here");
}

COLD _Noreturn void guard_die_of_damage(const struct guard_slot *slot, const char *at)
{
    struct guard_place place;
    struct decimal address, distance, size;
    uintptr_t bytes;
    const char *where = relation(slot, (uintptr_t)at, &bytes);
    guard_note_place(&place, thread_current);
    WARN((uintptr_t)at < slot->start ? "underflow" : "overflow", ", found when the object was freed: write to 0x",
         hexadecimal(&address, (uintptr_t)at), ", ", decimal(&distance, bytes), bytes == 1 ? " byte" : " bytes", where, " an object of ",
         decimal(&size, slot->bytes), slot->bytes == 1 ? " byte" : " bytes");
    die_with(slot, &place, "freed");
}

/* ---- The handler of SIGSEGV ---- */

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
