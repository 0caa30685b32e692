/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports of what happened to a guarded object: lines on stderr. Nothing here takes a lock or allocates, so a signal handler
 * may report. */
#ifndef JESPAN_GUARD_REPORT_H
#define JESPAN_GUARD_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "guard/guard.h"

/* The program touched memory that it must not: `address`, by the instruction at `pc`. `frames` are the return addresses
 * of the calls that led there. */
struct guard_access {
    uintptr_t address, pc;
    bool is_write;
    const uintptr_t *frames;
    uint32_t n;
};
void guard_report_access(const struct guard_access *access);

/* End the program with a report. `p` is in the region and no live object: it was freed before, or it is inside one. */
_Noreturn void guard_die_of_free(const void *p);

/* Something wrote to `at`, beside the object. */
_Noreturn void guard_die_of_damage(const struct guard_slot *slot, const char *at);

/* ---- The handler of SIGSEGV ---- */

/* It is installed with the first guarded object. For each fault it calls the handler that it replaced, or has the
 * default action end the process, as if it were not there; if the fault is in guarded memory, it first writes one
 * report.
 *
 * A program may install a handler later. With the next guarded object, jespan replaces that one too, by another handler
 * of its own, so each of the program's handlers is called for what it was installed for. sigaction(2) then tells the
 * program a handler of jespan's. The program may install that handler again. */

/* Installs the handler unless it is there. Async-signal-safe. */
void guard_fault_watch(void);

#endif
