/* SPDX-License-Identifier: BSD-2-Clause */
/* The service `http`. */
#include <errno.h>

#include "service.h"

SERVICE_DEFINE(http);

static int run(const struct service_host *host)
{
    (void)host;
    return -ENOSYS;
}

const struct service jespan_service_http = {.abi = SERVICE_ABI, .name = "http", .run = run};
