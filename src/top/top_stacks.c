/* SPDX-License-Identifier: BSD-2-Clause */
/* The stacks of `jespan top`: a heap dump of the process is made in memory, and read as `jespan leaks` reads it. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analysis/leaks.h"
#include "analysis/report.h"
#include "processes/outside.h"
#include "profile/stack.h"
#include "top.h"

#define MAX_STACKS 500 /* that are shown: those with most in use */
#define MAX_FRAMES 64  /* of one */

static void add_frame(struct text *text, const struct profile *profile, const struct stack_call *frame)
{
    static struct text place;
    stack_add_name(text, profile, frame);
    text_clear(&place);
    stack_add_place(&place, profile, frame);
    text_add(text, place.n ? " " : "");
    text_append(text, &place);
}

/* "inner a.c:1 < outer b.c:2  in request > cache {tenant=blue}" */
static int describe(struct text *text, struct report_input *input, uint32_t i)
{
    static struct text path;
    struct stack stack = {0};
    JespanPprof__Sample *sample;
    int error = profile_sample(&input->profile, i, &sample);
    if (error)
        return error;
    error = stack_read(&stack, &input->profile, sample, false);
    text_clear(text);
    text_add(text, stack.n ? "" : "(no stack)");
    for (size_t k = 0; k < stack.n && k < MAX_FRAMES; k++) {
        text_add(text, k ? " < " : "");
        add_frame(text, &input->profile, &stack.frames[k]);
    }
    const struct report_place place = {i, (uint32_t)stack_locations(&input->profile, sample), 0};
    report_path(&path, input, sample, &place);
    text_add(text, "  in ");
    text_append(text, &path);
    stack_free(&stack);
    profile_sample_free(&input->profile, sample);
    return error;
}

/* If several contexts have memory from a stack, it is shown with the one that has most. */
static int add_stack(struct top_items *items, struct report_input *input, const struct leaks *leaks, const struct leak *leak)
{
    static struct text text;
    const struct leak_part *part = &leaks->parts[leak->part];
    int error = describe(&text, input, part->sample);
    if (!error && leak->n_parts > 1)
        text_add(&text, ", and others");
    struct top_item *item = error ? NULL : top_items_add(items, part->stack, &text);
    if (!item)
        return error ? error : -ENOMEM;
    item->row.figures.inuse_bytes = (uint64_t)leak->bytes;
    item->row.figures.objects = (uint64_t)leak->objects;
    return 0;
}

static int add_stacks(struct top_items *items, struct report_input *input)
{
    static const struct suppressions none;
    const struct leaks_wanted wanted = {.suppressions = &none};
    struct leaks leaks;
    int error = leaks_read(&leaks, input, &wanted);
    for (uint32_t i = 0; i < leaks.n && i < MAX_STACKS && leaks.has_stacks && !error; i++)
        error = add_stack(items, input, &leaks, &leaks.items[i]);
    leaks_free(&leaks);
    return error;
}

static const char *write_dump(const struct top *top, int fd)
{
    const struct outside process = {top->process, top->snapshot};
    int error = outside_write(&process, EXPORTER_HEAP, fd);
    return error ? strerror(-error) : lseek(fd, 0, SEEK_SET) < 0 ? strerror(errno) : NULL;
}

/* A dump that cannot be read has no stacks: the next one may have. */
int top_stacks_read(struct top *top, struct top_items *items)
{
    static const struct report_source source = {.frames = REPORT_LOCATIONS};
    static struct report_input input;
    int fd = memfd_create("jespan-top", MFD_CLOEXEC);
    items->none = "the program takes no stacks: 'jespan ctl PID stacks sampled' turns them on";
    if (fd < 0)
        return -ENOMEM;
    memset(&input, 0, sizeof input);
    input.pid = top->url[0] != '\0' ? 0 : (pid_t)top->snapshot->pid;
    const char *reason = top->url[0] != '\0' ? top_url_fetch(top, fd, "/debug/pprof/heap?labels=all") : write_dump(top, fd);
    if (!reason)
        reason = report_input_read_descriptor(&input, fd, &source, true);
    int error = reason ? 0 : add_stacks(items, &input);
    if (reason)
        items->none = reason;
    report_input_free(&input);
    close(fd);
    return error == -EBADMSG ? 0 : error;
}
