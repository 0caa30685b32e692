/* SPDX-License-Identifier: BSD-2-Clause */
/* A reporter as a module: appends what each span did as lines of CSV, `time,span,figure,value`, to the file that the
 * environment variable REPORTER_CSV names. docs/reporters.md is about it.
 *
 * A round is collected in memory and written at once: so its lines are whole, and a child that is forked meanwhile has
 * none of them left over to write when it exits. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <jespan/reporter.h>

static int file;
static FILE *lines;
static char *text; /* the lines of the round */
static size_t bytes;

static int init(void *user)
{
    const char *path = getenv("REPORTER_CSV");
    (void)user;
    file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    lines = file >= 0 ? open_memstream(&text, &bytes) : NULL;
    return lines ? 0 : path ? errno : EINVAL;
}

static void put_quoted(const char *s)
{
    for (; *s; s++)
        fprintf(lines, *s == '"' ? "\"\"" : "%c", *s);
}

/* Prints the path from the root, as in "request {route=get} > parse". */
static void put_path(const struct jespan_span_info *span)
{
    if (span->parent && span->parent->parent) {
        put_path(span->parent);
        fputs(" > ", lines);
    }
    put_quoted(span->name);
    for (uint32_t i = 0; i < span->n_labels; i++) {
        fputs(i ? ", " : " {", lines);
        put_quoted(span->labels[i].key);
        fputs("=", lines);
        put_quoted(span->labels[i].value);
    }
    fputs(span->n_labels ? "}" : "", lines);
}

static void put(const struct jespan_span_info *span, const char *figure, uint64_t value)
{
    fprintf(lines, "%lld,\"", (long long)time(NULL));
    put_path(span);
    fprintf(lines, "\",%s,%llu\n", figure, (unsigned long long)value);
}

static void wall(void *user, const struct jespan_span_info *span, const struct jespan_wall *since_last)
{
    (void)user;
    put(span, "opens", since_last->opens);
    put(span, "busy_ns", since_last->busy_ns);
}

static void allocations(void *user, const struct jespan_span_info *span, const struct jespan_allocations *since_last)
{
    (void)user;
    put(span, "alloc_bytes", since_last->alloc_bytes);
}

static void heap(void *user, const struct jespan_span_info *span, const struct jespan_heap *now)
{
    (void)user;
    put(span, "inuse_bytes", now->inuse_bytes);
}

static int flush(void *user)
{
    (void)user;
    if (fflush(lines))
        return errno;
    ssize_t n = write(file, text, bytes);
    int error = n < 0 ? errno : (size_t)n < bytes ? ENOSPC : 0;
    rewind(lines); /* what could not be written is given up: memory has a bound */
    return error;
}

static void end(void *user)
{
    (void)user;
    fclose(lines);
    free(text);
    close(file);
}

JESPAN_REPORTER(csv);
const struct jespan_reporter jespan_reporter_csv = {
    .size = sizeof(struct jespan_reporter), .name = "csv", .init = init, .wall = wall, .allocations = allocations,
    .heap = heap, .flush = flush, .shutdown = end,
};
