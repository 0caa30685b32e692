/* SPDX-License-Identifier: BSD-2-Clause */
/* The signal that asks for a dump (dump_signal). A handler is installed only where the program has none; one that it
 * installs later takes its place, and no dump is asked for any more. */
#ifndef JESPAN_DUMP_SIGNAL_H
#define JESPAN_DUMP_SIGNAL_H

/* The number of "USR2", "SIGUSR2", "RTMIN+1" or "12"; 0: it is none, or none that can ask for dumps. */
int dump_signal_parse(const char *text);

/* Returns 0, or a negative errno: EINVAL, or EBUSY where there is a handler. */
int dump_signal_install(const char *text);

/* In a forked child that does not dump: what it did before is what it does, unless the program changed it. */
void dump_signal_remove(void);

#endif
