/* SPDX-License-Identifier: BSD-2-Clause */
/* Which code is, or was, at an address of a frame.
 *
 * A library may be loaded where another one was unloaded. So each library that the program starts with, or that is seen in a stack,
 * has an entry in a table, which says what it was. The first one at a place has its own addresses in the tree of frames. Each other one
 * gets addresses there that no memory has. So an address in the tree names one piece of code for ever. The program, libc and the dynamic
 * linker, which are never unloaded, have entries too: readers need these once the process has ended, and its mappings are gone.
 */
#ifndef JESPAN_CODES_H
#define JESPAN_CODES_H

#include <stdbool.h>
#include <stdint.h>

#include "stacks/objects.h"

#define CODES_MOST 4096u
#define CODE_FILE_BYTES 368

/* Where addresses of the second kind begin, and the one that is used when all entries are taken. Addresses of sites, which pprof's
 * files have, are from 2^52 on. Those before the limit stand for no code. */
#define CODES_OWN_START (UINT64_C(1) << 48)
#define CODES_OWN_LIMIT (UINT64_C(1) << 52)
#define CODES_UNKNOWN (CODES_OWN_LIMIT - 1)
#define CODES_CUT (CODES_OWN_LIMIT - 2) /* the innermost frame of a stack that was cut there: it stands for those that are missing */
#define CODES_CUT_NAME "(cut)"

enum code_state { CODE_LOADED, CODE_UNLOADED, CODE_FORGETTING };

/* All but the state stays. */
struct code {
    uint64_t start, bytes; /* in memory */
    uint64_t shown;        /* what stands for `start` in the tree of frames */
    uint64_t identity;     /* of the object. 0: code that belongs to no object */
    _Atomic uint64_t link_map;
    _Atomic uint32_t state;
    struct object_code parts;
    char file[CODE_FILE_BYTES];
};
_Static_assert(sizeof(struct code) == 512, "eight in a page");

extern struct code *codes;
extern _Atomic uint32_t codes_end;

/* Chooses the addresses of the table. Returns 0 or -ENOMEM. All functions are called under LOCK_TREE. */
int codes_boot(void);

/* Makes the entry of the object that has code at the address. */
void codes_add(uintptr_t address);

/* Replaces the return addresses of a stack of the calling thread by those for the tree of frames. */
void codes_translate(uintptr_t *return_addresses, uint32_t n);

/* Finds out which objects were unloaded. `thoroughly`: others of the same sizes may have been loaded since, at the same places. */
void codes_look(bool thoroughly);

/* Takes the next one that was unloaded since the last call. Its rules are forgotten. Stores the range of addresses in the tree of
 * frames that it had. False: none. */
bool codes_take_unloaded(uint64_t *start, uint64_t *end);

#endif
