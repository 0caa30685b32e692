/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots of other processes. Several threads share one snapshot while they need it, and its memory is used again
 * afterwards. All functions are for any thread.
 */
#ifndef JESPAN_READINGS_H
#define JESPAN_READINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "report/exporter.h"
#include "report/service.h"
#include "snapshot/snapshot.h"

struct readings;

/* Opens the books of a process (view_open()), for one owner. `name` is the program's. Returns 0 or a negative errno of
 * view.h. */
int readings_open(struct readings **r, pid_t pid, const char *name, const struct exporter *exporter);

/* Each owner releases what it holds. The last one frees it, when all snapshots were given back. */
void readings_hold(struct readings *r);
void readings_release(struct readings *r);

/* The process's readings are listed from now on, as the first or the last, or no longer. The next two functions find only
 * those that are listed. */
void readings_list(struct readings *r, bool as_first);
void readings_unlist(struct readings *r);

/* The readings of a process, to be released. pid 0: the first. NULL: there are none. */
struct readings *readings_find(pid_t pid);

/* Writes all that are listed, at most `room`. Returns how many there are. */
size_t readings_all(struct service_process *all, size_t room);

/* Gives the new events of the process to the sink: event_reader.h. For one thread. Returns 0 or a negative errno. */
int readings_events(struct readings *r, struct event_sink *sink);

/* The figures of all rules of `alert` for the process. */
struct alert_figures *readings_alerts(struct readings *r);

/* A name of mallctl as of the last reading: snapshot/names_outside.h. Returns 0 or a negative errno. */
struct mailbox_answer;
int readings_get(struct readings *r, const char *name, struct mailbox_answer *answer);

pid_t readings_pid(const struct readings *r);

/* Reads the process. Once the process has ended or executed another program, it returns the last reading, to be given
 * back. NULL: there is none. */
struct snapshot *readings_next(struct readings *r);

/* The last reading, to be given back. NULL: there is none. *began_ns: when it began, on the monotonic clock, so that no
 * figure is older. */
struct snapshot *readings_last(struct readings *r, uint64_t *began_ns);

/* A reading of a forked child as it was at the fork, to be given back: what its parent reports. NULL: it cannot be read. */
struct snapshot *readings_base(struct readings *r);

/* Another user of a snapshot in use, who gives it back too. */
void readings_share(struct snapshot *s);

/* Accepts NULL. */
void readings_give_back(struct snapshot *s);

/* 0, or why the last attempt to read failed: a negative errno of view.h. */
int readings_error(struct readings *r);

#endif
