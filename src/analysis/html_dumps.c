/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps as the page of `jespan html` reads them, see html.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "html.h"

/* The values of each kind, then the peaks of a context alone and with all below it. */
#define AT_PEAKS ((size_t)PROFILE_N_KINDS * PROFILE_N_VALUES)
#define N_VALUES (AT_PEAKS + 2)

struct context {
    int64_t now[N_VALUES], before[N_VALUES];
};

struct html_dumps {
    bool calls; /* the calls below spans are contexts too */
    struct html_labels labels;

    struct html_pack *to;
    struct hash_table numbers; /* of contexts, by hash */
    struct context *contexts;
    uint32_t n;
    size_t capacity;
    bool has[N_VALUES]; /* any file has it */
    bool any; /* the list that is being written has an item */
    struct text *text;
    struct report_input input;
};

/* --- Files ---------------------------------------------------------------------------------------------------------- */

static int compare_files(const void *a, const void *b)
{
    const struct html_file *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : strcmp(x->name, y->name);
}

static const char *describe(int error)
{
    return error == 0 ? NULL : error == -EBADMSG ? "not a pprof profile" : "out of memory";
}

static struct report_source source_of(const struct html_dumps *d)
{
    return (struct report_source){.frames = d->calls ? REPORT_CALLS : REPORT_SPANS};
}

/* Reads a file and calls `use` for each sample. */
static const char *read_file(struct html_dumps *d, const struct html_file *file,
                             int (*use)(struct html_dumps *d, const JespanPprof__Sample *sample))
{
    struct report_source source = source_of(d);
    const char *reason = file->kept >= 0 ? report_input_read_kept(&d->input, file->kept, file->name, &source)
                                         : report_input_read(&d->input, file->name, &source);
    for (size_t i = 0; !reason && i < d->input.profile.parts->n_sample; i++) {
        JespanPprof__Sample *sample;
        int error = profile_sample(&d->input.profile, i, &sample);
        if (error == 0) {
            error = use(d, sample);
            profile_sample_free(&d->input.profile, sample);
        }
        reason = describe(error);
    }
    return reason;
}

static int learn_sample(struct html_dumps *d, const JespanPprof__Sample *sample)
{
    return html_labels_learn(&d->labels, &d->input, sample);
}

/* The page has no place for them. */
static bool is_lifetimes(const struct profile *profile, size_t value)
{
    return profile->kind == PROFILE_HEAP && value == PROFILE_LIFETIMES;
}

static void see_values(struct html_dumps *d)
{
    const struct profile *profile = &d->input.profile;
    for (size_t v = 0; v < PROFILE_N_VALUES; v++)
        d->has[profile->kind * PROFILE_N_VALUES + v] |= profile->columns[v] >= 0 && !is_lifetimes(profile, v);
    for (size_t peak = 0; peak < N_VALUES - AT_PEAKS; peak++)
        d->has[AT_PEAKS + peak] |= profile->peak_columns[peak] >= 0;
}

const char *html_files_sort(struct html_dumps *d, struct html_file *files, size_t n, const char **failed)
{
    const char *reason = NULL;
    for (size_t i = 0; i < n && !reason; i++) {
        struct report_source source = source_of(d);
        *failed = files[i].name;
        reason = report_input_keep(&files[i].kept, files[i].name, &source);
        if (reason)
            break;
        reason = read_file(d, &files[i], learn_sample);
        if (!reason) {
            files[i].time_ns = d->input.profile.parts->time_nanos;
            files[i].kind = d->input.profile.kind;
            see_values(d);
        }
        report_input_free(&d->input);
    }
    if (!reason)
        qsort(files, n, sizeof *files, compare_files);
    return reason;
}

/* How many files belong to the moment of the first one. */
static size_t files_of_moment(const struct html_file *files, size_t n)
{
    return n > 1 && files[0].time_ns == files[1].time_ns && files[0].kind != files[1].kind ? 2 : 1;
}

size_t html_files_moments(const struct html_file *files, size_t n)
{
    size_t moments = 0;
    for (size_t i = 0; i < n; i += files_of_moment(files + i, n - i))
        moments++;
    return moments;
}

/* --- Contexts ------------------------------------------------------------------------------------------------------- */

