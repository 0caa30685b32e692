/* SPDX-License-Identifier: BSD-2-Clause */
/* The input of `jespan report`: a file, standard input, the newest file of a directory, a page of a program, a
 * process, a core. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/comments.h"
#include "base/number.h"
#include "console/command.h"
#include "processes/outside.h"
#include "profile/profile.h"
#include "profile/symbolize.h"
#include "report.h"

#define MAX_COPY_BYTES ((size_t)1 << 30) /* a profile must not be longer, see profile/profile_fields.c */

/* --- Hashes --------------------------------------------------------------------------------------------------------- */

static int hash_strings(struct report_input *input)
{
    const JespanParts__Profile *parts = input->profile.parts;
    input->strings = malloc((parts->n_string_table + 1) * sizeof *input->strings);
    if (!input->strings)
        return -ENOMEM;
    for (size_t i = 0; i < parts->n_string_table; i++)
        input->strings[i] = hash_bytes(parts->string_table[i].data, parts->string_table[i].len);
    return 0;
}

uint64_t report_string_hash(const struct report_input *input, int64_t index)
{
    bool exists = index >= 0 && (uint64_t)index < input->profile.parts->n_string_table;
    return exists ? input->strings[index] : hash_bytes("", 0);
}

static uint64_t hash_function(const struct report_input *input, uint64_t id)
{
    const JespanPprof__Function *function = profile_function(&input->profile, id);
    if (!function)
        return 1;
    uint64_t hash = hash_mix(report_string_hash(input, function->name) + 1);
    hash = hash_mix(hash + report_string_hash(input, function->filename));
    return hash_mix(hash + (uint64_t)function->start_line);
}

/* The build id tells libraries apart, and the file where there is none. */
uint64_t report_address_hash(const struct report_input *input, const JespanPprof__Location *location)
{
    const JespanPprof__Mapping *mapping = location ? symbolize_mapping(&input->profile, location->mapping_id) : NULL;
    int64_t library = !mapping ? 0 : mapping->build_id != 0 ? mapping->build_id : mapping->filename;
    if (library == 0 || location->address < mapping->memory_start || location->address >= mapping->memory_limit)
        return hash_mix((location ? location->address : 0) + 2);
    uint64_t offset = location->address - mapping->memory_start + mapping->file_offset;
    return hash_mix(hash_mix(report_string_hash(input, library) + 3) + offset);
}

static uint64_t hash_location(const struct report_input *input, const JespanPprof__Location *location)
{
    uint64_t hash = location->n_line == 0 ? report_address_hash(input, location) : 0;
    for (size_t i = 0; i < location->n_line; i++)
        hash = hash_mix(hash + hash_function(input, location->line[i]->function_id));
    return hash;
}

static int hash_locations(struct report_input *input)
{
    const JespanParts__Profile *parts = input->profile.parts;
    input->locations = malloc((parts->n_location + 1) * sizeof *input->locations);
    if (!input->locations)
        return -ENOMEM;
    for (size_t i = 0; i < parts->n_location; i++)
        input->locations[i] = hash_location(input, parts->location[i]);
    return 0;
}

uint64_t report_location_hash(const struct report_input *input, uint64_t id)
{
    size_t i = profile_location_index(&input->profile, id);
    return i < input->profile.parts->n_location ? input->locations[i] : hash_mix(id + 5);
}

/* --- Reading -------------------------------------------------------------------------------------------------------- */

bool report_find_comment(const struct report_input *input, const char *beginning, char *rest, size_t bytes)
{
    const JespanParts__Profile *parts = input->profile.parts;
    for (size_t i = 0, n = strlen(beginning); i < parts->n_comment; i++) {
        ProtobufCBinaryData comment = profile_string(&input->profile, parts->comment[i]);
        if (comment.len < n || memcmp(comment.data, beginning, n) != 0)
            continue;
        snprintf(rest, bytes, "%.*s", (int)lesser(comment.len - n, bytes), (const char *)comment.data + n);
        for (char *at = rest; *at; at++) /* it may be of a file that anybody made */
            *at = *at < ' ' || *at > '~' ? '?' : *at;
        return true;
    }
    return false;
}

