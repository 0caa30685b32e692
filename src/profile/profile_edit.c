/* SPDX-License-Identifier: BSD-2-Clause */
/* Adds functions and lines to a profile. All memory comes from the profile's allocator, which bounds it and frees it. */
#include "profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static void *take(struct profile_edit *edit, size_t bytes)
{
    ProtobufCAllocator *allocator = &edit->profile->allocator;
    return allocator->alloc(allocator->allocator_data, bytes);
}

static void give(struct profile_edit *edit, void *memory)
{
    ProtobufCAllocator *allocator = &edit->profile->allocator;
    if (memory)
        allocator->free(allocator->allocator_data, memory);
}

/* Makes room for one more of `n` items of `bytes` each. */
static int reserve(struct profile_edit *edit, void **items, size_t n, size_t *room, size_t bytes)
{
    if (n < *room)
        return 0;
    size_t larger = 2 * n + 64;
    void *moved = take(edit, larger * bytes);
    if (!moved)
        return -ENOMEM;
    if (n > 0)
        memcpy(moved, *items, n * bytes);
    give(edit, *items);
    *items = moved;
    *room = larger;
    return 0;
}

/* Returns 0 or -ENOMEM. String 0 is the empty one. */
static int intern(struct profile_edit *edit, const char *text, int64_t *index)
{
    JespanParts__Profile *parts = edit->profile->parts;
    uint64_t hash = hash_bytes(text, strlen(text));
    const uint64_t *known = hash_find(&edit->strings, hash);
    *index = text[0] == '\0' ? 0 : known ? (int64_t)*known : (int64_t)parts->n_string_table;
    if (known || text[0] == '\0')
        return 0;
    size_t bytes = strlen(text);
    uint8_t *copy = take(edit, bytes);
    if (!copy || reserve(edit, (void **)&parts->string_table, parts->n_string_table, &edit->string_room, sizeof *parts->string_table) != 0
        || hash_add(&edit->strings, hash, parts->n_string_table) != 0) {
        give(edit, copy);
        return -ENOMEM;
    }
    memcpy(copy, text, bytes);
    parts->string_table[parts->n_string_table++] = (ProtobufCBinaryData){bytes, copy};
    return 0;
}

/* A string table may lack even the empty string: it then gets one. */
void profile_edit_begin(struct profile_edit *edit, struct profile *profile)
{
    JespanParts__Profile *parts = profile->parts;
    *edit = (struct profile_edit){.profile = profile, .string_room = parts->n_string_table, .function_room = parts->n_function};
    edit->next_function = parts->n_function == 0 ? 1 : parts->function[parts->n_function - 1]->id + 1;
    if (parts->n_string_table == 0
        && reserve(edit, (void **)&parts->string_table, 0, &edit->string_room, sizeof *parts->string_table) == 0)
        parts->string_table[parts->n_string_table++] = (ProtobufCBinaryData){0, NULL};
}

void profile_edit_end(struct profile_edit *edit)
{
    hash_free(&edit->strings);
    hash_free(&edit->functions);
}

/* Functions stay sorted by id. The number after the largest is 0, which is no id. */
static int add_function(struct profile_edit *edit, const JespanPprof__Function *function)
{
    JespanParts__Profile *parts = edit->profile->parts;
    if (edit->next_function == 0)
        return -ENOMEM;
    JespanPprof__Function *added = take(edit, sizeof *added);
    if (!added || reserve(edit, (void **)&parts->function, parts->n_function, &edit->function_room, sizeof *parts->function) != 0) {
        give(edit, added);
        return -ENOMEM;
    }
    *added = *function;
    added->id = edit->next_function++;
    parts->function[parts->n_function++] = added;
    return 0;
}

int profile_edit_function(struct profile_edit *edit, const char *name, const char *system, const char *file, int64_t start_line,
                          uint64_t *id)
{
    JespanPprof__Function function = JESPAN_PPROF__FUNCTION__INIT;
    function.start_line = start_line;
    if (intern(edit, name, &function.name) != 0 || intern(edit, system, &function.system_name) != 0
        || intern(edit, file, &function.filename) != 0)
        return -ENOMEM;
    uint64_t hash = hash_mix(hash_mix((uint64_t)function.name + 1) + (uint64_t)function.system_name);
    hash = hash_mix(hash_mix(hash + (uint64_t)function.filename) + (uint64_t)start_line);
    const uint64_t *known = hash_find(&edit->functions, hash);
    *id = known ? *known : edit->next_function;
    if (known)
        return 0;
    int error = add_function(edit, &function);
    return error != 0 ? error : hash_add(&edit->functions, hash, *id);
}

int profile_edit_lines(struct profile_edit *edit, JespanPprof__Location *location, const struct profile_line *lines, size_t n)
{
    JespanPprof__Line **made = take(edit, n * sizeof *made);
    for (size_t i = 0; made && i < n; i++) {
        if (!(made[i] = take(edit, sizeof *made[i]))) {
            while (i-- > 0)
                give(edit, made[i]);
            give(edit, made);
            return -ENOMEM;
        }
        jespan_pprof__line__init(made[i]);
        made[i]->function_id = lines[i].function;
        made[i]->line = lines[i].line;
    }
    if (!made)
        return -ENOMEM;
    location->line = made;
    location->n_line = n;
    return 0;
}

/* --- Writing -------------------------------------------------------------------------------------------------------- */

struct out {
    ProtobufCBuffer base; /* first: protobuf-c gets a pointer to it */
    gzFile file;
    int error;
};

static void append(ProtobufCBuffer *buffer, size_t n, const uint8_t *bytes)
{
    struct out *out = (struct out *)buffer;
    while (n > 0 && out->error == 0) {
        unsigned part = n < (1u << 30) ? (unsigned)n : 1u << 30;
        errno = 0;
        if (gzwrite(out->file, bytes, part) != (int)part)
            out->error = errno != 0 ? -errno : -EIO;
        bytes += part;
        n -= part;
    }
}

int profile_write(const struct profile *profile, int fd)
{
    struct out out = {.base = {append}};
    int copy = dup(fd), error = copy < 0 ? -errno : -ENOMEM;
    out.file = copy < 0 ? NULL : gzdopen(copy, "wb");
    if (!out.file) {
        if (copy >= 0)
            close(copy);
        return error;
    }
    jespan_parts__profile__pack_to_buffer(profile->parts, &out.base);
    errno = 0;
    if (gzclose_w(out.file) != Z_OK && out.error == 0)
        out.error = errno != 0 ? -errno : -EIO;
    return out.error;
}
