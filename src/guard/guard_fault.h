/* SPDX-License-Identifier: BSD-2-Clause */
/* The handler of SIGSEGV, which reports accesses to guarded memory.
 *
 * It is installed with the first guarded object. For each fault it calls the handler that it replaced, or has the default
 * action end the process, as if it were not there; if the fault is in guarded memory, it first writes one report.
 *
 * A program may install a handler later. With the next guarded object, jespan replaces that one too, by another handler of
 * its own, so each of the program's handlers is called for what it was installed for. What sigaction(2) tells the program
 * is a handler of jespan's, and to install that one again is right. */
#ifndef JESPAN_GUARD_FAULT_H
#define JESPAN_GUARD_FAULT_H

/* Installs the handler unless it is there. Async-signal-safe. */
void guard_fault_watch(void);

#endif