/* Stacks that were cut lack their innermost calls, which readers look for. */
static void note_cut_stacks(const struct report_input *input)
{
    char rest[160];
    if (report_find_comment(input, COMMENT_STACKS, rest, sizeof rest))
        cmd_note(COMMENT_STACKS "%s", rest);
}

/* Calls get names before they are hashed. */
static int read_frames(struct report_input *input, const struct report_source *source, bool quiet)
{
    enum report_frames frames = source->frames;
    unsigned how = SYMBOLIZE_STARTS | (quiet ? SYMBOLIZE_QUIET : 0);
    int error = frames != REPORT_SPANS ? symbolize_profile(&input->profile, input->pid, how) : 0;
    if (frames != REPORT_SPANS && !quiet)
        note_cut_stacks(input);
    if (error != 0 || frames == REPORT_LOCATIONS)
        return error;
    enum profile_frames_kind calls = source->all_frames ? PROFILE_ALL_CALLS : PROFILE_CALLS;
    error = profile_frames_set(&input->profile, frames == REPORT_CALLS ? calls : PROFILE_SPANS);
    bool is_time = input->profile.kind == PROFILE_TIME; /* times are never of calls */
    if (error == 0 && frames == REPORT_CALLS && !quiet && !is_time && !profile_frames_has_calls(&input->profile))
        cmd_warning("%s has no stacks; start the program with 'jespan run --stacks'", input->name);
    return error;
}

const char *report_input_read_descriptor(struct report_input *input, int fd, const struct report_source *source, bool quiet)
{
    size_t most = source->kept_bytes;
    const char *reason = profile_read_descriptor(&input->profile, fd, most == 0 ? SIZE_MAX : most);
    if (reason)
        return reason;
    int error = read_frames(input, source, quiet);
    if (error == 0)
        error = hash_strings(input);
    if (error == 0)
        error = hash_locations(input);
    if (error == 0)
        error = report_names_read(&input->names, &input->profile);
    return error == 0 ? NULL : error == -EBADMSG ? "not a pprof profile" : "out of memory";
}

static const char *read_path(struct report_input *input, const char *path, const struct report_source *source)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return strerror(errno);
    snprintf(input->name, sizeof input->name, "%s", path);
    const char *reason = report_input_read_descriptor(input, fd, source, false);
    close(fd);
    return reason;
}

/* A process, or its core. */
static const char *write_process(int fd, const char *word, pid_t pid, const struct report_source *source)
{
    enum exporter_profile profile = source->time ? EXPORTER_TIME : EXPORTER_HEAP;
    struct outside process;
    const char *reason = pid ? outside_read(&process, pid) : outside_read_core(&process, word);
    if (reason)
        return reason;
    if (source->older_s > 0 && !outside_keep_older(&process, source->older_s)) {
        outside_close(&process);
        return "--older-than: the process knows no ages; they are known with 'jespan run --conf age_period_s:60'";
    }
    if (source->outlived)
        outside_keep_outlived(&process);
    int error = outside_write(&process, profile, fd);
    outside_close(&process);
    return error ? strerror(-error) : NULL;
}

/* A process, a core or a URL. */
static const char *write_living(int fd, const char *word, pid_t pid, bool is_url, const struct report_source *source)
{
    const char *path = source->time ? "/debug/pprof/profile?labels=all" : "/debug/pprof/heap?labels=all";
    return is_url ? fetch(fd, word, path, 0) : write_process(fd, word, pid, source);
}

/* Reads a process, a core or a URL into memory, and writes no file. */
static const char *read_memory(struct report_input *input, const char *word, pid_t pid, bool is_url, const struct report_source *source)
{
    int fd = memfd_create("jespan-report", MFD_CLOEXEC);
    if (fd < 0)
        return strerror(errno);
    const char *reason = write_living(fd, word, pid, is_url, source);
    if (!reason && lseek(fd, 0, SEEK_SET) < 0)
        reason = strerror(errno);
    if (!reason)
        reason = report_input_read_descriptor(input, fd, source, false);
    close(fd);
    return reason;
}

