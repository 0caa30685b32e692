/* SPDX-License-Identifier: BSD-2-Clause */
/* One process that the sidecar serves: its readings, its dumps, its end. One thread uses these functions. */
#ifndef JESPAN_SERVED_H
#define JESPAN_SERVED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "report/dump_series.h"
#include "sidecar/ending.h"
#include "sidecar/modules.h"
#include "sidecar/page.h"
#include "sidecar/readings.h"

/* The process, and the program that it executes now. */
struct served {
    struct served *next;
    pid_t pid;
    int pidfd;
    bool is_first; /* the program that was started, or that the user named */
    bool needs_slot; /* it is reported for while it has a slot */
    struct ending_watch watch;
    struct sidecar_slot *slot; /* NULL: none yet */
    struct dump_series series;
    char name[SERVICE_NAME_BYTES];
    /* The program. All zero until its books are found. */
    struct readings *readings; /* NULL: not found */
    struct modules *modules;
    uint64_t began_ns, next_read_ns, pause_ns, next_dump_ns, next_children_ns;
    struct line_holder peak, last;
    uint64_t most_resident_bytes; /* of all readings */
    struct watched *watched; /* NULL: nothing is watched for */
    struct event_dumps *event_dumps; /* NULL: no events are watched for */
    bool is_malloc_known;  /* whether its malloc is ours was looked at */
    bool was_read;         /* once at least; it may have had nothing in use */
    bool has_said_goodbye; /* nothing more is to be done before it ends */
    bool was_read_last;    /* when it said so: its last dump is written */
    bool is_left;          /* the sidecar ends before it */
    bool pushes;           /* to Pyroscope or a collector */
};

/* The dumps of all processes together. */
struct served_dumps {
    uint64_t n, processes;
    char last[4096]; /* the path of the last dump, of the process that had most of those with dumps; "": none */
    pid_t last_pid;
    uint64_t last_peak_bytes; /* what this process had in use at its peak */
};
extern struct served_dumps served_dumps;

/* A process that may have ended. */
struct served_one {
    pid_t pid; /* 0: there is none */
    char name[SERVICE_NAME_BYTES];
    struct line_holder peak;
};
extern struct served_one served_largest; /* the one that had most in use at its peak */
extern struct served_one served_other_malloc; /* the first one whose malloc is not ours */

/* Writes the next numbered dump of the process. The snapshot is shown with the note. Returns whether there is one. */
bool served_write_dump(struct served *p, const struct snapshot *s, enum dump_reason reason, const char *note);

/* Notes what is to be said of a new reading at the end, its alerts, and whether it is the peak. */
void served_note_figures(struct served *p, struct snapshot *s);

/* Loads the exporter, and reads what to watch for. */
void served_boot(void);

/* `pidfd` is the process's now. NULL: no memory. */
struct served *served_new(pid_t pid, int pidfd, bool is_first, bool needs_slot);

/* Frees a process that has ended or is left. */
void served_free(struct served *p);

/* Looks for the program's books. Returns 0 or a negative errno of view.h. */
int served_find(struct served *p);

/* Does everything that is due or that the process asks for. */
void served_tend(struct served *p);

/* When served_tend() is due. */
uint64_t served_next_ns(const struct served *p);

/* Writes the last dump, and has services deliver. `e` is NULL where the process has not ended. */
void served_end(struct served *p, const struct ending *e);

/* The sidecar ends, and the process goes on: it is read once more, if it can be. A program that began lately may not have been read
 * before. */
void served_leave(struct served *p);

#endif
