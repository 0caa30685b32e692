/* SPDX-License-Identifier: BSD-2-Clause */
/* Prepares the directory for dumps, and composes JESPAN_CONF and LD_PRELOAD. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "conf/conf.h"
#include "console/command.h"
#include "run.h"

#define MIN_LIFE_MS 1000
#define MAX_NAME 200 /* of a program, in the name of a directory */

/* A value of the configuration ends at the next comma. */
static int check_path(const char *path)
{
    if (strchr(path, ','))
        cmd_error("%s: JESPAN_CONF cannot name a path with a ','", path);
    else if (strlen(path) >= CONF_STRING_BYTES)
        cmd_error("%s: JESPAN_CONF cannot name a path this long", path);
    else
        return 0;
    return STATUS_PREPARE;
}

/* --- The directory for dumps -------------------------------------------------------------------------------------------- */

static bool wants_files(const struct run_options *options)
{
    return options->flame || options->flame_events || options->flame_svg || options->trace;
}

bool run_wants_dumps(const struct run_options *options)
{
    bool asked_for = options->dump_dir || options->interval || options->keep || options->time
        || options->peak || options->dump_on || options->dir_files || options->dir_bytes;
    return asked_for || (!options->pyroscope && !options->otlp && !options->http && !wants_files(options));
}

/* Returns true if a configuration says where dumps go. */
static bool names_dump_dir(const char *text)
{
    return text && (strncmp(text, "dump_dir:", 9) == 0 || strstr(text, ",dump_dir:"));
}

static pid_t made_by; /* a child of `jespan check` leaves them */
static char made[PATH_MAX];  /* the directory that this run has created, as it was named */
static size_t made_from_bytes; /* of the first one above it that is new; 0: none is */

static int create_directory(const char *path)
{
    if (mkdir(path, 0777) != 0)
        return errno;
    if (made_from_bytes == 0)
        made_from_bytes = strlen(path);
    return 0;
}

