/* SPDX-License-Identifier: BSD-2-Clause */
/* The sites of a profile: each is one Function and one Location with one Line, written when first asked for. */
#ifndef JESPAN_PPROF_SITES_H
#define JESPAN_PPROF_SITES_H

#include <stdint.h>

#include "pprof_index.h"
#include "pprof_out.h"
#include "pprof_strings.h"

struct pprof_sites {
    struct pprof_out *out;
    struct pprof_strings *strings;
    struct pprof_index index;
    struct pprof_site *items; /* item i is the location and the function with id i + 1 */
    uint32_t n, capacity;
};

#define PPROF_MAPPING_ID 1 /* the only mapping, the main program's */

void pprof_sites_init(struct pprof_sites *sites, struct pprof_strings *strings);
void pprof_sites_free(struct pprof_sites *sites);

/* The id of the location of a site. Equal contents give equal ids. Errors go to the strings' `out`. */
uint32_t pprof_sites_location(struct pprof_sites *sites, const char *name, const char *target, const char *file,
                              uint32_t line);

#endif
