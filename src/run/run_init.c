/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan run` as process 1 of a PID namespace, as in a container.
 *
 * The end of process 1 ends all processes of the namespace, and so the sidecar. So process 1 is not the program here: it
 * waits for the program and for the sidecar, passes signals on, and waits for orphans, as tini does. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "console/command.h"
#include "run.h"

#define SIDECAR_NS (60 * UINT64_C(1000000000)) /* how long the sidecar may deliver after the program's end */

static _Atomic pid_t *sidecar; /* shared by process 1 and the program; NULL: there is no such process 1 */

/* ---- In process 1 ---- */

/* Waits for all that have ended. Stores how `child` ended. Returns whether it has. The terminal's ^Z does not stop a process 1, and
 * nobody would continue the child. So it continues. */
static bool reap(pid_t child, int *status)
{
    bool found = false;
    int one;
    for (pid_t pid; (pid = waitpid(-1, &one, WNOHANG | WUNTRACED | __WALL)) > 0;)
        if (pid == child && !WIFSTOPPED(one)) {
            *status = one;
            found = true;
        } else if (pid == child && WSTOPSIG(one) == SIGTSTP) {
            kill(child, SIGCONT);
            kill(-child, SIGCONT); /* its process group, if it has one of its own */
        }
    return found;
}

/* The signals of a terminal reach the program without us. If it is in our process group, they reach us too. */
static void wait_for_program(pid_t program, const sigset_t *signals, bool has_own_group, int *status)
{
    while (!reap(program, status)) {
        siginfo_t info;
        int signal = sigwaitinfo(signals, &info);
        if (signal > 0 && signal != SIGCHLD && (has_own_group || info.si_code != SI_KERNEL))
            kill(program, signal);
    }
}

/* There may be many signals meanwhile: all that the program leaves end too. */
static void wait_for_sidecar(const sigset_t *signals)
{
    static const struct timespec second = {.tv_sec = 1};
    uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + SIDECAR_NS;
    int status;
    while (!reap(*sidecar, &status) && *sidecar > 0 && kill(*sidecar, 0) == 0 && clock_ns(CLOCK_MONOTONIC) < until_ns)
        sigtimedwait(signals, NULL, &second);
}

static _Noreturn void be_process_1(pid_t program, const sigset_t *signals, bool has_own_group)
{
    int status = 0;
    wait_for_program(program, signals, has_own_group, &status);
    wait_for_sidecar(signals);
    _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

/* ---- In both ---- */

/* Faults stay with the process that has them. */
static sigset_t signals_to_pass(void)
{
    static const int own[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGABRT, SIGTRAP, SIGSYS, SIGTTIN, SIGTTOU};
    sigset_t signals;
    sigfillset(&signals);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&signals, own[i]);
    return signals;
}

/* A terminal belongs to the program. SIGTTOU is blocked for tcsetpgrp(). */
static void take_terminal(const sigset_t *before)
{
    sigset_t output;
    sigemptyset(&output);
    sigaddset(&output, SIGTTOU);
    sigprocmask(SIG_BLOCK, &output, NULL);
    setpgid(0, 0);
    if (tcgetpgrp(STDIN_FILENO) >= 0)
        tcsetpgrp(STDIN_FILENO, getpid());
    sigprocmask(SIG_SETMASK, before, NULL);
}

int run_init_split(bool takes_terminal)
{
    static const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t signals = signals_to_pass(), before;
    struct sigaction of_program;
    void *page = mmap(NULL, sizeof *sidecar, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sigprocmask(SIG_BLOCK, &signals, &before);
    sigaction(SIGCHLD, &standard, &of_program); /* who ignores it is not told how a child ended */
    pid_t program = page == MAP_FAILED ? -1 : fork();
    if (program < 0) {
        cmd_error("cannot start a process: %s", strerror(errno));
        return STATUS_PREPARE;
    }
    sidecar = page;
    if (program > 0)
        be_process_1(program, &signals, takes_terminal);
    sigaction(SIGCHLD, &of_program, NULL);
    if (takes_terminal)
        take_terminal(&before);
    else
        sigprocmask(SIG_SETMASK, &before, NULL);
    return 0;
}

void run_init_tell(pid_t pid)
{
    if (sidecar)
        *sidecar = pid;
}
