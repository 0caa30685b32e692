/* SPDX-License-Identifier: BSD-2-Clause */
/* The page that processes share with their sidecar, when another process writes whatever it likes: before it is read, and at
 * the same time. Both sides are tried: that of a process (report/goodbye.c), and the sidecar's (sidecar/page.c).
 *
 * The input fills the page, again and again. If it begins with an even number, what makes it a page comes first.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "base/compiler.h"
#include "report/goodbye.c"
#define page page_of_sidecar
#include "sidecar/page.c"
#undef page

#define RUN_NS 300000 /* how long a process waits at most */

#define HEAD_BYTES offsetof(struct sidecar_page, slots)

static _Atomic uint8_t *shared; /* the page, for the hostile process */
static _Atomic uint8_t head[HEAD_BYTES];
static _Atomic bool is_hostile;

/* ---- The hostile process ---- */

static uint8_t byte_of(const uint8_t *data, size_t bytes, size_t i)
{
    uint32_t layout = SIDECAR_PAGE_LAYOUT;
    return !bytes ? 0 : i < sizeof layout && data[0] % 2 == 0 ? ((uint8_t *)&layout)[i] : data[i % bytes];
}

static void fill(const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < SIDECAR_PAGE_BYTES; i++)
        store_relaxed(&shared[i], byte_of(data, bytes, i));
    for (size_t i = 0; i < HEAD_BYTES; i++)
        store_relaxed(&head[i], byte_of(data, bytes, i));
}

/* Changes all but the slots, where most is read. */
static void *write_always(void *unused)
{
    const struct timespec pause = {.tv_nsec = 100000};
    for (size_t round = 0;; round++) {
        if (!load_acquire(&is_hostile))
            nanosleep(&pause, NULL);
        else
            for (size_t i = sizeof(uint32_t); i < HEAD_BYTES; i++)
                store_relaxed(&shared[i], load_relaxed(&head[(i + round) % HEAD_BYTES]));
    }
    return unused;
}

/* ---- A process ---- */

static void run_process(bool forked)
{
    goodbye_start();
    if (!page)
        return;
    if (forked)
        goodbye_after_fork();
    struct sidecar_slot *slot = own;
    FUZZ_REQUIRE(!slot || (slot >= page->slots && slot < page->slots + SIDECAR_SLOTS));
    goodbye_say_first(clock_ns(CLOCK_MONOTONIC) + RUN_NS);
    goodbye_say(clock_ns(CLOCK_MONOTONIC) + RUN_NS);
    munmap(page, SIDECAR_PAGE_BYTES);
    page = NULL;
    own = NULL;
}

/* ---- The sidecar ---- */

static void run_sidecar(void)
{
    size_t n = 0;
    for (struct sidecar_slot *slot = NULL; (slot = page_next(slot));) {
        FUZZ_REQUIRE(++n <= SIDECAR_SLOTS && slot >= page_of_sidecar->slots && slot < page_of_sidecar->slots + SIDECAR_SLOTS);
        pid_t pid = (pid_t)load_acquire(&slot->pid);
        (void)page_is_asked(slot, pid);
        page_tell(page_find(pid), pid, SIDECAR_READ);
        if (n % 2)
            page_empty(slot, pid);
        if (n > 50)
            break;
    }
    page_rest();
    page_close(false);
}

static void fuzz_one(const uint8_t *data, size_t bytes)
{
    fill(data, bytes);
    run_sidecar();
    fill(data, bytes);
    store_release(&is_hostile, true);
    run_process(bytes > 1 && data[1] % 2);
    store_release(&is_hostile, false);
}

static void fuzz_begin(void)
{
    pthread_t thread;
    int memfd = memfd_create("page", MFD_ALLOW_SEALING);
    FUZZ_REQUIRE(page_open(memfd, SIDECAR_WANTS_ALL, 0) >= 0);
    void *p = mmap(NULL, SIDECAR_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    FUZZ_REQUIRE(p != MAP_FAILED);
    shared = p;
    conf.follow_fork = true;
    snprintf(conf.sidecar, sizeof conf.sidecar, "/proc/self/fd/%d", memfd);
    FUZZ_REQUIRE(!pthread_create(&thread, NULL, write_always, NULL));
}
