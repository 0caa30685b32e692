/* SPDX-License-Identifier: BSD-2-Clause */
/* Starts the sidecar of `jespan run`.
 *
 * This process becomes the program. So the sidecar is a grandchild whose parent has ended, and the program never has a
 * child that it did not make. The kernel sends no signal at the end of the process in between. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "console/command.h"
#include "report/sidecar_page.h"
#include "run.h"

struct start {
    pid_t program;
    int socket, pidfd, page;
    const char *conf;
    bool quiet;
};

#define HAS_ENDED (-1) /* the sidecar, before it was ready */
#define NO_PROC (-2)   /* neither does the program find what the sidecar shares with it */

/* Read from the outside, to see whether the system permits it. */
static const volatile uint32_t probe = 0x6a657370;

/* ---- In the sidecar ---- */

static int try_to_read(pid_t program)
{
    uint32_t found = 0;
    const struct iovec to = {&found, sizeof found}, from = {(void *)(uintptr_t)&probe, sizeof probe};
    ssize_t n = process_vm_readv(program, &to, 1, &from, 1, 0);
    char maps[40];
    snprintf(maps, sizeof maps, "/proc/%d/maps", (int)program);
    return n < 0 ? errno : found != probe ? EIO : access(maps, R_OK) == 0 ? 0 : errno == ENOENT ? NO_PROC : errno;
}

/* Keeps standard error and what the sidecar needs. A standard input or output that stayed open would keep readers of a
 * pipe waiting. */
static int arrange_descriptors(struct start *s)
{
    dup2(s->pidfd, RUN_SIDECAR_PIDFD);
    dup2(s->page, RUN_SIDECAR_PAGE);
    s->socket = dup2(s->socket, RUN_SIDECAR_READY);
    close_range(RUN_SIDECAR_READY + 1, ~0U, 0);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    return null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ? errno : 0;
}

/* Returns only if it failed. */
static int become_sidecar(const struct start *s)
{
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)s->program);
    char *argv[] = {"jespan", "serve", "--from-run", s->quiet ? "--quiet" : pid, s->quiet ? pid : NULL, NULL};
    setenv("JESPAN_CONF", s->conf, 1);
    unsetenv("LD_PRELOAD");
    execv(run_elf_own(), argv);
    return errno;
}

/* Sends its pid, and waits until the program has permitted it to read. Then sends the result. */
static _Noreturn void begin_sidecar(struct start *s)
{
    pid_t self = getpid();
    char go;
    setsid();
    int error = arrange_descriptors(s);
    if (send(s->socket, &self, sizeof self, MSG_NOSIGNAL) != sizeof self || read(s->socket, &go, 1) != 1)
        _exit(1);
    if (error == 0)
        error = try_to_read(s->program);
    if (error == 0)
        error = become_sidecar(s); /* the sidecar sends the result itself */
    if (send(s->socket, &error, sizeof error, MSG_NOSIGNAL) < 0)
        _exit(1);
    _exit(1);
}

/* ---- In the program's process ---- */

/* A fork() whose child sends no signal when it ends. The program could find SIGCHLD pending. */
static pid_t fork_in_silence(void)
{
    return (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
}

/* Returns false in the sidecar. */
static bool fork_twice(void)
{
    pid_t child = fork_in_silence();
    if (child == 0) {
        if (fork_in_silence() == 0)
            return false;
        _exit(0);
    }
    while (child > 0 && waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
        ;
    return true;
}

/* Returns 0, an errno, HAS_ENDED or NO_PROC. */
static int agree(int channel, pid_t *sidecar)
{
    int error = 0;
    if (read(channel, sidecar, sizeof *sidecar) != sizeof *sidecar)
        return EAGAIN; /* the system makes no more processes */
    prctl(PR_SET_PTRACER, *sidecar, 0, 0, 0); /* only with Yama; lasts beyond exec */
    if (send(channel, "", 1, MSG_NOSIGNAL) != 1 || read(channel, &error, sizeof error) != sizeof error)
        return HAS_ENDED;
    return error;
}

/* Lifts a new descriptor above those that the sidecar keeps. Returns it or -1. */
static int lift(int fd)
{
    int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, RUN_SIDECAR_READY + 1), error = errno;
    if (fd >= 0)
        close(fd);
    errno = high < 0 && error == EINVAL ? EMFILE : error; /* EINVAL: the limit of descriptors is that low */
    return high;
}

static int prepare(struct start *s, int channel[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0)
        return errno;
    s->socket = channel[1] = lift(channel[1]);
    if (s->socket >= 0)
        s->pidfd = lift((int)syscall(SYS_pidfd_open, s->program, 0));
    if (s->pidfd >= 0)
        s->page = lift(memfd_create(SIDECAR_PAGE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    return s->page < 0 ? errno : 0;
}

static void warn(int error)
{
    bool is_refused = error == EPERM || error == EACCES || error == ENOSYS || error == NO_PROC;
    cmd_warning("a sidecar cannot %s: %s%s; a thread in the program reports instead", is_refused ? "read the program" : "start",
                error == HAS_ENDED ? "it has ended" : error == NO_PROC ? "/proc is not mounted" : strerror(error),
                error == EMFILE ? " (ulimit -n)" : error == EFBIG ? " (ulimit -f)" : "");
}

bool run_sidecar_start(char page[RUN_SIDECAR_BYTES], const char *conf, bool quiet)
{
    struct start s = {.program = getpid(), .pidfd = -1, .page = -1, .conf = conf, .quiet = quiet};
    int channel[2] = {-1, -1};
    pid_t sidecar = 0;
    int error = prepare(&s, channel);
    if (error == 0 && !fork_twice()) {
        close(channel[0]);
        begin_sidecar(&s);
    }
    close(channel[1]);
    if (error == 0)
        error = agree(channel[0], &sidecar);
    close(channel[0]);
    close(s.pidfd);
    close(s.page);
    snprintf(page, RUN_SIDECAR_BYTES, "/proc/%d/fd/%d", (int)sidecar, RUN_SIDECAR_PAGE);
    if (error == 0)
        run_init_tell(sidecar);
    else
        warn(error);
    return error == 0;
}

/* ---- A `jespan run` that started this one ---- */

void run_sidecar_leave_outer(void)
{
    char path[RUN_SIDECAR_BYTES];
    const char *conf = getenv("JESPAN_CONF");
    run_conf_value(path, sizeof path, conf ? conf : "", "sidecar");
    struct sidecar_page *page = path[0] != '\0' ? sidecar_page_map(path) : NULL;
    if (page && sidecar_page_number() == (uint32_t)getpid())
        sidecar_page_hand_over(page, (uint32_t)getpid());
}
