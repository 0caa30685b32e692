/* SPDX-License-Identifier: BSD-2-Clause */
/* The kinds of groups of samples (--by). To add a kind, write its two functions and a row of the table at the end. */
#include <string.h>

#include "profile/profile.h"
#include "profile/stack.h"
#include "profile/symbolize.h"
#include "report.h"

static size_t count_frames(const JespanPprof__Sample *sample)
{
    return sample->n_location_id;
}

static size_t count_labels(const JespanPprof__Sample *sample)
{
    return sample->n_label;
}

static const JespanPprof__Function *function_of(const struct report_input *input, const JespanPprof__Sample *sample, size_t i)
{
    return profile_function(&input->profile, report_outer_function(&input->profile, sample->location_id[i]));
}

static bool name_key(const struct report_input *input, const JespanPprof__Sample *sample, const char *argument, size_t i,
                     uint64_t *hash)
{
    const JespanPprof__Function *function = function_of(input, sample, i);
    (void)argument;
    *hash = function ? report_string_hash(input, function->name) : report_location_hash(input, sample->location_id[i]);
    return true;
}

static void name_text(struct text *text, const struct report_input *input, const JespanPprof__Sample *sample, size_t i)
{
    report_add_name(text, input, sample->location_id[i]);
}

static bool site_key(const struct report_input *input, const JespanPprof__Sample *sample, const char *argument, size_t i,
                     uint64_t *hash)
{
    (void)argument;
    *hash = report_location_hash(input, sample->location_id[i]);
    return true;
}

static void site_text(struct text *text, const struct report_input *input, const JespanPprof__Sample *sample, size_t i)
{
    report_add_site(text, input, sample->location_id[i]);
}

static bool thread_key(const struct report_input *input, const JespanPprof__Sample *sample, const char *argument, size_t i,
                       uint64_t *hash)
{
    const JespanPprof__Function *function = function_of(input, sample, i);
    ProtobufCBinaryData name = profile_string(&input->profile, function ? function->name : 0);
    (void)argument;
    *hash = function ? report_string_hash(input, function->name) : 0;
    return name.len > strlen("thread:") && memcmp(name.data, "thread:", strlen("thread:")) == 0;
}

static bool label_key(const struct report_input *input, const JespanPprof__Sample *sample, const char *argument, size_t i,
                      uint64_t *hash)
{
    const JespanPprof__Label *label = sample->label[i];
    ProtobufCBinaryData key = profile_string(&input->profile, label->key);
    *hash = label->str != 0 ? report_string_hash(input, label->str) : hash_mix((uint64_t)label->num + 3);
    return key.len == strlen(argument) && (key.len == 0 || memcmp(key.data, argument, key.len) == 0);
}

static void label_text(struct text *text, const struct report_input *input, const JespanPprof__Sample *sample, size_t i)
{
    report_add_label_value(text, &input->profile, sample->label[i]);
}

/* --- Calls: the stack below the spans ---------------------------------------------------------------------------------- */

static bool call_of(const struct report_input *input, const JespanPprof__Sample *sample, size_t i, struct stack_call *call)
{
    *call = stack_outermost(profile_location(&input->profile, sample->location_id[i]));
    return profile_frames_is_call(&input->profile, sample->location_id[i]);
}

/* The hash of a text that was hashed before, since samples have many calls; 0 for an empty one. */
static uint64_t hash_text(const struct report_input *input, int64_t index)
{
    uint64_t hash = index > 0 ? report_string_hash(input, index) : 0;
    return hash == hash_bytes("", 0) ? 0 : hash;
}

static uint64_t hash_file(const struct report_input *input, const struct stack_call *call)
{
    const JespanPprof__Function *function = stack_profile_function(&input->profile, call);
    return hash_text(input, function ? function->filename : 0);
}

static uint64_t hash_library(const struct report_input *input, const struct stack_call *call)
{
    const JespanPprof__Mapping *mapping = symbolize_mapping(&input->profile, call->location ? call->location->mapping_id : 0);
    return hash_text(input, mapping ? mapping->filename : 0);
}

/* The hash of a call. A call without a name is a place in a library. */
static uint64_t hash_function(const struct report_input *input, const struct stack_call *call)
{
    const JespanPprof__Function *function = stack_profile_function(&input->profile, call);
    uint64_t name = hash_text(input, function ? function->name : 0);
    return hash_mix(name != 0 ? name : report_address_hash(input, call->location));
}

