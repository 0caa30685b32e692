#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Libraries and programs that find libc's malloc family without asking for the program's: with RTLD_DEEPBIND, as PHP loads its extensions,
# and by a handle of libc, as ctypes in Python does. A program that has its own malloc keeps it.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
need python3
cd "$scratch"

cat > plugin.c << 'END'
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 12
int make(void **objects)
{
    FILE *file = fmemopen((char[]){"a line\n"}, 7, "r");
    size_t n = 0;
    objects[0] = malloc(100);
    objects[1] = calloc(3, 100);
    objects[2] = realloc(malloc(100), 20000);
    objects[3] = reallocarray(NULL, 10, 1000);
    objects[4] = aligned_alloc(64, 128);
    objects[5] = memalign(32, 100);
    objects[6] = valloc(10);
    objects[7] = pvalloc(10);
    objects[8] = strdup("text");
    objects[9] = strndup("text", 2);
    if (posix_memalign(&objects[10], 128, 1000000))
        return 0;
    objects[11] = NULL;
    getline((char **)&objects[11], &n, file);
    fclose(file);
    return MOST;
}

void end(void **objects, int n)
{
    for (int i = 0; i < n; i++) {
        size_t usable = malloc_usable_size(objects[i]);
        if (!usable)
            abort();
        objects[i] = realloc(objects[i], 2 * usable);
        free(objects[i]);
    }
}
END

cat > program.c << 'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.c"

typedef int ctl_function(const char *name, void *old, size_t *old_bytes, void *value, size_t bytes);

static uint64_t figure(const char *name)
{
    static ctl_function *ctl;
    uint64_t value = 0, any = 1;
    size_t bytes = sizeof value;
    if (!ctl)
        *(void **)&ctl = dlsym(RTLD_DEFAULT, "mallctl");
    if (!ctl || ctl("spans.epoch", NULL, NULL, &any, sizeof any) || ctl(name, &value, &bytes, NULL, 0))
        abort();
    return value;
}

static uint64_t live(void)
{
    uint64_t freed = figure("spans.all.free_objects");
    return figure("spans.all.alloc_objects") - freed;
}

static volatile uintptr_t sink;

