/* SPDX-License-Identifier: BSD-2-Clause */
/* The sites of a profile: each is one Function and one Location with one Line, written when first asked for.
 *
 * Sites are no code, so their addresses are made up, in a mapping of their own. Readers that subtract profiles of one
 * process (Grafana Alloy, by fastdelta) know a location by its address alone. So each site has an address that no other
 * one in the profile has, and which depends on what the site is and on nothing else: it is the same in all profiles, of
 * other processes too.
 */
#ifndef JESPAN_PPROF_SITES_H
#define JESPAN_PPROF_SITES_H

#include <stdint.h>

#include "pprof_index.h"
#include "pprof_out.h"
#include "pprof_strings.h"

struct pprof_sites {
    struct pprof_out *out;
    struct pprof_strings *strings;
    struct pprof_index index, addresses;
    struct pprof_site *items; /* item i is the location and the function with id i + 1 */
    uint32_t n, capacity;
};

#define PPROF_PROGRAM_MAPPING_ID 1 /* the first, which readers take for the main program */
#define PPROF_SITES_MAPPING_ID 2

/* Above all that a process can map, and small enough for readers whose numbers have 53 bits. */
#define PPROF_SITES_START ((uint64_t)1 << 52)
#define PPROF_SITES_LIMIT ((uint64_t)1 << 53)

void pprof_sites_init(struct pprof_sites *sites, struct pprof_strings *strings);
void pprof_sites_free(struct pprof_sites *sites);

/* The id of the location of a site. Equal contents give equal ids. Errors go to the strings' `out`. */
uint32_t pprof_sites_location(struct pprof_sites *sites, const char *name, const char *target, const char *file,
                              uint32_t line);

#endif
