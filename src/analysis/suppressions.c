/* SPDX-License-Identifier: BSD-2-Clause */
/* Suppressions of leaks, in the format of LeakSanitizer. */
#include "leaks.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define PREFIX "leak:"
#define LINE_BYTES 65536

/* --- Reading ------------------------------------------------------------------------------------------------------------ */

static char *trim(char *line)
{
    line += strspn(line, " \t\r\n");
    size_t n = strlen(line);
    while (n > 0 && strchr(" \t\r\n", line[n - 1]))
        line[--n] = '\0';
    return line;
}

static bool add(struct suppressions *all, const char *pattern)
{
    char *own = array_reserve(&all->items, &all->room, all->n + 1, sizeof *all->items) ? NULL : strdup(pattern);
    if (own)
        all->items[all->n++] = (struct suppression){.pattern = own};
    return own;
}

/* Returns NULL, or what is wrong with the line. */
static const char *read_line(struct suppressions *all, char *line)
{
    line = trim(line);
    if (line[0] == '\0' || line[0] == '#')
        return NULL;
    if (strncmp(line, PREFIX, strlen(PREFIX)) != 0)
        return "this is not leak:PATTERN";
    char *pattern = trim(line + strlen(PREFIX));
    if (pattern[0] == '\0')
        return "there is no pattern after leak:";
    return add(all, pattern) ? NULL : "out of memory";
}

/* Copies a line into `line`, with a NUL after it. Returns its bytes; 0: the end, or an error. A longer line is cut off. */
static size_t take_line(FILE *file, char line[LINE_BYTES])
{
    size_t n = 0;
    for (int c = 0; n < LINE_BYTES - 1 && c != '\n' && (c = getc(file)) != EOF;)
        line[n++] = (char)c;
    line[n] = '\0';
    return n;
}

const char *suppressions_read(struct suppressions *all, const char *path, char reason[256])
{
    char line[LINE_BYTES];
    const char *wrong = NULL;
    size_t number = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return strerror(errno);
    for (size_t n; !wrong && (n = take_line(file, line)) > 0;) {
        number++;
        wrong = memchr(line, '\0', n) ? "it is no text" : n == LINE_BYTES - 1 ? "it is too long" : read_line(all, line);
    }
    if (wrong)
        snprintf(reason, 256, "line %zu: %s", number, wrong);
    else if (ferror(file))
        snprintf(reason, 256, "%s", strerror(errno));
    bool failed = wrong || ferror(file);
    fclose(file);
    return failed ? reason : NULL;
}

void suppressions_free(struct suppressions *all)
{
    for (size_t i = 0; i < all->n; i++)
        free(all->items[i].pattern);
    free(all->items);
}

/* --- Comparing ---------------------------------------------------------------------------------------------------------- */

/* Each part between stars must occur behind the one before. The last part must be at the end if a $ follows. */
bool suppressions_fit(const char *pattern, const char *text)
{
    bool at_start = pattern[0] == '^';
    pattern += at_start;
    for (;;) {
        size_t n = strcspn(pattern, "*");
        bool is_last = pattern[n] == '\0', at_end = is_last && n > 0 && pattern[n - 1] == '$';
        size_t part = n - at_end, left = strlen(text);
        if (at_end && !at_start)
            return left >= part && memcmp(text + left - part, pattern, part) == 0;
        if (at_start && (left < part || memcmp(text, pattern, part) != 0))
            return false;
        const char *found = at_start ? text : memmem(text, left, pattern, part);
        if (!found || (at_end && found[part] != '\0'))
            return false;
        if (is_last)
            return true;
        text = found + part;
        pattern += n + 1;
        at_start = false;
    }
}

static bool fits(const char *pattern, ProtobufCBinaryData string)
{
    char text[4097];
    size_t n = string.len < sizeof text - 1 ? string.len : sizeof text - 1;
    if (n == 0)
        return false;
    memcpy(text, string.data, n);
    text[n] = '\0';
    return suppressions_fit(pattern, text);
}

static bool fits_frame(const char *pattern, const struct profile *profile, const struct stack_call *frame)
{
    return fits(pattern, stack_function(profile, frame)) || fits(pattern, stack_system_name(profile, frame))
        || fits(pattern, stack_file(profile, frame)) || fits(pattern, stack_library(profile, frame));
}

struct suppression *suppressions_find(const struct suppressions *all, const struct profile *profile, const struct stack *stack)
{
    for (size_t i = 0; i < all->n; i++)
        for (size_t k = 0; k < stack->n; k++)
            if (fits_frame(all->items[i].pattern, profile, &stack->frames[k]))
                return &all->items[i];
    return NULL;
}
