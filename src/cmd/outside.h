/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps of a process, made from outside: the process is read, and not asked. */
#ifndef JESPAN_CMD_OUTSIDE_H
#define JESPAN_CMD_OUTSIDE_H

#include <sys/types.h>

#include "report/exporter.h"

/* The number of a process; 0: the word is none. */
pid_t outside_pid(const char *word);

/* Writes a dump of the process to the descriptor. Returns NULL, or the reason in words why there is none. */
const char *outside_dump(pid_t pid, enum exporter_profile profile, int fd);

#endif
