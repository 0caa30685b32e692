/* SPDX-License-Identifier: BSD-2-Clause */
/* What the user says on the command line of `jespan run`. */
#ifndef JESPAN_CMD_RUN_OPTIONS_H
#define JESPAN_CMD_RUN_OPTIONS_H

#include <stdbool.h>

struct run_options {
    const char *dump_dir, *interval, *keep, *conf, *lib; /* NULL = not given */
    const char *pyroscope, *app, *http;
    const char *limit, *arena, *dump_on, *only;
    const char *dir_files, *dir_bytes;
    bool follow_fork, time;
};

#endif
