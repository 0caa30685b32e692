/* SPDX-License-Identifier: BSD-2-Clause */
/* Tells the core when a thread is renamed, so that it need not ask the system again and again: prctl(2) may be forbidden to a thread
 * that has a seccomp filter. Only the shared library has this.
 *
 * libjespan.so interposes prctl() and pthread_setname_np(), which do what those of libc do. A rename by another way (a system call
 * by number, a write to /proc) is not seen. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/cpu_clock.h"
#include "malloc/boot.h"
#include "malloc/family.h"

typedef int set_name(pthread_t thread, const char *name);
static _Atomic(set_name *) next_set_name;

int FAMILY(prctl)(int option, ...);
int FAMILY(pthread_setname_np)(pthread_t thread, const char *name);

/* As libc's: there are at most four more arguments, and who gives fewer wants no value of the others to be read. */
EXPORT int FAMILY(prctl)(int option, ...)
{
    unsigned long more[4];
    va_list arguments;
    va_start(arguments, option);
    for (int i = 0; i < 4; i++)
        more[i] = va_arg(arguments, unsigned long);
    va_end(arguments);
    long result = syscall(SYS_prctl, option, more[0], more[1], more[2], more[3]);
    if (option == PR_SET_NAME && !result)
        boot_thread_renamed();
    return (int)result;
}

/* A build that does not interpose calls the function that the name refers to. */
static COLD set_name *find_next(void)
{
    set_name *next = INTERPOSES ? (set_name *)(uintptr_t)dlsym(RTLD_NEXT, "pthread_setname_np") : pthread_setname_np;
    store_relaxed(&next_set_name, next);
    return next;
}

/* Its number in the kernel; 0: unknown. */
static int number_of(pthread_t thread)
{
    clockid_t clock;
    return pthread_getcpuclockid(thread, &clock) ? 0 : cpu_clock_thread(clock);
}

EXPORT int FAMILY(pthread_setname_np)(pthread_t thread, const char *name)
{
    set_name *next = load_relaxed(&next_set_name);
    if (!next && !(next = find_next()))
        return ENOSYS;
    int error = next(thread, name);
    if (!error && pthread_equal(thread, pthread_self()))
        boot_thread_renamed();
    else if (!error)
        boot_other_renamed(number_of(thread));
    return error;
}

/* Not where the program, or a library before this one, has functions of these names. */
static COLD __attribute__((constructor)) void tell(void)
{
    if (INTERPOSES && dlsym(RTLD_DEFAULT, "prctl") == (void *)(uintptr_t)FAMILY(prctl) &&
        dlsym(RTLD_DEFAULT, "pthread_setname_np") == (void *)(uintptr_t)FAMILY(pthread_setname_np))
        boot_renames_are_told();
}
