/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration at start: where it is read from, and what is done with it. */
#include "conf/conf.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/descriptor.h"
#include "base/die.h"
#include "base/meta.h"
#include "base/parse.h"
#include "conf/conf_values.h"

struct conf conf;
bool conf_follow_fork_chosen, conf_is_silent, conf_errors_are_named;

/* A program may define it. It is weak, so a static program without it can be linked. */
EXPORT extern const char *jespan_conf __attribute__((weak));

/* ---- The environment ---- */

#define ENVIRON_BYTES ((size_t)4 * 1024 * 1024) /* more than the kernel lets a program start with by default */

/* Reads the environment from /proc, for an allocation that comes before libc has set environ. The result is a sequence
 * of strings. The mapping stays, since variables that were found are in it. */
static COLD const char *early_environment(const char **end)
{
    char *text = meta_map(ENVIRON_BYTES), *to = text;
    int fd = text ? descriptor_open("/proc/self/environ", O_RDONLY, 0) : -1;
    ssize_t n = 1;
    while (fd >= 0 && n > 0 && (size_t)(to - text) < ENVIRON_BYTES - 1) {
        n = read(fd, to, ENVIRON_BYTES - 1 - (size_t)(to - text));
        to += n > 0 ? n : 0;
    }
    if (fd >= 0)
        close(fd);
    *end = to;
    return text;
}

/* As getenv(), at any time. */
static const char *variable(const char *name)
{
    static const char *early, *end;
    size_t n = strlen(name);
    if (environ)
        return getenv(name);
    if (!early)
        early = early_environment(&end);
    for (const char *p = early; p && p < end; p += strlen(p) + 1)
        if (!strncmp(p, name, n) && p[n] == '=')
            return p + n + 1;
    return NULL;
}

static void print_conf(void)
{
    char number[NUMBER_BYTES];
    for (const struct conf_key *key = conf_keys; key->name; key++)
        WARN(key->name, ":", conf_value_text(key, number));
}

/* Lists are used later, or never, but their errors are named at the start. The text may be a secret and is not
 * shown. */
static void check_pairs(const char *name, const char *list, const char *consequence)
{
    char number[NUMBER_BYTES];
    struct list_item item;
    for (uint64_t i = 1; list_next(&list, &item); i++)
        if (!list_name_bytes(&item) || strcspn(item.text, " \t") < list_name_bytes(&item))
            CONF_WARN(name, ": item ", number_text(number, i, 10), " is not NAME=VALUE", consequence);
}

/* A program may change its directory later. `max_bytes` is the room for the path with its NUL. */
static void make_absolute(char *relative, size_t max_bytes)
{
    char path[2 * CONF_STRING_BYTES];
    if (!relative[0] || relative[0] == '/' || !getcwd(path, CONF_STRING_BYTES))
        return;
    strcat(path, "/");
    strcat(path, relative);
    if (strlen(path) < max_bytes)
        strcpy(relative, path);
}

static void make_paths_absolute(void)
{
    make_absolute(conf.dump_dir, CONF_STRING_BYTES);
    make_absolute(conf.events_file, CONF_STRING_BYTES);
    make_absolute(conf.trace_file, CONF_STRING_BYTES);
    make_absolute(conf.flame_file, CONF_STRING_BYTES);
    make_absolute(conf.flame_svg_file, CONF_STRING_BYTES);
    make_absolute(conf.state_file, CONF_STRING_BYTES);
    if (!strncmp(conf.http_listen, "unix:", 5))
        make_absolute(conf.http_listen + 5, sizeof ((struct sockaddr_un *)0)->sun_path);
}

/* ---- only_programs ---- */

/* The name of the program's file, and the name it was executed by, which may be that of a script or a link. */
struct program {
    char path[CONF_STRING_BYTES];
    const char *file;
    char command[16];
};

