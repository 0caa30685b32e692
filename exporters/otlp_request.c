/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes an OTLP request of the profiles of a period.
 *
 * A profile has one type of value, so each value of the kinds of pprof is a profile of its own. All have the dictionary
 * in common. */
#include "otlp_request.h"

#include <config.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "otlp.pb-c.h"
#include "otlp_tables.h"
#include "pprof.h"

#define MAX_TYPES (PUSH_N_PROFILES * PPROF_MAX_VALUES)
#define ID_BYTES 16

/* What samples of a context have in common. */
struct context {
    int32_t stack, link;
    size_t first_attribute, n_attributes;
    bool is_known;
};

struct encoder {
    const struct snapshot *view;
    const struct waiting *period;
    struct otlp_tables tables;
    struct context *contexts; /* by row */
    int32_t *attributes;
    size_t n_attributes, attributes_capacity;
    int32_t frames[PPROF_MAX_FRAMES + 1];
    struct push_buffer profiles[MAX_TYPES];
    size_t n_profiles;
    int error;
};

static void fail(struct encoder *e, int error)
{
    if (!e->error)
        e->error = error;
}

/* ---- Contexts ---- */

static bool is_root(const struct snapshot *s, uint32_t i)
{
    return i >= s->n_rows || s->rows[i].parent_row == i;
}

/* The path without the root, innermost first. A path that is too long loses its outer end. */
static int32_t find_stack(struct encoder *e, uint32_t i)
{
    size_t n = 0;
    for (; !(is_root(e->view, i) && n > 0); i = e->view->rows[i].parent_row) {
        const struct snapshot_row *row = &e->view->rows[i];
        if (n == PPROF_MAX_FRAMES) {
            e->frames[n++] = otlp_location(&e->tables, "(path cut)", "", "", 0);
            break;
        }
        e->frames[n++] = otlp_location(&e->tables, row->name, row->target, row->file, row->line);
    }
    return otlp_stack(&e->tables, e->frames, n);
}

static const char *value_of(const struct snapshot_row *row, const char *key)
{
    for (uint32_t i = 0; i < row->n_labels; i++)
        if (strcmp(row->labels[i].key, key) == 0)
            return row->labels[i].value;
    return NULL;
}

/* The ids become a link if both are there. The digest keeps only valid ones. */
static void add_labels(struct encoder *e, struct context *c, const struct snapshot_row *row)
{
    const char *trace_id = value_of(row, "trace_id"), *span_id = value_of(row, "span_id");
    c->link = trace_id && span_id ? otlp_link(&e->tables, trace_id, span_id) : 0;
    c->first_attribute = e->n_attributes;
    fail(e, array_reserve(&e->attributes, &e->attributes_capacity, e->n_attributes + row->n_labels, sizeof *e->attributes));
    for (uint32_t i = 0; i < row->n_labels && e->error == 0; i++)
        if (c->link == 0 || (strcmp(row->labels[i].key, "trace_id") != 0 && strcmp(row->labels[i].key, "span_id") != 0))
            e->attributes[e->n_attributes++] = otlp_attribute(&e->tables, row->labels[i].key, row->labels[i].value);
    c->n_attributes = e->n_attributes - c->first_attribute;
}

static const struct context *find_context(struct encoder *e, uint32_t i)
{
    struct context *c = &e->contexts[i];
    if (!c->is_known) {
        c->is_known = true;
        c->stack = find_stack(e, i);
        add_labels(e, c, &e->view->rows[i]);
    }
    return c;
}

/* ---- Profiles ---- */

static void set_type(struct encoder *e, Jespan__Otlp__ValueType *to, const struct pprof_type *type)
{
    jespan__otlp__value_type__init(to);
    to->type_strindex = otlp_string(&e->tables, type->name);
    to->unit_strindex = otlp_string(&e->tables, type->unit);
}

