/* SPDX-License-Identifier: BSD-2-Clause */
/* Signals that ask jespan for something. */
#include "report/signals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

int signals_parse(const char *text)
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

int signals_install(struct own_signal *own, const char *text)
{
    int number = signals_parse(text);
    struct sigaction now, ours = {.sa_handler = own->handle, .sa_flags = SA_RESTART};
    if (!number || sigaction(number, NULL, &now))
        return -EINVAL;
    if (now.sa_flags & SA_SIGINFO || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN))
        return now.sa_handler == own->handle ? 0 : -EBUSY; /* it is ours in a forked child */
    if (sigaction(number, &ours, &own->before))
        return -EINVAL;
    own->installed = number;
    return 0;
}

void signals_remove(struct own_signal *own)
{
    struct sigaction now;
    if (own->installed && !sigaction(own->installed, NULL, &now) && now.sa_handler == own->handle)
        sigaction(own->installed, &own->before, NULL);
    own->installed = 0;
}
