/* SPDX-License-Identifier: BSD-2-Clause */
/* One registered reporter, and what it has been told. Also the counts of misses and errors over all reporters. */
#ifndef JESPAN_REPORTER_SESSION_H
#define JESPAN_REPORTER_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "jespan/reporter.h"
#include "snapshot/snapshot.h"

/* The thread of the reporter uses it. The pointers are NULL while it replaces or frees their target, because a child
 * may be forked at that moment. */
struct reporter_session {
    struct jespan_reporter reporter;
    char name[32];
    bool failing; /* the last round failed */
    _Atomic(struct reporter_told *) told;
    _Atomic(struct snapshot *) snapshot;
};

/* Whether this version knows a reporter of that size, and the reporter has a name. */
bool reporter_session_knows(const struct jespan_reporter *reporter);

/* Copies the reporter. */
void reporter_session_set(struct reporter_session *session, const struct jespan_reporter *reporter);

/* Allocates what the session remembers; reporter_session_close() frees it, also in a forked child. Returns 0 or
 * -ENOMEM. */
int reporter_session_open(struct reporter_session *session);
void reporter_session_close(struct reporter_session *session);

/* Call the callbacks. reporter_session_init() returns false if the callback failed, and writes a message. */
bool reporter_session_init(struct reporter_session *session);
void reporter_session_round(struct reporter_session *session);
void reporter_session_shutdown(struct reporter_session *session);

/* Like snapshot_retake(), for callers that take many: it waits for others, and pauses for as long as the snapshot
 * took. */
struct snapshot *reporter_session_snapshot(struct snapshot *old);

void reporter_session_count_misses(uint64_t n);
uint64_t reporter_session_misses(void);
uint64_t reporter_session_errors(void);
void reporter_session_after_fork(void); /* sets the counts to 0 */

/* ---- Telling ---- */

/* Tells one reporter what a snapshot has beyond what it was told before (snapshot_delta.h): contexts that came and
 * went, and figures that changed. Memory is bounded by max_contexts. One thread at a time; no lock is held in a
 * callback. */

/* The figures that a reporter was told so far. */
struct reporter_told;

/* For contexts numbered below `end`. NULL: no memory. */
struct reporter_told *reporter_told_make(uint32_t end);
void reporter_told_free(struct reporter_told *r);

/* Makes all calls of a round except flush(). Snapshots come in the order in which they were taken. Returns 0, or
 * -ENOMEM where labels had to be left out. */
int reporter_tell(struct reporter_told *r, const struct snapshot *s, const struct jespan_reporter *to);

#endif
