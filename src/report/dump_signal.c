/* SPDX-License-Identifier: BSD-2-Clause */
/* The signal that requests a dump. */
#include "report/dump_signal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/dump_on.h"

static int installed; /* 0: none */
static struct sigaction before;

/* Excluded are signals that cannot be caught, signals for errors of the program, and SIGCHLD. 0: excluded. */
static int usable(long number)
{
    static const int never[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGCHLD};
    for (unsigned i = 0; i < sizeof never / sizeof never[0]; i++)
        if (number == never[i])
            return 0;
    return number > 0 && number <= SIGRTMAX && (number < 32 || number >= SIGRTMIN) ? (int)number : 0;
}

static long decimal(const char *text)
{
    char *end;
    long n = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
    return n >= 0 && !*end ? n : -1;
}

int dump_signal_parse(const char *text)
{
    if (decimal(text) >= 0)
        return usable(decimal(text));
    if (!strncmp(text, "SIG", 3))
        text += 3;
    if (!strncmp(text, "RTMIN", 5))
        return usable(!text[5] ? SIGRTMIN
                      : text[5] == '+' && decimal(text + 6) >= 0 ? SIGRTMIN + decimal(text + 6) : 0);
    for (int number = 1; number < SIGRTMIN; number++) {
        const char *name = sigabbrev_np(number);
        if (name && !strcmp(name, text))
            return usable(number);
    }
    return 0;
}

static void handle(int number)
{
    (void)number;
    dump_on_event(DUMP_SIGNAL);
}

int dump_signal_install(const char *text)
{
    int number = dump_signal_parse(text);
    struct sigaction now, ours = {.sa_handler = handle, .sa_flags = SA_RESTART};
    if (!number || sigaction(number, NULL, &now))
        return -EINVAL;
    if (now.sa_flags & SA_SIGINFO || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN))
        return now.sa_handler == handle ? 0 : -EBUSY; /* it is ours in a forked child */
    if (sigaction(number, &ours, &before))
        return -EINVAL;
    installed = number;
    return 0;
}

void dump_signal_remove(void)
{
    struct sigaction now;
    if (installed && !sigaction(installed, NULL, &now) && now.sa_handler == handle)
        sigaction(installed, &before, NULL);
    installed = 0;
}
