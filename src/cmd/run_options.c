/* SPDX-License-Identifier: BSD-2-Clause */
/* The command lines of `jespan run` and `jespan serve`. */
#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cmd.h"
#include "conf/conf.h"
#include "run.h"

#define MAX_INTERVAL_S (86400ul * 365)
#define MAX_KEEP (1ul << 30)
#define MAX_GUARD_SAMPLE (1ul << 30)
#define MAX_BYTES (UINT64_C(1) << 50)

static int check_number(const char *option, const char *text, unsigned long maximum)
{
    char *end;
    errno = 0;
    if (!text)
        return 0;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && value <= maximum)
        return 0;
    cmd_error("%s: '%s' is not a number from 0 to %lu", option, text, maximum);
    return STATUS_USAGE;
}

static int check_bytes(const char *option, const char *text)
{
    uint64_t bytes;
    if (!text || (bytes_parse(text, &bytes) == 0 && bytes <= MAX_BYTES))
        return 0;
    cmd_error("%s: '%s' is not a number of bytes from 0 to 1024T, such as 500M", option, text);
    return STATUS_USAGE;
}

static int check_stacks(const char *mode)
{
    if (!mode || strcmp(mode, "all") == 0 || strcmp(mode, "sampled") == 0 || strcmp(mode, "off") == 0)
        return 0;
    cmd_error("--stacks: '%s' is none of all, sampled, off", mode);
    return STATUS_USAGE;
}

/* For values that JESPAN_CONF takes as they are. The message leaves the value out: a URL may contain a password. */
static int check_value(const char *option, const char *value)
{
    if (!value)
        return 0;
    if (value[0] == '\0')
        cmd_error("%s: the value is empty", option);
    else if (strchr(value, ','))
        cmd_error("%s: the value cannot contain a ','", option);
    else if (strlen(value) >= CONF_STRING_BYTES)
        cmd_error("%s: the value is longer than %d bytes", option, CONF_STRING_BYTES - 1);
    else
        return 0;
    return STATUS_USAGE;
}

/* For lists. Empty items of a list do not count. */
static int check_list(const char *option, const char *list)
{
    int status = check_value(option, list);
    if (status != 0 || !list || list[strspn(list, "|")] != '\0')
        return status;
    cmd_error("%s: the list '%s' has no items", option, list);
    return STATUS_USAGE;
}

static int check_url(const char *option, const char *url)
{
    int status = check_value(option, url);
    if (status != 0 || !url)
        return status;
    size_t scheme = strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;
    if (scheme > 0 && url[scheme] != '\0')
        return 0;
    cmd_error("%s: the URL is not http://… or https://…", option);
    return STATUS_USAGE;
}

static int check_values(const struct run_options *options)
{
    const struct {
        int (*check)(const char *option, const char *value);
        const char *option, *value;
    } checks[] = {{check_url, "--pyroscope", options->pyroscope},
                  {check_value, "--app", options->app},
                  {check_value, "--http", options->http},
                  {check_list, "--limit", options->limit},
                  {check_list, "--arena", options->arena},
                  {check_list, "--dump-on", options->dump_on},
                  {check_list, "--alert", options->alert},
                  {check_list, "--only", options->only},
                  {check_value, "--flame", options->flame},
                  {check_value, "--flame-events", options->flame_events},
                  {check_value, "--trace", options->trace}};
    int status = 0;
    for (size_t i = 0; status == 0 && i < sizeof checks / sizeof *checks; i++)
        status = checks[i].check(checks[i].option, checks[i].value);
    return status;
}

enum {
    OPTION_DUMP_DIR = 1,
    OPTION_INTERVAL,
    OPTION_KEEP,
    OPTION_PYROSCOPE,
    OPTION_APP,
    OPTION_HTTP,
    OPTION_CONF,
    OPTION_LIB,
    OPTION_TIME,
    OPTION_FOLLOW_FORK,
    OPTION_LIMIT,
    OPTION_ARENA,
    OPTION_DUMP_ON,
    OPTION_ONLY,
    OPTION_DIR_FILES,
    OPTION_DIR_BYTES,
    OPTION_SIDECAR,
    OPTION_IN_PROCESS,
    OPTION_STACKS,
    OPTION_FLAME,
    OPTION_FLAME_EVENTS,
    OPTION_TRACE,
    OPTION_GUARD,
    OPTION_ALERT,
    OPTION_PEAK,
    OPTION_QUIET,
    OPTION_FROM_RUN,
    OPTION_HELP = 'h',
};

