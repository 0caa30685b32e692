/* SPDX-License-Identifier: BSD-2-Clause */
/* The dump of a directory that was the newest at a time, or that of the largest process. The times of the files count. */
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

#define MOST_PROCESSES 64u
#define MOST_READ_BYTES ((off_t)64 << 20) /* of the dumps that are read to choose one of them */
#define TOGETHER_S 300 /* the newest dumps of processes that ran together are not farther apart */

struct candidate {
    char name[NAME_MAX + 1];
    struct dump_name dump; /* what the name says; pid 0: it is no name of a dump */
    struct timespec time;
    off_t bytes;
};

/* What is in a directory. */
struct found {
    bool any;     /* there is such a file */
    bool several; /* and of more than one process */
    size_t n;
    struct candidate newest[MOST_PROCESSES]; /* the newest dump of each process that is not younger than the time */
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
    if (!dump_name_parse(&candidate->dump, name))
        candidate->dump.pid = 0;
    candidate->time = status.st_mtim;
    candidate->bytes = status.st_size;
    return true;
}

static size_t find_oldest(const struct found *found)
{
    size_t oldest = 0;
    for (size_t i = 1; i < found->n; i++)
        if (is_newer(&found->newest[oldest], &found->newest[i]))
            oldest = i;
    return oldest;
}

static bool is_of_one_process(const struct dump_name *a, const struct dump_name *b)
{
    return a->pid == b->pid && a->life == b->life;
}

/* Where there are too many processes, those with the oldest dumps are left out. */
static void note_process(struct found *found, const struct candidate *candidate)
{
    size_t i = 0;
    if (!candidate->dump.pid)
        return;
    while (i < found->n && !is_of_one_process(&found->newest[i].dump, &candidate->dump))
        i++;
    found->several |= found->n > 0 && i == found->n;
    if (i == MOST_PROCESSES)
        i = find_oldest(found);
    if (i < found->n && !is_newer(candidate, &found->newest[i]))
        return;
    found->n += i == found->n;
    found->newest[i] = *candidate;
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
        found->any = true;
        if (candidate.time.tv_sec > limit)
            continue;
        note_process(found, &candidate);
        if (best->name[0] == '\0' || is_newer(&candidate, best))
            *best = candidate;
    }
    closedir(open);
    return NULL;
}

/* --- Several processes ---------------------------------------------------------------------------------------------- */

/* Under a script, the newest dump is that of the shell. So of processes that ran together, that one is shown which had most in use. */

static bool make_path(char *path, size_t bytes, const char *directory, const struct candidate *candidate)
{
    return (size_t)snprintf(path, bytes, "%s/%s", directory, candidate->name) < bytes;
}

struct summary {
    int64_t start_s, most; /* when the process began; what it had in use at its peak, or has in the dump */
};

static int add_samples(struct summary *summary, struct profile *profile)
{
    int64_t at_peak = 0, in_use = 0;
    for (size_t i = 0; i < profile->fields.n_samples; i++) {
        JespanPprof__Sample *sample;
        int64_t values[PROFILE_N_VALUES], peaks[PROFILE_N_PEAKS];
        int error = profile_sample(profile, i, &sample);
        if (error)
            return error;
        profile_values(profile, sample, values);
        profile_peaks(profile, sample, peaks);
        profile_sample_free(profile, sample);
        in_use = report_sum(in_use, values[PROFILE_INUSE_BYTES]);
        at_peak = report_sum(at_peak, peaks[PROFILE_AT_PEAK]);
    }
    summary->most = at_peak > in_use ? at_peak : in_use;
    return 0;
}

/* False: it cannot be read, or is no heap. */
static bool summarize(struct summary *summary, const char *directory, const struct candidate *candidate)
{
    char path[4096];
    struct profile profile = {.parts = NULL};
    bool is_heap = make_path(path, sizeof path, directory, candidate) && !profile_read(&profile, path) && profile.kind == PROFILE_HEAP;
    if (is_heap)
        summary->start_s = report_difference(profile.parts->time_nanos, profile.parts->duration_nanos) / 1000000000;
    is_heap = is_heap && add_samples(summary, &profile) == 0;
    profile_free(&profile);
    return is_heap;
}

static bool is_since(const struct candidate *candidate, int64_t unix_s)
{
    return candidate->time.tv_sec >= unix_s;
}

/* Whether other processes ran together with that of the newest dump, and all their dumps can be read soon. */
static bool can_choose(const struct found *found, int64_t since)
{
    size_t n = 0;
    off_t bytes = 0;
    for (size_t i = 0; i < found->n; i++)
        if (is_since(&found->newest[i], since)) {
            bytes += found->newest[i].bytes;
            n++;
        }
    return n > 1 && bytes <= MOST_READ_BYTES;
}

/* Replaces the newest dump. False: that stays, as there is no choice. */
static bool choose_largest(struct candidate *best, const struct found *found, const char *directory)
{
    struct summary largest, other;
    if (best->bytes > MOST_READ_BYTES || !summarize(&largest, directory, best))
        return false;
    const struct candidate newest = *best;
    int64_t recently = newest.time.tv_sec - TOGETHER_S, since = largest.start_s > recently ? largest.start_s : recently;
    if (!can_choose(found, since))
        return false;
    for (const struct candidate *c = found->newest; c < found->newest + found->n; c++)
        if (is_since(c, since) && strcmp(c->name, newest.name) != 0 && summarize(&other, directory, c) && other.most > largest.most) {
            largest = other;
            *best = *c;
        }
    return true;
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
    bool is_largest = found.several && !source->time && choose_largest(&best, &found, directory);
    if (!make_path(path, bytes, directory, &best))
        return strerror(ENAMETOOLONG);
    if (found.several)
        cmd_note("'%s' has dumps of several processes; this is %s%s. Name a file to see another process", directory,
                 is_largest ? "that of the process which had most in use, " : "the newest, ", best.name);
    return NULL;
}
