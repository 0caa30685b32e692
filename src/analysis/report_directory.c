/* SPDX-License-Identifier: BSD-2-Clause */
/* The dump of a directory that was the newest at a time. The times of the files count. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "console/command.h"
#include "report.h"
#include "report/dump_dir.h"

/* --- Times ---------------------------------------------------------------------------------------------------------- */

bool report_duration_read(const char *word, int64_t *seconds)
{
    static const struct {
        char unit;
        int64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char *end;
    errno = 0;
    long long n = strtoll(word, &end, 10);
    if (word[0] < '0' || word[0] > '9' || errno != 0 || n > 1000000000 || end[0] == '\0' || end[1] != '\0')
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (units[i].unit == end[0]) {
            *seconds = n * units[i].seconds;
            return true;
        }
    }
    return false;
}

/* A time of day that is still to come is that of yesterday. */
static bool read_local(const char *word, int64_t *unix_s)
{
    static const char *const formats[] = {"%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S",
                                          "%Y-%m-%dT%H:%M",    "%H:%M:%S",       "%H:%M"};
    time_t now = time(NULL);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        struct tm when;
        localtime_r(&now, &when);
        when.tm_sec = 0;
        const char *end = strptime(word, formats[i], &when);
        if (!end || *end != '\0')
            continue;
        when.tm_isdst = -1;
        time_t seconds = mktime(&when);
        if (seconds > now && formats[i][1] == 'H') {
            when.tm_mday--;
            when.tm_isdst = -1;
            seconds = mktime(&when);
        }
        *unix_s = seconds;
        return seconds != (time_t)-1;
    }
    return false;
}

bool report_time_read(const char *word, int64_t *unix_s)
{
    char *end;
    int64_t ago;
    if (word[0] == '-') {
        if (!report_duration_read(word + 1, &ago))
            return false;
        *unix_s = (int64_t)time(NULL) - ago;
        return true;
    }
    if (word[0] != '@')
        return read_local(word, unix_s);
    errno = 0;
    *unix_s = strtoll(word + 1, &end, 10);
    return word[1] >= '0' && word[1] <= '9' && *end == '\0' && errno == 0;
}

/* --- The directory -------------------------------------------------------------------------------------------------- */

struct candidate {
    char name[NAME_MAX + 1];
    struct timespec time;
};

static bool is_newer(const struct candidate *a, const struct candidate *b)
{
    if (a->time.tv_sec != b->time.tv_sec)
        return a->time.tv_sec > b->time.tv_sec;
    if (a->time.tv_nsec != b->time.tv_nsec)
        return a->time.tv_nsec > b->time.tv_nsec;
    return strverscmp(a->name, b->name) > 0;
}

static bool read_candidate(struct candidate *candidate, DIR *directory, const char *name)
{
    struct stat status;
    if (fstatat(dirfd(directory), name, &status, 0) != 0 || !S_ISREG(status.st_mode))
        return false;
    snprintf(candidate->name, sizeof candidate->name, "%s", name);
    candidate->time = status.st_mtim;
    return true;
}

/* What the names in a directory say. */
struct found {
    bool any;     /* there is such a file */
    bool several; /* and of more than one process */
    uint64_t pid; /* of one of them; 0: none */
};

static void note_process(struct found *found, const char *name)
{
    struct dump_name dump;
    found->any = true;
    if (!dump_name_parse(&dump, name))
        return;
    found->several |= found->pid && found->pid != dump.pid;
    found->pid = dump.pid;
}

/* Finds the newest file whose name fits. Returns NULL or an errno in words. */
static const char *find_newest(struct candidate *best, struct found *found, const char *directory, const char *pattern, int64_t limit)
{
    struct candidate candidate;
    DIR *open = opendir(directory);
    if (!open)
        return strerror(errno);
    for (struct dirent *entry; (entry = readdir(open));) {
        if (fnmatch(pattern, entry->d_name, 0) != 0 || !read_candidate(&candidate, open, entry->d_name))
            continue;
        note_process(found, candidate.name);
        if (candidate.time.tv_sec <= limit && (best->name[0] == '\0' || is_newer(&candidate, best)))
            *best = candidate;
    }
    closedir(open);
    return NULL;
}

const char *report_directory_find(char *path, size_t bytes, const char *directory, const struct report_source *source)
{
    struct candidate best = {.name = ""};
    int64_t limit = INT64_MAX;
    struct found found = {.any = false};
    if (source->at && !report_time_read(source->at, &limit))
        return "--at: this is not a time such as 12:04, '2026-11-24 12:04:30', -10m or @1789000000";
    const char *reason = source->peak ? find_newest(&best, &found, directory, "heap.*.peak.pb.gz", limit) : NULL;
    if (!reason && best.name[0] == '\0')
        reason = find_newest(&best, &found, directory, source->time ? "time.*.pb.gz" : "heap.*.pb.gz", limit);
    if (reason)
        return reason;
    if (best.name[0] == '\0')
        return found.any ? "all dumps in the directory are younger" : "there is no dump in the directory";
    if ((size_t)snprintf(path, bytes, "%s/%s", directory, best.name) >= bytes)
        return strerror(ENAMETOOLONG);
    if (found.several)
        cmd_note("'%s' has dumps of several processes; this is the newest, %s. Name a file to see another process", directory, best.name);
    return NULL;
}
