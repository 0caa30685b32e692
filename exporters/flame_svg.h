/* SPDX-License-Identifier: BSD-2-Clause */
/* A flame graph as SVG. The picture needs neither script nor network, so it is shown as a file and inside pages. */
#ifndef JESPAN_FLAME_SVG_H
#define JESPAN_FLAME_SVG_H

#include <stdint.h>

#include "report/exporter.h"

#define FLAME_SVG_NONE UINT32_MAX
#define FLAME_SVG_NAME_BYTES 4096 /* of a name, with the 0 at its end */

/* `parent` and `own` are the caller's. flame_svg_write() sets the other members. */
struct flame_svg_frame {
    uint32_t parent; /* index of the frame below it in the picture, FLAME_SVG_NONE: the frame of all */
    uint64_t own;    /* its value without that of its children */
    uint64_t total, start; /* the value with all children; that of all frames to the left */
    uint32_t first, next;  /* its largest child; the next smaller child of its parent */
    uint32_t depth;        /* 0: it is not drawn */
    uint32_t waits;        /* children whose total is not known yet */
};

/* What the values are: "bytes", with larger units for people. */
struct flame_svg_unit {
    const char *name;
    uint64_t base; /* how many are one of larger[0], and so on; 0: there are no larger ones */
    const char *larger[5];
};

extern const struct flame_svg_unit flame_svg_bytes, flame_svg_us;

struct flame_svg {
    const char *program, *figure; /* for the heading: "/usr/bin/shop", "memory in use" */
    const struct flame_svg_unit *unit;
    struct flame_svg_frame *frames;
    uint32_t n;
    /* Writes the name of a frame, any bytes. Its colour depends on the part before " {". Returns 0 or a negative errno. */
    int (*name)(void *data, uint32_t frame, char text[FLAME_SVG_NAME_BYTES]);
    void *data;
};

/* Returns 0, -ENOMEM, or an error of name() or of the sink. The same frames give the same bytes. */
int flame_svg_write(const struct flame_svg *svg, struct exporter_sink *sink);

#endif
