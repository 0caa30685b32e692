/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the pprof encoder: output, strings, sites, stacks, mappings, the head. Only pprof_*.c include this. */
#ifndef JESPAN_PPROF_PARTS_H
#define JESPAN_PPROF_PARTS_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <zlib.h>

#include "base/perf_map.h"
#include "hash_index.h"
#include "pprof.h"
#include "report/exporter.h"
#include "snapshot/snapshot.h"
#include "stacks/codes.h"

/* ---- code_maps.c: the mappings of a process that have code, for addresses of stacks ---- */

struct code_map {
    uint64_t start, limit, offset, inode;
    uint64_t image;   /* where the file's first bytes are in memory; 0: not known */
    const char *file; /* "[vdso]" and the like are no files; "[anon]" for code that was generated */
    uint32_t id;      /* the user's. 0 at first */
    const struct code *code; /* what the table of code says: the mapping may have been unloaded. NULL: it is there */
    bool is_deleted;  /* no file has this name, or another one has it */
};

struct code_maps {
    const struct exporter_memory *memory;
    struct code_map *maps; /* by address, then those of the table of code, then `generated` */
    uint32_t n, n_codes;
    pid_t pid;
    bool is_of_core;
    char *text;
    struct code_map *generated; /* all generated code, if the process names it in a perf map, which is the file; NULL: it does not */
    char perf_map[PERF_MAP_PATH_BYTES];
};

/* All maps that code_maps_find() may return. */
static inline size_t code_maps_most(const struct code_maps *maps)
{
    return (size_t)maps->n + maps->n_codes + 1;
}

/* Reads /proc. A pid of 0 is the calling process. Without memory, or without /proc, there are no mappings. */
void code_maps_read(struct code_maps *maps, const struct snapshot *snapshot, const struct exporter_memory *memory);
void code_maps_free(struct code_maps *maps);

/* The address is one of a frame. NULL: it is in none of them. */
struct code_map *code_maps_find(const struct code_maps *maps, uint64_t address);

/* Opens the file of a mapping, by its name here or in the root directory of the process. -ESTALE: another file has its name now, or
 * may have. -1: there is none. */
int code_maps_open(const struct code_maps *maps, const struct code_map *map);

/* Writes what stands for the build id of a file that was opened; "" if it has none. */
void code_maps_identify(char *build_id, const struct code_maps *maps, const struct code_map *map, int fd);

/* The build id in the table of code. "" if the table has none. */
void code_maps_build_id(char *build_id, const struct code *code);

/* Opens the memory of the process. -1: it cannot be read, or the maps are those of a core file. */
int code_maps_open_memory(const struct code_maps *maps);

/* ---- pprof_out.c: messages go to the sink in pieces, gzipped or plain ---- */

/* A protobuf message may be written as a sequence of parts: readers join their repeated fields. So a profile of any
 * size is written as many small Profile messages, with constant memory.
 *
 * After the first error all calls do nothing, so callers need not check each call. */
struct pprof_out {
    struct exporter_sink *sink;
    enum pprof_form form;
    int error; /* the first one, a negative errno. 0: none */
    z_stream gzip;
    unsigned char *packed; /* messages not yet compressed */
    size_t n_packed_bytes, packed_capacity_bytes;
    unsigned char *compressed; /* not yet written */
};

/* Zeroes `out` first. The caller frees `out` after an error too. */
int pprof_out_init(struct pprof_out *out, enum pprof_form form, struct exporter_sink *sink);
void pprof_out_free(struct pprof_out *out);

void pprof_out_fail(struct pprof_out *out, int error);
void pprof_out_message(struct pprof_out *out, const ProtobufCMessage *message);

/* Writes the rest, and the end of the gzip stream. Returns the first error or 0. */
int pprof_out_finish(struct pprof_out *out);

/* ---- pprof_strings.c: the string table ---- */

