/* SPDX-License-Identifier: BSD-2-Clause */
/* Composes JESPAN_CONF and LD_PRELOAD. */
#include "run_environment.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../conf.h"
#include "cmd.h"
#include "run_services.h"

/* A configuration value ends at the next comma. */
int run_environment_check_value(const char *path)
{
    if (strchr(path, ',') != NULL)
        cmd_error("%s: JESPAN_CONF cannot name a path with a ','", path);
    else if (strlen(path) >= CONF_STRING_BYTES)
        cmd_error("%s: JESPAN_CONF cannot name a path this long", path);
    else
        return 0;
    return STATUS_PREPARE;
}

static void add(FILE *to, const char *key, const char *value)
{
    if (value != NULL && value[0] != '\0')
        fprintf(to, "%s%s%s", ftell(to) > 0 ? "," : "", key, value);
}

/* Of a key that comes several times the last one counts: what is set here, then the environment, then options, then
 * --conf. */
static char *compose_conf(const struct run_options *options, const char *dump_dir, const struct run_library *library)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (to == NULL)
        return NULL;
    if (run_services_leave_dumps(options))
        add(to, "", "dump_interval_s:10,dump_at_exit:true");
    add(to, "module_dir:", library->modules);
    add(to, "", getenv("JESPAN_CONF"));
    add(to, "dump_dir:", dump_dir);
    add(to, "dump_interval_s:", options->interval);
    add(to, "dump_keep:", options->keep);
    add(to, "dump_time:", options->time ? "true" : NULL);
    add(to, "follow_fork:", options->follow_fork ? "true" : NULL);
    add(to, "dump_on:", options->dump_on);
    add(to, "limit:", options->limit);
    add(to, "arena:", options->arena);
    add(to, "pyroscope_url:", options->pyroscope);
    add(to, "pyroscope_app:", options->app);
    add(to, "http_listen:", options->http);
    add(to, "", options->conf);
    return fclose(to) == 0 ? text : NULL;
}

static bool is_ours(const char *variable)
{
    return strncmp(variable, "JESPAN_CONF=", 12) == 0 || strncmp(variable, "LD_PRELOAD=", 11) == 0;
}

int run_environment_make(struct run_environment *environment, const struct run_options *options, const char *dump_dir,
                         const struct run_library *library)
{
    const char *text = compose_conf(options, dump_dir, library);
    const char *preload = getenv("LD_PRELOAD");
    bool more = preload != NULL && preload[0] != '\0';
    size_t n = 0;
    while (environ[n] != NULL)
        n++;
    environment->all = calloc(n + 3, sizeof *environment->all);
    if (environment->all == NULL || text == NULL || asprintf(&environment->conf, "JESPAN_CONF=%s", text) < 0
        || asprintf(&environment->preload, "LD_PRELOAD=%s%s%s", library->path, more ? ":" : "", more ? preload : "")
            < 0) {
        cmd_error("out of memory");
        return STATUS_PREPARE;
    }
    char **to = environment->all;
    *to++ = environment->conf;
    *to++ = environment->preload;
    for (char **from = environ; *from != NULL; from++)
        if (!is_ours(*from))
            *to++ = *from;
    return 0;
}