int main(void)
{
    void *objects[MOST] = {0}, *libc = dlopen("libc.so.6", RTLD_NOW), *plugin = dlopen("./plugin.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    int (*theirs)(void **) = NULL, failed = 0;
    void (*ends)(void **, int) = NULL, (*frees)(void *) = NULL, *(*allocates)(size_t) = NULL;
    int (*trims)(size_t) = NULL;
    char *(*copies)(const char *) = NULL;
    if (plugin) {
        *(void **)&theirs = dlsym(plugin, "make");
        *(void **)&ends = dlsym(plugin, "end");
    }
    *(void **)&frees = dlsym(libc, "free");
    *(void **)&allocates = dlsym(libc, "malloc");
    *(void **)&trims = dlsym(libc, "malloc_trim");
    *(void **)&copies = dlsym(libc, "strdup");
    if (!theirs || !ends || !frees || !allocates || !trims || !copies)
        return printf("%s\n", dlerror()), 2;
    sink = (uintptr_t)&malloc; /* without PIE, the address of an entry of the program's PLT */

    uint64_t before = live();
    int n = theirs(objects);
    if (live() - before != MOST)
        failed |= 1;
    end(objects, n);
    n = make(objects);
    ends(objects, n);
    for (int i = 0; i < 1000; i++) {
        frees(malloc(i * 10 + 1));
        free(allocates(i * 10 + 1));
        free(copies("text"));
    }
    trims(0);
    if (live() != before)
        failed |= 2;
    Dl_info found;
    if (!dladdr((void *)(uintptr_t)frees, &found))
        failed |= 4;
    printf("%s\n", found.dli_fname);
    return failed;
}
END
# A library whose constructor, which runs before ours, loads another one.
cat > early.c << 'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#define MOST 12
void *early[MOST];
int n_early;

static __attribute__((constructor)) void load(void)
{
    void *plugin = dlopen("./plugin.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    int (*theirs)(void **) = NULL;
    void (*ends)(void **, int) = NULL, *mine[] = {malloc(10), calloc(10, 10)};
    if (plugin) {
        *(void **)&theirs = dlsym(plugin, "make");
        *(void **)&ends = dlsym(plugin, "end");
    }
    if (!theirs || !ends)
        abort();
    ends(mine, 2);
    n_early = theirs(early);
}
END
cat > with_early.c << 'END'
#include <stdlib.h>

extern void *early[];
extern int n_early;

int main(void)
{
    for (int i = 0; i < n_early; i++)
        free(early[i]);
    return n_early ? 0 : 1;
}
END
cat > ctypes_free.py << 'END'
import ctypes

libc = ctypes.CDLL("libc.so.6")
libc.strdup.restype = libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
for i in range(1000):
    libc.free(libc.strdup(b"text" * i))
    libc.free(libc.malloc(i))
libc.malloc_trim(0)
END
# A malloc of the program itself. Its objects are no other allocator's, and it notices those of others.
cat > own_malloc.c << 'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char memory[1 << 20] __attribute__((aligned(16)));
static size_t used;

void *malloc(size_t size)
{
    void *p = memory + used;
    used += (size + 31) / 16 * 16;
    return used <= sizeof memory ? p : NULL;
}
void free(void *p)
{
    if (p && ((char *)p < memory || (char *)p >= memory + sizeof memory))
        abort();
}
void *calloc(size_t n, size_t size)
{
    return malloc(n * size);
}
void *realloc(void *p, size_t size)
{
    void *q = malloc(size);
    return p && q ? memcpy(q, p, size) : q;
}

int main(void)
{
    Dl_info found;
    void *libc = dlopen("libc.so.6", RTLD_NOW), *theirs = dlsym(libc, "malloc");
    free(strdup("text"));
    if (!dladdr(theirs, &found))
        return 1;
    printf("%s\n", found.dli_fname);
    return 0;
}
END

read -ra cc <<< "$CC"
"${cc[@]}" -O1 -shared -fPIC -o plugin.so plugin.c
"${cc[@]}" -O1 -fPIE -pie -o program program.c -ldl
"${cc[@]}" -O1 -fno-pie -no-pie -o no_pie program.c -ldl
"${cc[@]}" -O1 -o linked program.c -ldl -L"${JESPAN_LIB%/*}" -ljespan -Wl,-rpath,"${JESPAN_LIB%/*}"
"${cc[@]}" -O1 -shared -fPIC -o libearly.so early.c -ldl
"${cc[@]}" -O1 -o with_early with_early.c -L. -learly -Wl,-rpath,.
"${cc[@]}" -O1 -o with_early_linked with_early.c -Wl,--no-as-needed -L"${JESPAN_LIB%/*}" -ljespan -L. -learly -Wl,-rpath,"${JESPAN_LIB%/*}:."
"${cc[@]}" -O1 -fno-builtin -o own_malloc own_malloc.c -ldl

ends_well() {
    "$@" > said 2>&1 || fail_with "$*: exit $?" said
}

# finds PATTERN COMMAND…: the program ends well, and says that the library where it found libc's function fits the pattern
finds() {
    ends_well "${@:2}"
    # shellcheck disable=SC2053 # it is a pattern
    [[ $(< said) == $1 ]] || fail_with "${*:2}: libc's function is elsewhere than in $1" said
}

finds '*/libc.so.6' preloaded ./own_malloc
for conf in stacks:off stacks:all guard_sample:5; do
    export JESPAN_CONF=$conf
    finds '*/libjespan.so*' preloaded ./program
    finds '*/libjespan.so*' preloaded ./no_pie
    finds '*/libjespan.so*' ./linked
    ends_well preloaded ./with_early
    ends_well ./with_early_linked
    ends_well preloaded python3 ctypes_free.py
done

finish