#define REPORT_OPTIONS                                   \
    {"dump-dir", required_argument, NULL, OPTION_DUMP_DIR},   \
    {"interval", required_argument, NULL, OPTION_INTERVAL},   \
    {"keep", required_argument, NULL, OPTION_KEEP},           \
    {"pyroscope", required_argument, NULL, OPTION_PYROSCOPE}, \
    {"app", required_argument, NULL, OPTION_APP},             \
    {"http", required_argument, NULL, OPTION_HTTP},           \
    {"conf", required_argument, NULL, OPTION_CONF},           \
    {"lib", required_argument, NULL, OPTION_LIB},             \
    {"time", no_argument, NULL, OPTION_TIME},                 \
    {"alert", required_argument, NULL, OPTION_ALERT},         \
    {"peak", no_argument, NULL, OPTION_PEAK},                 \
    {"dir-files", required_argument, NULL, OPTION_DIR_FILES}, \
    {"dir-bytes", required_argument, NULL, OPTION_DIR_BYTES}, \
    {"quiet", no_argument, NULL, OPTION_QUIET},               \
    {"help", no_argument, NULL, OPTION_HELP}

const struct option run_option_table[] = {
    REPORT_OPTIONS,
    {"follow-fork", no_argument, NULL, OPTION_FOLLOW_FORK},
    {"limit", required_argument, NULL, OPTION_LIMIT},
    {"arena", required_argument, NULL, OPTION_ARENA},
    {"dump-on", required_argument, NULL, OPTION_DUMP_ON},
    {"only", required_argument, NULL, OPTION_ONLY},
    {"sidecar", no_argument, NULL, OPTION_SIDECAR}, /* the default */
    {"in-process", no_argument, NULL, OPTION_IN_PROCESS},
    {"stacks", optional_argument, NULL, OPTION_STACKS},
    {"flame", required_argument, NULL, OPTION_FLAME},
    {"flame-events", required_argument, NULL, OPTION_FLAME_EVENTS},
    {"trace", required_argument, NULL, OPTION_TRACE},
    {"guard", optional_argument, NULL, OPTION_GUARD},
    {NULL, 0, NULL, 0},
};

const struct option serve_option_table[] = {
    REPORT_OPTIONS,
    {"from-run", no_argument, NULL, OPTION_FROM_RUN}, /* not for users: `jespan run` started this process */
    {NULL, 0, NULL, 0},
};

/* Stops at the first word that is not an option: the rest is the program's. */
int run_options_read(struct run_options *options, const struct option *table, int argc, char **argv)
{
    const char **const values[] = {[OPTION_DUMP_DIR] = &options->dump_dir, [OPTION_INTERVAL] = &options->interval,
                                   [OPTION_KEEP] = &options->keep, [OPTION_PYROSCOPE] = &options->pyroscope,
                                   [OPTION_APP] = &options->app, [OPTION_HTTP] = &options->http,
                                   [OPTION_CONF] = &options->conf, [OPTION_LIB] = &options->lib,
                                   [OPTION_LIMIT] = &options->limit, [OPTION_ARENA] = &options->arena,
                                   [OPTION_DUMP_ON] = &options->dump_on, [OPTION_ONLY] = &options->only,
                                   [OPTION_DIR_FILES] = &options->dir_files,
                                   [OPTION_DIR_BYTES] = &options->dir_bytes, [OPTION_FLAME] = &options->flame,
                                   [OPTION_FLAME_EVENTS] = &options->flame_events, [OPTION_TRACE] = &options->trace,
                                   [OPTION_ALERT] = &options->alert};
    for (int option; (option = getopt_long(argc, argv, "+h", table, NULL)) != -1;) {
        if (option == '?')
            return STATUS_USAGE;
        if (option == OPTION_HELP)
            options->help = true;
        else if (option == OPTION_TIME)
            options->time = true;
        else if (option == OPTION_PEAK)
            options->peak = true;
        else if (option == OPTION_FOLLOW_FORK)
            options->follow_fork = true;
        else if (option == OPTION_IN_PROCESS || option == OPTION_SIDECAR)
            options->in_process = option == OPTION_IN_PROCESS;
        else if (option == OPTION_STACKS)
            options->stacks = optarg ? optarg : "all";
        else if (option == OPTION_GUARD)
            options->guard = optarg ? optarg : "5000";
        else if (option == OPTION_QUIET)
            options->quiet = true;
        else if (option == OPTION_FROM_RUN)
            options->from_run = true;
        else
            *values[option] = optarg;
    }
    int status = check_stacks(options->stacks);
    if (status == 0)
        status = check_number("--interval", options->interval, MAX_INTERVAL_S);
    if (status == 0)
        status = check_number("--guard", options->guard, MAX_GUARD_SAMPLE);
    if (status == 0)
        status = check_number("--keep", options->keep, MAX_KEEP);
    if (status == 0)
        status = check_number("--dir-files", options->dir_files, MAX_KEEP);
    if (status == 0)
        status = check_bytes("--dir-bytes", options->dir_bytes);
    return status != 0 ? status : check_values(options);
}