static void begin_item(struct html_dumps *d)
{
    html_pack_add(d->to, d->any ? "," : "");
    d->any = true;
}

static uint32_t add_context(struct html_dumps *d, uint64_t hash)
{
    if (array_reserve(&d->contexts, &d->capacity, d->n + (size_t)1, sizeof *d->contexts) || hash_add(&d->numbers, hash, d->n))
        return REPORT_NONE;
    d->contexts[d->n] = (struct context){{0}, {0}};
    return d->n++;
}

static void write_place(struct html_dumps *d, uint64_t location)
{
    const struct profile *profile = &d->input.profile;
    const JespanPprof__Function *function = profile_function(profile, report_outer_function(profile, location));
    char line[32] = "";
    text_clear(d->text);
    if (function && profile_string(profile, function->filename).len > 0) {
        report_add_string(d->text, profile, function->filename);
        snprintf(line, sizeof line, ":%lld", (long long)function->start_line);
        text_add(d->text, function->start_line > 0 ? line : "");
    }
    html_pack_add_string(d->to, d->text);
}

static void write_labels(struct html_dumps *d, const struct html_frame *at)
{
    const struct profile *profile = &d->input.profile;
    html_pack_add(d->to, ",[");
    for (uint32_t i = 0; i < at->n_labels; i++) {
        text_clear(d->text);
        report_add_string(d->text, profile, at->labels[i]->key);
        html_pack_add(d->to, i > 0 ? "," : "");
        html_pack_add_string(d->to, d->text);
        html_pack_add(d->to, ",");
        text_clear(d->text);
        report_add_label_value(d->text, profile, at->labels[i]);
        html_pack_add_string(d->to, d->text);
    }
    html_pack_add(d->to, "]]");
}

/* Finds or adds the context of a frame below the context `parent`. */
static uint32_t number_of(struct html_dumps *d, const struct html_frame *at, uint32_t parent)
{
    const uint64_t *known = hash_find(&d->numbers, at->hash);
    if (known)
        return (uint32_t)*known;
    begin_item(d);
    html_pack_add(d->to, "[");
    html_pack_add_number(d->to, parent == REPORT_NONE ? -1 : (int64_t)parent);
    html_pack_add(d->to, ",");
    text_clear(d->text);
    report_add_name(d->text, &d->input, at->location);
    html_pack_add_string(d->to, d->text);
    html_pack_add(d->to, ",");
    write_place(d, at->location);
    write_labels(d, at);
    return add_context(d, at->hash);
}

/* Several samples of one context have its peaks once. Calls have none: they are known by whole stack, and those of the calls
 * above would be missing. */
static void raise(int64_t *peak, int64_t value)
{
    if (*peak < value)
        *peak = value;
}

static int use_sample(struct html_dumps *d, const JespanPprof__Sample *sample)
{
    struct html_walk walk;
    int64_t values[PROFILE_N_VALUES], peaks[PROFILE_N_PEAKS];
    uint32_t number = REPORT_NONE;
    profile_values(&d->input.profile, sample, values);
    profile_peaks(&d->input.profile, sample, peaks);
    html_walk_begin(&walk, &d->labels, &d->input, sample);
    while (html_walk_next(&walk)) {
        number = number_of(d, &walk.frame, number);
        if (number == REPORT_NONE)
            return -ENOMEM;
    }
    int64_t *now = &d->contexts[number].now[d->input.profile.kind * PROFILE_N_VALUES];
    for (int v = 0; v < PROFILE_N_VALUES; v++)
        now[v] = report_sum(now[v], values[v]);
    if (sample->n_location_id && profile_frames_is_call(&d->input.profile, sample->location_id[0]))
        return 0;
    raise(&d->contexts[number].now[AT_PEAKS], peaks[PROFILE_PEAK_OWN]);
    raise(&d->contexts[number].now[AT_PEAKS + 1], peaks[PROFILE_PEAK_TOTAL]);
    return 0;
}

/* --- Moments -------------------------------------------------------------------------------------------------------- */

static void forget_values(struct html_dumps *d, enum profile_kind kind)
{
    for (uint32_t i = 0; i < d->n; i++) {
        int64_t *now = d->contexts[i].now;
        memset(&now[kind * PROFILE_N_VALUES], 0, PROFILE_N_VALUES * sizeof *now);
        if (kind == PROFILE_HEAP)
            now[AT_PEAKS] = now[AT_PEAKS + 1] = 0;
    }
}

