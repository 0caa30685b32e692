/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions of generated code from a perf map (base/perf_map.h). What is written later is right where entries overlap: the code there
 * was generated anew. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/perf_map.h"
#include "demangle.h"
#include "symbols_parts.h"

#define LINE_BYTES (SYMBOLS_MAX_TEXT + 64)
#define MOST_BYTES ((off_t)1 << 30) /* of a map that is read */

/* ---- Names as runtimes write them ---- */

/* Cuts the number behind the text's last colon. Returns false if there is none. */
static bool cut_number(char *text, uint32_t *number)
{
    char *colon = strrchr(text, ':');
    if (!colon || colon == text || !colon[1] || strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return false;
    *number = (uint32_t)strtoul(colon + 1, NULL, 10);
    *colon = '\0';
    return true;
}

/* Where the script begins in "function script", either of which may have spaces. */
static char *find_script(char *text)
{
    static const char *const begins[] = {"/", "node:", "file:", "http:", "https:", "evalmachine.", "[eval"};
    for (char *space = strchr(text, ' '); space; space = strchr(space + 1, ' '))
        for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
            if (strncmp(space + 1, begins[i], strlen(begins[i])) == 0)
                return space;
    return strchr(text, ' ');
}

/* "JS:~function script:line:column" of V8. The letters before the function tell which of its compilers made the code. */
static bool split_v8(char *text, struct symbols_frame *frame)
{
    static const char *const kinds[] = {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"};
    uint32_t line = 0, column = 0;
    char *at = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && !at; i++)
        at = strncmp(text, kinds[i], strlen(kinds[i])) == 0 ? text + strlen(kinds[i]) : NULL;
    if (!at || !cut_number(at, &column) || !cut_number(at, &line))
        return false;
    at += strspn(at, "~^+*");
    char *script = find_script(at);
    if (script)
        *script = '\0';
    frame->name = script && script > at ? at : "(anonymous)";
    frame->file = script ? script + 1 : at;
    frame->line = frame->start_line = line;
    return true;
}

/* "py::function:file" of CPython. */
static bool split_python(char *text, struct symbols_frame *frame)
{
    char *colon = strncmp(text, "py::", 4) ? NULL : strchr(text + 4, ':');
    if (!colon)
        return false;
    *colon = '\0';
    frame->name = text + 4;
    frame->file = colon + 1;
    return true;
}

static void send_name(FILE *to, size_t i, uint64_t address, const char *text)
{
    struct symbols_record record = {i, address, 1};
    struct symbols_frame frame = {.system = text, .file = ""};
    char *parts = strdup(text);
    if (!parts)
        _Exit(1);
    if (!split_v8(parts, &frame) && !split_python(parts, &frame))
        frame.name = demangle(text);
    fwrite(&record, sizeof record, 1, to);
    symbols_send_frame(to, &frame);
    free(parts);
}

/* ---- The file ---- */

/* Cuts "1a2b 40 name" into its parts. Returns false if the line is no such entry. */
static bool cut_line(char *line, uint64_t *start, uint64_t *bytes, char **name)
{
    char *end;
    line[strcspn(line, "\n")] = '\0';
    if (!isxdigit((unsigned char)line[0]))
        return false;
    *start = strtoull(line, &end, 16);
    if (*end != ' ' || !isxdigit((unsigned char)end[1]))
        return false;
    *bytes = strtoull(end + 1, &end, 16);
    *name = end + 1;
    return *end == ' ' && end[1];
}

/* The first wanted offset that is not below the address. */
static size_t find_first(const struct symbols_wanted *wanted, uint64_t address)
{
    size_t low = 0, high = wanted->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (wanted->offsets[middle] < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void take_line(const struct symbols_wanted *wanted, char **names, char *line)
{
    uint64_t start, bytes;
    char *name;
    if (!cut_line(line, &start, &bytes, &name))
        return;
    for (size_t i = find_first(wanted, start); i < wanted->n && wanted->offsets[i] - start < bytes; i++) {
        free(names[i]);
        names[i] = strndup(name, SYMBOLS_MAX_TEXT);
    }
}

/* Reads a line, or the beginning of a longer one. Returns false at the end. */
static bool read_line(FILE *map, char line[LINE_BYTES])
{
    if (!fgets(line, LINE_BYTES, map))
        return false;
    if (strlen(line) == LINE_BYTES - 1 && line[LINE_BYTES - 2] != '\n')
        for (int c = getc(map); c != '\n' && c != EOF;)
            c = getc(map);
    return true;
}

bool symbols_map_send(FILE *to, const struct symbols_wanted *wanted, char reason[SYMBOLS_REASON_BYTES])
{
    char identity[PERF_MAP_IDENTITY_BYTES], line[LINE_BYTES];
    const char *why;
    int fd = symbols_open_regular(wanted->path, &why);
    if (fd < 0) {
        snprintf(reason, SYMBOLS_REASON_BYTES, "%.400s, which names generated code: %s", wanted->path, why);
        return false;
    }
    if (wanted->build_id[0] && perf_map_identify(identity, fd) && strcmp(identity, wanted->build_id) != 0) {
        snprintf(reason, SYMBOLS_REASON_BYTES, "%.200s is not the file that named the generated code of this process: it was %s, and is %s",
                 wanted->path, wanted->build_id, identity);
        return false;
    }
    struct stat status;
    if (fstat(fd, &status) != 0 || status.st_size > MOST_BYTES) {
        snprintf(reason, SYMBOLS_REASON_BYTES, "%.400s, which names generated code, has more than 1 GiB", wanted->path);
        return false;
    }
    FILE *map = fdopen(fd, "r");
    char **names = calloc(wanted->n, sizeof *names);
    if (!map || !names)
        return false;
    while (read_line(map, line))
        take_line(wanted, names, line);
    for (size_t i = 0; i < wanted->n; i++)
        if (names[i])
            send_name(to, i, wanted->offsets[i], names[i]);
    return true;
}
