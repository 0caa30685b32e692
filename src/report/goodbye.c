/* SPDX-License-Identifier: BSD-2-Clause */
/* Tells the sidecar that this process is about to end. */
#include "report/goodbye.h"

#include <errno.h>
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
#define MISSED_BEATS 20 /* in a row, from a sidecar that is stopped or gets no CPU time */

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

static int lock_until(pthread_mutex_t *mutex, uint64_t until_ns)
{
    const struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until);
}

/* Returns false if it cannot be had until then, its owner has died, or the sidecar misses its beats. They are counted
 * in waits of this thread rather than by the clock: a busy machine delays both processes. */
static bool wait_for(pthread_mutex_t *mutex, uint64_t until_ns)
{
    uint32_t last, beats = load_relaxed(&page->beats);
    unsigned missed = 0;
    int error;
    do {
        uint64_t now = clock_ns(CLOCK_MONOTONIC);
        if (now >= until_ns)
            return false;
        error = lock_until(mutex, now + SIDECAR_BEAT_NS < until_ns ? now + SIDECAR_BEAT_NS : until_ns);
        last = beats;
        beats = load_relaxed(&page->beats);
        missed = beats == last ? missed + 1 : 0;
    } while (error == ETIMEDOUT && missed < MISSED_BEATS);
    if (!error)
        pthread_mutex_unlock(mutex);
    return !error;
}

void goodbye_say(uint64_t until_ns)
{
    struct sidecar_slot *slot = find_slot();
    uint64_t read_by_ns = clock_ns(CLOCK_MONOTONIC) + READ_WITHIN_NS;
    if (!slot || atomic_exchange(&slot->asked, 1))
        return;
    atomic_fetch_add(&page->rings, 1);
    syscall(SYS_futex, &page->rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    if (wait_for(&slot->reading, read_by_ns < until_ns ? read_by_ns : until_ns))
        wait_for(&slot->delivering, until_ns);
}
