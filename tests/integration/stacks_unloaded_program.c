/* SPDX-License-Identifier: BSD-2-Clause */
/* usage: stacks_unloaded_program ARGUMENT…: does what each argument says. Then waits for a line on stdin.
 *
 * LIBRARY=OBJECTS  unloads the library before, loads this one, and lets it allocate so many objects. Prints where its code is
 * =OBJECTS         lets it allocate more
 * .                unloads it
 * !MODE            sets spans.stacks
 * FILE>NAME        gives the file the name of another one */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int mallctl(const char *, void *, size_t *, void *, size_t);

static void set_mode(const char *mode)
{
    if (mallctl("spans.stacks", NULL, NULL, &mode, sizeof mode))
        abort();
    free(malloc(1)); /* a thread may allocate once more in the former mode */
}

static void *library;
static void *(*outer)(size_t);

static void allocate(int objects)
{
    for (; objects > 0; objects--)
        *(volatile char *)outer(5000) = 1;
}

static void unload(void)
{
    if (library)
        dlclose(library);
    library = NULL;
}

static void load(const char *file)
{
    library = dlopen(file, RTLD_NOW);
    outer = library ? (void *(*)(size_t))dlsym(library, "outer") : NULL;
    if (!outer) {
        fprintf(stderr, "%s\n", dlerror());
        exit(EXIT_FAILURE);
    }
    printf("%p\n", (void *)outer);
}

/* All objects are allocated by the same calls. */
static void do_as(char *argument)
{
    char *objects = strchr(argument, '='), *name = strchr(argument, '>');
    if (argument[0] == '!') {
        set_mode(argument + 1);
    } else if (name) {
        *name = '\0';
        rename(argument, name + 1);
    } else {
        if (objects != argument)
            unload();
        if (objects && objects != argument) {
            *objects = '\0';
            load(argument);
        }
        allocate(objects ? atoi(objects + 1) : 0);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        do_as(argv[i]);
    fflush(stdout);
    getchar();
    return EXIT_SUCCESS;
}
