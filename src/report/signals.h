/* SPDX-License-Identifier: BSD-2-Clause */
/* Signals that ask jespan for something (dump_signal, stacks_signal). A handler is installed only if the program has none. A handler
 * that the program installs later replaces it, and the signal asks for nothing any more. */
#ifndef JESPAN_SIGNALS_H
#define JESPAN_SIGNALS_H

#include <signal.h>

struct own_signal {
    void (*handle)(int number); /* async-signal-safe, and leaves errno alone */
    int installed;              /* 0: none */
    struct sigaction before;
};

/* The number of "USR2", "SIGUSR2", "RTMIN+1" or "12". 0: no signal, or one that cannot ask for anything. */
int signals_parse(const char *text);

/* Returns 0 or a negative errno. EINVAL: no such signal. EBUSY: there is a handler. */
int signals_install(struct own_signal *own, const char *text);

/* Restores what the signal did before, unless the program changed it. */
void signals_remove(struct own_signal *own);

#endif
