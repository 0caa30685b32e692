/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes the addresses in libc's table of dynamic symbols. */
#include "malloc/libc_malloc.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "base/figures.h"
#include "malloc/family.h"

#define LEADS(name) {#name, (void (*)(void))FAMILY(name)}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* mallinfo() */

static const struct lead {
    const char *name;
    void (*function)(void);
} leads[] = {
    LEADS(malloc), LEADS(calloc), LEADS(realloc), LEADS(reallocarray), LEADS(free), LEADS(cfree),
    LEADS(posix_memalign), LEADS(aligned_alloc), LEADS(memalign), LEADS(valloc), LEADS(pvalloc), LEADS(malloc_usable_size),
    LEADS(strdup), LEADS(strndup),
    LEADS(mallinfo), LEADS(mallinfo2), LEADS(malloc_trim), LEADS(malloc_stats), LEADS(malloc_info), LEADS(mallopt),
};
#define N_LEADS (sizeof leads / sizeof *leads)

/* The dynamic symbols of an object. */
struct symbols {
    uintptr_t base;
    ElfW(Sym) *all;
    const char *names;
    const uint32_t *hash;
};

/* The linker stores addresses here, except where the section is read-only. */
static uintptr_t address_in(const struct dl_phdr_info *object, const ElfW(Dyn) *entry)
{
    return entry->d_un.d_ptr < object->dlpi_addr ? object->dlpi_addr + entry->d_un.d_ptr : entry->d_un.d_ptr;
}

static bool find_symbols(const struct dl_phdr_info *object, struct symbols *found)
{
    const ElfW(Dyn) *entry = NULL;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr); /* NOLINT */
    *found = (struct symbols){.base = object->dlpi_addr};
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            found->all = (ElfW(Sym) *)address_in(object, entry); /* NOLINT */
        else if (entry->d_tag == DT_STRTAB)
            found->names = (const char *)address_in(object, entry); /* NOLINT */
        else if (entry->d_tag == DT_GNU_HASH)
            found->hash = (const uint32_t *)address_in(object, entry); /* NOLINT */
    }
    return found->all && found->names && found->hash;
}

/* DT_GNU_HASH: four words, of which the first is the number of buckets, the second the first symbol in the table, and the third the number
 * of words of the filter, which come next; then a symbol for each bucket, and for each symbol its hash, whose lowest bit tells that it is
 * the last of its bucket. NULL: the object does not define the name. */
static ElfW(Sym) *find_symbol(const struct symbols *s, const char *name)
{
    const uint32_t n_buckets = s->hash[0], first = s->hash[1];
    const uint32_t *buckets = (const uint32_t *)((const ElfW(Addr) *)(s->hash + 4) + s->hash[2]), *hashes = buckets + n_buckets;
    uint32_t hash = 5381, i;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    i = n_buckets ? buckets[hash % n_buckets] : 0;
    for (bool is_last = i < first; !is_last; i++) {
        ElfW(Sym) *symbol = &s->all[i];
        is_last = hashes[i - first] & 1;
        if ((hashes[i - first] | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF && !strcmp(s->names + symbol->st_name, name))
            return symbol;
    }
    return NULL;
}

/* How the memory was mapped; -1: unknown. */
static int protection_of(const struct dl_phdr_info *object, uintptr_t address)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && address - object->dlpi_addr - part->p_vaddr < part->p_memsz)
            return (part->p_flags & PF_R ? PROT_READ : 0) | (part->p_flags & PF_W ? PROT_WRITE : 0) |
                   (part->p_flags & PF_X ? PROT_EXEC : 0);
    }
    return -1;
}

/* An address is one word, so whoever looks a name up meanwhile finds one function or the other. Where security rules forbid to execute what
 * was written, the table, which has no code, stays readable only. */
static void redirect(const struct dl_phdr_info *libc, const struct symbols *s)
{
    ElfW(Sym) *symbols[N_LEADS];
    uintptr_t page = getauxval(AT_PAGESZ), low = UINTPTR_MAX, high = 0;
    for (size_t i = 0; i < N_LEADS; i++) {
        symbols[i] = find_symbol(s, leads[i].name);
        uintptr_t at = (uintptr_t)symbols[i];
        if (at) {
            low = at < low ? at : low;
            high = at > high ? at : high;
        }
    }
    int protection = protection_of(libc, low);
    if (!high || protection < 0)
        return;
    low &= ~(page - 1);
    size_t bytes = ((high + sizeof **symbols + page - 1) & ~(page - 1)) - low;
    if (mprotect((void *)low, bytes, PROT_READ | PROT_WRITE)) /* NOLINT */
        return;
    for (size_t i = 0; i < N_LEADS; i++)
        if (symbols[i])
            __atomic_store_n(&symbols[i]->st_value, (uintptr_t)leads[i].function - s->base, __ATOMIC_RELAXED);
    if (mprotect((void *)low, bytes, protection)) /* NOLINT */
        mprotect((void *)low, bytes, PROT_READ); /* NOLINT */
}

static _Atomic uint64_t is_others;
FIGURE_ROW(figure_other_malloc, "spans.stats.other_malloc", is_others, FIGURE_NUMBER);

uint64_t libc_malloc_is_others(void)
{
    return load_relaxed(&is_others);
}

/* The objects come in the order in which names are looked up, so the first malloc is the program's. */
static int look_at(struct dl_phdr_info *object, size_t bytes, void *is_ours)
{
    struct symbols s;
    (void)bytes;
    if (!find_symbols(object, &s))
        return 0;
    if (!*(bool *)is_ours) {
        const ElfW(Sym) *symbol = find_symbol(&s, "malloc");
        if (!symbol)
            return 0;
        if (s.base + symbol->st_value != (uintptr_t)FAMILY(malloc)) {
            store_relaxed(&is_others, 1);
            return 1;
        }
        *(bool *)is_ours = true;
    }
    if (!find_symbol(&s, "gnu_get_libc_version"))
        return 0;
    redirect(object, &s);
    return 1;
}

COLD void libc_malloc_redirect(void)
{
    static _Atomic bool is_done;
    bool is_ours = false;
    if (INTERPOSES && !atomic_exchange(&is_done, true))
        dl_iterate_phdr(look_at, &is_ours);
}
