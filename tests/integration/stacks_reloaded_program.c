/* SPDX-License-Identifier: BSD-2-Clause */
/* usage: stacks_reloaded_program LIBRARY…: loads each library, calls its function 300 times, unloads it. Prints where the function
 * was. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        void *library = dlopen(argv[i], RTLD_NOW);
        void *(*outer)(size_t) = library ? (void *(*)(size_t))dlsym(library, "outer") : NULL;
        if (!outer) {
            fprintf(stderr, "%s\n", dlerror());
            return EXIT_FAILURE;
        }
        for (int n = 0; n < 300; n++)
            *(volatile char *)outer(100) = 1;
        printf("%p\n", (void *)outer);
        fflush(stdout);
        dlclose(library);
    }
    return EXIT_SUCCESS;
}
