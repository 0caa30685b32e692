/* SPDX-License-Identifier: BSD-2-Clause */
/* The sidecar's side of the page that it shares with programs. */
#include "sidecar/page.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"

static struct sidecar_page *page;
static int bell = -1; /* an eventfd */
static _Atomic uint32_t delivered; /* to so many of the processes that rang */

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
        syscall(SYS_futex, &page->rings, FUTEX_WAIT, seen, seen == load_relaxed(&delivered) ? NULL : &beat, NULL, 0);
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

int page_open(int memfd)
{
    void *p = MAP_FAILED;
    if (ftruncate(memfd, SIDECAR_PAGE_BYTES) == 0 && fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        p = mmap(NULL, SIDECAR_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    bell = p == MAP_FAILED ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell < 0)
        return -errno;
    page = p;
    int error = start_listening();
    store_release(&page->layout, SIDECAR_PAGE_LAYOUT);
    return error ? error : bell;
}

void page_hush(void)
{
    eventfd_t any;
    if (page)
        eventfd_read(bell, &any);
}

struct sidecar_slot *page_enter(pid_t pid)
{
    struct sidecar_slot *slot = page ? page->slots : NULL;
    while (slot && slot < page->slots + SIDECAR_SLOTS && load_relaxed(&slot->pid))
        slot++;
    if (!slot || slot == page->slots + SIDECAR_SLOTS)
        return NULL;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&slot->reading, &attributes);
    pthread_mutex_init(&slot->delivering, &attributes);
    pthread_mutexattr_destroy(&attributes);
    pthread_mutex_lock(&slot->reading);
    pthread_mutex_lock(&slot->delivering);
    store_release(&slot->pid, (uint32_t)pid);
    return slot;
}

bool page_is_asked(const struct sidecar_slot *slot)
{
    return slot && load_acquire(&slot->asked);
}

void page_has_read(struct sidecar_slot *slot)
{
    if (slot)
        pthread_mutex_unlock(&slot->reading);
}

void page_has_delivered(struct sidecar_slot *slot)
{
    if (!slot)
        return;
    pthread_mutex_unlock(&slot->delivering);
    atomic_fetch_add(&delivered, 1);
}
