/* SPDX-License-Identifier: BSD-2-Clause */
/* The head of a profile: the types of values, the program, the times, a comment. */
#ifndef JESPAN_PPROF_HEAD_H
#define JESPAN_PPROF_HEAD_H

#include <sys/types.h>

#include "pprof.h"
#include "pprof_strings.h"
#include "snapshot/program.h"
#include "snapshot/snapshot.h"

/* Reads the main program of a process from /proc. Unknown parts stay empty. A pid of 0 is the calling process.
 * dl_iterate_phdr() is not used: the dynamic loader may hold its lock. */
void pprof_head_identify(struct program *program, pid_t pid);

/* Reads the build id of an ELF file, as struct program has it. Nothing is written if it has none. */
void pprof_head_build_id(char *build_id, int fd);

/* The string table refers to these texts while it is in use. */
struct pprof_head {
    struct program program; /* of this process. Unused if the snapshot has one */
    char comment[128];
};

/* Writes sample types, period, mapping, times and the comment. `head` must live as long as `strings`. */
void pprof_head_write(struct pprof_head *head, struct pprof_strings *strings, const struct pprof_kind *kind,
                      const struct snapshot *snapshot);


/* The program that was written. */
const struct program *pprof_head_program(const struct pprof_head *head, const struct snapshot *snapshot);

#endif
