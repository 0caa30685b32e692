/* SPDX-License-Identifier: BSD-2-Clause */
/* The state file: its memory, and its core. */
#include "base/state_file.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/number.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define PAGE_BYTES ((size_t)4096)
#define STEP_BYTES ((size_t)256 << 10) /* memory for counters is backed in such steps */
#define MAX_SEGMENTS STATE_MAX_SEGMENTS
#define HEAD_BYTES (sizeof(Elf64_Ehdr) + MAX_SEGMENTS * sizeof(Elf64_Phdr))

/* Memory that the file has a copy of. */
struct area {
    uintptr_t start, end;
    char *copy;
};

/* Copies grow upwards in the file from the head, and counters downwards from its end. Offsets. Under LOCK_STATE. */
static struct {
    char *base; /* NULL: none, or a child that has left it */
    size_t bytes;
    size_t low, low_backed;
    size_t high, high_backed;
    struct area *areas; /* in the order of their addresses */
    uint32_t n_areas, n_segments;
    struct state_mapping file;
} state;

_Atomic uint32_t *state_is_mine;
static char *fork_copy;
struct state_note *state_note;

/* ---- Room ---- */

/* Backs the pages, or returns false where a write to them would be a SIGBUS. */
static bool back(char *start, size_t bytes)
{
    char zero = 0;
    int error = meta_touch(start, bytes);
    if (error != -EINVAL)
        return !error;
    for (size_t i = 0; i < bytes; i += PAGE_BYTES) { /* Linux before 5.14 */
        const struct iovec from = {&zero, 1}, to = {start + i, 1};
        if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) != 1)
            return false;
    }
    return true;
}

static COLD void say_incomplete(void)
{
    if (state_note->incomplete)
        return;
    state_note->incomplete = 1;
    WARN("state_file: no more room in ", state.file.path, "; figures in it are incomplete from now on");
}

char *state_take(size_t bytes, uint64_t *offset)
{
    size_t start = round_up(state.low, 16);
    if (bytes >= PAGE_BYTES)
        start = round_up(start, PAGE_BYTES);
    size_t end = start + bytes, backed = round_up(end, PAGE_BYTES);
    if (bytes > state.bytes || backed > state.high_backed)
        return NULL;
    if (backed > state.low_backed && !back(state.base + state.low_backed, backed - state.low_backed))
        return NULL;
    if (backed > state.low_backed)
        state.low_backed = backed;
    state.low = end;
    *offset = start;
    return state.base + start;
}

static void *take_counters(size_t bytes)
{
    if (state.high < state.low_backed + bytes)
        return NULL;
    size_t high = state.high - bytes, backed = high & ~(STEP_BYTES - 1);
    if (high < state.high_backed) {
        if (backed < state.low_backed || !back(state.base + backed, state.high_backed - backed))
            return NULL;
        madvise(state.base + backed, state.high_backed - backed, MADV_DOFORK);
        state.high_backed = backed;
    }
    state.high = high;
    return state.base + high;
}

COLD void *state_counters(size_t bytes)
{
    if (!state_is_on())
        return NULL;
    int saved = errno;
    lock(LOCK_STATE);
    void *p = take_counters(bytes);
    if (!p)
        say_incomplete();
    unlock(LOCK_STATE);
    errno = saved;
    return p;
}

/* ---- Segments ---- */

/* A reader may look at any moment, so the number grows last. */
bool state_add_segment(uint32_t type, uint32_t flags, uintptr_t address, uint64_t memory_bytes, uint64_t offset, uint64_t file_bytes)
{
    Elf64_Ehdr *header = (Elf64_Ehdr *)state.base;
    Elf64_Phdr *segments = (Elf64_Phdr *)(header + 1);
    if (state.n_segments == MAX_SEGMENTS)
        return false;
    segments[state.n_segments++] = (Elf64_Phdr){.p_type = type, .p_flags = flags, .p_offset = offset, .p_vaddr = address,
                                                .p_filesz = file_bytes, .p_memsz = memory_bytes, .p_align = 1};
    store_release((_Atomic uint16_t *)&header->e_phnum, (uint16_t)state.n_segments);
    return true;
}

/* ---- Copies ---- */

