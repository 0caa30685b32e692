/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of `jespan check`: the options and the program (check.c), values of rules from the dumps (check_rules.c), and
 * the results as text and files (check_results.c). */
#ifndef JESPAN_CMD_CHECK_H
#define JESPAN_CMD_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CHECK_MAX_RULES 32 /* as many as `alert` takes */

/* A bound on the bytes of the contexts that fit. */
struct check_rule {
    const char *text; /* as the user wrote it */
    char *spans;      /* without the bound */
    struct report_filter *filter; /* NULL: all contexts */
    const char *bound_text; /* as the user wrote it */
    uint64_t bound;   /* the value must be less */
    bool outlived;    /* what spans left in use at exit; else what was in use in any dump */
    int64_t bytes;    /* the most that a process had */
    pid_t process;    /* the process that had it */
    char *context;    /* the path that had most of it; NULL: none */
};

struct check {
    struct check_rule rules[CHECK_MAX_RULES];
    size_t n;
    int program_status; /* as a shell has it: 128 and the signal for a program that was killed */
    unsigned n_ends;    /* dumps that were written when a process ended */
    const char *program;
    const char *not_checked; /* why no rule was checked; NULL: they were */
};

/* Adds the rule "SPANS<BYTES", or that nothing outlives its span. Returns NULL, or the reason in words. */
const char *check_add_max(struct check *check, const char *text);
const char *check_add_no_outlived(struct check *check);
void check_free(struct check *check);

/* Sets the values of the rules from all dumps in the directory. Returns NULL, or the reason in words. */
const char *check_read(struct check *check, const char *directory);

bool check_holds(const struct check_rule *rule);

void check_print(const struct check *check);

/* Return 0 or a negative errno. */
int check_write_junit(const struct check *check, const char *path);
int check_write_markdown(const struct check *check, const char *path);

#endif
