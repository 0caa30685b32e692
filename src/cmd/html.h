/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of `jespan html`: the page (html.c), and the dumps in it (html_dumps.c).
 *
 * The dumps are a JSON text: {"figures": [name…], "moments": [{"time": seconds, "files": [name…],
 * "contexts": [[parent, name, place, [key, value…]]…], "changes": [gap, difference of each figure…, gap…]}…]}.
 * `contexts` has those that no moment before has; they are numbered from 0 on, and the parent -1 is the root. `changes` has the
 * contexts whose own figures differ from the moment before, by number; `gap` is the number less that of the one before. */
#ifndef JESPAN_CMD_HTML_H
#define JESPAN_CMD_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <zlib.h>

#include "profile.h"
#include "text.h"

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

/* ---- html_dumps.c ---- */

struct html_file {
    const char *name;
    int64_t time_ns;
    enum profile_kind kind;
};

/* What all files have in common. `calls`: the calls of stacks are contexts below spans. NULL: there is no memory. */
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
