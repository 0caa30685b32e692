/* SPDX-License-Identifier: BSD-2-Clause */
/* The sites of a profile. Each is one Function and one Location with one Line, written when it is first needed.
 *
 * Sites are no code, so their addresses are invented, in a mapping of their own. Readers that subtract profiles of a
 * process (Grafana Alloy, by fastdelta) identify a location by its address alone. So the address of a site is unique
 * in a profile and depends only on the site. It is the same in all profiles of all processes.
 */
#ifndef JESPAN_PPROF_SITES_H
#define JESPAN_PPROF_SITES_H

#include <stdint.h>

#include "pprof_out.h"
#include "pprof_strings.h"

struct pprof_sites {
    struct pprof_out *out;
    struct pprof_strings *strings;
    struct hash_index index, addresses;
    struct pprof_site *items; /* item i is the location and the function with id i + 1 */
    uint32_t n, capacity;
};

#define PPROF_PROGRAM_MAPPING_ID 1 /* the first one: readers take it for the main program */
#define PPROF_SITES_MAPPING_ID 2

/* Above all addresses that a process can map, and small enough for readers whose numbers have 53 bits. */
#define PPROF_SITES_START ((uint64_t)1 << 52)
#define PPROF_SITES_LIMIT ((uint64_t)1 << 53)

void pprof_sites_init(struct pprof_sites *sites, struct pprof_strings *strings);
void pprof_sites_free(struct pprof_sites *sites);

/* Returns the id of the location of a site. Equal sites have equal ids. Errors go to `out` of the strings. */
uint32_t pprof_sites_location(struct pprof_sites *sites, const char *name, const char *target, const char *file,
                              uint32_t line);

#endif
