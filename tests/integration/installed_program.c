/* SPDX-License-Identifier: BSD-2-Clause */
/* For installed.sh: writes a dump to the path in its first argument. With -DOPENS it is not linked with the library,
 * and opens the one that its second argument names. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

typedef int mallctl_t(const char *, void *, size_t *, void *, size_t);

#ifdef OPENS
static mallctl_t *find(const char *library)
{
    void *opened = dlopen(library, RTLD_NOW);
    if (!opened)
        fprintf(stderr, "%s\n", dlerror());
    return opened ? (mallctl_t *)dlsym(opened, "mallctl") : NULL;
}
#else
mallctl_t mallctl;

static mallctl_t *find(const char *library)
{
    (void)library;
    return mallctl;
}
#endif

int main(int argc, char **argv)
{
    const char *path = argv[1];
    mallctl_t *call = find(argc > 2 ? argv[2] : NULL);
    return call ? call("spans.dump", NULL, NULL, &path, sizeof path) : 125;
}
