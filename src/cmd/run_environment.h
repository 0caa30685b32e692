/* SPDX-License-Identifier: BSD-2-Clause */
/* The environment in which `jespan run` starts the program. */
#ifndef JESPAN_CMD_RUN_ENVIRONMENT_H
#define JESPAN_CMD_RUN_ENVIRONMENT_H

#include "run_library.h"
#include "run_options.h"

/* The environment of the program: ours, with two variables before it. They come first because jespan may have to look
 * for them before libc is ready, when it can see only the beginning. */
struct run_environment {
    char *preload, *conf;
    char **all;
};

/* Whether a path can stand in JESPAN_CONF. Returns 0, or STATUS_PREPARE after saying why not. */
int run_environment_check_value(const char *path);

/* Makes the environment. `dump_dir` may be "". Returns 0, or STATUS_PREPARE after saying why. What it allocates is
 * never freed: the process is about to become the program. */
int run_environment_make(struct run_environment *environment, const struct run_options *options, const char *dump_dir,
                         const struct run_library *library);

#endif
