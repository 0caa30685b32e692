/* SPDX-License-Identifier: BSD-2-Clause */
/* The sidecar's side of the page that it shares with processes. */
#include "sidecar/page.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/descriptor.h"
#include "base/futex.h"

static struct sidecar_page *page;
static uint64_t page_inode;
static int bell = -1; /* an eventfd */
static _Atomic uint32_t heard; /* `rings` when nobody waited any more */

/* poll(2) cannot wait for a futex. The loop may be busy for long, so this thread beats while a process waits. */
static void *listen_to_rings(void *unused)
{
    static const struct timespec beat = {.tv_nsec = SIDECAR_BEAT_NS / 2};
    (void)unused;
    pthread_setname_np(pthread_self(), "page");
    for (uint32_t seen = 0;;) {
        uint32_t rings = load_acquire(&page->rings);
        if (rings != seen)
            eventfd_write(bell, 1);
        seen = rings;
        atomic_fetch_add(&page->beats, 1);
        syscall(SYS_futex, &page->rings, FUTEX_WAIT, seen, seen == load_acquire(&heard) ? NULL : &beat, NULL, 0);
    }
    return NULL;
}

static int start_listening(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int error = pthread_create(&thread, &attributes, listen_to_rings, NULL); /* with all signals blocked */
    pthread_attr_destroy(&attributes);
    return -error;
}

/* The kernel tells processes that this thread, and so the sidecar, has died: set_robust_list(2). The list takes the place of
 * libc's, which is for robust mutexes of this thread; there are none. It lies here and not in the page, where others write. */
static int promise_word_of_death(void)
{
    static struct robust_list entry;
    static struct robust_list_head head;
    entry.next = &head.list;
    head.list.next = &entry;
    head.futex_offset = (char *)&page->alive - (char *)&entry;
    store_release(&page->alive, (uint32_t)syscall(SYS_gettid));
    return syscall(SYS_set_robust_list, &head, sizeof head) ? -errno : 0;
}

/* With scope 1, Yama lets only a process read that its target has named. Root may always. */
static uint32_t tracer(void)
{
    char scope = '0';
    int fd = descriptor_open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY, 0);
    ssize_t n = fd < 0 ? 0 : read(fd, &scope, 1);
    if (fd >= 0)
        close(fd);
    return n == 1 && scope == '1' && geteuid() != 0 ? (uint32_t)getpid() : 0;
}

/* The limit of file sizes is also that of a memfd. SIGXFSZ is blocked. For dumps the limit stays as it is. */
static int set_size(int memfd)
{
    struct rlimit before, highest = {RLIM_INFINITY, RLIM_INFINITY};
    int result = ftruncate(memfd, SIDECAR_PAGE_BYTES);
    if (result == 0 || errno != EFBIG || getrlimit(RLIMIT_FSIZE, &before) != 0)
        return result;
    if (setrlimit(RLIMIT_FSIZE, &highest) != 0) { /* only root may */
        highest.rlim_cur = highest.rlim_max = before.rlim_max;
        setrlimit(RLIMIT_FSIZE, &highest);
    }
    result = ftruncate(memfd, SIDECAR_PAGE_BYTES);
    setrlimit(RLIMIT_FSIZE, &before);
    return result;
}

