/* SPDX-License-Identifier: BSD-2-Clause */
/* The command lines of `jespan run` and `jespan serve`. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "conf/conf.h"
#include "console/command.h"
#include "console/options.h"
#include "run.h"
#include "stacks/stacks.h"

#define MAX_INTERVAL_S (86400ul * 365)
#define MAX_KEEP (1ul << 30)
#define MAX_GUARD_SAMPLE (1ul << 30)
#define MAX_BYTES (UINT64_C(1) << 50)

static int check_number(const char *option, const char *text, unsigned long maximum, const char *of_what)
{
    char *end;
    errno = 0;
    if (!text)
        return 0;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && value <= maximum)
        return 0;
    cmd_error("%s: '%s' is not a whole number%s from 0 to %lu", option, text, of_what, maximum);
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

int run_check_stacks(const char *option, const char *mode)
{
    const char *names;
    if (!mode || stacks_mode_of(mode, &names) >= 0)
        return 0;
    cmd_error("%s: '%s' is none of all, sampled, off, all@NAMES, sampled@NAMES", option, mode);
    return STATUS_USAGE;
}

static int check_interval(const char *option, const char *text)
{
    return check_number(option, text, MAX_INTERVAL_S, " of seconds");
}

static int check_keep(const char *option, const char *text)
{
    return check_number(option, text, MAX_KEEP, "");
}

static int check_guard(const char *option, const char *text)
{
    return check_number(option, text, MAX_GUARD_SAMPLE, "");
}

/* A comma ends a value of JESPAN_CONF. The message leaves the value out: a URL may contain a password. */
static int check_comma(const char *option, const char *value)
{
    if (!value || !strchr(value, ','))
        return 0;
    cmd_error("%s: the value cannot contain a ','", option);
    return STATUS_USAGE;
}

static int check_stacks(const char *option, const char *mode)
{
    int status = check_comma(option, mode);
    return status != 0 ? status : run_check_stacks(option, mode);
}

/* For values that JESPAN_CONF takes as they are. */
static int check_value(const char *option, const char *value)
{
    if (!value)
        return 0;
    if (check_comma(option, value) != 0)
        return STATUS_USAGE;
    if (value[0] == '\0')
        cmd_error("%s: the value is empty", option);
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

static int check_conf(const char *option, const char *text)
{
    (void)option;
    return text ? run_check_conf(text) : 0;
}

/* A sidecar has another standard output. */
static const char *const stdout_paths[] = {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};

/* Whether it can be written is checked later, since it may lie in the directory of the dumps. */
static int check_file(const char *option, const char *path)
{
    int status = check_value(option, path);
    if (status != 0 || !path)
        return status;
    for (size_t i = 0; i < sizeof stdout_paths / sizeof *stdout_paths; i++)
        if (strcmp(path, stdout_paths[i]) == 0) {
            cmd_error("%s: '%s' is not possible, since standard output belongs to PROGRAM", option, path);
            return STATUS_USAGE;
        }
    return cmd_no_stdout(option, path);
}

static int check_directory(const char *option, const char *path)
{
    int status = check_comma(option, path);
    return status != 0 || !path ? status : cmd_no_stdout(option, path);
}

static int check_values(const struct run_options *options)
{
    const struct {
        int (*check)(const char *option, const char *value);
        const char *option, *value;
        int (*more)(const char *option, const char *value); /* where the value is given and right so far; may be NULL */
    } checks[] = {{check_stacks, "--stacks", options->stacks},
                  {check_interval, "--interval", options->interval},
                  {check_guard, "--guard", options->guard},
                  {check_keep, "--keep", options->keep},
                  {check_keep, "--dir-files", options->dir_files},
                  {check_bytes, "--dir-bytes", options->dir_bytes},
                  {check_value, "--pyroscope", options->pyroscope, run_check_url},
                  {check_value, "--otlp", options->otlp, run_check_url},
                  {check_value, "--app", options->app},
                  {check_value, "--http", options->http, run_check_http},
                  {check_conf, "--conf", options->conf},
                  {check_list, "--limit", options->limit, run_check_limits},
                  {check_list, "--arena", options->arena, run_check_arenas},
                  {check_list, "--dump-on", options->dump_on, run_check_events},
                  {check_list, "--alert", options->alert, run_check_alerts},
                  {check_list, "--only", options->only},
                  {check_directory, "--dump-dir", options->dump_dir},
                  {check_file, "--flame", options->flame},
                  {check_file, "--flame-events", options->flame_events},
                  {check_file, "--flame-svg", options->flame_svg},
                  {check_file, "--trace", options->trace}};
    int status = 0;
    for (size_t i = 0; status == 0 && i < sizeof checks / sizeof *checks; i++) {
        status = checks[i].check(checks[i].option, checks[i].value);
        if (status == 0 && checks[i].value && checks[i].more)
            status = checks[i].more(checks[i].option, checks[i].value);
    }
    return status;
}

/* What both commands have. `o` is a struct run_options. */
#define REPORT_OPTIONS(o)                    \
    {"dump-dir", .text = &(o)->dump_dir},    \
    {"interval", .text = &(o)->interval},    \
    {"keep", .text = &(o)->keep},            \
    {"pyroscope", .text = &(o)->pyroscope},  \
    {"otlp", .text = &(o)->otlp},            \
    {"app", .text = &(o)->app},              \
    {"http", .text = &(o)->http},            \
    {"conf", .text = &(o)->conf},            \
    {"lib", .text = &(o)->lib},              \
    {"time", .on = &(o)->time},              \
    {"alert", .text = &(o)->alert},          \
    {"peak", .on = &(o)->peak},              \
    {"dir-files", .text = &(o)->dir_files},  \
    {"dir-bytes", .text = &(o)->dir_bytes},  \
    {"quiet", .on = &(o)->quiet}

static int read_rows(const struct run_options *options, const struct cmd_option *rows, int argc, char **argv)
{
    int status = cmd_options(argc, argv, rows, OPTIONS_FIRST);
    int wrong = status == OPTIONS_READ ? check_values(options) : 0;
    return wrong != 0 ? wrong : status;
}

int run_options_read(struct run_options *options, int argc, char **argv)
{
    const struct cmd_option rows[] = {
        REPORT_OPTIONS(options),
        {"follow-fork", .on = &options->follow_fork},
        {"limit", .text = &options->limit},
        {"arena", .text = &options->arena},
        {"dump-on", .text = &options->dump_on},
        {"only", .text = &options->only},
        {"sidecar", .off = &options->in_process}, /* the default */
        {"in-process", .on = &options->in_process},
        {"stacks", .text = &options->stacks, .unset = "all"},
        {"flame", .text = &options->flame},
        {"flame-events", .text = &options->flame_events},
        {"flame-svg", .text = &options->flame_svg},
        {"trace", .text = &options->trace},
        {"guard", .text = &options->guard, .unset = "5000"},
        {0},
    };
    return read_rows(options, rows, argc, argv);
}

int serve_options_read(struct run_options *options, int argc, char **argv)
{
    const struct cmd_option rows[] = {
        REPORT_OPTIONS(options),
        {"from-run", .on = &options->from_run}, /* not for users: `jespan run` started this process */
        {0},
    };
    return read_rows(options, rows, argc, argv);
}