/* The identity stays the same in all attempts. */
static void pack_head(struct encoder *e, struct push_buffer *to, const struct pprof_type *type, const struct pprof_type *period)
{
    Jespan__Otlp__Profile head = JESPAN__OTLP__PROFILE__INIT;
    Jespan__Otlp__ValueType sample_type, period_type;
    unsigned char id[ID_BYTES];
    memcpy(id, e->period->id, ID_BYTES);
    id[ID_BYTES - 1] ^= (unsigned char)e->n_profiles;
    set_type(e, &sample_type, type);
    set_type(e, &period_type, period);
    head.sample_type = &sample_type;
    head.time_unix_nano = e->view->start_unix_ns;
    head.duration_nano = e->view->time_unix_ns - e->view->start_unix_ns;
    head.period_type = &period_type;
    head.period = 1;
    head.profile_id = (ProtobufCBinaryData){ID_BYTES, id};
    fail(e, otlp_pack(to, &head.base));
}

static void pack_sample(struct encoder *e, struct push_buffer *to, const struct context *c, int64_t value)
{
    Jespan__Otlp__Sample sample = JESPAN__OTLP__SAMPLE__INIT, *samples = &sample;
    sample.stack_index = c->stack;
    sample.link_index = c->link;
    sample.n_attribute_indices = c->n_attributes;
    sample.attribute_indices = e->attributes + c->first_attribute;
    sample.n_values = 1;
    sample.values = &value;
    Jespan__Otlp__Profile part = JESPAN__OTLP__PROFILE__INIT;
    part.n_samples = 1;
    part.samples = &samples;
    fail(e, otlp_pack(to, &part.base));
}

/* Writes the value with this number of the kind. */
static void pack_profile(struct encoder *e, const struct pprof_kind *kind, int number)
{
    struct push_buffer *to = &e->profiles[e->n_profiles];
    to->bytes = 0;
    pack_head(e, to, &kind->values[number], &kind->period);
    e->n_profiles++;
    for (uint32_t i = 0; i < e->view->n_rows && e->error == 0; i++) {
        int64_t values[PPROF_MAX_VALUES] = {0};
        kind->read(&e->view->rows[i].totals, values);
        if (values[number] != 0)
            pack_sample(e, to, find_context(e, i), values[number]);
    }
}

/* Viewers show the first profile: memory in use. */
static int encode(void *encoder, struct push_request *request, const struct waiting *period, size_t *bytes)
{
    struct encoder *e = encoder;
    e->period = period;
    e->view = digest_view(period->digest);
    e->n_profiles = e->n_attributes = 0;
    otlp_tables_free(&e->tables);
    e->tables = (struct otlp_tables){0};
    free(e->contexts);
    e->contexts = e->view ? calloc(e->view->n_rows, sizeof *e->contexts) : NULL;
    if (!e->contexts)
        return -ENOMEM;
    otlp_tables_begin(&e->tables);
    for (int i = 0; i < PUSH_N_PROFILES; i++) {
        const struct pprof_kind *kind = push_request_kind(period, i);
        for (int k = kind->n_values; request->profiles[i] && k-- > 0;)
            pack_profile(e, kind, k);
    }
    fail(e, e->tables.error);
    *bytes = e->tables.packed.bytes;
    for (size_t i = 0; i < e->n_profiles; i++)
        *bytes += e->profiles[i].bytes;
    return e->error;
}

static void free_encoder(struct encoder *e)
{
    otlp_tables_free(&e->tables);
    for (size_t i = 0; i < MAX_TYPES; i++)
        free(e->profiles[i].data);
    free(e->contexts);
    free(e->attributes);
    free(e);
}

/* ---- The request ---- */

/* The memory of the attributes of the process. */
struct resource {
    Jespan__Otlp__AnyValue value;
    Jespan__Otlp__KeyValue pair, *pointer;
};

