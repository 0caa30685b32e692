/* SPDX-License-Identifier: BSD-2-Clause */
/* Loaded objects: the program and its libraries. All functions are async-signal-safe, take no lock, and leave errno alone. */
#ifndef JESPAN_OBJECTS_H
#define JESPAN_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "stacks/eh_frame.h"
#include "stacks/sframe.h"

struct object {
    uintptr_t start, bytes; /* both 0: none */
    uint64_t identity; /* a hash of its place, its sizes and its build id. Another object has another one. 0: none */
    uintptr_t link_map; /* its address. Another object may have it later */
    bool stays;        /* it is never unloaded */
};

/* False: libc is not ready to find objects. */
bool objects_can_be_found(void);

/* The object that has the address. False: there is none, and all of *object is 0. */
bool object_find(uintptr_t address, struct object *object);

/* The same without the identity, which takes a system call. */
bool object_find_quick(uintptr_t address, struct object *object);

/* The sections that have rules of an object's code. */
struct object_rules {
    struct eh_frame_section eh_frame; /* all NULL: none */
    struct sframe_section sframe;
};

/* The same, with the sections. */
bool object_find_rules(uintptr_t address, struct object *object, struct object_rules *rules);

/* What is known of an object apart from its file. */
#define OBJECT_BUILD_ID_BYTES 64
struct object_code {
    uint64_t start, limit, offset; /* the part with the code, in memory and in the file; a library may have more, elsewhere in the file */
    uint32_t build_id_bytes;       /* 0: it has none, or not in its first page */
    unsigned char build_id[OBJECT_BUILD_ID_BYTES];
};

/* Describes the object, of which `address` is code, and writes the path of its file, "" where that is not known or too long. */
void object_describe(uintptr_t address, struct object_code *code, char *path, size_t room);

/* The dynamic linker's code; empty in a static program. */
extern uintptr_t object_linker_start, object_linker_bytes;
HOT_INLINE bool object_is_linker(uintptr_t address)
{
    return address - object_linker_start < object_linker_bytes;
}

#endif
