/* SPDX-License-Identifier: BSD-2-Clause */
/* The child that reads a binary: it finds names for all places and sends them. It frees nothing, since it ends then. */

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/perf_map.h"
#include "demangle.h"
#include "symbols_parts.h"

static uint32_t bytes_of(const char *text)
{
    return (uint32_t)strnlen(text, SYMBOLS_MAX_TEXT);
}

/* g++ gives static functions no linkage name, so their symbol tells more. */
static const char *choose_name(const struct symbols_function *function, const char *symbol)
{
    if (function->linkage_name)
        return function->linkage_name;
    if (symbol && (!function->name || strncmp(symbol, "_Z", 2) == 0))
        return symbol;
    return function->name ? function->name : "";
}

void symbols_send_frame(FILE *to, const struct symbols_frame *frame)
{
    struct symbols_record_frame head = {frame->line, frame->start_line, bytes_of(frame->name), bytes_of(frame->system),
                                        bytes_of(frame->file)};
    fwrite(&head, sizeof head, 1, to);
    fwrite(frame->name, 1, head.name_bytes, to);
    fwrite(frame->system, 1, head.system_bytes, to);
    fwrite(frame->file, 1, head.file_bytes, to);
}

static void send_function(FILE *to, const struct symbols_function *function, const char *symbol)
{
    const char *system = choose_name(function, symbol);
    struct symbols_frame frame = {demangle(system), system, function->file ? function->file : "", (uint32_t)function->line,
                                  (uint32_t)function->start_line};
    symbols_send_frame(to, &frame);
}

/* What the child knows of the binary. */
struct binary {
    const struct symbols_wanted *wanted;
    struct symbols_file file;
    struct symbols_table table;
    struct symbols_starts starts;
};

static void send_head(FILE *to, const struct binary *b, const struct symbols_place *place, size_t n_frames)
{
    struct symbols_record record = {place->i, place->address - b->file.bias, (uint32_t)n_frames};
    fwrite(&record, sizeof record, 1, to);
}

/* A function without a name, by its start. */
static void send_start(FILE *to, const struct binary *b, const struct symbols_place *place)
{
    uint64_t address = place->address - b->file.bias, start;
    bool is_known = symbols_starts_find(&b->starts, address, &start);
    send_head(to, b, place, is_known);
    if (!is_known)
        return;
    char name[NAME_MAX + 32];
    const char *slash = strrchr(b->wanted->path, '/');
    snprintf(name, sizeof name, "%.*s+0x%" PRIx64, NAME_MAX, slash ? slash + 1 : b->wanted->path,
             b->wanted->offsets[place->i] - (address - start));
    symbols_send_frame(to, &(struct symbols_frame){name, "", "", 0, 0});
}

/* The outermost function has a symbol as well. A place without DWARF has nothing else. */
static void send_place(FILE *to, const struct binary *b, const struct symbols_place *place)
{
    static const struct symbols_function unknown;
    const char *symbol = symbols_table_find(&b->table, place->address);
    if (place->n_functions == 0 && !symbol) {
        send_start(to, b, place);
        return;
    }
    size_t n = place->n_functions > 0 ? place->n_functions : 1;
    send_head(to, b, place, n);
    for (size_t i = 0; i < n; i++)
        send_function(to, place->n_functions > 0 ? &place->functions[i] : &unknown, i + 1 == n ? symbol : NULL);
}

static void send_reason(FILE *to, const char *reason)
{
    struct symbols_record record = {0, strlen(reason), SYMBOLS_REASON};
    fwrite(&record, sizeof record, 1, to);
    fwrite(reason, 1, strlen(reason), to);
}

static int compare(const void *a, const void *b)
{
    const struct symbols_place *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

void symbols_child_run(const struct symbols_wanted *wanted, bool with_dwarf, int fd)
{
    struct binary b = {.wanted = wanted};
    char reason[SYMBOLS_REASON_BYTES] = "";
    FILE *to = fdopen(fd, "w");
    struct symbols_place *places = calloc(wanted->n, sizeof *places);
    if (!to || !places)
        _exit(1);
    if (perf_map_has_path(wanted->path)) {
        if (!symbols_map_send(to, wanted, reason))
            send_reason(to, reason);
        _exit(fflush(to) != 0);
    }
    if (!symbols_file_open(&b.file, wanted->path, wanted->build_id, reason)) {
        send_reason(to, reason);
        _exit(fflush(to) != 0);
    }
    for (size_t i = 0; i < wanted->n; i++)
        places[i] = (struct symbols_place){.address = symbols_file_address(&b.file, wanted->offsets[i]) + b.file.bias, .i = i};
    qsort(places, wanted->n, sizeof *places, compare);
    symbols_table_read(&b.table, &b.file);
    symbols_starts_read(&b.starts, &b.file);
    if (with_dwarf)
        symbols_dwarf_find(&b.file, places, wanted->n);
    for (size_t i = 0; i < wanted->n; i++)
        send_place(to, &b, &places[i]);
    _exit(fflush(to) != 0);
}
