/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages on stderr without stdio and without allocation, and the end of a program whose heap is corrupt. */
#include "base/die.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/figures.h"

#define LINE_BYTES 512

static size_t append(char *line, size_t used, const char *text)
{
    size_t n = strlen(text);
    if (n > LINE_BYTES - 1 - used)
        n = LINE_BYTES - 1 - used;
    memcpy(line + used, text, n);
    return used + n;
}

/* Names and labels may come from a client, and a message is one line. */
static void hide_control_characters(char *text, size_t n)
{
    for (; n--; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

COLD void warn_parts(const char *const *parts)
{
    char line[LINE_BYTES];
    size_t used = append(line, 0, "jespan: ");
    for (; *parts; parts++)
        used = append(line, used, *parts);
    hide_control_characters(line, used);
    line[used++] = '\n';
    standard_error_write(line, used);
}

COLD const char *number_text(char buffer[NUMBER_BYTES], uint64_t value, unsigned base)
{
    char *p = buffer + NUMBER_BYTES - 1;
    *p = '\0';
    do {
        *--p = "0123456789abcdef"[value % base];
        value /= base;
    } while (value && p > buffer);
    return p;
}

COLD _Noreturn void die_pointer(const char *what, const void *pointer)
{
    char number[NUMBER_BYTES];
    WARN(what, " 0x", number_text(number, (uintptr_t)pointer, 16));
    abort();
}

COLD const char *errno_text(int error)
{
    const char *words = strerrordesc_np(error);
    return words ? words : "unknown error";
}

/* ---- Standard error ---- */

/* Constant after the boot. */
static bool known, was_open;
static dev_t device;
static ino_t inode;

static _Atomic uint64_t lost;
FIGURE_ROW(figure_lost, "spans.stats.lost_messages", lost, FIGURE_NUMBER);

/* ---- Which file it is ---- */

/* Not by fstat(3): libraries such as libfakeroot have a function of that name, which allocates, and jespan may be about to boot. On
 * x86-64, the system's structure is that of glibc. */
static bool read_status(struct stat *status)
{
    return syscall(SYS_fstat, STDERR_FILENO, status) == 0;
}

COLD void standard_error_boot(void)
{
    int saved = errno;
    struct stat status;
    was_open = read_status(&status) && !(fcntl(STDERR_FILENO, F_GETFL) & O_PATH);
    device = was_open ? status.st_dev : 0;
    inode = was_open ? status.st_ino : 0;
    known = true;
    errno = saved;
}

static bool looks_redirected(const struct stat *status)
{
    int flags = fcntl(STDERR_FILENO, F_GETFL), access = flags & O_ACCMODE;
    if (flags < 0 || flags & O_PATH || fcntl(STDERR_FILENO, F_GETFD) & FD_CLOEXEC)
        return false;
    if (S_ISREG(status->st_mode))
        return access == O_WRONLY || status->st_nlink == 0;
    return S_ISFIFO(status->st_mode) || S_ISCHR(status->st_mode);
}

static bool is_standard_error(const struct stat *status)
{
    return was_open && ((status->st_dev == device && status->st_ino == inode) || looks_redirected(status));
}

/* ---- Without signals ---- */

/* The signals that a write() may raise: SIGPIPE where nobody reads the pipe, SIGXFSZ where the file would get too
 * large, and SIGTTOU where the process is in the background of a terminal. A thread that blocks SIGTTOU may write. */
static void fill_set(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGPIPE);
    sigaddset(set, SIGXFSZ);
    sigaddset(set, SIGTTOU);
}

/* Takes the signals that came since `before` was read, and leaves signals that were pending before. Not by sigtimedwait(3), which is a
 * cancellation point: a message may be written under a lock. */
static void take_pending(const sigset_t *before)
{
    static const int raised[] = {SIGPIPE, SIGXFSZ};
    sigset_t now, one;
    sigpending(&now);
    for (unsigned i = 0; i < sizeof raised / sizeof raised[0]; i++)
        if (sigismember(&now, raised[i]) && !sigismember(before, raised[i])) {
            sigemptyset(&one);
            sigaddset(&one, raised[i]);
            syscall(SYS_rt_sigtimedwait, &one, NULL, &(struct timespec){0, 0}, (size_t)8);
        }
}

/* ---- Without waiting ----
 *
 * By system calls: libc's functions are cancellation points too. They are those that libc would make, which filters know. */

/* A pipe that poll(2) reports as writable takes PIPE_BUF bytes. We could wait only if another writer fills the pipe at
 * this moment. */
static bool has_room(void)
{
    struct pollfd stderr_poll = {STDERR_FILENO, POLLOUT, 0};
#ifdef SYS_poll
    long n = syscall(SYS_poll, &stderr_poll, 1, 0);
#else
    long n = syscall(SYS_ppoll, &stderr_poll, 1, &(struct timespec){0, 0}, NULL, 0);
#endif
    return n == 1 && stderr_poll.revents == POLLOUT;
}

static bool write_now(const struct stat *status, const char *line, size_t bytes)
{
    ssize_t n;
    if (S_ISSOCK(status->st_mode)) {
        n = syscall(SYS_sendto, STDERR_FILENO, line, bytes, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
    } else if (!has_room()) {
        return false;
    } else {
        do
            n = syscall(SYS_write, STDERR_FILENO, line, bytes);
        while (n < 0 && errno == EINTR);
    }
    return n == (ssize_t)bytes;
}

COLD void standard_error_write(const char *line, size_t bytes)
{
    int saved = errno;
    struct stat status;
    sigset_t signals, before, pending;
    if (!known)
        standard_error_boot();
    fill_set(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    sigpending(&pending);
    if (!read_status(&status) || !is_standard_error(&status) || !write_now(&status, line, bytes))
        atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
    take_pending(&pending);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved;
}

uint64_t standard_error_lost(void)
{
    return load_relaxed(&lost);
}
