/* SPDX-License-Identifier: BSD-2-Clause */
/* Names for addresses in programs and libraries: function, file, line, and the functions that were inlined there.
 *
 * Each binary is read by a forked child with bounds on its memory, CPU time and elapsed time. So a binary that crashes the libraries that
 * read it, that keeps them busy or that cannot be read costs names and nothing else. The child ends with all that it read. */
#ifndef JESPAN_SYMBOLS_H
#define JESPAN_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYMBOLS_MAX_INLINED 64      /* functions at one address */
#define SYMBOLS_MAX_TEXT 4096       /* bytes of a name; a longer one is cut */
#define SYMBOLS_REASON_BYTES 512

/* The addresses of one binary. */
struct symbols_wanted {
    const char *path;        /* of the binary; "[vdso]" is that of this process */
    const char *build_id;    /* in hexadecimal digits; "" is unknown */
    const uint64_t *offsets; /* in the file, ascending */
    size_t n;
};

/* A function at an address. Texts are valid UTF-8, and "" where nothing is known. A function without a name that has a known start
 * is `name` "library+0x1234", its offset in the file, and `system` "". */
struct symbols_frame {
    const char *name;   /* for people, demangled */
    const char *system; /* as the linker knows it */
    const char *file;
    uint32_t line, start_line; /* of the place, and of the function; 0: unknown */
};

struct symbols_found {
    size_t i;         /* the place in `offsets` */
    uint64_t address; /* in the binary, as nm(1) and addr2line(1) count */
    size_t n_frames;  /* the innermost first */
    const struct symbols_frame *frames;
};

/* Whether all that is known is where the function begins. */
static inline bool symbols_is_start(const struct symbols_found *found)
{
    return found->n_frames == 1 && found->frames[0].name[0] != '\0' && found->frames[0].system[0] == '\0';
}

/* Whether the user names debuginfod servers, which are asked too. */
bool symbols_has_servers(void);

/* Calls take() for each address about which something is known, in any order. The texts are valid during the call.
 * Returns NULL, or a reason in words in `reason` why names are missing: names may have been found all the same. */
const char *symbols_find(const struct symbols_wanted *wanted, int (*take)(void *data, const struct symbols_found *found), void *data,
                         char reason[SYMBOLS_REASON_BYTES]);

#endif
