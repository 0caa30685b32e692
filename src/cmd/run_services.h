/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan run` with services: --pyroscope, --app and --http. */
#ifndef JESPAN_CMD_RUN_SERVICES_H
#define JESPAN_CMD_RUN_SERVICES_H

#include <stdbool.h>

#include "run_options.h"

/* Whether their values can be what they are to be. Returns 0, or STATUS_USAGE after saying why not. */
int run_services_check(const struct run_options *options);

/* Whether heap dumps are wanted: with services only where an option for dumps is given. */
bool run_services_leave_dumps(const struct run_options *options);

#endif
