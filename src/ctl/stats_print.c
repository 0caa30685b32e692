/* SPDX-License-Identifier: BSD-2-Clause */
/* malloc_stats_print() of jemalloc and malloc_stats() of glibc, with jespan's section after theirs; and so what jemalloc prints
 * at exit (stats_print:true).
 *
 * With the option J, jemalloc writes one object of JSON. jespan's is a member of it: the brace that ends the object is held
 * back until that is written. */
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/stats_section.h"
#include "jemalloc/binding.h"
#include "malloc/family.h"
#include "malloc/track.h"

/* jemalloc's, which the program may set. */
extern void (*malloc_message)(void *opaque, const char *text) __attribute__((weak));

static void write_error(void *opaque, const char *text)
{
    (void)opaque;
    int saved = errno;
    for (size_t n = strlen(text); n;) {
        ssize_t written = write(STDERR_FILENO, text, n);
        if (written < 0 && errno != EINTR)
            break;
        text += written > 0 ? written : 0;
        n -= written > 0 ? (size_t)written : 0;
    }
    errno = saved;
}

static stats_writer *default_writer(void)
{
    return &malloc_message && malloc_message ? malloc_message : write_error;
}

/* ---- One document ---- */

struct joiner {
    stats_writer *write;
    void *opaque;
    unsigned depth;
    bool is_in_string, is_escaped;
    bool is_complete; /* all but the last brace is written */
};

/* Whether this character ends the outermost object. */
static bool ends(struct joiner *j, char c)
{
    if (j->is_in_string) {
        j->is_in_string = j->is_escaped || c != '"';
        j->is_escaped = !j->is_escaped && c == '\\';
        return false;
    }
    j->is_in_string = c == '"';
    if (c == '{' || c == '[')
        j->depth++;
    return (c == '}' || c == ']') && j->depth-- == 1;
}

static void write_part(const struct joiner *j, const char *text, size_t n)
{
    while (n) {
        char part[256];
        size_t bytes = n < sizeof part ? n : sizeof part - 1;
        memcpy(part, text, bytes);
        part[bytes] = '\0';
        j->write(j->opaque, part);
        text += bytes;
        n -= bytes;
    }
}

static size_t without_blanks(const char *text, size_t n)
{
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\t' || text[n - 1] == ' '))
        n--;
    return n;
}

static void join(void *joiner, const char *text)
{
    struct joiner *j = joiner;
    size_t n = 0;
    if (j->is_complete) /* only blanks follow */
        return;
    while (text[n] && !j->is_complete)
        j->is_complete = ends(j, text[n++]);
    if (j->is_complete)
        write_part(j, text, without_blanks(text, n - 1));
    else
        j->write(j->opaque, text);
}

static void end_json(stats_writer *write, void *opaque)
{
    write(opaque, ",\n\t\"jespan\": ");
    stats_section_write_json(write, opaque);
    write(opaque, "\n}\n");
}

/* If jemalloc writes an error in place of a document, nothing is added to it. */
static void print_json(stats_writer *write, void *opaque, const char *options)
{
    struct joiner j = {.write = write, .opaque = opaque};
    jespan_je_malloc_stats_print(join, &j, options);
    if (j.is_complete)
        end_json(write, opaque);
}

/* ---- At exit ---- */

/* jemalloc prints from a handler of atexit(), with malloc_message. A handler of ours, which is registered later and so runs
 * before, puts a writer there that sees the end of the statistics. Before and after them, all text passes. */
static struct {
    struct joiner joiner; /* with the writer that malloc_message was */
    bool is_json, is_done;
    size_t n_matched; /* of the last line of the text */
} at_exit;

static const char last_line[] = "--- End jemalloc statistics ---\n";

/* Whether the last line ends with the text, which may have a part of it. */
static bool sees_last_line(const char *text)
{
    for (; *text && last_line[at_exit.n_matched]; text++) {
        if (*text == '\n' && last_line[at_exit.n_matched] != '\n')
            at_exit.n_matched = 0;
        else if (*text == last_line[at_exit.n_matched])
            at_exit.n_matched++;
        else
            at_exit.n_matched = *text == '-' && at_exit.n_matched == 3 ? 3 : *text == '-';
    }
    return !last_line[at_exit.n_matched];
}

static void end_at_exit(void)
{
    at_exit.is_done = true;
    malloc_message = at_exit.joiner.write == write_error ? NULL : at_exit.joiner.write;
    if (!track_may_allocate(track_thread()))
        return;
    if (at_exit.is_json)
        end_json(at_exit.joiner.write, NULL);
    else
        stats_section_write(at_exit.joiner.write, NULL);
}

static void write_at_exit(void *opaque, const char *text)
{
    struct joiner *j = &at_exit.joiner;
    bool is_document = at_exit.is_json && !at_exit.is_done && (j->depth || text[0] == '{');
    (void)opaque;
    if (is_document)
        join(j, text);
    else if (!at_exit.is_json || !at_exit.is_done || without_blanks(text, strlen(text)))
        j->write(NULL, text);
    if (!at_exit.is_done && (is_document ? j->is_complete : !at_exit.is_json && sees_last_line(text)))
        end_at_exit();
}

static void begin_at_exit(void)
{
    at_exit.joiner = (struct joiner){.write = default_writer()};
    malloc_message = write_at_exit;
}

/* jespan starts first, and starts jemalloc. */
static COLD __attribute__((constructor)) void find_stats_print(void)
{
    bool is_on = false;
    const char *options = NULL;
    size_t bytes = sizeof is_on, options_bytes = sizeof options;
    if (!&malloc_message || !track_thread() || jespan_je_mallctl("opt.stats_print", &is_on, &bytes, NULL, 0) != 0 || !is_on)
        return;
    jespan_je_mallctl("opt.stats_print_opts", &options, &options_bytes, NULL, 0);
    at_exit.is_json = options && strchr(options, 'J');
    atexit(begin_at_exit);
}

/* ---- The functions ---- */

EXPORT void FAMILY(malloc_stats_print)(void (*write)(void *, const char *), void *opaque, const char *options)
{
    if (!track_may_allocate(track_thread()))
        return;
    if (!write) {
        write = default_writer();
        opaque = NULL;
    }
    if (write == write_at_exit) /* a call during exit; a shared jemalloc prints at exit by this function too */
        write = at_exit.joiner.write;
    const char *with = options ? options : "";
    if (strchr(with, 's')) { /* jemalloc does not know it */
        jespan_je_malloc_stats_print(write, opaque, options);
    } else if (strchr(with, 'J')) {
        print_json(write, opaque, options);
    } else {
        jespan_je_malloc_stats_print(write, opaque, options);
        stats_section_write(write, opaque);
    }
}

EXPORT void FAMILY(malloc_stats)(void)
{
    const struct mallinfo2 f = FAMILY(mallinfo2)();
    char text[128];
    snprintf(text, sizeof text, "Total (incl. mmap):\nsystem bytes     = %10zu\nin use bytes     = %10zu\n", f.arena, f.uordblks);
    write_error(NULL, text);
    if (track_may_allocate(track_thread()))
        stats_section_write(write_error, NULL);
}