/* The sanitizer is not told: others may write there, and what they write is copied again. Whole words are not torn. */
__attribute__((no_sanitize("thread"))) static void copy_bytes(char *to, const void *from, size_t bytes)
{
    const volatile char *bytes_from = from;
    size_t i = 0;
    for (; !((uintptr_t)from & 7) && i + 8 <= bytes; i += 8)
        *(volatile uint64_t *)(to + i) = *(const volatile uint64_t *)(bytes_from + i);
    for (; i < bytes; i++)
        *(volatile char *)(to + i) = bytes_from[i];
}

/* The number of areas that begin at the address or below it. */
static uint32_t count_up_to(uintptr_t address)
{
    uint32_t low = 0, high = state.n_areas;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (state.areas[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool watch(const void *p, size_t bytes)
{
    uint64_t offset;
    uintptr_t start = (uintptr_t)p;
    char *copy = state.n_areas < MAX_SEGMENTS ? state_take(bytes, &offset) : NULL;
    if (!copy)
        return false;
    copy_bytes(copy, p, bytes);
    if (!state_add_segment(PT_LOAD, PF_R | PF_W, start, bytes, offset, bytes))
        return false;
    struct area *place = state.areas + count_up_to(start);
    memmove(place + 1, place, (size_t)(state.areas + state.n_areas - place) * sizeof *place);
    *place = (struct area){start, start + bytes, copy};
    state.n_areas++;
    return true;
}

COLD void state_watch(const void *p, size_t bytes)
{
    if (!state_is_on() || !p || !bytes)
        return;
    int saved = errno;
    lock(LOCK_STATE);
    if (!watch(p, bytes))
        say_incomplete();
    unlock(LOCK_STATE);
    errno = saved;
}

COLD void state_copy_now(const void *p, size_t bytes)
{
    uintptr_t start = (uintptr_t)p, end = start + bytes;
    lock(LOCK_STATE);
    for (uint32_t i = count_up_to(start); start < end && i && start < state.areas[i - 1].end; i++) {
        const struct area *a = &state.areas[i - 1];
        size_t n = (end < a->end ? end : a->end) - start;
        copy_bytes(a->copy + (start - a->start), (const void *)start, n);
        start += n;
        if (i == state.n_areas || state.areas[i].start != start)
            break;
    }
    state_note->changed_ns = clock_ns(CLOCK_REALTIME_COARSE);
    unlock(LOCK_STATE);
}

/* ---- Opening ---- */

static void *map_own(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* The header and the name have 20 bytes, and the content is aligned to 8. */
#define NOTE_AT 4
#define NOTE_CONTENT_AT (NOTE_AT + sizeof(Elf64_Nhdr) + 8)
#define NOTE_BYTES (NOTE_CONTENT_AT + sizeof(struct state_note))
_Static_assert(NOTE_CONTENT_AT % 8 == 0 && sizeof STATE_NOTE_NAME <= 8, "so it is");

static void add_note(char *to, uint64_t offset)
{
    const Elf64_Nhdr header = {.n_namesz = sizeof STATE_NOTE_NAME, .n_descsz = sizeof *state_note, .n_type = STATE_NOTE_TYPE};
    memcpy(to + NOTE_AT, &header, sizeof header);
    memcpy(to + NOTE_AT + sizeof header, STATE_NOTE_NAME, sizeof STATE_NOTE_NAME);
    state_note = (struct state_note *)(to + NOTE_CONTENT_AT);
    state_add_segment(PT_NOTE, 0, 0, 0, offset + NOTE_AT, NOTE_BYTES - NOTE_AT);
}

static int begin(void)
{
    static const unsigned char magic[] = STATE_MAGIC;
    uint64_t offset;
    state_is_mine = map_own(PAGE_BYTES);
    state.areas = map_own(MAX_SEGMENTS * sizeof *state.areas);
    if (!state_is_mine || !state.areas)
        return -ENOMEM;
    if (madvise((void *)state_is_mine, PAGE_BYTES, MADV_WIPEONFORK))
        return -ENOSYS;
    if (madvise(state.base, state.bytes, MADV_DONTFORK))
        return -errno;
    Elf64_Ehdr *header = (Elf64_Ehdr *)state_take(HEAD_BYTES, &offset);
    char *note = header ? state_take(NOTE_BYTES, &offset) : NULL;
    if (!note)
        return -ENOSPC;
    memcpy(header->e_ident + STATE_MAGIC_AT, magic, sizeof magic - 1);
    header->e_flags = (Elf64_Word)getpid();
    add_note(note, offset);
    state_add_segment(PT_LOAD, PF_R | PF_W, (uintptr_t)state.base, state.bytes, 0, state.bytes); /* for the counters */
    store_relaxed(state_is_mine, 1);
    return 0;
}

static void give_up(void)
{
    munmap(state.base, state.bytes);
    if (state_is_mine)
        munmap((void *)state_is_mine, PAGE_BYTES);
    if (state.areas)
        munmap(state.areas, MAX_SEGMENTS * sizeof *state.areas);
    state_is_mine = NULL;
    state.base = NULL;
    state.areas = NULL;
    unlink(state.file.path);
}

COLD int state_file_open(const char *path)
{
    int error = state_create(&state.file, path);
    if (error)
        return error;
    state.base = state.file.base;
    state.bytes = state.high = state.high_backed = state.file.bytes;
    error = begin();
    if (error)
        give_up();
    return error;
}

/* ---- The core ---- */

COLD void state_file_publish(void)
{
    if (!state_is_on())
        return;
    state_add_maps();
    lock(LOCK_STATE);
    Elf64_Ehdr *header = (Elf64_Ehdr *)state.base;
    header->e_ident[EI_CLASS] = ELFCLASS64;
    header->e_ident[EI_DATA] = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    header->e_ident[EI_VERSION] = EV_CURRENT;
    header->e_type = ET_CORE;
    header->e_version = EV_CURRENT;
    header->e_phoff = sizeof *header;
    header->e_ehsize = sizeof *header;
    header->e_phentsize = sizeof(Elf64_Phdr);
    state_note->changed_ns = clock_ns(CLOCK_REALTIME_COARSE);
    atomic_thread_fence(memory_order_release);
    memcpy(header->e_ident, ELFMAG, SELFMAG);
    unlock(LOCK_STATE);
}

/* Another process may have put its own file there. */
COLD void state_file_remove(void)
{
    struct stat status;
    const struct state_mapping *f = &state.file;
    if (state_is_on() && !lstat(f->path, &status) && status.st_dev == f->device && status.st_ino == f->inode)
        unlink(f->path);
}

/* ---- Children ---- */

static bool is_zero(const char *page)
{
    const uint64_t *words = (const uint64_t *)page;
    uint64_t any = 0;
    for (size_t i = 0; i < PAGE_BYTES / sizeof *words && !any; i++)
        any |= words[i];
    return !any;
}

static char *copy_counters(void)
{
    size_t bytes = state.bytes - state.high_backed;
    char *copied = bytes ? map_own(bytes) : NULL;
    for (size_t i = state.high & ~(PAGE_BYTES - 1); copied && i < state.bytes; i += PAGE_BYTES)
        if (!is_zero(state.base + i))
            memcpy(copied + (i - state.high_backed), state.base + i, PAGE_BYTES);
    return copied;
}

COLD void state_before_fork(void)
{
    if (state_is_on())
        fork_copy = copy_counters();
}

COLD void state_after_fork_in_parent(void)
{
    if (!fork_copy)
        return;
    munmap(fork_copy, state.bytes - state.high_backed);
    fork_copy = NULL;
}

/* The kernel maps nothing else of the file in a child. Without memory, the child counts for its parent until later. */
static COLD void leave(void)
{
    size_t bytes = state.bytes - state.high_backed;
    char *private = fork_copy ? fork_copy : copy_counters(), *shared = state.base + state.high_backed;
    if (bytes && (!private || mremap(private, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, shared) != shared))
        return;
    state.base = NULL;
    fork_copy = NULL;
}

COLD void state_after_fork_in_child(void)
{
    if (state.base)
        leave();
}

COLD void state_look(void)
{
    int saved = errno;
    if (state.base && !load_relaxed(state_is_mine)) {
        lock(LOCK_STATE);
        if (state.base)
            leave();
        unlock(LOCK_STATE);
    }
    if (state.base)
        state_add_maps_if_due();
    errno = saved;
}
