/* SPDX-License-Identifier: BSD-2-Clause */
/* The signal that switches stacks on and off (stacks_signal). It needs no thread: the program's next allocation does it (mailbox.h). */
#ifndef JESPAN_STACKS_SIGNAL_H
#define JESPAN_STACKS_SIGNAL_H

/* When libc works: writes configuration errors to stderr, and installs the handler. A forked child has it too. */
void stacks_signal_boot(void);

#endif