static void set_attribute(struct resource *to, const struct otlp_attribute *from)
{
    jespan__otlp__any_value__init(&to->value);
    if (from->text) {
        to->value.value_case = JESPAN__OTLP__ANY_VALUE__VALUE_STRING_VALUE;
        to->value.string_value = from->text;
    } else {
        to->value.value_case = JESPAN__OTLP__ANY_VALUE__VALUE_INT_VALUE;
        to->value.int_value = from->number;
    }
    jespan__otlp__key_value__init(&to->pair);
    to->pair.key = from->key;
    to->pair.value = &to->value;
}

static int pack_request(struct push_request *request, const struct otlp_source *source, const struct encoder *e)
{
    ProtobufCBinaryData profiles[MAX_TYPES];
    struct resource *attributes = calloc(source->n + 1, sizeof *attributes);
    Jespan__Otlp__KeyValue **pairs = calloc(source->n + 1, sizeof(Jespan__Otlp__KeyValue *));
    Jespan__Otlp__Resource resource = JESPAN__OTLP__RESOURCE__INIT;
    Jespan__Otlp__InstrumentationScope scope = JESPAN__OTLP__INSTRUMENTATION_SCOPE__INIT;
    Jespan__Otlp__ScopeProfiles scoped = JESPAN__OTLP__SCOPE_PROFILES__INIT, *all_scoped = &scoped;
    Jespan__Otlp__ResourceProfiles of_resource = JESPAN__OTLP__RESOURCE_PROFILES__INIT, *all_of_resources = &of_resource;
    Jespan__Otlp__ExportProfilesServiceRequest message = JESPAN__OTLP__EXPORT_PROFILES_SERVICE_REQUEST__INIT;
    for (size_t i = 0; attributes && pairs && i < source->n; i++) {
        set_attribute(&attributes[i], &source->attributes[i]);
        pairs[i] = &attributes[i].pair;
    }
    for (size_t i = 0; i < e->n_profiles; i++)
        profiles[i] = (ProtobufCBinaryData){e->profiles[i].bytes, e->profiles[i].data};
    resource.n_attributes = source->n;
    resource.attributes = pairs;
    scope.name = "jespan";
    scope.version = PACKAGE_VERSION;
    scoped.scope = &scope;
    scoped.n_profiles = e->n_profiles;
    scoped.profiles = profiles;
    of_resource.resource = &resource;
    of_resource.n_scope_profiles = 1;
    of_resource.scope_profiles = &all_scoped;
    message.n_resource_profiles = 1;
    message.resource_profiles = &all_of_resources;
    message.dictionary = (ProtobufCBinaryData){e->tables.packed.bytes, e->tables.packed.data};
    int error = attributes && pairs ? push_request_pack(request, &message.base) : -ENOMEM;
    free(attributes);
    free(pairs);
    return error;
}

/* The URL may be that of the collector, or of its profiles, as OpenTelemetry's variable for them has it. */
static const char *path_for(const char *url)
{
    size_t n = strlen(url), path = sizeof OTLP_PATH - 1;
    while (n > 0 && url[n - 1] == '/')
        n--;
    return n >= path && strncmp(url + n - path, OTLP_PATH, path) == 0 ? "" : OTLP_PATH;
}

int otlp_request_make(struct push_request *request, const struct otlp_source *source, struct waiting *period, size_t max_samples)
{
    *request = (struct push_request){0};
    if (!push_request_choose(request, period, source->conf->track_time, false))
        return 0;
    struct encoder *e = calloc(1, sizeof *e);
    if (!e)
        return -ENOMEM;
    int error = push_request_encode_within(request, period, max_samples, source->conf->otlp_max_bytes, encode, e);
    if (error == 0)
        error = pack_request(request, source, e);
    free_encoder(e);
    request->path = strdup(path_for(source->conf->otlp_url));
    request->content_type = strdup("application/x-protobuf");
    request->content_encoding = "gzip";
    if (error == 0 && (!request->path || !request->content_type))
        error = -ENOMEM;
    if (error != 0)
        push_request_free(request);
    return error != 0 ? error : 1;
}
