/* SPDX-License-Identifier: BSD-2-Clause */
/* The signal that requests a dump (dump_signal). A handler is installed only if the program has none. A handler that
 * the program installs later replaces it, and the signal requests no more dumps. */
#ifndef JESPAN_DUMP_SIGNAL_H
#define JESPAN_DUMP_SIGNAL_H

/* The number of "USR2", "SIGUSR2", "RTMIN+1" or "12". 0: no signal, or one that cannot request dumps. */
int dump_signal_parse(const char *text);

/* Returns 0 or a negative errno. EINVAL: no such signal. EBUSY: the program has a handler. */
int dump_signal_install(const char *text);

/* In a forked child: restores what the signal did before, unless the program changed it. */
void dump_signal_remove(void);

#endif
