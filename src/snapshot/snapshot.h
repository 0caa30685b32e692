/* SPDX-License-Identifier: BSD-2-Clause */
/* A snapshot: the sum of all threads' counters and a copy of the context tree. It never changes.
 *
 * The frees of a context are read before its allocations, so no figure of bytes in use is ever negative. Figures are
 * exact when no thread allocates meanwhile. No lock is held while they are read. The snapshot lies in memory of its
 * own, never in the program's heap. It holds copies of all strings that may go, so contexts may be recycled while it is
 * being read.
 */
#ifndef JESPAN_SNAPSHOT_H
#define JESPAN_SNAPSHOT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/totals.h"
#include "stacks/stacks.h"

/* ---- The main program of a process: its file, and where its code lies in memory ---- */

#define PROGRAM_BUILD_ID_BYTES 64 /* the longest that is kept. Usual ones have 20 */

struct program {
    uint64_t start, limit, offset; /* 0: unknown */
    char file[PATH_MAX];           /* "(unknown)" without /proc */
    char build_id[2 * PROGRAM_BUILD_ID_BYTES + 1]; /* hexadecimal. "": none */
    char name[32]; /* of the process, as ps(1) shows it; "": unknown. The file may have another one, if it was a link */
};

/* ---- Snapshots ---- */

struct snapshot_label {
    const char *key, *value; /* the value of an integer is its decimal text */
    int64_t integer;
    bool is_integer;
};

/* The most that was in use (span/peaks.h): at least what is in use in this snapshot. In usable bytes. */
struct snapshot_peaks {
    uint64_t own_bytes;     /* of the context alone */
    uint64_t total_bytes;   /* with all contexts below it */
    uint64_t at_peak_bytes; /* what the context alone had when the process had most */
};

struct snapshot_row {
    uint32_t id;         /* the context's number, as in spans.<id>.* */
    uint32_t generation; /* how many contexts had the id before; id and generation name one context for ever */
    uint32_t parent_row; /* index into rows; the root's is its own */
    enum context_kind kind;
    uint32_t line;
    uint32_t first_stack; /* the index + 1 of its first stack; 0: none. Here, so that no padding lies between */
    const char *name, *target, *file; /* never NULL; "" where unknown */
    const struct snapshot_label *labels; /* this context's own, not its ancestors' */
    uint32_t n_labels;
    uint32_t open_spans;  /* its spans that are open, or entered on a thread, now */
    struct totals totals; /* this context alone, without its descendants */
    /* The time that its spans were open, which is its inclusive wall time. totals.wall is that less the wall time of
     * contexts below, at least 0. If the context is no span: its own busy time and its children's wall time. */
    uint64_t wall_ns;
    /* When the last of its spans closed, in ticks of the clock; 0: none did. The end of a JESPAN() block is known to the time
     * between two snapshots. */
    uint64_t closed_time;
    struct snapshot_peaks peaks; /* of the root, `total_bytes` is the process's peak */
};

/* Memory that a context allocated within one period (age_period_s). It is part of the row's figures. */
struct snapshot_age {
    uint32_t row;
    bool open;            /* a span that was opened then is still open */
    uint64_t oldest_ns;   /* how long ago the period began: its objects are at most that old */
    struct totals totals;
};

/* Memory that a context allocated from one stack of calls (stacks/stacks.h). It is part of the row's figures. Other memory of
 * the row was allocated without a stack, or from a stack that was recycled. */
struct snapshot_stack {
    uint32_t row;
    uint32_t next;  /* the next stack of that row: its index + 1; 0: none */
    uint32_t frame; /* its innermost frame in the snapshot's frames; never 0 */
    uint32_t age;   /* used while the snapshot is built */
    bool sampled;   /* the figures are estimates from samples. Their sum is never more than what the row has */
    uint64_t oldest_ns; /* as in snapshot_age: of the period in which it allocated. 0: ages are not known. A stack that allocated in several
                         * periods is there for each */
    struct totals totals; /* of memory; no times */
    uint64_t peak_bytes, at_peak_bytes; /* as in snapshot_peaks. They are part of what the row has */
};

