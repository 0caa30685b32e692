/* SPDX-License-Identifier: BSD-2-Clause */
/* The processes' side of the page: the file, and the slot of a process. */
#include "report/sidecar_page.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/descriptor.h"

/* A file that can shrink could make an access fail. */
static bool is_page(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && lseek(fd, 0, SEEK_END) >= SIDECAR_PAGE_BYTES;
}

struct sidecar_page *sidecar_page_map(const char *path)
{
    int fd = descriptor_open(path, O_RDWR | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return NULL;
    void *p = is_page(fd) ? mmap(NULL, SIDECAR_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (p == MAP_FAILED)
        return NULL;
    if (load_acquire(&((struct sidecar_page *)p)->layout) == SIDECAR_PAGE_LAYOUT)
        return p;
    munmap(p, SIDECAR_PAGE_BYTES);
    return NULL;
}

uint32_t sidecar_page_number(void)
{
    char number[16] = "";
    ssize_t n = readlink("/proc/self", number, sizeof number - 1);
    return n > 0 ? (uint32_t)strtoul(number, NULL, 10) : 0;
}

struct sidecar_slot *sidecar_page_find(struct sidecar_page *page, uint32_t pid)
{
    for (struct sidecar_slot *slot = page->slots; slot < page->slots + SIDECAR_SLOTS; slot++)
        if (load_acquire(&slot->pid) == pid)
            return slot;
    return NULL;
}

void sidecar_page_leave(struct sidecar_page *page, uint32_t pid)
{
    struct sidecar_slot *slot = sidecar_page_find(page, pid);
    if (slot)
        store_release(&slot->pid, 0);
}

void sidecar_page_hand_over(struct sidecar_page *page, uint32_t pid)
{
    store_relaxed(&page->handed_over, pid);
    sidecar_page_leave(page, pid);
}
