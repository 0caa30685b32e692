/* SPDX-License-Identifier: BSD-2-Clause */
/* Tells the sidecar that this process is about to end. */
#include "report/goodbye.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/descriptor.h"
#include "conf/conf.h"
#include "report/sidecar_page.h"

#define READ_WITHIN_NS UINT64_C(5000000000)

static struct sidecar_page *page; /* NULL: there is none */

/* A file that can shrink could make an access fail. */
static bool is_page(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && lseek(fd, 0, SEEK_END) >= SIDECAR_PAGE_BYTES;
}

void goodbye_start(void)
{
    int fd = conf.sidecar[0] ? descriptor_open(conf.sidecar, O_RDWR | O_NONBLOCK | O_NOCTTY, 0) : -1;
    if (fd < 0)
        return;
    void *p = is_page(fd) ? mmap(NULL, SIDECAR_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    page = p == MAP_FAILED ? NULL : p;
    close(fd);
}

/* A forked child has another number, so it finds none. */
static struct sidecar_slot *find_slot(void)
{
    uint32_t pid = (uint32_t)getpid();
    if (!page || load_acquire(&page->layout) != SIDECAR_PAGE_LAYOUT)
        return NULL;
    for (struct sidecar_slot *slot = page->slots; slot < page->slots + SIDECAR_SLOTS; slot++)
        if (load_acquire(&slot->pid) == pid)
            return slot;
    return NULL;
}

/* Returns false if it cannot be had until then, or its owner has died. */
static bool wait_for(pthread_mutex_t *mutex, uint64_t until_ns)
{
    const struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    if (pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until))
        return false;
    pthread_mutex_unlock(mutex);
    return true;
}

void goodbye_say(uint64_t until_ns)
{
    struct sidecar_slot *slot = find_slot();
    uint64_t now = clock_ns(CLOCK_MONOTONIC), read_by_ns = now + READ_WITHIN_NS;
    if (!slot || load_relaxed(&page->alive_ns) + SIDECAR_ALIVE_NS < now || atomic_exchange(&slot->asked, 1))
        return;
    atomic_fetch_add(&page->rings, 1);
    syscall(SYS_futex, &page->rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    if (wait_for(&slot->reading, read_by_ns < until_ns ? read_by_ns : until_ns))
        wait_for(&slot->delivering, until_ns);
}
