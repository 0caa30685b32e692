/* SPDX-License-Identifier: BSD-2-Clause */
/* For unit tests, after cmocka.h: keeps what is written to stderr between two calls. */
#ifndef JESPAN_TESTS_COMPLAINTS_H
#define JESPAN_TESTS_COMPLAINTS_H

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct complaints {
    FILE *to;
    int saved; /* stderr as it was */
};

static inline struct complaints complaints_begin(void)
{
    struct complaints c = {tmpfile(), dup(STDERR_FILENO)};
    assert_true(c.to && c.saved >= 0 && dup2(fileno(c.to), STDERR_FILENO) >= 0);
    return c;
}

/* Returns the number of lines that were written, and stores them in `text`, cut to its `bytes`. */
static inline int complaints_end(struct complaints *c, char *text, size_t bytes)
{
    int lines = 0;
    assert_true(dup2(c->saved, STDERR_FILENO) >= 0);
    close(c->saved);
    rewind(c->to);
    text[fread(text, 1, bytes - 1, c->to)] = '\0';
    fclose(c->to);
    for (const char *p = text; (p = strchr(p, '\n')); p++)
        lines++;
    return lines;
}

#endif
