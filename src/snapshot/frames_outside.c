/* SPDX-License-Identifier: BSD-2-Clause */
/* The frames of another process's stacks. They never change there, so only new ones are copied. A snapshot refers to
 * the copy. So the copy is only moved when it is full, and the view keeps the older copies (struct
 * outside_frames_room). */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/compiler.h"
#include "base/meta.h"
#include "snapshot/view_outside.h"

#define MAX_FRAMES (1u << 24) /* the most that max_stacks can be */

/* Snapshots that were taken before still use a copy that was outgrown. Copies grow by doubling, so all of them together
 * take no more than the last one. */
struct outside_frames_room {
    struct outside_frames_room *older;
    size_t bytes;
    struct stack_frame frames[];
};

static struct outside_frames_room *room_of(struct stack_frame *frames)
{
    return (struct outside_frames_room *)((char *)frames - offsetof(struct outside_frames_room, frames));
}

static int grow(struct view_outside *o, uint32_t n)
{
    size_t wanted = sizeof(struct outside_frames_room) + (size_t)n * sizeof *o->frames, bytes = o->frames_bytes ? o->frames_bytes : 1 << 20;
    while (bytes < wanted)
        bytes *= 2;
    if (bytes == o->frames_bytes)
        return 0;
    struct outside_frames_room *room = meta_map(bytes);
    if (!room)
        return -ENOMEM;
    room->bytes = bytes;
    room->older = o->frames ? room_of(o->frames) : NULL;
    if (o->frames)
        memcpy(room->frames, o->frames, o->n_frames * sizeof *o->frames);
    o->frames = room->frames;
    o->frames_bytes = bytes;
    return 0;
}

/* Readers follow parents, so each has to have a smaller number, as it has in books that are not damaged. */
static int check(const struct stack_frame *frames, uint32_t from, uint32_t end)
{
    for (uint32_t i = from; i < end; i++)
        if (frames[i].parent >= i && i)
            return -EBADMSG;
    return 0;
}

int outside_frames(struct view *view, const struct stack_frame **frames, uint32_t *n_frames, struct stacks_stats *stats)
{
    struct view_outside *o = view->outside;
    uint64_t from = 0;
    uint32_t end = 0;
    const struct piece pieces[] = {{&end, space_address(view->books.frames_end), sizeof end},
                                   {&from, space_address(view->books.frames), sizeof from},
                                   {stats, space_address(view->books.stacks), sizeof *stats}};
    int error = space_copy(&view->space, pieces, sizeof pieces / sizeof pieces[0]);
    if (!error && (end > MAX_FRAMES || end < o->n_frames || from & 7))
        error = -EBADMSG;
    if (!error)
        error = grow(o, end);
    if (!error && end > o->n_frames) {
        const struct piece more = {o->frames + o->n_frames, from + o->n_frames * sizeof *o->frames,
                                    (end - o->n_frames) * sizeof *o->frames};
        error = space_copy(&view->space, &more, 1);
    }
    if (!error)
        error = check(o->frames, o->n_frames, end);
    if (error)
        return error;
    *n_frames = o->n_frames = end;
    *frames = o->frames;
    return 0;
}

void outside_free_frames(struct view_outside *o)
{
    for (struct outside_frames_room *room = o->frames ? room_of(o->frames) : NULL, *older; room; room = older) {
        older = room->older;
        meta_unmap(room, room->bytes);
    }
}
