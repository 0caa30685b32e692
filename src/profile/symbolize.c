/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions and lines for the addresses of a profile.
 *
 * Addresses are those of the call, not of the return, as in all profiles of this format. */
#include "symbolize.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process_stat.h"
#include "console/command.h"
#include "profile.h"
#include "symbols/symbols.h"

#define MAX_BUILD_ID_CHARS 128
#define MAX_MAPPINGS (1u << 20)

/* --- Which addresses are wanted, by binary ------------------------------------------------------------------------------ */

struct wanted {
    JespanPprof__Mapping *mapping;
    JespanPprof__Location *location;
    uint64_t offset;
};

const JespanPprof__Mapping *symbolize_mapping(const struct profile *profile, uint64_t id)
{
    const JespanParts__Profile *parts = profile->parts;
    if (id == 0)
        return NULL;
    if (id <= parts->n_mapping && parts->mapping[id - 1]->id == id) /* most writers number them so */
        return parts->mapping[id - 1];
    for (size_t i = 0; i < parts->n_mapping && i < MAX_MAPPINGS; i++)
        if (parts->mapping[i]->id == id)
            return parts->mapping[i];
    return NULL;
}

/* "[jespan]" has the spans, and "[heap]" and the like have no file. A mapping without a name is code made at run time. */
static bool is_binary(const struct profile *profile, const JespanPprof__Mapping *mapping)
{
    ProtobufCBinaryData name = profile_string(profile, mapping->filename);
    return name.len > 0 && name.len < PATH_MAX && !memchr(name.data, '\0', name.len)
        && (name.data[0] == '/' || (name.len == 6 && memcmp(name.data, "[vdso]", 6) == 0));
}

static size_t find_wanted(const struct profile *profile, struct wanted *wanted)
{
    const JespanParts__Profile *parts = profile->parts;
    size_t n = 0;
    for (size_t i = 0; i < parts->n_location; i++) {
        JespanPprof__Location *location = parts->location[i];
        JespanPprof__Mapping *mapping =
            location->n_line > 0 ? NULL : (JespanPprof__Mapping *)(uintptr_t)symbolize_mapping(profile, location->mapping_id);
        if (mapping && is_binary(profile, mapping) && location->address >= mapping->memory_start
            && location->address < mapping->memory_limit)
            wanted[n++] = (struct wanted){mapping, location, location->address - mapping->memory_start + mapping->file_offset};
    }
    return n;
}

/* A binary has several mappings. Its name and build id are texts that are written once in the profiles of most writers. */
static int compare_binary(const struct wanted *a, const struct wanted *b)
{
    if (a->mapping->filename != b->mapping->filename)
        return a->mapping->filename < b->mapping->filename ? -1 : 1;
    return (a->mapping->build_id > b->mapping->build_id) - (a->mapping->build_id < b->mapping->build_id);
}

static int compare(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;
    int binary = compare_binary(x, y);
    return binary != 0 ? binary : (x->offset > y->offset) - (x->offset < y->offset);
}

/* --- One binary --------------------------------------------------------------------------------------------------------- */

/* A binary, and its addresses that have no name. */
struct unnamed {
    const JespanPprof__Mapping *mapping;
    size_t n;
};
#define UNNAMED_MAX 3

struct names {
    struct profile_edit edit;
    pid_t pid; /* the process that has the binaries; 0: none */
    unsigned how;
    uint64_t *offsets;
    struct unnamed unnamed[UNNAMED_MAX]; /* the binaries with the most of them, the most first */
    size_t n_unnamed, n_unnamed_binaries;
};

struct binary {
    struct profile_edit *edit;
    struct wanted *wanted;
    bool with_starts;
    size_t n_named;
};

static int take(void *data, const struct symbols_found *found)
{
    struct binary *binary = data;
    struct wanted *wanted = &binary->wanted[found->i];
    struct profile_line lines[SYMBOLS_MAX_INLINED];
    if (found->n_frames == 0 || wanted->location->n_line > 0 || (!binary->with_starts && symbols_is_start(found)))
        return 0;
    binary->n_named += !symbols_is_start(found);
    for (size_t i = 0; i < found->n_frames; i++) {
        const struct symbols_frame *frame = &found->frames[i];
        lines[i].line = frame->line;
        int error = profile_edit_function(binary->edit, frame->name, frame->system, frame->file, frame->start_line, &lines[i].function);
        if (error != 0)
            return error;
    }
    JespanPprof__Mapping *mapping = wanted->mapping;
    mapping->has_functions = mapping->has_filenames = mapping->has_line_numbers = mapping->has_inline_frames = 1;
    return profile_edit_lines(binary->edit, wanted->location, lines, found->n_frames);
}

/* The kernel adds a suffix to the name of a file that was removed or replaced. */
static void copy_text(const struct profile *profile, int64_t index, char *to, size_t room)
{
    static const char deleted[] = " (deleted)";
    ProtobufCBinaryData text = profile_string(profile, index);
    size_t n = text.len < room ? text.len : room - 1, suffix = sizeof deleted - 1;
    if (n > 0)
        memcpy(to, text.data, n);
    to[n] = '\0';
    if (n > suffix && strcmp(to + n - suffix, deleted) == 0)
        to[n - suffix] = '\0';
}

