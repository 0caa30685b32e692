/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks through code that was unloaded: their contexts stay, and no thread may find them again by the same addresses, since other
 * code may be loaded there.
 *
 * The dynamic linker calls calloc(3) before it maps a library, under a lock that it also holds while it unloads one. So each
 * allocation of its own looks for libraries that are gone, and the generations of their contexts change. Stacks that end in the
 * linker are kept in no cache, so such an allocation always comes to stack_context_enter(). With samples, all of calloc(3)
 * does. */
#ifndef JESPAN_STACK_CODE_H
#define JESPAN_STACK_CODE_H

#include <stdint.h>

/* Grows before a library is loaded, while stacks are taken. Never 0. */
extern _Atomic uint64_t stack_code_loads;

/* To be called where the linker allocates. */
void stack_code_look(void);

/* After the present thread has locked LOCK_TREE: does what stack_code_look() could not do without the lock. */
void stack_code_look_if_due(void);

/* Stacks are taken from now on. Under LOCK_TREE. */
void stack_code_begin(void);

/* Replaces the return addresses of a stack by those for the tree of frames: stacks/codes.h. Under LOCK_TREE. */
void stack_code_translate(uintptr_t *return_addresses, uint32_t n);

#endif
