/* SPDX-License-Identifier: BSD-2-Clause */
/* Keeps what walks found. */
#include "stacks/trail.h"

#define NEAR 3u         /* frames: a walk that joins so early needs no other trail */
#define REST_MOST 1024u /* walks */

uint64_t trail_powers[TRAIL_MOST + 1];

static void add(struct trail *t, const struct trail_frame *frame)
{
    uint32_t outer = t->n++, j = t->n, n = outer ? t->above[outer] + 1 : 0;
    if (frame->bp_at && t->bp[outer]) {
        t->word_at[n] = frame->bp_at;
        t->words[n++] = t->bp[outer];
    }
    t->above[j] = n;
    t->word_at[n] = frame->at;
    t->words[n] = frame->pc;
    t->at[j] = frame->at;
    t->bp[j] = frame->bp_used ? frame->bp_used : frame->bp_at ? 0 : t->bp[outer];
    if (frame->bp_at && !t->saver) {
        t->saver = j;
        t->outer_bp_at = frame->bp_at;
    }
    t->hash[j] = frame->pc + trail_powers[1] * t->hash[outer];
}

/* Where stacks come by chance, walks join late, and to look for the trail takes longer than to walk on. So after some of them the trail
 * rests, and for longer each time. */
void trail_add(struct trail *t, uint32_t n, uint32_t joined)
{
    if (joined >= n) {
        t->useless = 0;
        if (n <= NEAR)
            return;
    } else {
        t->rest = t->useless;
        t->useless = !t->useless ? 1 : t->useless < REST_MOST ? 2 * t->useless : REST_MOST;
    }
    if (joined + n > TRAIL_MOST) {
        trail_clear(t);
        return;
    }
    t->n = joined;
    t->saver = t->saver <= joined ? t->saver : 0;
    while (n)
        add(t, &t->walked[--n]);
}

/* Frames are added at the inner end only. So if there are many, the next walk makes another trail. */
void trail_went_on(struct trail *t, uint32_t n, uint32_t above)
{
    if (n > NEAR || above > NEAR)
        trail_clear(t);
}
