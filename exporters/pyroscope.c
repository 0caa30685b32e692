/* SPDX-License-Identifier: BSD-2-Clause */
/* The service `pyroscope`. */
#include <errno.h>

#include "service.h"

SERVICE_DEFINE(pyroscope);

static int run(const struct service_host *host)
{
    (void)host;
    return -ENOSYS;
}

const struct service jespan_service_pyroscope = {.abi = SERVICE_ABI, .name = "pyroscope", .run = run};
