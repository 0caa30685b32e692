/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of `jespan html`: the page (html.c), the dumps in it (html_dumps.c), and the labels of spans (html_labels.c).
 *
 * The dumps are a JSON text: {"figures": [name…], "moments": [{"time": seconds, "files": [name…],
 * "contexts": [[parent, name, place, [key, value…]]…], "changes": [gap, difference of each figure…, gap…]}…]}.
 * `contexts` has those that no moment before has; they are numbered from 0 on, and the parent -1 is the root. `changes` has the
 * contexts whose own figures differ from the moment before, by number; `gap` is the number less that of the one before. The
 * figure total.peak_bytes is the peak of a context with all below it: peaks do not add up. */
#ifndef JESPAN_ANALYSIS_HTML_H
#define JESPAN_ANALYSIS_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <zlib.h>

#include "console/text.h"
#include "profile/profile.h"
#include "report.h"

/* ---- html_pack.c: a text in memory, compressed by gzip while it is written ---- */

struct html_pack {
    z_stream stream;
    unsigned char *bytes;
    size_t n, capacity;
    int error; /* the first one; later calls do nothing */
};

/* `pack` is overwritten, and freed by the caller in either case. */
void html_pack_begin(struct html_pack *pack);
void html_pack_add(struct html_pack *pack, const char *text);
void html_pack_add_number(struct html_pack *pack, int64_t number);

/* Adds a JSON string: the text in quotation marks. */
void html_pack_add_string(struct html_pack *pack, const struct text *text);

/* Returns 0 or -ENOMEM. The compressed text is then complete. */
int html_pack_end(struct html_pack *pack);
void html_pack_free(struct html_pack *pack);

/* How many bytes base64 takes, and the text in base64. */
size_t html_pack_base64_bytes(const struct html_pack *pack);
void html_pack_write_base64(const struct html_pack *pack, FILE *to);

/* ---- html_labels.c: which span of a sample has which of its labels ---- */

#define HTML_MAX_LABELS 256 /* of a sample; further ones are left out */

/* Facts that hold for all samples that were read. A zeroed one has learnt nothing. */
struct html_labels {
    struct hash_table paths; /* the index into `keys`, by the hash of the frames' locations */
    struct html_keys *keys;
    uint32_t n;
    size_t capacity;
};

/* Returns 0 or -ENOMEM. */
int html_labels_learn(struct html_labels *l, const struct report_input *input, const JespanPprof__Sample *sample);
void html_labels_free(struct html_labels *l);

/* A frame of a sample with its own labels. `hash` is that of the path with its labels up to this frame. */
struct html_frame {
    uint64_t location, hash;
    const JespanPprof__Label *labels[HTML_MAX_LABELS];
    uint32_t n_labels;
};

/* A walk over the frames of a sample, from the outermost on. `frame` is the present one. */
struct html_walk {
    const struct html_labels *known;
    const struct report_input *input;
    const JespanPprof__Sample *sample;
    size_t left;
    uint64_t path;
    bool taken[HTML_MAX_LABELS]; /* labels of the frames above */
    struct html_frame frame;
};

void html_walk_begin(struct html_walk *w, const struct html_labels *labels, const struct report_input *input,
                     const JespanPprof__Sample *sample);

/* Returns false after the innermost frame. */
bool html_walk_next(struct html_walk *w);

/* ---- html_dumps.c ---- */

struct html_file {
    const char *name;
    int kept; /* a descriptor of what can be read only once; -1: the file itself is read. The caller closes it */
    int64_t time_ns;
    enum profile_kind kind;
};

/* The parts that all files have in common. `calls`: the calls of stacks are contexts below spans. NULL: there is no
 * memory. */
struct html_dumps *html_dumps_new(bool calls);
void html_dumps_free(struct html_dumps *dumps);

/* Reads each file to learn when it was written and which spans have which labels, and sorts files by time. Returns NULL, or the
 * reason in words, and *failed is the file. */
const char *html_files_sort(struct html_dumps *dumps, struct html_file *files, size_t n, const char **failed);

/* The number of moments: a heap dump and a dump of times that were written together are one. */
size_t html_files_moments(const struct html_file *files, size_t n);

/* Writes the dumps of every `step`th moment, the last one among them. Returns as above. */
const char *html_dumps_write(struct html_dumps *dumps, struct html_pack *to, const struct html_file *files, size_t n, size_t step,
                             const char **failed);

#endif
