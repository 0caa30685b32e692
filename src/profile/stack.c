/* SPDX-License-Identifier: BSD-2-Clause */
/* The stack of a sample: its frames, those that are left out, and their texts. */
#include "stack.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "console/text.h"
#include "hash.h"
#include "string_is.h"
#include "symbolize.h"

#define MAX_NAME_CHARS 2000
#define MAX_NAME_BYTES 4096
#define WANTED_NAME_BYTES 70
#define SHORT_NAME_BYTES 32

/* --- Which locations are stack frames ----------------------------------------------------------------------------------- */

static bool is_span(const struct profile *profile, uint64_t id)
{
    const JespanPprof__Location *location = profile_location(profile, id);
    const JespanPprof__Mapping *mapping = !location ? NULL : symbolize_mapping(profile, location->mapping_id);
    return mapping && string_is(profile_string(profile, mapping->filename), "[jespan]");
}

size_t stack_locations(const struct profile *profile, const JespanPprof__Sample *sample)
{
    size_t n = sample->n_location_id;
    while (n > 0 && is_span(profile, sample->location_id[n - 1]))
        n--;
    return n;
}

/* --- Texts -------------------------------------------------------------------------------------------------------------- */

const JespanPprof__Function *stack_profile_function(const struct profile *profile, const struct stack_call *call)
{
    return call->line ? profile_function(profile, call->line->function_id) : NULL;
}

struct stack_call stack_outermost(const JespanPprof__Location *location)
{
    size_t n = location ? location->n_line : 0;
    return (struct stack_call){location, n > 0 ? location->line[n - 1] : NULL};
}

ProtobufCBinaryData stack_function(const struct profile *profile, const struct stack_call *call)
{
    const JespanPprof__Function *function = stack_profile_function(profile, call);
    return profile_string(profile, function ? function->name : 0);
}

ProtobufCBinaryData stack_system_name(const struct profile *profile, const struct stack_call *call)
{
    const JespanPprof__Function *function = stack_profile_function(profile, call);
    return profile_string(profile, function ? function->system_name : 0);
}

ProtobufCBinaryData stack_file(const struct profile *profile, const struct stack_call *call)
{
    const JespanPprof__Function *function = stack_profile_function(profile, call);
    return profile_string(profile, function ? function->filename : 0);
}

ProtobufCBinaryData stack_library(const struct profile *profile, const struct stack_call *call)
{
    const JespanPprof__Mapping *mapping = symbolize_mapping(profile, call->location ? call->location->mapping_id : 0);
    return profile_string(profile, mapping ? mapping->filename : 0);
}

/* The text behind the last slash. */
static ProtobufCBinaryData base_name(ProtobufCBinaryData path)
{
    size_t start = path.len;
    while (start > 0 && path.data[start - 1] != '/')
        start--;
    return (ProtobufCBinaryData){path.len - start, path.data + start};
}

/* Adds it. */
static void add_base_name(struct text *text, ProtobufCBinaryData path)
{
    ProtobufCBinaryData name = path.len > 0 ? base_name(path) : path;
    if (name.len > 0)
        text_add_bytes(text, name.data, name.len, MAX_NAME_CHARS);
}

bool stack_is_start(const struct profile *profile, const struct stack_call *call)
{
    ProtobufCBinaryData name = stack_function(profile, call), library = stack_library(profile, call);
    if (name.len == 0 || library.len == 0 || stack_system_name(profile, call).len > 0)
        return false;
    library = base_name(library);
    return name.len > library.len && memcmp(name.data, library.data, library.len) == 0 && name.data[library.len] == '+';
}

size_t stack_address(char *to, size_t bytes, const struct profile *profile, const JespanPprof__Location *location)
{
    const JespanPprof__Mapping *mapping = symbolize_mapping(profile, location ? location->mapping_id : 0);
    ProtobufCBinaryData path = profile_string(profile, mapping ? mapping->filename : 0);
    uint64_t at = location ? location->address : 0, offset = mapping ? at - mapping->memory_start + mapping->file_offset : at;
    ProtobufCBinaryData name = path.len > 0 ? base_name(path) : path;
    int name_bytes = name.len < bytes ? (int)name.len : (int)bytes;
    int n = path.len > 0 ? snprintf(to, bytes, "%.*s+0x%" PRIx64, name_bytes, (const char *)name.data, offset)
                         : snprintf(to, bytes, "0x%" PRIx64, at);
    return (size_t)n < bytes ? (size_t)n : bytes - 1;
}

