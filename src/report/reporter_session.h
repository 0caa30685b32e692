/* SPDX-License-Identifier: BSD-2-Clause */
/* One reporter, fed with snapshots by one thread; and how often that failed, over all of them. */
#ifndef JESPAN_FEED_H
#define JESPAN_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "jespan/reporter.h"
#include "report/reporter_tell.h"

/* The pointers are NULL while what they point to is replaced or given up, for a child that is forked meanwhile. */
struct reporter_session {
    struct jespan_reporter reporter;
    char name[32];
    bool failing;
    _Atomic(struct reporter_told *) told;
    _Atomic(struct snapshot *) snapshot;
};

/* Whether this version can deal with a reporter of that size, and it has a name. */
bool reporter_session_knows(const struct jespan_reporter *reporter);

/* Copies the reporter. */
void reporter_session_set(struct reporter_session *f, const struct jespan_reporter *reporter);

/* Makes room for what is to be remembered; reporter_session_close() gives it back, also in a forked child. Returns 0 or -ENOMEM. */
int reporter_session_open(struct reporter_session *f);
void reporter_session_close(struct reporter_session *f);

/* The callbacks. reporter_session_init(): false: it failed, which was said. */
bool reporter_session_init(struct reporter_session *f);
void reporter_session_round(struct reporter_session *f);
void reporter_session_shutdown(struct reporter_session *f);

/* As snapshot_retake(), for those who take many: it waits for others, and then for as long as it took. */
struct snapshot *reporter_session_snapshot(struct snapshot *old);

void reporter_session_count_misses(uint64_t n);
uint64_t reporter_session_misses(void);
uint64_t reporter_session_errors(void);
void reporter_session_after_fork(void); /* counts start anew */

#endif
