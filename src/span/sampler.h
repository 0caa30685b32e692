/* SPDX-License-Identifier: BSD-2-Clause */
/* Samplers decide which spans get a context of their own.
 *
 * The sampler is asked once for each span that is opened outside any other span, on the thread that opens it, without a
 * lock. Spans inside another span follow that one: see CONTEXT_ID_UNSAMPLED in tree.h. Rules come from the
 * configuration and do not change after boot. The program's callback takes precedence and may change at any time.
 */
#ifndef JESPAN_SAMPLER_H
#define JESPAN_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "heap/thread.h"
#include "jespan/jespan.h"

/* A sampler other than "always" was configured or set. It stays true, since unsampled spans may be open. */
extern _Atomic bool sampler_used;

HOT_INLINE bool sampler_is_used(void)
{
    return load_relaxed(&sampler_used);
}

/* Reads the configuration, names errors on stderr and ignores wrong parts. To be called once, before all other
 * functions of this file. */
void sampler_boot(void);

/* Sets the program's callback; NULL: the configuration decides. Takes LOCK_TREE. */
void sampler_set(jespan_sampler_t *decide, void *user);

/* Whether a span of `site`, opened below `parent` (or JESPAN_CURRENT), gets no context of its own. That is so if its
 * parent has none, or if it is outside any other span and the sampler declines it. */
bool sampler_declines(struct thread *t, jespan_context_t parent, const struct jespan_site *site,
                      const struct jespan_label *labels, size_t n_labels);

/* The number of spans so far that got no context of their own. Takes LOCK_TREE. */
uint64_t sampler_unsampled(void);

/* To be called in a forked child, which then draws other numbers than its parent. */
void sampler_after_fork(void);

/* ---- Rules; for tests ---- */

enum sampler_kind { SAMPLER_ALWAYS, SAMPLER_NEVER, SAMPLER_PROBABILITY, SAMPLER_RATE };
struct sampler_rule {
    const char *name; /* a pattern for names of sites */
    enum sampler_kind kind;
    uint64_t threshold; /* the probability, in 2^-64 */
    uint32_t per_second;
    _Atomic uint64_t budget; /* the second << 32 | number of spans sampled in it */
};

/* Reads always, never, 0.01 or 100/s. Returns 0 or -EINVAL. */
int sampler_parse(struct sampler_rule *rule, const char *text);
bool sampler_rule_decides(struct sampler_rule *rule, struct thread *t, uint32_t second);

#endif
