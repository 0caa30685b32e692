/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that writes dumps at intervals, or only one at the end of the process. */
#ifndef JESPAN_DUMP_TIMER_H
#define JESPAN_DUMP_TIMER_H

#include <stdbool.h>
#include <stdint.h>

/* The thread is wanted if dumps at intervals are configured. For dumps at exit alone it starts at exit. */
void dump_timer_boot(void);
bool dump_timer_wants_thread(void);
void dump_timer_start_thread(void);

/* At exit, before destructors of static objects and handlers of atexit(): writes the last dump if it is configured for
 * that moment. Waits for it until a time on the monotonic clock. */
void dump_timer_dump_before_destructors(uint64_t until_ns);

/* At the end of exit: lets the thread write the last dump if it is configured, and end; then waits for it. */
void dump_timer_ask_to_stop(void);
void dump_timer_wait(uint64_t until_ns);

/* In a forked child, where the thread does not run: boots anew if conf.follow_fork. */
void dump_timer_after_fork(void);

#endif
