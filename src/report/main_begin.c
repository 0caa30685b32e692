/* SPDX-License-Identifier: BSD-2-Clause */
/* Notices that main() begins. Only the shared library has this.
 *
 * The start code of a program calls __libc_start_main(), which runs the program's constructors and then main(). No
 * constructor of a library comes after those of the program. So libjespan.so defines this function too, and gives libc a
 * main() that calls the program's. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "malloc/family.h"
#include "report/late_start.h"

typedef int main_function(int argc, char **argv, char **environment);
typedef int start_function(main_function *run, int argc, char **argv, void (*init)(void), void (*fini)(void),
                           void (*linker_fini)(void), void *stack_end);

start_function START_MAIN;

static main_function *program_main;

/* Leaves no frame on the stack, as calls at the end of a function are jumps. */
static int begin(int argc, char **argv, char **environment)
{
    late_start_main_begins();
    return program_main(argc, argv, environment);
}

EXPORT int START_MAIN(main_function *run, int argc, char **argv, void (*init)(void), void (*fini)(void),
                                     void (*linker_fini)(void), void *stack_end)
{
    start_function *next = (start_function *)(uintptr_t)dlsym(RTLD_NEXT, "__libc_start_main");
    if (!next)
        abort(); /* no program starts without it */
    program_main = run;
    return next(begin, argc, argv, init, fini, linker_fini, stack_end);
}

static bool is_found_first(const char *name, void (*function)(void))
{
    return dlsym(RTLD_DEFAULT, name) == (void *)(uintptr_t)function;
}

/* A library that dlopen() loads is not found first, and main() has begun then. Some programs have a malloc of their own. */
bool main_begin_is_awaited(void)
{
    return REPLACES_START_MAIN && is_found_first("__libc_start_main", (void (*)(void))START_MAIN)
        && is_found_first("malloc", (void (*)(void))FAMILY(malloc));
}