/* The process may have another root directory or other mounts, as in a container. A path in ours leads to debug files better. After
 * chroot() the process has the names of files as they are here. */
static void find_in_root(char path[PATH_MAX], pid_t pid)
{
    char in_root[PATH_MAX + PROCESS_PATH_BYTES];
    struct stat theirs, ours;
    if (pid == 0 || path[0] != '/')
        return;
    process_path_in_root(in_root, sizeof in_root, pid, path);
    if (access(in_root, R_OK) != 0 || stat(in_root, &theirs) != 0 || strlen(in_root) >= PATH_MAX)
        return;
    if (stat(path, &ours) != 0 || ours.st_dev != theirs.st_dev || ours.st_ino != theirs.st_ino)
        strcpy(path, in_root);
}

void symbolize_clean(char *text)
{
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f || ((unsigned char)*c == 0xc2 && (unsigned char)c[1] < 0xa0))
            *c = '?';
}

static void warn(char *reason)
{
    symbolize_clean(reason);
    cmd_warning("%s", reason);
}

static void note_unnamed(struct names *names, struct unnamed next)
{
    if (next.n == 0)
        return;
    names->n_unnamed += next.n;
    names->n_unnamed_binaries++;
    for (size_t i = 0; i < UNNAMED_MAX; i++)
        if (next.n > names->unnamed[i].n) {
            struct unnamed less = names->unnamed[i];
            names->unnamed[i] = next;
            next = less;
        }
}

static int symbolize_binary(struct names *names, struct wanted *wanted, size_t n)
{
    char path[PATH_MAX], build_id[MAX_BUILD_ID_CHARS + 1], reason[SYMBOLS_REASON_BYTES];
    struct profile *profile = names->edit.profile;
    struct binary binary = {&names->edit, wanted, names->how & SYMBOLIZE_STARTS, 0};
    copy_text(profile, wanted->mapping->filename, path, sizeof path);
    copy_text(profile, wanted->mapping->build_id, build_id, sizeof build_id);
    find_in_root(path, names->pid);
    for (size_t i = 0; i < n; i++)
        names->offsets[i] = wanted[i].offset;
    struct symbols_wanted request = {path, build_id, names->offsets, n};
    const char *problem = symbols_find(&request, take, &binary, reason);
    if (!problem)
        note_unnamed(names, (struct unnamed){wanted->mapping, n - binary.n_named});
    else if (!(names->how & SYMBOLIZE_QUIET))
        warn(reason);
    return profile->error;
}

/* --- What is missing ---------------------------------------------------------------------------------------------------- */

#define FEW_UNNAMED 10 /* so many in a hundred need no word */

/* Once: other profiles of the command tend to be of the same program. */
static void print_unnamed(struct names *names, size_t n_wanted)
{
    static bool is_said;
    char path[PATH_MAX], list[UNNAMED_MAX * (NAME_MAX + 32)] = "";
    size_t shown = 0;
    if (is_said)
        return;
    is_said = true;
    for (; shown < UNNAMED_MAX && names->unnamed[shown].n > 0; shown++) {
        copy_text(names->edit.profile, names->unnamed[shown].mapping->filename, path, sizeof path);
        symbolize_clean(path);
        const char *slash = strrchr(path, '/');
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%.*s (%zu)", shown > 0 ? ", " : "", NAME_MAX, slash ? slash + 1 : path,
                 names->unnamed[shown].n);
    }
    cmd_note("%zu of %zu calls have no name: %s%s. %s", names->n_unnamed, n_wanted, list,
             names->n_unnamed_binaries > shown ? " and other files" : "",
             symbols_has_servers() ? "There are no debug symbols for them, nor at the servers of DEBUGINFOD_URLS"
                                   : "Install debug symbols, or set DEBUGINFOD_URLS");
}

int symbolize_profile(struct profile *profile, pid_t pid, unsigned how)
{
    size_t room = profile->parts->n_location + 1;
    struct wanted *wanted = calloc(room, sizeof *wanted);
    struct names names = {.pid = pid, .how = how, .offsets = calloc(room, sizeof *names.offsets)};
    int error = wanted && names.offsets ? 0 : -ENOMEM;
    size_t n = error == 0 ? find_wanted(profile, wanted) : 0;
    if (n > 0)
        qsort(wanted, n, sizeof *wanted, compare);
    profile_edit_begin(&names.edit, profile);
    for (size_t i = 0, end; i < n && error == 0; i = end) {
        for (end = i + 1; end < n && compare_binary(&wanted[i], &wanted[end]) == 0; end++)
            ;
        error = symbolize_binary(&names, wanted + i, end - i);
    }
    if (error == 0 && !(how & SYMBOLIZE_QUIET) && names.n_unnamed * 100 > n * FEW_UNNAMED)
        print_unnamed(&names, n);
    profile_edit_end(&names.edit);
    free(wanted);
    free(names.offsets);
    return error;
}
