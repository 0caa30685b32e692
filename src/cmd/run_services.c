/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of `jespan run` for services, and others whose value is one of the configuration as it stands. */
#include "run_services.h"

#include <stddef.h>
#include <string.h>

#include "cmd.h"
#include "conf/conf.h"

/* The value is not shown: a URL may have a password in it. */
static int check_value(const char *option, const char *value)
{
    if (value == NULL)
        return 0;
    if (value[0] == '\0')
        cmd_error("%s: the value is empty", option);
    else if (strchr(value, ',') != NULL)
        cmd_error("%s: the value cannot contain a ','", option);
    else if (strlen(value) >= CONF_STRING_BYTES)
        cmd_error("%s: the value is longer than %d bytes", option, CONF_STRING_BYTES - 1);
    else
        return 0;
    return STATUS_USAGE;
}

static int check_url(const char *option, const char *url)
{
    int status = check_value(option, url);
    if (status != 0 || url == NULL)
        return status;
    size_t scheme = strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;
    if (scheme > 0 && url[scheme] != '\0')
        return 0;
    cmd_error("%s: the URL is not http://… or https://…", option);
    return STATUS_USAGE;
}

int run_services_check(const struct run_options *options)
{
    const struct {
        const char *option, *value;
    } plain[] = {{"--app", options->app},
                 {"--http", options->http},
                 {"--limit", options->limit},
                 {"--arena", options->arena},
                 {"--dump-on", options->dump_on},
                 {"--only", options->only}};
    int status = check_url("--pyroscope", options->pyroscope);
    for (size_t i = 0; status == 0 && i < sizeof plain / sizeof *plain; i++)
        status = check_value(plain[i].option, plain[i].value);
    return status;
}

bool run_services_leave_dumps(const struct run_options *options)
{
    bool asked_for = options->dump_dir != NULL || options->interval != NULL || options->keep != NULL || options->time
        || options->dump_on != NULL || options->dir_files != NULL || options->dir_bytes != NULL;
    return asked_for || (options->pyroscope == NULL && options->http == NULL);
}
