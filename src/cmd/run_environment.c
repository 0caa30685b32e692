/* SPDX-License-Identifier: BSD-2-Clause */
/* Composes JESPAN_CONF and LD_PRELOAD. */
#include "run_environment.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "cmd.h"
#include "conf/conf.h"
#include "run_services.h"

#define MIN_LIFE_MS 1000

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

/* A dump at exit that nobody asked for in particular is left out for programs that PROGRAM executes and that end at once;
 * PROGRAM has this process's id. */
static void add_exit(FILE *to, const struct run_options *options)
{
    const char *variable = getenv("JESPAN_CONF");
    bool is_asked_for = (options->interval != NULL && strtoul(options->interval, NULL, 10) == 0)
        || (variable != NULL && strstr(variable, "dump_at_exit:") != NULL)
        || (options->conf != NULL && strstr(options->conf, "dump_at_exit:") != NULL);
    add(to, "", "dump_interval_s:10,dump_at_exit:true");
    if (!is_asked_for)
        fprintf(to, ",dump_at_exit_min_ms:%d,dump_at_exit_pid:%d", MIN_LIFE_MS, (int)getpid());
}

static void add_bytes(FILE *to, const char *key, const char *text)
{
    uint64_t bytes;
    char digits[32];
    if (text == NULL || bytes_parse(text, &bytes) != 0)
        return;
    snprintf(digits, sizeof digits, "%" PRIu64, bytes);
    add(to, key, digits);
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
        add_exit(to, options);
    add(to, "module_dir:", library->modules);
    add(to, "", getenv("JESPAN_CONF"));
    add(to, "dump_dir:", dump_dir);
    add(to, "dump_interval_s:", options->interval);
    add(to, "dump_keep:", options->keep);
    add(to, "dump_dir_files:", options->dir_files);
    add_bytes(to, "dump_dir_bytes:", options->dir_bytes);
    add(to, "dump_time:", options->time ? "true" : NULL);
    add(to, "follow_fork:", options->follow_fork ? "true" : NULL);
    add(to, "dump_on:", options->dump_on);
    add(to, "only_programs:", options->only);
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