/* Creates a directory and those above it. Returns 0 or a positive errno. */
static int create_directories(const char *directory)
{
    made_from_bytes = 0;
    made_by = getpid();
    if ((size_t)snprintf(made, sizeof made, "%s", directory) >= sizeof made)
        return ENAMETOOLONG;
    for (char *slash = strchr(made + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        create_directory(made); /* if it fails, so does the last one */
        *slash = '/';
    }
    int error = create_directory(made);
    return error == EEXIST ? 0 : error;
}

void run_dump_dir_undo(void)
{
    while (made_by == getpid() && made_from_bytes > 0 && strlen(made) >= made_from_bytes) {
        char *slash = strrchr(made, '/');
        rmdir(made);
        if (!slash)
            break;
        *slash = '\0';
    }
    made_from_bytes = 0;
}

/* Creates the directory. Sets `path` to the absolute path, since the program may change its directory. Returns 0 or a
 * positive errno. */
static int make_dump_dir(char *path, const char *wanted)
{
    struct stat status;
    int error = wanted[0] == '\0' ? ENOENT : create_directories(wanted);
    if (error == 0 && (!realpath(wanted, path) || stat(path, &status) != 0))
        error = errno;
    return error != 0 ? error : !S_ISDIR(status.st_mode) ? ENOTDIR : access(path, W_OK | X_OK) != 0 ? errno : 0;
}

/* The name of a program may be as long as that of a directory, and have a comma, which JESPAN_CONF cannot name. */
const char *run_dump_dir_name(char directory[PATH_MAX], const char *program, pid_t pid)
{
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    size_t n = strnlen(name, MAX_NAME);
    while (n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80) /* no part of a character of UTF-8 */
        n--;
    snprintf(directory, PATH_MAX, "jespan.%.*s.%d", (int)n, name, (int)pid);
    for (char *at = directory; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 127 || *at == ',')
            *at = '_';
    return directory;
}

static int prepare_dump_dir(char *path, const char *wanted)
{
    int unusable = check_path(wanted); /* before a directory is created */
    if (unusable != 0)
        return unusable;
    int error = make_dump_dir(path, wanted);
    if (error == 0)
        return check_path(path);
    cmd_error("cannot write dumps to '%s': %s", wanted, strerror(error));
    return STATUS_PREPARE;
}

/* Returns true if only root can write there. */
static bool is_for_root_alone(const char *path)
{
    char above[PATH_MAX];
    struct stat status;
    if (stat(path, &status) == 0 && status.st_uid == 0 && (status.st_mode & S_IWOTH) == 0
        && (status.st_gid == 0 || (status.st_mode & S_IWGRP) == 0))
        return true;
    strcpy(above, path);
    for (char *slash; (slash = strrchr(above, '/')) && slash != above;) {
        *slash = '\0';
        if (stat(above, &status) == 0 && status.st_uid == 0 && status.st_gid == 0 && (status.st_mode & S_IXOTH) == 0)
            return true;
    }
    return false;
}

void run_dump_dir_check_workers(const char *dump_dir, const struct run_options *options)
{
    if (options->follow_fork && dump_dir[0] != '\0' && geteuid() == 0 && is_for_root_alone(dump_dir))
        cmd_warning("only root can write to '%s': processes that run as another user, such as a server's workers, write no dumps "
                    "there; give the directory to their user, or name another with --dump-dir",
                    dump_dir);
}

/* The name of the program or of the current directory may be one that the configuration cannot have. */
static const char *why_unusable(char *path, const char *wanted)
{
    int error = make_dump_dir(path, wanted);
    if (error != 0)
        return strerror(error);
    if (!strchr(path, ',') && strlen(path) < CONF_STRING_BYTES)
        return NULL;
    rmdir(path);
    return strchr(path, ',') ? "JESPAN_CONF cannot name a path with a ','" : "JESPAN_CONF cannot name a path this long";
}

int run_dump_dir_choose(char *dump_dir, const struct run_options *options, const char *by_default, bool needs_one)
{
    dump_dir[0] = '\0';
    if (options->dump_dir)
        return prepare_dump_dir(dump_dir, options->dump_dir);
    if (names_dump_dir(getenv("JESPAN_CONF")) || names_dump_dir(options->conf))
        return 0;
    const char *reason = why_unusable(dump_dir, by_default);
    if (!reason)
        return 0;
    dump_dir[0] = '\0';
    if (needs_one) {
        cmd_error("'%s' cannot be created: %s; name a directory with --dump-dir", by_default, reason);
        return STATUS_PREPARE;
    }
    cmd_warning("no dumps will be written: '%s' cannot be created: %s; name a directory with --dump-dir", by_default, reason);
    return 0;
}

/* --- The variables ------------------------------------------------------------------------------------------------------ */

static void add(FILE *to, const char *key, const char *value)
{
    if (value && value[0] != '\0')
        fprintf(to, "%s%s%s", ftell(to) > 0 ? "," : "", key, value);
}

/* Returns true if the user wants a dump of every program that exits. A `jespan run` that started this one adds
 * dump_at_exit_pid where the user does not. */
static bool asks_for_exits(const char *text)
{
    return text && strstr(text, "dump_at_exit:") && !strstr(text, "dump_at_exit_pid:");
}

static bool wants_all_exits(const struct run_options *options)
{
    return (options->interval && strtoul(options->interval, NULL, 10) == 0) || asks_for_exits(getenv("JESPAN_CONF"))
        || asks_for_exits(options->conf);
}

/* 0 adds nothing. */
static void add_number(FILE *to, const char *key, uint64_t value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    add(to, key, value == 0 ? NULL : digits);
}

static void add_bytes(FILE *to, const char *key, const char *text)
{
    uint64_t bytes;
    char digits[32];
    if (!text || bytes_parse(text, &bytes) != 0)
        return;
    snprintf(digits, sizeof digits, "%" PRIu64, bytes);
    add(to, key, digits);
}

/* ---- What a `jespan run` that started this one set for itself ---- */

/* Returns false if the key is not set. */
static bool inherits(char value[CONF_STRING_BYTES], const char *key)
{
    const char *outer = getenv("JESPAN_CONF");
    value[0] = '\0';
    if (outer && strstr(outer, ",sidecar:")) /* each run sets it */
        run_conf_value(value, CONF_STRING_BYTES, outer, key);
    return value[0] != '\0';
}

/* Two runs cannot write one file, so this one writes FILE.PID, as other programs of the first run do. Returns whether it
 * inherits a file. */
static bool add_inherited_files(FILE *to, pid_t pid)
{
    static const char *const keys[] = {"flame_file", "events_file", "flame_svg_file", "trace_file"};
    char value[CONF_STRING_BYTES];
    bool any = false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (inherits(value, keys[i])) {
            fprintf(to, ",%s:%s.%d", keys[i], value, (int)pid);
            any = true;
        }
    return any;
}

/* Two runs cannot listen at one address, so this one listens at a free port, or at PATH.PID. */
static void add_inherited_address(FILE *to, pid_t pid)
{
    char value[CONF_STRING_BYTES];
    const char *port = inherits(value, "http_listen") ? strrchr(value, ':') : NULL;
    if (port && strncmp(value, "unix:", 5) == 0)
        fprintf(to, ",http_listen:%s.%d", value, (int)pid);
    else if (port)
        fprintf(to, ",http_listen:%.*s:0", (int)(port - value), value);
}

/* The last value of a key counts: first those of this function, then the environment's, those of options, and --conf. A
 * program that PROGRAM executes writes a dump at exit only if it ran for a while. PROGRAM has the number `pid`. */
static char *compose_conf(const struct run_options *options, const char *dump_dir, const struct run_library *library, pid_t pid)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return NULL;
    bool wants_exit = run_wants_dumps(options), waits = wants_exit && !wants_all_exits(options);
    add(to, "", wants_exit ? "dump_interval_s:10,dump_at_exit:true" : NULL);
    add_number(to, "dump_at_exit_min_ms:", waits ? MIN_LIFE_MS : 0);
    add(to, "module_dir:", library->modules);
    add(to, "", getenv("JESPAN_CONF"));
    add_inherited_address(to, pid);
    bool has_files = add_inherited_files(to, pid) || wants_files(options);
    add_number(to, "dump_at_exit_pid:", waits || has_files ? (uint64_t)pid : 0);
    add(to, "dump_dir:", dump_dir);
    add(to, "dump_interval_s:", options->interval);
    add(to, "dump_keep:", options->keep);
    add(to, "dump_dir_files:", options->dir_files);
    add_bytes(to, "dump_dir_bytes:", options->dir_bytes);
    add(to, "dump_time:", options->time ? "true" : NULL);
    add(to, "stacks:", options->stacks);
    add(to, "flame_file:", options->flame);
    add(to, "events_file:", options->flame_events);
    add(to, "flame_svg_file:", options->flame_svg);
    add(to, "trace_file:", options->trace);
    add(to, "guard_sample:", options->guard);
    add(to, "follow_fork:", options->follow_fork ? "true" : NULL);
    add(to, "dump_on:", options->dump_on);
    add(to, "alert:", options->alert);
    add(to, "dump_peak:", options->peak ? "true" : NULL);
    add(to, "only_programs:", options->only);
    add(to, "limit:", options->limit);
    add(to, "arena:", options->arena);
    add(to, "pyroscope_url:", options->pyroscope);
    add(to, "otlp_url:", options->otlp);
    add(to, "pyroscope_app:", options->app);
    add(to, "http_listen:", options->http);
    add(to, "", options->conf);
    return fclose(to) == 0 ? text : NULL;
}

