/* SPDX-License-Identifier: BSD-2-Clause */
/* The numbered dumps of one process, and the writing of dump files. */
#include "report/dump_series.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/die.h"
#include "conf/conf.h"
#include "report/dump_dir.h"
#include "report/dump_file.h"

#define MAX_CLASHES 100
#define MAX_REMOVALS 4 /* of the directory, during one dump */

/* ---- One file ---- */

struct file_sink {
    struct exporter_sink sink;
    struct dump_file *file;
};

static int write_all(struct exporter_sink *sink, const void *data, size_t bytes)
{
    return dump_file_write(((struct file_sink *)sink)->file, data, bytes);
}

static int encode_to(struct dump_file *file, const struct dump_source *source, enum exporter_profile profile)
{
    struct file_sink to = {{write_all, source->memory}, file};
    return source->exporter->encode(source->snapshot, profile, &to.sink);
}

typedef int name_function(const struct dump_file *file, const char *path);

/* In an emergency the file gets its name before it is synced: the process may be killed during the sync. */
static int finish_file(const struct dump_file *file, int error, const char *path, name_function *name, bool urgent)
{
    if (!error && urgent)
        error = name(file, path);
    if (!error && fsync(file->fd))
        error = -errno;
    if (close(file->fd) && !error)
        error = -errno;
    if (!error && !urgent)
        error = name(file, path);
    if (error)
        unlink(file->temporary);
    return error ? error : dump_file_sync_directory(path);
}

static int write_file(const char *path, const struct dump_source *source, enum exporter_profile profile, name_function *name)
{
    static struct dump_file file;
    int error = source->error ? source->error : dump_file_begin(&file, path);
    return error ? error : finish_file(&file, encode_to(&file, source, profile), path, name, source->urgent);
}

static int write_stream(const char *path, const struct dump_source *source, enum exporter_profile profile)
{
    static struct dump_file file;
    int error = source->error ? source->error : dump_file_begin_stream(&file, path);
    if (error)
        return error;
    error = encode_to(&file, source, profile);
    return close(file.fd) && !error ? -errno : error;
}

static int count(struct dump_series *series, int error)
{
    atomic_fetch_add_explicit(error ? &series->lost : &series->written, 1, memory_order_relaxed);
    return error;
}

int dump_series_write_path(struct dump_series *series, const struct dump_source *source, enum exporter_profile profile,
                           const char *to)
{
    static char path[DUMP_PATH_BYTES];
    int place = source->error ? source->error : dump_file_look(path, to);
    if (place < 0)
        return count(series, place);
    return count(series, place == DUMP_PLACE_STREAM ? write_stream(path, source, profile)
                                                    : write_file(path, source, profile, dump_file_replace));
}

/* ---- Names ---- */

static bool is_wanted(enum exporter_profile profile)
{
    return profile == EXPORTER_HEAP || conf.dump_time;
}

static uint64_t pid_of(const struct dump_series *series)
{
    return series->pid ? series->pid : (uint64_t)getpid();
}

void dump_series_begin(struct dump_series *series)
{
    if (series->is_known)
        return;
    series->life = dump_dir_new_life(conf.dump_dir, pid_of(series));
    series->is_known = true;
}

static struct dump_name name_of(const struct dump_series *series, enum exporter_profile profile, uint64_t number,
                                enum dump_reason reason)
{
    return (struct dump_name){.profile = profile, .pid = pid_of(series), .life = series->life, .number = number,
                              .reason = reason, .suffix = series->suffix ? series->suffix : ""};
}

static void path_of(char *path, size_t bytes, const struct dump_name *name)
{
    char text[DUMP_NAME_BYTES];
    dump_name_make(text, sizeof text, name);
    snprintf(path, bytes, "%s/%s", conf.dump_dir, text);
}

void dump_series_last_path(const struct dump_series *series, enum dump_reason reason, char *path, size_t bytes)
{
    struct dump_name name = name_of(series, EXPORTER_HEAP, series->last, reason);
    path_of(path, bytes, &name);
}

/* Whether something has this name, in any format. */
static bool is_taken(struct dump_name name)
{
    static char path[DUMP_PATH_BYTES];
    struct stat at;
    for (const char *const *suffix = dump_name_suffixes(); *suffix; suffix++) {
        name.suffix = *suffix;
        path_of(path, sizeof path, &name);
        if (lstat(path, &at) == 0)
            return true;
    }
    return false;
}

/* Whether no file or directory has that number, with any profile and reason. */
static bool is_free(const struct dump_series *series, uint64_t number)
{
    for (enum exporter_profile profile = 0; profile < EXPORTER_N_PROFILES; profile++)
        for (enum dump_reason reason = 0; reason <= DUMP_N_REASONS; reason++)
            if (is_taken(name_of(series, profile, number, reason)))
                return false;
    return true;
}

/* An earlier process with this pid may have left files, or a process with this pid in another namespace may write
 * there. So the first dump determines the life. In an emergency, the life that the rehearsal found is used if dump 1
 * is free. */
static uint64_t choose_number(struct dump_series *series, bool urgent)
{
    if (!series->last && (!urgent || !is_free(series, 1)))
        series->is_known = false;
    dump_series_begin(series);
    uint64_t number = series->last + 1;
    while (!is_free(series, number))
        number++;
    return number;
}

