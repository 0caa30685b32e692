/* SPDX-License-Identifier: BSD-2-Clause */
/* Which memory of a stack can be read. */
#include "stacks/stack_bounds.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/descriptor.h"

/* The kernel maps nothing else this far below the top of the main thread's stack, so that the stack can grow. */
#define MAIN_STACK_ROOM ((uintptr_t)128 << 20)
#define LINE_BYTES 512 /* the rest of a longer line is a path */

/* The kernel reads the new mask before it looks at `how`: EFAULT, or EINVAL where the page can be read. */
COLD bool stack_page_is_readable(uintptr_t address)
{
    int saved = errno;
    syscall(SYS_rt_sigprocmask, ~0, address & ~(uintptr_t)4095, NULL, (size_t)8);
    bool is_readable = errno != EFAULT;
    errno = saved;
    return is_readable;
}

static const char *take_hex(const char *text, uintptr_t *value)
{
    for (*value = 0;; text++) {
        if (*text >= '0' && *text <= '9')
            *value = *value << 4 | (uintptr_t)(*text - '0');
        else if (*text >= 'a' && *text <= 'f')
            *value = *value << 4 | (uintptr_t)(*text - 'a' + 10);
        else
            return text;
    }
}

/* glibc has what belongs to a thread at the upper end of the stack that it made for the thread. The main thread's stack
 * has a name. Returns true once the line of `sp` was seen. */
static bool take_line(struct stack_bounds *bounds, uintptr_t sp, const char *line, size_t bytes)
{
    uintptr_t low, high, own = (uintptr_t)__builtin_thread_pointer();
    const char *at = take_hex(line, &low);
    if (*at != '-')
        return false;
    at = take_hex(at + 1, &high);
    if (sp < low || sp >= high)
        return false;
    if (own >= low && own < high && own > sp)
        *bounds = (struct stack_bounds){low, own & ~(uintptr_t)7};
    else if (memmem(line, bytes, "[stack]", 7))
        *bounds = (struct stack_bounds){high - low > MAIN_STACK_ROOM || high < MAIN_STACK_ROOM ? low : high - MAIN_STACK_ROOM, high};
    return true;
}

COLD void stack_bounds_find(struct stack_bounds *bounds, uintptr_t sp)
{
    char text[1024], line[LINE_BYTES];
    size_t used = 0;
    ssize_t n;
    bool done = false;
    int saved = errno, fd = descriptor_open("/proc/thread-self/maps", O_RDONLY, 0);
    *bounds = (struct stack_bounds){0, 0};
    while (fd >= 0 && !done && (n = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < n && !done; i++) {
            if (text[i] != '\n' && used < sizeof line - 1)
                line[used++] = text[i];
            if (text[i] != '\n')
                continue;
            line[used] = '\0';
            done = take_line(bounds, sp, line, used);
            used = 0;
        }
    }
    if (fd >= 0)
        close(fd);
    errno = saved;
}