struct snapshot {
    uint64_t epoch;           /* counts snapshots of this process, from 1 */
    uint64_t start_unix_ns;   /* when tracking began, by the clock as it is set now */
    uint64_t time_unix_ns;    /* when this was taken */
    uint64_t resident_bytes;  /* its RSS. Of this process, the writer of a dump sets it. 0: unknown */
    uint32_t n_rows;          /* row 0 is the root. For their order by id: snapshot_next() */
    uint32_t pid;
    uint32_t n_ages;
    bool from_outside;   /* another process took it: view.h */
    bool labels_of_path; /* a row's labels are those of its whole path; only in snapshots that exporters/digest.h makes */
    const struct snapshot_row *rows;
    const struct place *places; /* by id, below places_end, where rows are in no order. NULL: they are ordered by id */
    uint32_t places_end;
    const struct snapshot_age *ages; /* in no order */
    const struct snapshot_stack *stacks;
    uint32_t n_stacks;
    uint32_t n_frames;               /* one more than the highest number of a frame; 0: no stack was ever taken */
    const struct stack_frame *frames; /* by number. They never change; later snapshots may have more */
    const struct code *codes;        /* what their addresses stood for, where that may have changed since: stacks/codes.h */
    uint32_t n_codes;
    uint64_t stacks_ended_early;     /* stacks that end before the outermost frame */
    uint64_t stacks_cut, stacks_overflow; /* stacks_stats */
    struct totals retired; /* contexts that were recycled; in use is 0 */
    struct snapshot_peaks retired_peaks; /* the highest of any of them; `at_peak_bytes` of all together */
    struct totals all;     /* rows and retired */
    uint64_t pending_bytes; /* freed by the program, and not yet given back to jemalloc */
    uint64_t ticks, scale;  /* of clock.h, for snapshot_closed_ns(): when this was taken; 0 where times are not tracked */
    const struct program *program; /* NULL: that of the calling process */
    const char *code_maps;         /* its mapped files, as lines of /proc/PID/maps; NULL: to be read there */
    const char *note;              /* for readers of a dump. NULL: none */
};

/* Takes a snapshot of this process, to be freed with snapshot_free(). Returns NULL when memory for it cannot be mapped.
 * Any thread, not from a signal handler. Threads that open spans do not wait for it. */
struct snapshot *snapshot_take(void);

/* The same, and frees `old` (or NULL), whose memory it uses if possible. When NULL is returned, `old` may be changed, and is to be
 * freed or taken again. */
struct snapshot *snapshot_retake(struct snapshot *old);
void snapshot_free(struct snapshot *s);

/* The figures of a row and all rows below it together; wall is the row's wall_ns. */
struct totals snapshot_inclusive(const struct snapshot *s, uint32_t row);

/* The same of all rows at once: sums[i] is that of row i. The time depends on the number of rows, not on its square. False: there
 * is no memory for it. */
bool snapshot_inclusive_all(const struct snapshot *s, struct totals *sums);

/* Raises the idle time in those figures to what was shown before, if it is less. */
void snapshot_keep_idle(const struct snapshot_row *row, struct totals *inclusive);

/* Gives the new events of this process to the sink: event_reader.h. Returns 0 or a negative errno. */
struct event_reader;
struct event_sink;
int snapshot_read_events(struct event_reader *r, struct event_sink *sink);

/* In a forked child: keeps its figures for readers of the books, so that what it does before it is read first can be told from what its
 * parent did. Not with stacks, and not of very many contexts. `wanted` is false where nobody needs them. */
void snapshot_note_fork(bool wanted);

/* Once, when tracking begins. */
void snapshot_start_clock(void);

/* Makes the state file readable, if there is one. To be called once, after snapshot_start_clock(). */
void snapshot_publish_state(void);
extern uint64_t snapshot_start_ns; /* by CLOCK_BOOTTIME, which nobody sets and which goes on while the machine sleeps */

/* The most bytes that the process had in use at once. */
static inline uint64_t snapshot_peak_bytes(const struct snapshot *s)
{
    return s->n_rows ? s->rows[0].peaks.total_bytes : 0;
}

/* All ids are less. */
static inline uint32_t snapshot_ids_end(const struct snapshot *s)
{
    return s->places ? s->places_end : s->n_rows ? s->rows[s->n_rows - 1].id + 1 : 0;
}

/* How long ago the last of a row's spans closed, at least 1 ns; 0: none did. */
uint64_t snapshot_closed_ns(const struct snapshot *s, const struct snapshot_row *row);

/* The row of a context, or NULL. */
const struct snapshot_row *snapshot_find(const struct snapshot *s, uint32_t id);

/* The row after `row` in the order of ids; for NULL, the root's. NULL: there is none. */
const struct snapshot_row *snapshot_next(const struct snapshot *s, const struct snapshot_row *row);

#endif
