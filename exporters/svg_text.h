/* SPDX-License-Identifier: BSD-2-Clause */
/* Text, figures and colours of an SVG file. After the first error of the sink, nothing more is written. */
#ifndef JESPAN_SVG_TEXT_H
#define JESPAN_SVG_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "report/exporter.h"

struct svg_text {
    struct exporter_sink *sink;
    int error; /* 0, or that of the sink */
    size_t n;  /* bytes that wait */
    char bytes[8192];
};

void svg_put(struct svg_text *t, const char *text);
void svg_put_number(struct svg_text *t, uint64_t n);

/* With `digits` decimals: n is in tenths, hundredths and so on, of which `base` are one. */
void svg_put_decimal(struct svg_text *t, uint64_t n, unsigned base, int digits);

/* A name, which may have any bytes. What XML does not allow becomes U+FFFD. */
void svg_put_name(struct svg_text *t, const char *name);

/* As much of the name as fits, with an ellipsis for the rest. */
void svg_put_name_in(struct svg_text *t, const char *name, size_t columns);

/* The colour that the page gives the name: hueOf() in page/model.js. */
void svg_put_colour(struct svg_text *t, const char *name);

void svg_flush(struct svg_text *t);

#endif