static void find_program(struct program *p)
{
    ssize_t n = readlink("/proc/self/exe", p->path, sizeof p->path - 1);
    p->path[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(p->path, '/');
    p->file = slash ? slash + 1 : p->path;
    if (prctl(PR_GET_NAME, p->command))
        p->command[0] = '\0';
}

/* Whether one of the patterns fits. Changes the text of the list. */
static bool fits_one(char *patterns, const struct program *p)
{
    for (const char *pattern; (pattern = list_take(&patterns));)
        if (strchr(pattern, '/') ? pattern_fits(pattern, p->path)
                                 : pattern_fits(pattern, p->file) || pattern_fits(pattern, p->command))
            return true;
    return false;
}

static bool is_left_out(void)
{
    struct program p;
    struct list_item first;
    char patterns[CONF_STRING_BYTES];
    if (!list_next(&(const char *){conf.only_programs}, &first))
        return false;
    find_program(&p);
    return !fits_one(strcpy(patterns, conf.only_programs), &p);
}

static void silence_events(void)
{
    conf.events_file[0] = conf.trace_file[0] = conf.flame_file[0] = conf.flame_svg_file[0] = '\0';
}

/* Makes the process write no file and send nothing. */
static void be_silent(void)
{
    conf_is_silent = true;
    conf.dump_dir[0] = conf.dump_on[0] = conf.reporters[0] = conf.pyroscope_url[0] = conf.otlp_url[0] = conf.http_listen[0] = '\0';
    silence_events();
    conf.alert[0] = '\0';
    conf.state_file[0] = '\0';
    conf.otel_context = false;
    if (conf.on_limit == ON_LIMIT_DUMP)
        conf.on_limit = ON_LIMIT_FAIL;
}

void conf_leave_to_sidecar(void)
{
    conf.pyroscope_url[0] = conf.otlp_url[0] = conf.http_listen[0] = '\0';
    silence_events(); /* of the rules of alert, the callback may be told */
    if (!conf.dump_on[0] && conf.on_limit != ON_LIMIT_DUMP)
        conf.dump_dir[0] = '\0';
}

enum reader { PROGRAM, SIDECAR_OF_RUN, SIDECAR_OF_SERVE };

/* Whether the sidecar of `jespan run` names the errors in this text: `run` writes its sidecar at the end. */
static bool has_sidecar_of_run(const char *text)
{
    const char *last = text ? strrchr(text, ',') : NULL;
    return last && strncmp(last, ",sidecar:", 9) == 0 && last[9];
}

/* A wrong key is named once for all programs of a `jespan run`, by its sidecar. Other variables and jespan_conf may
 * differ from program to program, so each program names their errors. */
static COLD void read_all(enum reader reader)
{
    bool has_own = &jespan_conf && jespan_conf;
    for (const struct conf_key *key = conf_keys; key->name; key++)
        conf_value_set(key, key->default_text);
    if (has_own)
        conf_parse(jespan_conf, "jespan_conf");
    if (!getauxval(AT_SECURE)) {
        conf_errors_are_named = reader == SIDECAR_OF_RUN;
        conf_variables_read(variable);
        const char *text = variable("JESPAN_CONF");
        conf_errors_are_named = reader == PROGRAM && has_sidecar_of_run(text);
        if (text)
            conf_parse(text, "JESPAN_CONF");
    }
    make_paths_absolute();
    conf_errors_are_named &= !has_own;
    check_pairs("pyroscope_labels", conf.pyroscope_labels, " and is ignored");
    check_pairs("resource_attributes", conf.resource_attributes, " and is ignored");
    check_pairs("pyroscope_headers", conf.pyroscope_headers, "; nothing can be pushed with it");
    check_pairs("otlp_headers", conf.otlp_headers, "; nothing can be pushed with it");
}

COLD void conf_boot(void)
{
    read_all(PROGRAM);
    if (getauxval(AT_SECURE) || is_left_out()) /* a setuid program is silent, whatever jespan_conf says */
        be_silent();
    if (conf.confirm_conf)
        print_conf();
}

void conf_boot_sidecar(bool of_run)
{
    read_all(of_run ? SIDECAR_OF_RUN : SIDECAR_OF_SERVE);
    conf.sidecar[0] = '\0';
}
