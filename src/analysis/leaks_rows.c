/* SPDX-License-Identifier: BSD-2-Clause */
/* The leaks of a profile: samples with memory in use, by stack, and below that by context. */
#include <errno.h>
#include <stdlib.h>

#include "leaks.h"
#include "profile/hash.h"
#include "profile/string_is.h"

/* The spans and labels of a sample. */
static uint64_t hash_context(const struct report_input *input, const JespanPprof__Sample *sample)
{
    uint64_t path = 0, labels = 0;
    for (size_t i = stack_locations(&input->profile, sample); i < sample->n_location_id; i++)
        path = hash_mix(path + hash_mix(report_location_hash(input, sample->location_id[i]) + 1));
    for (size_t i = 0; i < sample->n_label; i++) {
        const JespanPprof__Label *label = sample->label[i];
        labels += hash_mix(report_string_hash(input, label->key) + hash_mix(report_string_hash(input, label->str))
                           + hash_mix((uint64_t)label->num));
    }
    return hash_mix(path + hash_mix(labels));
}

static ProtobufCBinaryData name_of(const struct profile *profile, uint64_t id)
{
    const JespanPprof__Location *location = profile_location(profile, id);
    const JespanPprof__Function *function =
        location && location->n_line > 0 ? profile_function(profile, location->line[0]->function_id) : NULL;
    return profile_string(profile, function ? function->name : 0);
}

/* jespan's own memory is no leak of the program. Names of contexts that are no spans are in brackets, or a thread's. */
static bool is_wanted(const struct profile *profile, const JespanPprof__Sample *sample, bool of_spans)
{
    size_t n = sample->n_location_id, n_spans = n - stack_locations(profile, sample);
    ProtobufCBinaryData outermost = n_spans > 0 ? name_of(profile, sample->location_id[n - 1]) : (ProtobufCBinaryData){0, NULL};
    if (string_begins_with(outermost, "(jespan)"))
        return false;
    bool is_thread = string_begins_with(outermost, "thread:"), is_other = string_begins_with(outermost, "(");
    return !of_spans || (n_spans > (is_thread ? 1 : 0) && !is_other);
}

struct reader {
    struct leaks *leaks;
    struct report_input *input;
    const struct leaks_wanted *wanted;
    struct stack stack;
};

/* Memory without a stack is told apart by its context alone. */
static int add_part(struct reader *r, uint32_t i, const JespanPprof__Sample *sample)
{
    int64_t values[PROFILE_N_VALUES];
    profile_values(&r->input->profile, sample, values);
    if (values[PROFILE_INUSE_BYTES] <= 0 || !is_wanted(&r->input->profile, sample, r->wanted->of_spans)
        || !report_filter_fits(r->wanted->filter, r->input, sample))
        return 0;
    int error = stack_read(&r->stack, &r->input->profile, sample, r->wanted->all_frames);
    uint64_t context = hash_context(r->input, sample);
    r->leaks->has_stacks |= r->stack.n > 0;
    r->leaks->parts[r->leaks->n_parts++] = (struct leak_part){
        .stack = r->stack.n > 0 ? stack_hash(&r->stack) : context,
        .context = context,
        .sample = i,
        .bytes = values[PROFILE_INUSE_BYTES],
        .objects = values[PROFILE_INUSE_OBJECTS],
    };
    return error;
}

static int read_part(struct reader *r, uint32_t i)
{
    JespanPprof__Sample *sample;
    int error = profile_sample(&r->input->profile, i, &sample);
    if (error == 0)
        error = add_part(r, i, sample);
    profile_sample_free(&r->input->profile, sample);
    return error;
}

/* --- Groups ------------------------------------------------------------------------------------------------------------- */

static int by_stack(const void *a, const void *b)
{
    const struct leak_part *x = a, *y = b;
    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    if (x->context != y->context)
        return x->context < y->context ? -1 : 1;
    return (x->sample > y->sample) - (x->sample < y->sample);
}

static int by_part_bytes(const void *a, const void *b)
{
    const struct leak_part *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : (x->sample > y->sample) - (x->sample < y->sample);
}

static int by_bytes(const void *a, const void *b)
{
    const struct leak *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->objects != y->objects ? (x->objects < y->objects ? 1 : -1) : (x->part > y->part) - (x->part < y->part);
}

/* A context may have several samples with one stack, which differ in addresses only. */
static void merge_contexts(struct leaks *leaks)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < leaks->n_parts; i++) {
        struct leak_part *part = &leaks->parts[i], *last = n == 0 ? NULL : &leaks->parts[n - 1];
        if (last && last->stack == part->stack && last->context == part->context) {
            last->bytes = report_sum(last->bytes, part->bytes);
            last->objects = report_sum(last->objects, part->objects);
        } else {
            leaks->parts[n++] = *part;
        }
    }
    leaks->n_parts = n;
}

static void make_groups(struct leaks *leaks)
{
    for (uint32_t i = 0; i < leaks->n_parts; i++) {
        if (i == 0 || leaks->parts[i].stack != leaks->parts[i - 1].stack)
            leaks->items[leaks->n++] = (struct leak){.part = i};
        struct leak *leak = &leaks->items[leaks->n - 1];
        leak->n_parts++;
        leak->bytes = report_sum(leak->bytes, leaks->parts[i].bytes);
        leak->objects = report_sum(leak->objects, leaks->parts[i].objects);
    }
    for (uint32_t i = 0; i < leaks->n; i++)
        qsort(&leaks->parts[leaks->items[i].part], leaks->items[i].n_parts, sizeof *leaks->parts, by_part_bytes);
}

/* A suppression may name a frame that is not shown. */
static int suppress(struct reader *r, const struct suppressions *suppressions, struct leak *leak)
{
    struct profile *profile = &r->input->profile;
    JespanPprof__Sample *sample;
    int error = profile_sample(profile, r->leaks->parts[leak->part].sample, &sample);
    if (error != 0)
        return error;
    error = stack_read(&r->stack, profile, sample, true);
    leak->suppressed_by = error == 0 ? suppressions_find(suppressions, profile, &r->stack) : NULL;
    profile_sample_free(profile, sample);
    if (leak->suppressed_by) {
        leak->suppressed_by->n_stacks++;
        leak->suppressed_by->bytes = report_sum(leak->suppressed_by->bytes, leak->bytes);
    }
    return error;
}

int leaks_read(struct leaks *leaks, struct report_input *input, const struct leaks_wanted *wanted)
{
    size_t n = input->profile.parts->n_sample;
    struct reader r = {.leaks = leaks, .input = input, .wanted = wanted};
    int error = 0;
    *leaks = (struct leaks){.parts = calloc(n + 1, sizeof *leaks->parts), .items = calloc(n + 1, sizeof *leaks->items)};
    if (!leaks->parts || !leaks->items)
        return -ENOMEM;
    for (uint32_t i = 0; i < n && error == 0; i++)
        error = read_part(&r, i);
    qsort(leaks->parts, leaks->n_parts, sizeof *leaks->parts, by_stack);
    merge_contexts(leaks);
    make_groups(leaks);
    for (uint32_t i = 0; i < leaks->n && error == 0 && wanted->suppressions->n > 0; i++)
        error = suppress(&r, wanted->suppressions, &leaks->items[i]);
    qsort(leaks->items, leaks->n, sizeof *leaks->items, by_bytes);
    stack_free(&r.stack);
    return error;
}

void leaks_free(struct leaks *leaks)
{
    free(leaks->parts);
    free(leaks->items);
}