static bool function_key(const struct report_input *input, const JespanPprof__Sample *sample, const char *argument, size_t i,
                         uint64_t *hash)
{
    struct stack_call call;
    (void)argument;
    bool is_call = call_of(input, sample, i, &call);
    *hash = hash_function(input, &call);
    return is_call;
}

static void function_text(struct text *text, const struct report_input *input, const JespanPprof__Sample *sample, size_t i)
{
    struct stack_call call;
    call_of(input, sample, i, &call);
    stack_add_name(text, &input->profile, &call);
}

static bool line_key(const struct report_input *input, const JespanPprof__Sample *sample, const char *argument, size_t i, uint64_t *hash)
{
    struct stack_call call;
    (void)argument;
    bool is_call = call_of(input, sample, i, &call);
    uint64_t line = hash_mix(hash_file(input, &call)) + (call.line ? (uint64_t)call.line->line : 0);
    if (stack_is_start(&input->profile, &call))
        line = report_address_hash(input, call.location);
    *hash = hash_mix(hash_function(input, &call) + line);
    return is_call;
}

static void line_text(struct text *text, const struct report_input *input, const JespanPprof__Sample *sample, size_t i)
{
    struct stack_call call;
    call_of(input, sample, i, &call);
    stack_add_place(text, &input->profile, &call);
    text_add(text, text->n > 0 ? "  " : "");
    stack_add_name(text, &input->profile, &call);
}

static bool file_key(const struct report_input *input, const JespanPprof__Sample *sample, const char *argument, size_t i, uint64_t *hash)
{
    struct stack_call call;
    (void)argument;
    bool is_call = call_of(input, sample, i, &call);
    uint64_t file = hash_file(input, &call);
    *hash = hash_mix(file != 0 ? file : hash_library(input, &call));
    return is_call;
}

static void add_text(struct text *text, ProtobufCBinaryData name)
{
    text_add_bytes(text, name.data, name.len, REPORT_MAX_COLUMNS);
    text_add(text, name.len == 0 ? "(unknown)" : "");
}

static void file_text(struct text *text, const struct report_input *input, const JespanPprof__Sample *sample, size_t i)
{
    struct stack_call call;
    call_of(input, sample, i, &call);
    ProtobufCBinaryData file = stack_file(&input->profile, &call);
    add_text(text, file.len > 0 ? file : stack_library(&input->profile, &call));
}

static bool library_key(const struct report_input *input, const JespanPprof__Sample *sample, const char *argument, size_t i,
                        uint64_t *hash)
{
    struct stack_call call;
    (void)argument;
    bool is_call = call_of(input, sample, i, &call);
    *hash = hash_mix(hash_library(input, &call));
    return is_call;
}

static void library_text(struct text *text, const struct report_input *input, const JespanPprof__Sample *sample, size_t i)
{
    struct stack_call call;
    call_of(input, sample, i, &call);
    add_text(text, stack_library(&input->profile, &call));
}

static const struct report_by kinds[] = {
    {"function", "FUNCTION", count_frames, function_key, function_text, "(no stack)", true},
    {"line", "LINE", count_frames, line_key, line_text, "(no stack)", true},
    {"file", "FILE", count_frames, file_key, file_text, "(no stack)", true},
    {"library", "LIBRARY", count_frames, library_key, library_text, "(no stack)", true},
    {"name", "NAME", count_frames, name_key, name_text, "(no path)"},
    {"site", "SITE", count_frames, site_key, site_text, "(no path)"},
    {"thread", "THREAD", count_frames, thread_key, name_text, "(spans)"},
    {"label:", NULL, count_labels, label_key, label_text, "(without)"},
};

bool report_by_find(const char *word, const struct report_by **by, const char **argument)
{
    *by = NULL;
    *argument = "";
    if (strcmp(word, "path") == 0)
        return true;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t n = strlen(kinds[i].word);
        bool takes_key = kinds[i].word[n - 1] == ':';
        if (takes_key ? strncmp(word, kinds[i].word, n) == 0 && word[n] != '\0' : strcmp(word, kinds[i].word) == 0) {
            *by = &kinds[i];
            *argument = word + (takes_key ? n : 0);
            return true;
        }
    }
    return false;
}
