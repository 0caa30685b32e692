/* SPDX-License-Identifier: BSD-2-Clause */
/* Figures of jespan itself that another process may read, by their names of mallctl. Each has a row beside its variable.
 * The linker collects the rows, and the books (snapshot/books.h) have their place. A row is a constant: it takes no time.
 */
#ifndef JESPAN_FIGURES_H
#define JESPAN_FIGURES_H

#include <stdint.h>

#define FIGURE_NAME_BYTES 48
#define FIGURE_SUM_BYTES 2048

enum figure_kind {
    FIGURE_NUMBER,
    FIGURE_SIGNED, /* a number that reads as 0 where it is negative */
    FIGURE_LESS_1, /* the number less 1; 0 if the number is 0 */
    FIGURE_AT,     /* a pointer to a number of 8 bytes */
    FIGURE_SUM,    /* an array of numbers of 8 bytes, some of which may be 0 */
    FIGURE_TEXT,   /* a pointer to a text that is never freed. NULL: an empty text */
};

struct figure_row {
    char name[FIGURE_NAME_BYTES]; /* begins with a dot if it is no name of mallctl */
    const volatile void *at;
    uint32_t bytes; /* of a number: 4 or 8; of an array: at most FIGURE_SUM_BYTES */
    uint32_t kind;  /* enum figure_kind */
};

/* Stands after the variable, at file scope. `row` is a C name of its own. */
#define FIGURE_ROW(row, figure_name, variable, figure_kind)                                                            \
    _Static_assert(sizeof(variable) <= FIGURE_SUM_BYTES, "readers take no more");                                      \
    static const struct figure_row row __attribute__((section("jespan_figures"), used, aligned(8))) = {                \
        figure_name, &(variable), sizeof(variable), figure_kind}

#endif
