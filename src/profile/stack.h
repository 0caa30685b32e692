/* SPDX-License-Identifier: BSD-2-Clause */
/* The stack of a sample: the frames below its spans, as people read them.
 *
 * In a sample, stack frames come first, from the leaf on, then the spans. Spans lie in the mapping "[jespan]". A profile
 * without such a mapping is another program's, and has stack frames only. */
#ifndef JESPAN_PROFILE_STACK_H
#define JESPAN_PROFILE_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "console/text.h"
#include "profile.h"
#include "roles.h"

/* A function at a place. `line` is NULL if the location has no names. */
struct stack_call {
    const JespanPprof__Location *location;
    const JespanPprof__Line *line;
};

/* {0} is an empty stack. */
struct stack {
    struct stack_call *frames; /* the leaf first, inlined functions each */
    size_t n, room;
    bool is_cut; /* it has more frames */
};

#define STACK_MAX_FRAMES 4096

/* Returns the number of locations at the leaf end of the sample that are stack frames. */
size_t stack_locations(const struct profile *profile, const JespanPprof__Sample *sample);

/* Replaces the stack by that of a sample. Without `all_frames`, the functions of the allocator at the leaf end and those of
 * libc that start a thread at the other end are left out, unless nothing else is there. So are carriers below a script's
 * function. Returns 0 or -ENOMEM. */
int stack_read(struct stack *stack, const struct profile *profile, const JespanPprof__Sample *sample, bool all_frames);
void stack_free(struct stack *stack);

/* Equal for stacks of the same functions and lines. */
uint64_t stack_hash(const struct stack *stack);

/* The outermost function of a location, which may be NULL. */
struct stack_call stack_outermost(const JespanPprof__Location *location);

/* The function of a call as the profile has it; NULL where it has none. */
const JespanPprof__Function *stack_profile_function(const struct profile *profile, const struct stack_call *call);

/* The texts of a call: function, system name, file, and the file of its library. "" where nothing is known. */
ProtobufCBinaryData stack_function(const struct profile *profile, const struct stack_call *call);
ProtobufCBinaryData stack_system_name(const struct profile *profile, const struct stack_call *call);
ProtobufCBinaryData stack_file(const struct profile *profile, const struct stack_call *call);
ProtobufCBinaryData stack_library(const struct profile *profile, const struct stack_call *call);

/* Whether the function has that role, which is not SERVICE_OTHER. */
bool stack_has_role(const struct profile *profile, const struct stack_call *call, enum service_role role);

/* Writes "library+0x1234", the library's file without its directories and the offset there, or "0x1234". `location` may be NULL. Returns
 * the bytes, without the NUL. */
#define STACK_ADDRESS_BYTES 512
size_t stack_address(char *to, size_t bytes, const struct profile *profile, const JespanPprof__Location *location);

/* Whether the function has no name but "library+0x1234", where it begins: SYMBOLIZE_STARTS. */
bool stack_is_start(const struct profile *profile, const struct stack_call *call);

/* Adds "function", or "library+0x1234", or "0x1234"; and "file:line", or the library, or the address of a function without a name, or
 * nothing. Files are without their directories. */
void stack_add_name(struct text *text, const struct profile *profile, const struct stack_call *call);
void stack_add_place(struct text *text, const struct profile *profile, const struct stack_call *call);

#endif