/* Each text is written once, when it is first needed. */
struct pprof_strings {
    struct pprof_out *out;
    struct hash_index index;
    const char **items; /* by string index, without copies */
    uint32_t n, capacity;
};

/* Writes entry 0, the empty string. Errors of all functions here go to `out`. */
void pprof_strings_init(struct pprof_strings *strings, struct pprof_out *out);
void pprof_strings_free(struct pprof_strings *strings);

/* Returns the index of `text`, which must not change until pprof_strings_free(). The empty string has index 0. Invalid
 * UTF-8 is written as U+FFFD, because strict readers reject the whole file for it. */
int64_t pprof_strings_intern(struct pprof_strings *strings, const char *text);

/* Writes `text` as an entry that pprof_strings_intern() does not find. The caller may change it afterwards. */
int64_t pprof_strings_append(struct pprof_strings *strings, const char *text);

/* ---- pprof_sites.c: sites as functions and locations ---- */

/* Each is one Function and one Location with one Line, written when it is first needed.
 *
 * Sites are no code, so their addresses are invented, in a mapping of their own. Readers that subtract profiles of a
 * process (Grafana Alloy, by fastdelta) identify a location by its address alone. So the address of a site is unique
 * in a profile and depends only on the site. It is the same in all profiles of all processes. */

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

/* ---- pprof_head.c: the types of values, the program, the times, comments ---- */

/* Reads the main program of a process from /proc. Unknown parts stay empty. A pid of 0 is the calling process.
 * dl_iterate_phdr() is not used: the dynamic loader may hold its lock. */
void pprof_head_identify(struct program *program, pid_t pid);

/* Reads the build id of an ELF file that begins there in `fd`, as struct program has it. Nothing is written if it has none. */
void pprof_head_build_id(char *build_id, int fd, uint64_t start);

/* The string table refers to these texts while it is in use. */
struct pprof_head {
    struct program program; /* of this process. Unused if the snapshot has one */
    char comment[128];
};

/* Writes sample types, period, mapping, times and comments. `head` must live as long as `strings`. */
void pprof_head_write(struct pprof_head *head, struct pprof_strings *strings, const struct pprof_kind *kind,
                      const struct snapshot *snapshot);

/* The program that was written. */
const struct program *pprof_head_program(const struct pprof_head *head, const struct snapshot *snapshot);

/* ---- pprof_stacks.c: frames of stacks as locations ---- */

/* They have addresses and mappings, and no names: readers look these up in the binaries. */

#define PPROF_STACKS_FIRST_ID (UINT64_C(1) << 32) /* of locations: the ids of sites are below */
#define PPROF_STACKS_MAPPING_ID 3                 /* the first one. The program and the sites have those before */
#define PPROF_MAX_STACK_FRAMES 256                /* the most that stacks_depth can be */

struct pprof_stacks {
    struct pprof_out *out;
    struct pprof_strings *strings;
    const struct snapshot *snapshot;
    uint32_t *locations; /* by frame: the location's id - PPROF_STACKS_FIRST_ID + 1. 0: none yet */
    struct hash_index index;
    uint64_t *addresses; /* by location */
    uint32_t n, capacity, n_mappings;
    struct code_maps maps;
    char (*build_ids)[2 * PROGRAM_BUILD_ID_BYTES + 1]; /* by mapping: the strings refer to them */
};

/* The program's mapping is written already, with PPROF_PROGRAM_MAPPING_ID. Errors go to `out` of the strings. */
void pprof_stacks_init(struct pprof_stacks *stacks, struct pprof_strings *strings, const struct snapshot *snapshot,
                       const struct program *program);
void pprof_stacks_free(struct pprof_stacks *stacks);

/* Writes the ids of the locations of a stack to `frames`, the innermost first. Returns their number. */
uint32_t pprof_stacks_walk(struct pprof_stacks *stacks, uint32_t frame, uint64_t frames[PPROF_MAX_STACK_FRAMES]);

#endif
