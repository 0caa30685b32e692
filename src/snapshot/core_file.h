/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of a process that dumped core: ELF files of type ET_CORE, as core(5) and the ELF specification describe
 * them, with the notes NT_FILE, NT_PRSTATUS and NT_PRPSINFO. Only 64-bit ones of this machine's byte order.
 *
 * A core lacks pages that the process had unchanged from files, such as names of spans. These are read from the files, if
 * they still begin as they did in the process. A core may be damaged or hostile: each number in it has bounds.
 *
 * A state file (base/state_file.h) is such a core too. It may belong to a process that lives, and change while it is read.
 */
#ifndef JESPAN_CORE_FILE_H
#define JESPAN_CORE_FILE_H

#include "snapshot/snapshot.h"
#include "snapshot/space.h"

struct core_file;

/* Whether the descriptor's file begins as a core. Does not move the descriptor. */
bool core_file_is(int fd);

/* Returns 0 or a negative errno:
 *   ENOEXEC   it is no core of a 64-bit process
 *   ENODATA   it is cut off: it is shorter than it says
 *   EBADMSG   it is damaged
 *   ENOMEM, and those of open(2) and mmap(2) */
int core_file_open(struct core_file **core, const char *path);
void core_file_close(struct core_file *core); /* accepts NULL */

/* As space_copy(). */
int core_file_copy(struct core_file *core, const struct piece *pieces, size_t n);

/* The mapped files, as lines of /proc/PID/maps, with a newline after each. */
const char *core_file_maps(const struct core_file *core);

const struct program *core_file_program(const struct core_file *core);
pid_t core_file_pid(const struct core_file *core);
uint64_t core_file_unix_ns(const struct core_file *core); /* when it was written */
bool core_file_is_incomplete(const struct core_file *core); /* a state file without room for all */

/* A reader asked for memory that the core does not have, since it was mapped from a file that is no program and no library. Of what
 * jespan keeps, that is the state file. */
bool core_file_lacks_state(const struct core_file *core);

#endif