static const char *copy_stream(int to, int from)
{
    static char bytes[1 << 16];
    size_t all = 0;
    for (ssize_t n; (n = read(from, bytes, sizeof bytes)) != 0; all += n > 0 ? (size_t)n : 0) {
        if (n < 0 && errno != EINTR)
            return strerror(errno);
        if (all > MAX_COPY_BYTES)
            return "longer than 1 GiB";
        for (ssize_t at = 0, more; at < n; at += more)
            if ((more = write(to, bytes + at, (size_t)(n - at))) < 0)
                return strerror(errno);
    }
    return NULL;
}

static const char *copy_path(int to, const char *path)
{
    int from = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    const char *reason = from < 0 ? strerror(errno) : copy_stream(to, from);
    if (from > STDIN_FILENO)
        close(from);
    return reason;
}

/* Returns 0 if the word is not of a process. A file may have a number for its name. */
static pid_t find_process(const char *word)
{
    return access(word, F_OK) == 0 ? 0 : cmd_pid(word);
}

const char *report_input_keep(int *fd, const char *word, const struct report_source *source)
{
    struct stat status;
    bool exists = stat(word, &status) == 0, is_stdin = strcmp(word, "-") == 0;
    pid_t pid = find_process(word);
    bool is_url = !exists && fetch_is_url(word);
    *fd = -1;
    if (exists && S_ISDIR(status.st_mode)) {
        char path[sizeof ((struct report_input *)0)->name];
        const char *reason = report_directory_find(path, sizeof path, word, source);
        return reason || (*fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0 ? reason : strerror(errno);
    }
    if (!is_stdin && pid == 0 && !is_url && (!exists || S_ISREG(status.st_mode)))
        return NULL;
    *fd = memfd_create("jespan-input", MFD_CLOEXEC);
    if (*fd < 0)
        return strerror(errno);
    return pid != 0 || is_url ? write_living(*fd, word, pid, is_url, source) : copy_path(*fd, word);
}

const char *report_input_read_kept(struct report_input *input, int fd, const char *word, const struct report_source *source)
{
    *input = (struct report_input){.pid = find_process(word)};
    snprintf(input->name, sizeof input->name, "%s", word);
    return lseek(fd, 0, SEEK_SET) < 0 ? strerror(errno) : report_input_read_descriptor(input, fd, source, false);
}

bool report_input_is_of_peak(const struct report_input *input)
{
    static const char suffix[] = ".peak.pb.gz";
    size_t n = strlen(input->name);
    return n >= sizeof suffix - 1 && strcmp(input->name + n - (sizeof suffix - 1), suffix) == 0;
}

const char *report_input_read(struct report_input *input, const char *word, const struct report_source *source)
{
    char path[sizeof input->name];
    struct stat status;
    bool exists = stat(word, &status) == 0, is_directory = exists && S_ISDIR(status.st_mode);
    pid_t pid = find_process(word);
    bool is_url = !exists && fetch_is_url(word), is_core = exists && S_ISREG(status.st_mode) && outside_is_core(word);
    *input = (struct report_input){.is_url = is_url, .pid = pid};
    snprintf(input->name, sizeof input->name, "%s", word);
    if (source->at && !is_directory)
        return "--at is for a directory";
    if (source->time && !is_directory && !is_url && !is_core && pid == 0)
        return "--time is for a process's number, a core, a URL or a directory";
    if (source->outlived && is_url)
        return "--outlived is for a process's number, or a dump: an answer does not say which spans are open";
    if (source->older_s > 0 && pid == 0 && !is_core)
        return "--older-than is for a process's number, or a core: dumps and answers do not say how old memory is";
    if (is_directory) {
        const char *reason = report_directory_find(path, sizeof path, word, source);
        return reason ? reason : read_path(input, path, source);
    }
    if (pid != 0 || is_url || is_core)
        return read_memory(input, word, pid, is_url, source);
    return strcmp(word, "-") == 0 ? report_input_read_descriptor(input, STDIN_FILENO, source, false)
                                  : read_path(input, word, source);
}

void report_input_free(struct report_input *input)
{
    report_names_free(&input->names);
    profile_free(&input->profile);
    free(input->strings);
    free(input->locations);
}
