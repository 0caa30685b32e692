/* SPDX-License-Identifier: BSD-2-Clause */
/* The questions that the tree asks the folder above it: which span arena and which limit a context has.
 *
 * The functions are declared here and defined in policy/context_policy.c. So src/span includes no header of src/policy.
 * All are cold. Those for contexts need LOCK_TREE.
 */
#ifndef JESPAN_CONTEXT_POLICY_H
#define JESPAN_CONTEXT_POLICY_H

#include <stdbool.h>
#include <stdint.h>

struct thread;

/* A context is new and has all its members except arena, lost_arena and limit. Sets these. */
void policy_context_made(uint32_t id);

/* A context is recycled. Takes arena and limit from it. */
void policy_context_freed(uint32_t id);

/* A context that lost its arena to another context is used again. Asks for another arena, unless a span of it is open or a
 * thread is inside. */
void policy_arena_again(uint32_t id);

/* Counts a site whose properties for an arena are invalid. */
void policy_arena_refused(void);

/* Begin and end a number of calls of policy_context_freed(). LOCK_ORPHAN is held between the two. */
void policy_recycling_begins(void);
void policy_recycling_ends(void);

/* Whether the context has an arena because its own site asks for one, and not because an ancestor has one. */
bool policy_has_own_arena(uint32_t id);

/* Settles the limits' charges of the calling thread, whose limits_unsettled is set. */
void policy_settle(struct thread *t);

#endif
