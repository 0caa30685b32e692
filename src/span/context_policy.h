/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tree and the spans ask of the layer above them: which span arena and which limit a context has.
 *
 * These functions are declared here and defined in policy/context_policy.c, so that the tree does not include headers of
 * arenas and limits. All are cold.
 */
#ifndef SPAN_CONTEXT_POLICY_H
#define SPAN_CONTEXT_POLICY_H

#include <stdbool.h>
#include <stdint.h>

struct thread;

/* Under LOCK_TREE. The context is made, all its members but arena and limit are set: gives it both. */
void policy_context_made(uint32_t id);

/* Under LOCK_TREE. The context is recycled: it leaves its arena and its limit. */
void policy_context_freed(uint32_t id);

/* Under LOCK_TREE. The context lost its arena to others and is used again: asks for another. */
void policy_arena_again(uint32_t id);

/* A site asks for an arena that cannot be: counts it. */
void policy_arena_refused(void);

/* Under LOCK_TREE. Around a number of calls of policy_context_freed(). */
void policy_recycling_begins(void);
void policy_recycling_ends(void);

/* Whether the context has an arena because its own site asks for one, not because an ancestor has it. */
bool policy_has_own_arena(uint32_t id);

/* Settles the limits' charges of the calling thread, whose limits_unsettled is set. */
void policy_settle(struct thread *t);

#endif
