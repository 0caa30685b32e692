/* SPDX-License-Identifier: BSD-2-Clause */
/* What src/sys.rs and src/allocator.rs take for granted. This does not compile if the headers say something else. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <jespan/jespan.h>

_Static_assert(JESPAN_CURRENT == 0 && JESPAN_ROOT == 1, "CURRENT, ROOT");
_Static_assert(JESPAN_MAX_LABELS == 16 && JESPAN_MAX_STRING_BYTES == 255, "MAX_LABELS, MAX_STRING_BYTES");
_Static_assert(JESPAN_TYPE_STRING == 0 && JESPAN_TYPE_INTEGER == 1, "TYPE_STRING, TYPE_INTEGER");
_Static_assert(_Generic((jespan_context_t)0, uint32_t: 1, default: 0), "a context is a u32");

/* The place and size of a member */
#define MEMBER(type, name, offset, bytes)                                                                              \
    _Static_assert(offsetof(struct type, name) == (offset) && sizeof(((struct type *)0)->name) == (bytes), #type "." #name)

MEMBER(jespan_arena, flags, 0, 4);
MEMBER(jespan_arena, numa_node, 4, 4);
MEMBER(jespan_arena, dirty_decay_ms, 8, 8);
MEMBER(jespan_arena, muzzy_decay_ms, 16, 8);
MEMBER(jespan_arena, limit_bytes, 24, 8);
MEMBER(jespan_arena, by_label, 32, 8);
_Static_assert(sizeof(struct jespan_arena) == 40, "struct jespan_arena");

MEMBER(jespan_site, name, 0, 8);
MEMBER(jespan_site, target, 8, 8);
MEMBER(jespan_site, file, 16, 8);
MEMBER(jespan_site, line, 24, 4);
MEMBER(jespan_site, arena, 32, 40);
_Static_assert(sizeof(struct jespan_site) == 72, "struct jespan_site");

MEMBER(jespan_label, key, 0, 8);
MEMBER(jespan_label, value, 8, 8);
MEMBER(jespan_label, integer, 16, 8);
MEMBER(jespan_label, type, 24, 4);
_Static_assert(sizeof(struct jespan_label) == 32, "struct jespan_label");

/* A second declaration must agree with the first. */
jespan_span_t *jespan_open(const struct jespan_site *, uint32_t, const struct jespan_label *, size_t);
int jespan_enter(jespan_span_t *);
int jespan_exit(jespan_span_t *);
int jespan_close(jespan_span_t *);
int jespan_add_label(jespan_span_t *, const struct jespan_label *);

void *malloc(size_t);
void *calloc(size_t, size_t);
void *aligned_alloc(size_t, size_t);
void *realloc(void *, size_t);
void free(void *);