static void write_changes(struct html_dumps *d)
{
    uint32_t last = 0;
    d->any = false;
    for (uint32_t i = 0; i < d->n; i++) {
        struct context *context = &d->contexts[i];
        if (memcmp(context->now, context->before, sizeof context->now) == 0)
            continue;
        begin_item(d);
        html_pack_add_number(d->to, i - last);
        for (size_t v = 0; v < N_VALUES; v++) {
            if (!d->has[v])
                continue;
            html_pack_add(d->to, ",");
            html_pack_add_number(d->to, report_difference(context->now[v], context->before[v]));
        }
        memcpy(context->before, context->now, sizeof context->now);
        last = i;
    }
}

static const char *write_moment(struct html_dumps *d, const struct html_file *files, size_t n, const char **failed)
{
    const char *reason = NULL;
    html_pack_add(d->to, "{\"time\":");
    html_pack_add_number(d->to, files[0].time_ns / 1000000000);
    html_pack_add(d->to, ",\"files\":[");
    for (size_t i = 0; i < n; i++) {
        text_clear(d->text);
        text_add_bytes(d->text, files[i].name, strlen(files[i].name), TEXT_MAX_CHARS);
        html_pack_add(d->to, i > 0 ? "," : "");
        html_pack_add_string(d->to, d->text);
    }
    html_pack_add(d->to, "],\"contexts\":[");
    d->any = false;
    for (size_t i = 0; i < n && !reason; i++) {
        *failed = files[i].name;
        forget_values(d, files[i].kind);
        reason = read_file(d, &files[i], use_sample);
        report_input_free(&d->input);
    }
    html_pack_add(d->to, "],\"changes\":[");
    write_changes(d);
    html_pack_add(d->to, "]}");
    return reason;
}

/* --- All of it ------------------------------------------------------------------------------------------------------ */

static void write_head(struct html_dumps *d)
{
    static const char *const names[N_VALUES] = {
        "\"alloc_objects\"", "\"alloc_bytes\"", "\"inuse_objects\"", "\"inuse_bytes\"", "\"temporary_objects\"",
        [PROFILE_TIME * PROFILE_N_VALUES] = "\"opens\"", "\"wall_ns\"", "\"busy_ns\"", "\"cpu_ns\"",
        [AT_PEAKS] = "\"peak_bytes\"", "\"total.peak_bytes\"",
    };
    d->any = false;
    html_pack_add(d->to, "{\"figures\":[");
    for (size_t v = 0; v < N_VALUES; v++) {
        if (d->has[v]) {
            begin_item(d);
            html_pack_add(d->to, names[v]);
        }
    }
    html_pack_add(d->to, "],\"moments\":[");
}

struct html_dumps *html_dumps_new(bool calls)
{
    struct html_dumps *d = calloc(1, sizeof *d);
    if (d)
        d->calls = calls;
    if (d && !(d->text = text_new())) {
        free(d);
        d = NULL;
    }
    return d;
}

static void forget_contexts(struct html_dumps *d)
{
    free(d->contexts);
    hash_free(&d->numbers);
    d->contexts = NULL;
    d->numbers = (struct hash_table){0};
    d->n = 0;
    d->capacity = 0;
}

void html_dumps_free(struct html_dumps *d)
{
    if (!d)
        return;
    forget_contexts(d);
    html_labels_free(&d->labels);
    free(d->text);
    free(d);
}

const char *html_dumps_write(struct html_dumps *d, struct html_pack *to, const struct html_file *files, size_t n, size_t step,
                             const char **failed)
{
    const char *reason = NULL;
    size_t moments = html_files_moments(files, n), moment = 0;
    bool is_first = true;
    d->to = to;
    forget_contexts(d);
    write_head(d);
    for (size_t i = 0, n_files; i < n && !reason; i += n_files, moment++) {
        n_files = files_of_moment(files + i, n - i);
        if ((moments - 1 - moment) % step != 0)
            continue;
        html_pack_add(to, is_first ? "" : ",");
        is_first = false;
        reason = write_moment(d, files + i, n_files, failed);
    }
    html_pack_add(to, "]}");
    return reason;
}
