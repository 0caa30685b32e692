/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions as spans, in a program that is compiled with -finstrument-functions. README.md has the rest.
 *
 * The compiler calls __cyg_profile_func_enter() and __cyg_profile_func_exit() in each function, with its address. The name that
 * belongs to it comes from the symbol table of its file, at the first call. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jespan/jespan.h>

#define UNTRACED __attribute__((no_instrument_function)) /* this file may be compiled like the rest of the program */

UNTRACED void __cyg_profile_func_enter(void *function, void *caller);
UNTRACED void __cyg_profile_func_exit(void *function, void *caller);

/* ---- Names ---- */

/* A file that is looked at, mapped. It stays mapped until another is needed. */
static struct {
    char *name; /* as the dynamic linker calls it */
    char *bytes;
    size_t size;
} file;

UNTRACED static void map_file(const char *name)
{
    struct stat status;
    if (file.bytes && strcmp(file.name, name) == 0)
        return;
    char *bytes_before = file.bytes, *name_before = file.name;
    file.bytes = NULL;
    atomic_signal_fence(memory_order_seq_cst); /* a forked child finds all of it, or none */
    if (bytes_before) {
        munmap(bytes_before, file.size);
        free(name_before);
    }
    int fd = open(*name ? name : "/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    void *bytes = fstat(fd, &status) || status.st_size < (off_t)sizeof(Elf64_Ehdr)
                      ? MAP_FAILED : mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        return;
    file.size = (size_t)status.st_size;
    file.name = strdup(name);
    if (file.name)
        file.bytes = bytes;
    else
        munmap(bytes, file.size);
}

UNTRACED static bool is_inside(uint64_t offset, uint64_t bytes)
{
    return offset <= file.size && bytes <= file.size - offset;
}

/* The name of a function in a symbol table, by its address in the file; NULL: there is none. */
UNTRACED static const char *name_in(const Elf64_Shdr *table, const Elf64_Shdr *strings, uint64_t address)
{
    const char *found = NULL;
    if (!is_inside(table->sh_offset, table->sh_size) || !is_inside(strings->sh_offset, strings->sh_size) || !strings->sh_size ||
        file.bytes[strings->sh_offset + strings->sh_size - 1])
        return NULL;
    const Elf64_Sym *symbols = (const void *)(file.bytes + table->sh_offset);
    for (uint64_t i = 0; i < table->sh_size / sizeof *symbols; i++) {
        if (symbols[i].st_value != address || ELF64_ST_TYPE(symbols[i].st_info) != STT_FUNC || symbols[i].st_name >= strings->sh_size)
            continue;
        found = file.bytes + strings->sh_offset + symbols[i].st_name;
        if (ELF64_ST_BIND(symbols[i].st_info) == STB_GLOBAL)
            break;
    }
    return found;
}

UNTRACED static const char *name_in_file(const struct link_map *object, uintptr_t function)
{
    map_file(object->l_name);
    const Elf64_Ehdr *head = (const void *)file.bytes;
    if (!head || head->e_shentsize != sizeof(Elf64_Shdr) || head->e_shoff % 8 ||
        !is_inside(head->e_shoff, head->e_shnum * sizeof(Elf64_Shdr)))
        return NULL;
    const Elf64_Shdr *sections = (const void *)(file.bytes + head->e_shoff);
    for (unsigned i = 0; i < head->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < head->e_shnum)
            return name_in(&sections[i], &sections[sections[i].sh_link], function - object->l_addr);
    return NULL;
}

/* Without the result, which names of C++ templates have. */
UNTRACED static void cut_result(char *name)
{
    int depth = 0;
    if (strstr(name, "operator"))
        return;
    for (char *at = name + strlen(name); at-- > name;) {
        depth += (*at == ')' || *at == '>') - (*at == '(' || *at == '<');
        if (!depth && *at == ' ') {
            memmove(name, at + 1, strlen(at));
            return;
        }
    }
}

/* Without the arguments of a C++ function, but with those of types in its name. */
UNTRACED static void cut_arguments(char *name)
{
    int depth = 0;
    char *end = strrchr(name, ')');
    for (char *at = end; end && at >= name; at--) {
        depth += (*at == ')') - (*at == '(');
        if (!depth) {
            if (at != name && strncmp(at, "(anonymous", 10) != 0)
                *at = '\0';
            return;
        }
    }
}

/* libstdc++ has this function, if the program has libstdc++. Returns a name that stays. */
UNTRACED static char *readable(const char *symbol)
{
    char *(*demangle)(const char *, char *, size_t *, int *);
    void *found = dlsym(RTLD_DEFAULT, "__cxa_demangle");
    memcpy(&demangle, &found, sizeof demangle);
    char *name = found && !strncmp(symbol, "_Z", 2) ? demangle(symbol, NULL, NULL, NULL) : NULL;
    if (!name)
        return strdup(symbol);
    cut_arguments(name);
    cut_result(name);
    return name;
}

/* NULL: no memory. */
UNTRACED static char *name_of(void *function, const char **object_name)
{
    Dl_info info;
    struct link_map *object;
    char text[512];
    *object_name = NULL;
    if (!dladdr1(function, &info, (void **)&object, RTLD_DL_LINKMAP) || !object)
        return strdup("(unknown)");
    *object_name = info.dli_fname;
    const char *symbol = name_in_file(object, (uintptr_t)function);
    if (!symbol && info.dli_saddr == function)
        symbol = info.dli_sname;
    if (symbol)
        return readable(symbol);
    const char *slash = strrchr(info.dli_fname, '/');
    snprintf(text, sizeof text, "%s+0x%zx", slash ? slash + 1 : info.dli_fname, (size_t)((uintptr_t)function - object->l_addr));
    return strdup(text);
}

/* ---- Which functions ---- */

/* JESPAN_FUNCTIONS: patterns with | between them. A function has a span if its name matches one of them, or if all of them
 * begin with !, and if it matches none that begins with !. */
UNTRACED static bool is_wanted(const char *name)
{
    const char *at = getenv("JESPAN_FUNCTIONS");
    bool any = false, matches = false;
    while (at && *at) {
        char pattern[256];
        size_t n = strcspn(at, "|");
        bool without = *at == '!';
        snprintf(pattern, sizeof pattern, "%.*s", (int)(n - without), at + without);
        bool found = n > without && fnmatch(pattern, name, 0) == 0;
        if (without && found)
            return false;
        any |= !without && n;
        matches |= !without && found;
        at += n + (at[n] == '|');
    }
    return matches || !any;
}

/* ---- What is known of functions ---- */

#define MOST_FUNCTIONS 65536u /* a power of two */

/* By a hash of the address. Entries are added under the lock and never change, so they are read without it. */
static struct {
    _Atomic(void *) function;
    const struct jespan_site *site; /* NULL: no span */
} known[MOST_FUNCTIONS];
static unsigned n_known;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread bool is_busy __attribute__((tls_model("initial-exec")));

/* The place of a function in the table, or the free one for it. */
UNTRACED static inline size_t place_of(void *function)
{
    size_t i = ((uintptr_t)function * UINT64_C(0x9e3779b97f4a7c15)) >> 48;
    for (;; i++) {
        void *there = atomic_load_explicit(&known[i % MOST_FUNCTIONS].function, memory_order_acquire);
        if (there == function || !there)
            return i % MOST_FUNCTIONS;
    }
}

UNTRACED static const struct jespan_site *make_site(void *function)
{
    JESPAN_CREDIT(JESPAN_BASE);
    const char *object;
    char *name = name_of(function, &object);
    struct jespan_site *site = name && is_wanted(name) ? calloc(1, sizeof *site) : NULL;
    if (site)
        *site = (struct jespan_site){.name = name, .target = object ? strdup(object) : NULL}; /* dlclose(3) frees it */
    else
        free(name);
    return site;
}

/* The first call of a function. A thread does not wait for another one here, which may be the one that a signal interrupted:
 * then this call has no span. */
UNTRACED __attribute__((noinline)) static void get_to_know(void *function)
{
    if (is_busy || pthread_mutex_trylock(&lock))
        return;
    is_busy = true;
    size_t i = place_of(function);
    if (!known[i].function && n_known < MOST_FUNCTIONS / 4 * 3) {
        known[i].site = make_site(function);
        n_known++;
        atomic_store_explicit(&known[i].function, function, memory_order_release);
    }
    is_busy = false;
    pthread_mutex_unlock(&lock);
}

/* ---- Calls ---- */

#define MOST_FRAMES 512u

/* The calls of the thread that have a span, the innermost last. */
struct frame {
    void *function;
    uintptr_t stack; /* where the stack was */
    /* Calls of the function by itself have no span of their own: those that are a part of it, and those further down the stack. */
    unsigned inlined, deeper;
    struct jespan_block block;
};
static __thread struct frame *frames __attribute__((tls_model("initial-exec")));
static __thread unsigned n_frames __attribute__((tls_model("initial-exec")));
static __thread unsigned n_deeper __attribute__((tls_model("initial-exec"))); /* calls for which there was no room */

UNTRACED static inline void leave_last(void)
{
    jespan_exit_block(&frames[--n_frames].block);
}

#define FRAMES_BYTES (MOST_FRAMES * sizeof(struct frame))
static pthread_key_t frames_key;
static bool has_key;

/* At the end of a thread. It may call functions once more, and then gets other frames. */
UNTRACED static void give_frames_back(void *mapped)
{
    while (n_frames)
        leave_last();
    frames = NULL;
    munmap(mapped, FRAMES_BYTES);
}

/* Not thread-local memory: that is a part of each thread's stack, which may be small. */
UNTRACED __attribute__((noinline)) static bool make_frames(void)
{
    void *mapped = mmap(NULL, FRAMES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return false;
    frames = mapped;
    if (has_key)
        pthread_setspecific(frames_key, mapped);
    return true;
}

/* Another thread may have had the lock. */
UNTRACED static void unlock_in_child(void)
{
    static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    if (!is_busy)
        lock = unlocked;
}

UNTRACED __attribute__((constructor)) static void begin(void)
{
    has_key = pthread_key_create(&frames_key, give_frames_back) == 0;
    pthread_atfork(NULL, NULL, unlock_in_child);
}

UNTRACED void __cyg_profile_func_enter(void *function, void *caller)
{
    uintptr_t stack = (uintptr_t)__builtin_frame_address(0);
    size_t i = place_of(function);
    (void)caller;
    if (__builtin_expect(!known[i].function, 0)) {
        get_to_know(function);
        i = place_of(function);
    }
    if (!known[i].site || (__builtin_expect(!frames, 0) && !make_frames()))
        return;
    /* The stack grows down. A call that is below this one was left by longjmp(). An inlined function has the same stack as its
     * caller. */
    while (__builtin_expect(n_frames && frames[n_frames - 1].stack < stack, 0)) {
        n_deeper = 0;
        leave_last();
    }
    if (n_frames && frames[n_frames - 1].function == function) {
        unsigned *calls = frames[n_frames - 1].stack == stack ? &frames[n_frames - 1].inlined : &frames[n_frames - 1].deeper;
        ++*calls;
        return;
    }
    if (__builtin_expect(n_frames == MOST_FRAMES, 0)) {
        n_deeper++;
        return;
    }
    struct frame *f = &frames[n_frames];
    f->function = function;
    f->stack = stack;
    f->inlined = f->deeper = 0;
    n_frames++;
    jespan_enter_block(&f->block, known[i].site, &known[i].site->name, 1);
}

UNTRACED void __cyg_profile_func_exit(void *function, void *caller)
{
    uintptr_t stack = (uintptr_t)__builtin_frame_address(0);
    (void)caller;
    if (!known[place_of(function)].site)
        return;
    if (__builtin_expect(n_deeper, 0)) {
        n_deeper--;
        return;
    }
    while (n_frames && frames[n_frames - 1].function != function && frames[n_frames - 1].stack <= stack)
        leave_last();
    if (!n_frames || frames[n_frames - 1].function != function)
        return;
    struct frame *f = &frames[n_frames - 1];
    if (stack < f->stack && f->deeper) /* without such calls, it is alloca(3) that has moved the stack */
        f->deeper--;
    else if (f->inlined)
        f->inlined--;
    else
        leave_last();
}
