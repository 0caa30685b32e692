/* SPDX-License-Identifier: BSD-2-Clause */
/* The tree of return addresses. A node is a frame with all frames outside it, so its number names a stack.
 *
 * Nodes are made under LOCK_TREE and never change or go, so they are read without a lock, also by another process. */
#ifndef JESPAN_FRAMES_H
#define JESPAN_FRAMES_H

#include <stdint.h>

#include "base/compiler.h"

struct stack_frame {
    uint64_t return_address; /* the instruction after the call; for an interrupted instruction, its address + 1 */
    uint32_t parent;         /* the frame outside it; 0: none */
    uint32_t next;           /* with the same hash */
};

extern struct stack_frame *stack_frames; /* by number; 0 is none */
extern _Atomic uint32_t stack_frames_end;

/* Chooses the addresses of the table. Returns 0 or -ENOMEM. To be called under LOCK_TREE. */
int frames_boot(uint32_t max);

/* The number of a stack, whose addresses are given from the innermost one on. 0: all numbers are taken, or there is no
 * memory. Under LOCK_TREE. */
uint32_t frames_intern(const uintptr_t *return_addresses, uint32_t n);

#endif