/* ---- Numbered dumps ---- */

/* Servers change their user after the start. That user may not be able to write to the directory. */
static void say_failure(const struct dump_series *series, const char *profile, const char *path, int error)
{
    char user[NUMBER_BYTES];
    bool denied = error == -EACCES;
    bool missing = error == -ENOPKG;
    if (!series->failing)
        WARN(profile, " dump ", path, " failed: ", missing ? "there is no exporter " : errno_text(-error),
             missing ? conf.dump_format : "", denied ? "; this process runs as user " : "",
             denied ? number_text(user, geteuid(), 10) : "", denied ? ", who must be able to write to the directory" : "",
             "; further failures are only counted");
}

/* The directory may have been removed since the process began, or just now. */
static int write_file_and_directory(const char *path, const struct dump_source *source, enum exporter_profile profile)
{
    int error = write_file(path, source, profile, dump_file_name);
    for (int i = 0; error == -ENOENT && i < MAX_REMOVALS && dump_dir_make_again(conf.dump_dir); i++) {
        WARN("dump_dir: ", conf.dump_dir, " was removed, and is made again");
        error = write_file(path, source, profile, dump_file_name);
    }
    return error;
}

/* Ends at the first file that fails. *named: the number has a file. EEXIST without it: another process took the
 * number. */
static int write_numbered(struct dump_series *series, const struct dump_source *source, uint64_t number,
                          enum dump_reason reason, bool *named)
{
    static char path[DUMP_PATH_BYTES];
    int error = 0;
    *named = false;
    for (enum exporter_profile profile = 0; profile < EXPORTER_N_PROFILES; profile++) {
        if (!is_wanted(profile))
            continue;
        struct dump_name name = name_of(series, profile, number, reason);
        path_of(path, sizeof path, &name);
        error = write_file_and_directory(path, source, profile);
        if (error == -EEXIST && !*named)
            break;
        count(series, error);
        if (error)
            say_failure(series, dump_profile_names[profile], path, error);
        if (error)
            break;
        *named = true;
    }
    return error;
}

static void add_own(struct dump_series *series, uint64_t number)
{
    series->last = number;
    if (series->n_ranges && series->ranges[series->n_ranges - 1].end == number) {
        series->ranges[series->n_ranges - 1].end++;
        return;
    }
    if (series->n_ranges == DUMP_MAX_RANGES)
        memmove(series->ranges, series->ranges + 1, --series->n_ranges * sizeof *series->ranges);
    series->ranges[series->n_ranges++] = (struct dump_range){number, number + 1};
}

static uint64_t own_dumps(const struct dump_series *series)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < series->n_ranges; i++)
        n += series->ranges[i].end - series->ranges[i].first;
    return n;
}

static void remove_numbered(const struct dump_series *series, uint64_t number)
{
    static char path[DUMP_PATH_BYTES];
    for (enum exporter_profile profile = 0; profile < EXPORTER_N_PROFILES; profile++)
        for (int reason = DUMP_N_REASONS; reason >= 0; reason--) {
            struct dump_name name = name_of(series, profile, number, (enum dump_reason)reason);
            path_of(path, sizeof path, &name);
            if (is_wanted(profile) && unlink(path) == 0)
                break;
        }
}

static void remove_oldest(struct dump_series *series)
{
    remove_numbered(series, series->ranges[0].first++);
    if (series->ranges[0].first == series->ranges[0].end)
        memmove(series->ranges, series->ranges + 1, --series->n_ranges * sizeof *series->ranges);
}

static void keep(struct dump_series *series, uint64_t newest, enum dump_reason reason)
{
    struct dump_name name = name_of(series, EXPORTER_HEAP, newest, reason);
    while (conf.dump_keep && own_dumps(series) > conf.dump_keep)
        remove_oldest(series);
    if (conf.dump_dir_files || conf.dump_dir_bytes)
        dump_dir_keep(conf.dump_dir, conf.dump_dir_files, conf.dump_dir_bytes, &name);
}

/* A dump keeps its number once it has a file with it, even if another of its files fails. */
int dump_series_write_next(struct dump_series *series, const struct dump_source *source, enum dump_reason reason)
{
    bool named;
    int error = series->last ? 0 : dump_dir_make(conf.dump_dir);
    if (error) {
        say_failure(series, dump_profile_names[EXPORTER_HEAP], conf.dump_dir, count(series, error));
        series->failing = true;
        return error;
    }
    series->suffix = source->exporter ? source->exporter->suffix : NULL;
    uint64_t number = choose_number(series, source->urgent);
    error = write_numbered(series, source, number, reason, &named);
    for (int i = 0; error == -EEXIST && !named && i < MAX_CLASHES; i++) {
        number = choose_number(series, source->urgent);
        error = write_numbered(series, source, number, reason, &named);
    }
    if (error == -EEXIST && !named)
        say_failure(series, dump_profile_names[EXPORTER_HEAP], conf.dump_dir, count(series, error));
    series->failing = error != 0;
    if (!named)
        return error;
    dump_dir_note(conf.dump_dir);
    add_own(series, number);
    keep(series, number, reason);
    return error;
}
