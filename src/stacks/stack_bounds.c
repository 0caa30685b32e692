/* SPDX-License-Identifier: BSD-2-Clause */
/* Which memory of a stack can be read.
 *
 * libc has what belongs to a thread at the upper end of the stack that it made for the thread, and the thread pointer leads
 * there. So if all pages from the stack pointer up to there can be read, they are the thread's stack: a page that cannot be
 * read lies between it and other memory below. A page that the stack uses already is asked for once, so this takes the same
 * time whatever the number of threads. The kernel's list of mappings has a line for each thread, so it is read only where this
 * is no help: on the main thread, and where the stack pointer is far from what is known. */
#include "stacks/stack_bounds.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/descriptor.h"
#include "base/own_memory.h"

/* The kernel maps nothing else this far below the top of the main thread's stack, so that the stack can grow. */
#define MAIN_STACK_ROOM ((uintptr_t)128 << 20)
#define PAGE_BYTES ((uintptr_t)4096)
#define NEAR_BYTES ((uintptr_t)256 << 10)
#define LINE_BYTES 512 /* the rest of a longer line is a path */

/* The kernel reads the new mask before it looks at `how`: EFAULT, or EINVAL where the page can be read. Without a mask, at 0, it does not
 * look. */
COLD bool stack_page_is_readable(uintptr_t address)
{
    int saved = errno;
    if (address < PAGE_BYTES)
        return false;
    syscall(SYS_rt_sigprocmask, ~0, address & ~(PAGE_BYTES - 1), NULL, (size_t)8);
    bool is_readable = errno != EFAULT;
    errno = saved;
    return is_readable;
}

/* Another thread may unmap the page at any moment, so the kernel reads it. Where there is no other thread, or the process may not call
 * process_vm_readv(2), the page is asked for first: sshd has a sandbox that kills for that call. */
COLD bool stack_page_copy(void *to, uintptr_t from, size_t bytes)
{
    int error = __libc_single_threaded ? -EPERM : own_memory_read(to, (const void *)from, bytes);
    if (!error || error == -EFAULT)
        return !error;
    if (!stack_page_is_readable(from))
        return false;
    memcpy(to, (const void *)from, bytes);
    return true;
}

COLD size_t stack_pages_copy(void *to, uintptr_t from, size_t bytes)
{
    size_t left = PAGE_BYTES - (from & (PAGE_BYTES - 1)), first = left < bytes ? left : bytes;
    if (!stack_page_copy(to, from, first))
        return 0;
    return first == bytes || stack_page_copy((char *)to + first, from + first, bytes - first) ? bytes : first;
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

static uintptr_t thread_end(void)
{
    return (uintptr_t)__builtin_thread_pointer() & ~(uintptr_t)7;
}

/* The main thread's stack has a name. Returns true once the line of `address` was seen. */
static bool take_line(struct stack_bounds *bounds, uintptr_t address, const char *line, size_t bytes)
{
    uintptr_t low, high, own = thread_end();
    const char *at = take_hex(line, &low);
    if (*at != '-')
        return false;
    at = take_hex(at + 1, &high);
    if (address < low || address >= high)
        return false;
    if (own >= low && own < high && own > address)
        *bounds = (struct stack_bounds){low, own, true};
    else if (memmem(line, bytes, "[stack]", 7))
        *bounds = (struct stack_bounds){high - low > MAIN_STACK_ROOM || high < MAIN_STACK_ROOM ? low : high - MAIN_STACK_ROOM, high, true};
    return true;
}

/* Looks for the mapping of the address. */
static void look_in_maps(struct stack_bounds *bounds, uintptr_t address)
{
    char text[1024], line[LINE_BYTES];
    size_t used = 0;
    ssize_t n;
    bool done = false;
    int fd = descriptor_open("/proc/thread-self/maps", O_RDONLY, 0);
    while (fd >= 0 && !done && (n = descriptor_read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < n && !done; i++) {
            if (text[i] != '\n' && used < sizeof line - 1)
                line[used++] = text[i];
            if (text[i] != '\n')
                continue;
            line[used] = '\0';
            done = take_line(bounds, address, line, used);
            used = 0;
        }
    }
    if (fd >= 0)
        descriptor_close(fd);
}

/* The main thread's pointer does not lead to its stack. */
static bool is_main_thread(void)
{
    return getpid() == (pid_t)syscall(SYS_gettid);
}

/* From the upper end, since other memory begins below the stack. */
static bool pages_are_readable(uintptr_t low, uintptr_t end)
{
    while (end > low) {
        end = (end - 1) & ~(PAGE_BYTES - 1);
        if (!stack_page_is_readable(end))
            return false;
    }
    return true;
}

COLD void stack_bounds_find(struct stack_bounds *bounds, uintptr_t sp)
{
    int saved = errno;
    uintptr_t low = sp & ~(PAGE_BYTES - 1), end = bounds->high ? bounds->low : thread_end();
    if (sp < end && end - sp < NEAR_BYTES && !is_main_thread() && pages_are_readable(low, end))
        *bounds = (struct stack_bounds){low, thread_end(), false};
    else
        look_in_maps(bounds, bounds->high ? bounds->low : sp);
    errno = saved;
}
