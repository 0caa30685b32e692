/* SPDX-License-Identifier: BSD-2-Clause */
/* Samplers: which spans get a context of their own.
 *
 * Asked once for each span that is opened outside any other, on the thread that opens it, with no lock held. What is
 * below a span follows it without being asked: see CONTEXT_ID_UNSAMPLED in tree.h. Rules come from the configuration
 * and stay as they are after boot; a callback of the program's comes before them, and may change at any time.
 */
#ifndef JESPAN_SAMPLER_H
#define JESPAN_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "heap/thread.h"
#include "jespan/jespan.h"

/* Something other than "always" was configured or set. Never false again, since unsampled spans may be open. */
extern _Atomic bool sampler_used;

HOT_INLINE bool sampler_is_used(void)
{
    return load_relaxed(&sampler_used);
}

/* Reads the configuration; what is wrong in it is named on stderr and left out. Once, before anything else here. */
void sampler_boot(void);

/* From now on `decide` is asked; NULL: the configuration. Takes LOCK_TREE. */
void sampler_set(jespan_sampler_t *decide, void *user);

/* Whether a span of `site`, to be opened below `parent` (or JESPAN_CURRENT), is not to have a context of its own: its
 * parent has none, or it would be a root and the sampler is against it. */
bool sampler_declines(struct thread *t, jespan_context_t parent, const struct jespan_site *site,
                      const struct jespan_label *labels, size_t n_labels);

/* Spans so far that have no context of their own. Takes LOCK_TREE. */
uint64_t sampler_unsampled(void);

/* In a forked child: draws other numbers than the parent does. */
void sampler_after_fork(void);

/* ---- Rules; for tests ---- */

enum sampler_kind { SAMPLER_ALWAYS, SAMPLER_NEVER, SAMPLER_PROBABILITY, SAMPLER_RATE };
struct sampler_rule {
    const char *name; /* of sites: a pattern */
    enum sampler_kind kind;
    uint64_t threshold; /* the probability, in 2^-64 */
    uint32_t per_second;
    _Atomic uint64_t budget; /* the second << 32 | how many were sampled in it */
};

/* Reads always, never, 0.01 or 100/s. Returns 0 or -EINVAL. */
int sampler_parse(struct sampler_rule *rule, const char *text);
bool sampler_rule_decides(struct sampler_rule *rule, struct thread *t, uint32_t second);

#endif