int page_open(int memfd, enum sidecar_wants wants, uint32_t reasons)
{
    struct stat file = {0};
    void *p = MAP_FAILED;
    if (fstat(memfd, &file) == 0 && set_size(memfd) == 0 && fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        p = mmap(NULL, SIDECAR_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    bell = p == MAP_FAILED ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell < 0)
        return -errno;
    page = p;
    page_inode = file.st_ino;
    store_relaxed(&page->wants, wants);
    store_relaxed(&page->reasons, reasons);
    store_relaxed(&page->tracer, tracer());
    int error = promise_word_of_death();
    if (!error)
        error = start_listening();
    store_release(&page->layout, SIDECAR_PAGE_LAYOUT);
    return error ? error : bell;
}

bool page_has_inode(uint64_t inode)
{
    return page_inode == inode;
}

bool page_is_open(void)
{
    return page;
}

void page_hush(void)
{
    eventfd_t any;
    if (page)
        eventfd_read(bell, &any);
}

bool page_has_forks(void)
{
    return page && load_acquire(&page->has_forked);
}

/* To be followed by a look at the slots: a child that does not see this has taken its slot before. */
void page_forget_forks(void)
{
    if (page)
        atomic_exchange(&page->has_forked, 0);
}

struct sidecar_slot *page_next(const struct sidecar_slot *slot)
{
    size_t i = slot ? (size_t)(slot - page->slots) + 1 : 0;
    while (page && i < SIDECAR_SLOTS && !load_acquire(&page->slots[i].pid))
        i++;
    return page && i < SIDECAR_SLOTS ? &page->slots[i] : NULL;
}

struct sidecar_slot *page_find(pid_t pid)
{
    struct sidecar_slot *slot = page_next(NULL);
    while (slot && !page_is_of(slot, pid))
        slot = page_next(slot);
    return slot;
}

bool page_is_of(const struct sidecar_slot *slot, pid_t pid)
{
    return slot && load_acquire(&slot->pid) == (uint32_t)pid;
}

bool page_is_asked(const struct sidecar_slot *slot, pid_t pid)
{
    uint32_t state = page_is_of(slot, pid) ? load_acquire(&slot->state) : SIDECAR_RUNS;
    return state == SIDECAR_ASKS_FIRST || state == SIDECAR_ASKS;
}

void page_show_alerts(struct sidecar_slot *slot, pid_t pid, const struct alert_figures *figures, unsigned n)
{
    if (!page_is_of(slot, pid))
        return;
    struct alert_figures *shown = page->alerts[slot - page->slots];
    for (unsigned i = 0; i < n; i++) {
        store_relaxed(&shown[i].bytes, load_relaxed(&figures[i].bytes));
        store_relaxed(&shown[i].holding, load_relaxed(&figures[i].holding));
        store_relaxed(&shown[i].fired, load_relaxed(&figures[i].fired));
    }
}

void page_tell(struct sidecar_slot *slot, pid_t pid, enum sidecar_state state)
{
    if (!page_is_of(slot, pid))
        return;
    store_release(&slot->state, state);
    syscall(SYS_futex, &slot->state, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void page_empty(struct sidecar_slot *slot, pid_t pid)
{
    if (!page_is_of(slot, pid))
        return;
    store_relaxed(&slot->state, SIDECAR_RUNS);
    bool is_awaited = atomic_exchange_explicit(&slot->events, 0, memory_order_relaxed) & DUMP_BIT(DUMP_OOM);
    store_release(&slot->pid, 0);
    if (is_awaited)
        futex_wake_all_shared(&slot->events);
}

void page_note_left_out(pid_t pid)
{
    if (page && pid > 0)
        store_relaxed(&page->left_out, (uint32_t)pid);
}

pid_t page_left_out(void)
{
    return page ? (pid_t)load_relaxed(&page->left_out) : 0;
}

bool page_is_handed_over(pid_t pid)
{
    return page && load_relaxed(&page->handed_over) == (uint32_t)pid;
}

bool page_leaves_events(const struct sidecar_slot *slot, pid_t pid)
{
    return page_is_of(slot, pid) && load_acquire(&slot->events) & DUMP_ON_ACCEPTS;
}

uint32_t page_events(struct sidecar_slot *slot)
{
    uint32_t events = load_acquire(&slot->events), oom = DUMP_BIT(DUMP_OOM);
    if ((events & DUMP_ON_QUIET) && (events & oom)) { /* a thread was about to set it when it became quiet */
        events = atomic_fetch_and_explicit(&slot->events, ~oom, memory_order_acq_rel) & ~oom;
        futex_wake_all_shared(&slot->events);
    }
    return events & (DUMP_BIT(DUMP_N_EVENTS) - 1);
}

void page_begin_dump(struct sidecar_slot *slot, pid_t pid, enum dump_reason reason)
{
    if (!page_leaves_events(slot, pid))
        return;
    atomic_fetch_or_explicit(&slot->events, DUMP_ON_BUSY, memory_order_relaxed);
    if (reason != DUMP_OOM)
        atomic_fetch_and_explicit(&slot->events, ~DUMP_BIT(reason), memory_order_acq_rel);
}

void page_end_dump(struct sidecar_slot *slot, pid_t pid)
{
    if (page_leaves_events(slot, pid))
        atomic_fetch_and_explicit(&slot->events, ~DUMP_ON_BUSY, memory_order_release);
}

void page_count_dump(struct sidecar_slot *slot, pid_t pid, enum dump_reason reason)
{
    if (page_is_of(slot, pid))
        atomic_fetch_add_explicit(&page->dumps[slot - page->slots][reason], 1, memory_order_relaxed);
}

void page_done(struct sidecar_slot *slot, pid_t pid)
{
    if (!page_leaves_events(slot, pid))
        return;
    atomic_fetch_or_explicit(&slot->events, DUMP_ON_QUIET, memory_order_release);
    atomic_fetch_and_explicit(&slot->events, ~DUMP_BIT(DUMP_OOM), memory_order_release);
    futex_wake_all_shared(&slot->events);
}

void page_be_open(struct sidecar_slot *slot, pid_t pid)
{
    if (page_leaves_events(slot, pid))
        atomic_fetch_and_explicit(&slot->events, ~DUMP_ON_QUIET, memory_order_release);
}

static bool is_waiting(const struct sidecar_slot *slot)
{
    uint32_t state = load_acquire(&slot->state);
    return state != SIDECAR_RUNS && state != SIDECAR_DELIVERED;
}

bool page_is_awaited(void)
{
    for (struct sidecar_slot *slot = NULL; (slot = page_next(slot));)
        if (is_waiting(slot) || load_acquire(&slot->events) & (DUMP_BIT(DUMP_N_EVENTS) - 1))
            return true;
    return false;
}

void page_rest(void)
{
    uint32_t rings = page ? load_acquire(&page->rings) : 0;
    if (!page || rings == load_relaxed(&heard))
        return;
    for (struct sidecar_slot *slot = NULL; (slot = page_next(slot));)
        if (is_waiting(slot))
            return;
    store_release(&heard, rings);
}

void page_close(bool closed)
{
    if (page)
        atomic_store(&page->closed, closed);
}
