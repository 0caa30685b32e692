/* SPDX-License-Identifier: BSD-2-Clause */
/* The directory for the dumps of `jespan run`. */
#ifndef JESPAN_CMD_RUN_DUMP_DIR_H
#define JESPAN_CMD_RUN_DUMP_DIR_H

#include "run_options.h"

/* Sets `dump_dir` (PATH_MAX bytes) to an absolute path that exists and can be written to; to "" where the user's
 * configuration names one, which is then left to the library. Returns 0, or STATUS_PREPARE after saying why. */
int run_dump_dir_choose(char *dump_dir, const struct run_options *options);

/* Warns where forked processes are to write dumps and only root can: a server's workers run as another user. */
void run_dump_dir_check_workers(const char *dump_dir, const struct run_options *options);

#endif
