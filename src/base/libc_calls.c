/* SPDX-License-Identifier: BSD-2-Clause */
/* Recognises allocations that libc makes for itself. */
#define _GNU_SOURCE
#include "base/libc_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/compiler.h"
#include "base/meta.h"

#define RANGES_MAX 16
#define CALLERS_MAX 32

/* The code of libc's objects at the first look. */
struct libc_code {
    uint32_t n;
    struct libc_calls_range ranges[RANGES_MAX];
};

/* Stored once, when it is complete (release); libc_calls() acquires it. Threads may look at the same moment. None waits for
 * another, which may have been lost in a fork, or wait for a lock of the dynamic linker. */
static _Atomic(struct libc_code *) code;

/* The thread forgets it when libc calls malloc: the dynamic linker does that when it loads an object, perhaps to the place of one
 * that was unloaded. */
THREAD_LOCAL struct libc_calls_range libc_calls_other;
static _Atomic bool learned;

/* The places from which libc calls malloc for its callers. */
static _Atomic uintptr_t for_others[CALLERS_MAX];
static THREAD_LOCAL bool learning;

static bool is_libcs(const char *path)
{
    static const char *const names[] = {"libc.so.", "libc-", "ld-linux", "ld-", "ld.so", "libpthread", "libdl.", "librt.", "libresolv",
                                        "libanl", "libnss_"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(name, names[i], strlen(names[i])))
            return true;
    return strstr(path, "/gconv/") != NULL; /* modules of iconv(3) */
}

static int add_object(struct dl_phdr_info *object, size_t bytes, void *found)
{
    struct libc_code *all = found;
    (void)bytes;
    for (int i = 0; is_libcs(object->dlpi_name) && i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t start = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && part->p_flags & PF_X && all->n < RANGES_MAX)
            all->ranges[all->n++] = (struct libc_calls_range){start, start + part->p_memsz};
    }
    return 0;
}

static COLD bool find(void)
{
    struct libc_code *none = NULL, *found = meta_alloc(sizeof *found);
    if (!found)
        return false;
    dl_iterate_phdr(add_object, found);
    atomic_compare_exchange_strong_explicit(&code, &none, found, memory_order_release, memory_order_relaxed);
    return true;
}

bool libc_calls_find(void)
{
    return likely(load_relaxed(&code)) || find();
}

/* Each function has few such places. */
static COLD void learn_address(uintptr_t address)
{
    for (int i = 0; i < CALLERS_MAX; i++) {
        uintptr_t none = 0;
        if (load_relaxed(&for_others[i]) == address || atomic_compare_exchange_strong(&for_others[i], &none, address))
            return;
    }
}

static void learn_lines(void)
{
    char text[] = "a\nb\n", *line = NULL;
    size_t n = 0;
    learning = false;
    FILE *file = fmemopen(text, sizeof text - 1, "r");
    if (!file)
        return;
    getc(file); /* the stream allocates its buffer */
    learning = true;
    if (getline(&line, &n, file) > 0)
        free(line);
    learning = false;
    fclose(file);
}

COLD void libc_calls_learn(void)
{
    char *text = NULL;
    int saved = errno;
    learning = true;
    free(wcsdup(L"text"));
    for (int width = 1; width < 5000; width = width * 5 + 30) {
        if (asprintf(&text, "%*d", width, 1) >= 0)
            free(text);
    }
    learn_lines();
    learning = false;
    errno = saved;
}

void libc_calls_are_learned(bool all)
{
    if (all)
        store_release(&learned, true);
}

bool libc_calls_know(void)
{
    return likely(load_relaxed(&learned)) || !load_relaxed(&code);
}

/* Whether the address is in an object of libc's that was loaded later. The linker finds an object without a lock. */
static bool is_in_libcs(uintptr_t address)
{
    struct dl_find_object object;
    if (_dl_find_object((void *)address, &object))
        return false;
    if (is_libcs(object.dlfo_link_map->l_name))
        return true;
    libc_calls_other = (struct libc_calls_range){(uintptr_t)object.dlfo_map_start, (uintptr_t)object.dlfo_map_end};
    return false;
}

bool libc_calls_look(const void *return_address)
{
    uintptr_t address = (uintptr_t)return_address;
    const struct libc_code *all = load_acquire(&code);
    uint32_t n = all ? all->n : 0, i = 0;
    while (i < n && !(address >= all->ranges[i].start && address < all->ranges[i].end))
        i++;
    if (likely(i == n))
        return n && is_in_libcs(address);
    libc_calls_other.end = libc_calls_other.start;
    if (learning)
        learn_address(address);
    for (int k = 0; k < CALLERS_MAX && load_relaxed(&for_others[k]); k++)
        if (load_relaxed(&for_others[k]) == address)
            return false;
    return true;
}