static bool is_ours(const char *variable)
{
    return strncmp(variable, "JESPAN_CONF=", 12) == 0 || strncmp(variable, "LD_PRELOAD=", 11) == 0;
}

/* The libraries that are preloaded after ours. A `jespan run` that started this one may have preloaded ours. */
static const char *others_preloaded(const char *library)
{
    const char *preload = getenv("LD_PRELOAD");
    size_t n = strlen(library);
    if (!preload || strncmp(preload, library, n) != 0 || (preload[n] != '\0' && preload[n] != ':'))
        return !preload ? "" : preload;
    return preload[n] == ':' ? preload + n + 1 : "";
}

void run_conf_value(char *value, size_t bytes, const char *text, const char *key)
{
    size_t n = strlen(key);
    value[0] = '\0';
    for (; *text; text += strcspn(text, ","), text += *text == ',') {
        size_t n_value = strncmp(text, key, n) == 0 && text[n] == ':' ? strcspn(text + n + 1, ",") : bytes;
        if (n_value < bytes)
            *(char *)mempcpy(value, text + n + 1, n_value) = '\0';
    }
}

/* The program runs, since it may make the directory. The first dump makes those that are named by default. */
static void check_dump_dir(const char *text)
{
    char directory[CONF_STRING_BYTES];
    struct stat status;
    run_conf_value(directory, sizeof directory, text, "dump_dir");
    const char *slash = strrchr(directory, '/');
    if (directory[0] == '\0' || strncmp(slash ? slash + 1 : directory, "jespan.", 7) == 0)
        return;
    int error = stat(directory, &status) != 0 ? errno
              : !S_ISDIR(status.st_mode)      ? ENOTDIR
              : access(directory, W_OK | X_OK) != 0 ? errno
                                              : 0;
    if (error != 0)
        cmd_warning("dump_dir: '%s' cannot be written to: %s; dumps will fail", directory, strerror(error));
}

int run_conf_make(char **text, const struct run_options *options, const char *dump_dir, const struct run_library *library, pid_t pid)
{
    int status = check_path(library->modules);
    if (status != 0)
        return status;
    *text = compose_conf(options, dump_dir, library, pid);
    if (*text) {
        check_dump_dir(*text);
        return 0;
    }
    cmd_error("out of memory");
    return STATUS_PREPARE;
}

int run_environment_make(struct run_environment *environment, const char *text, const struct run_library *library, bool preloads)
{
    const char *others = others_preloaded(library->path);
    size_t n = 0;
    while (environ[n])
        n++;
    environment->all = calloc(n + 3, sizeof *environment->all);
    if (!environment->all || asprintf(&environment->conf, "JESPAN_CONF=%s", text) < 0
        || asprintf(&environment->preload, "LD_PRELOAD=%s%s%s", preloads ? library->path : "",
                    !preloads || others[0] == '\0' ? "" : ":", others) < 0) {
        cmd_error("out of memory");
        return STATUS_PREPARE;
    }
    char **to = environment->all;
    *to++ = environment->conf;
    *to++ = environment->preload;
    for (char **from = environ; *from; from++)
        if (!is_ours(*from))
            *to++ = *from;
    return 0;
}