void stack_add_name(struct text *text, const struct profile *profile, const struct stack_call *call)
{
    ProtobufCBinaryData name = stack_function(profile, call);
    char address[STACK_ADDRESS_BYTES];
    if (name.len > 0) {
        char short_text[MAX_NAME_BYTES + 1];
        size_t n = name.len < MAX_NAME_BYTES ? name.len : MAX_NAME_BYTES;
        memcpy(short_text, name.data, n);
        short_text[n] = '\0';
        short_name(short_text, text->has_short_names ? SHORT_NAME_BYTES : WANTED_NAME_BYTES);
        text_add_bytes(text, short_text, strlen(short_text), MAX_NAME_CHARS);
        return;
    }
    text_add_bytes(text, address, stack_address(address, sizeof address, profile, call->location), MAX_NAME_CHARS);
}

void stack_add_place(struct text *text, const struct profile *profile, const struct stack_call *call)
{
    ProtobufCBinaryData file = stack_file(profile, call);
    char line[32], address[STACK_ADDRESS_BYTES];
    if (stack_is_start(profile, call)) {
        text_add_bytes(text, address, stack_address(address, sizeof address, profile, call->location), MAX_NAME_CHARS);
    } else if (file.len > 0) {
        add_base_name(text, file);
        snprintf(line, sizeof line, ":%" PRId64, call->line->line);
        text_add(text, call->line->line > 0 ? line : "");
    } else if (stack_function(profile, call).len > 0) {
        add_base_name(text, stack_library(profile, call));
    }
}

/* --- Frames that are left out --------------------------------------------------------------------------------------------- */

bool stack_has_role(const struct profile *profile, const struct stack_call *call, enum service_role role)
{
    const struct role_names names = {stack_function(profile, call), stack_system_name(profile, call), stack_library(profile, call)};
    return role_is(&names, role);
}

struct frames {
    const struct profile *profile;
    const struct stack *stack;
};

static bool has_role(const void *data, size_t i, enum service_role role)
{
    const struct frames *frames = data;
    return stack_has_role(frames->profile, &frames->stack->frames[i], role);
}

static void leave_out(struct stack *stack, const struct profile *profile)
{
    const struct frames frames = {profile, stack};
    struct role_stack roles = {.n = stack->n, .has = has_role, .data = &frames};
    role_find_shown(&roles);
    stack->n = 0;
    for (size_t i = roles.first; i < roles.end; i++)
        if (role_shows(&roles, i))
            stack->frames[stack->n++] = stack->frames[i];
}

/* --- Reading -------------------------------------------------------------------------------------------------------------- */

static int add_frame(struct stack *stack, const JespanPprof__Location *location, const JespanPprof__Line *line)
{
    if (stack->n == STACK_MAX_FRAMES) {
        stack->is_cut = true;
        return 0;
    }
    if (array_reserve(&stack->frames, &stack->room, stack->n + 1, sizeof *stack->frames))
        return -ENOMEM;
    stack->frames[stack->n++] = (struct stack_call){location, line};
    return 0;
}

int stack_read(struct stack *stack, const struct profile *profile, const JespanPprof__Sample *sample, bool all_frames)
{
    size_t n = stack_locations(profile, sample);
    int error = 0;
    stack->n = 0;
    stack->is_cut = false;
    for (size_t i = 0; i < n && error == 0; i++) {
        const JespanPprof__Location *location = profile_location(profile, sample->location_id[i]);
        size_t n_lines = location ? location->n_line : 0;
        if (n_lines == 0)
            error = add_frame(stack, location, NULL);
        for (size_t k = 0; k < n_lines && error == 0; k++)
            error = add_frame(stack, location, location->line[k]);
    }
    if (error == 0 && !all_frames)
        leave_out(stack, profile);
    return error;
}

void stack_free(struct stack *stack)
{
    free(stack->frames);
}

uint64_t stack_hash(const struct stack *stack)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < stack->n; i++) {
        const struct stack_call *call = &stack->frames[i];
        uint64_t function = call->line ? call->line->function_id : 0, line = call->line ? (uint64_t)call->line->line : 0;
        uint64_t address = call->line || !call->location ? 0 : call->location->address;
        hash = hash_mix(hash + hash_mix(hash_mix(hash_mix(function + 1) + line) + address));
    }
    return hash;
}
