/* SPDX-License-Identifier: BSD-2-Clause */
/* One reporter, fed with snapshots by one thread; and how often that failed, over all of them. */
#ifndef JESPAN_FEED_H
#define JESPAN_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "jespan/reporter.h"
#include "snapshot/ledger.h"

/* The pointers are NULL while what they point to is replaced or given up, for a child that is forked meanwhile. */
struct feed {
    struct jespan_reporter reporter;
    char name[32];
    bool failing;
    _Atomic(struct ledger *) ledger;
    _Atomic(struct snapshot *) snapshot;
};

/* Whether this version can deal with a reporter of that size, and it has a name. */
bool feed_knows(const struct jespan_reporter *reporter);

/* Copies the reporter. */
void feed_set(struct feed *f, const struct jespan_reporter *reporter);

/* Makes room for what is to be remembered; feed_close() gives it back, also in a forked child. Returns 0 or -ENOMEM. */
int feed_open(struct feed *f);
void feed_close(struct feed *f);

/* The callbacks. feed_init(): false: it failed, which was said. */
bool feed_init(struct feed *f);
void feed_round(struct feed *f);
void feed_shutdown(struct feed *f);

/* As snapshot_retake(), for those who take many: it waits for others, and then for as long as it took. */
struct snapshot *feed_snapshot(struct snapshot *old);

void feed_count_misses(uint64_t n);
uint64_t feed_misses(void);
uint64_t feed_errors(void);
void feed_after_fork(void); /* counts start anew */

#endif
