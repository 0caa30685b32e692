/* SPDX-License-Identifier: BSD-2-Clause */
/* Expressions of --filter: 'cache', 'request > * > cache', 'cache{tenant=b*}', '!cache', 'a|b', '~^Sessions::(get|put)$'.
 *
 * A term fits a context if its names are on the context's path, one below the other, and all of its labels are among the
 * context's. A name or value is a pattern with `*`; the name `**` stands for any number of names. An expression has terms with
 * `|` between them, of which one must fit; one that begins with `!` must not fit. An expression that begins with `~` or `!~` is one
 * regular expression, which fits a context if it fits a name on the path.
 */
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "console/command.h"
#include "profile/stack.h"
#include "report.h"

#define MAX_PARTS 32
#define NAME_BYTES 4096

struct label_term {
    const char *key, *value;
};

struct term {
    struct term *next;
    bool negated;
    size_t n_names, n_labels;
    const char *names[MAX_PARTS];
    struct label_term labels[MAX_PARTS];
};

/* Many contexts have the same frames, so it is kept which of these fit. */
struct regular {
    regex_t expression;
    bool negated, is_compiled;
    struct hash_table known; /* by the hash of a frame: whether it fits */
};

struct report_filter {
    struct report_filter *next;
    struct term *terms;
    struct regular *regular; /* NULL: it has terms */
    char text[]; /* the strings of the terms */
};

/* --- Reading an expression ------------------------------------------------------------------------------------------- */

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t", text[n - 1]))
        text[--n] = '\0';
    return text;
}

static const char *read_labels(struct term *term, char *text)
{
    char *end = strchr(text, '}'), *next;
    if (!end || trim(end + 1)[0] != '\0')
        return "a '{' needs a '}' at the end of the term";
    *end = '\0';
    for (char *label = text; label; label = next) {
        next = strchr(label, ',');
        if (next)
            *next++ = '\0';
        char *equals = strchr(label, '=');
        if (!equals || term->n_labels == MAX_PARTS)
            return equals ? "there are too many labels" : "a label is KEY=VALUE";
        *equals = '\0';
        term->labels[term->n_labels++] = (struct label_term){trim(label), trim(equals + 1)};
    }
    return NULL;
}

static const char *read_names(struct term *term, char *text)
{
    for (char *name = text, *next; name; name = next) {
        next = strchr(name, '>');
        if (next)
            *next++ = '\0';
        name = trim(name);
        if (name[0] == '\0' || term->n_names == MAX_PARTS)
            return name[0] ? "there are too many names" : "a name is missing";
        term->names[term->n_names++] = name;
    }
    return NULL;
}

static const char *read_term(struct term *term, char *text)
{
    text = trim(text);
    if (text[0] == '!') {
        term->negated = true;
        text = trim(text + 1);
    }
    char *labels = strchr(text, '{');
    if (labels)
        *labels++ = '\0';
    const char *error = labels ? read_labels(term, labels) : NULL;
    text = trim(text);
    if (!error && (!labels || text[0] != '\0'))
        error = read_names(term, text);
    return error;
}

static const char *read_regular(struct report_filter *filter, const char *text, bool negated)
{
    static char reason[256];
    struct regular *r = filter->regular = calloc(1, sizeof *r);
    if (!r)
        return "out of memory";
    int error = regcomp(&r->expression, text, REG_EXTENDED | REG_NOSUB);
    r->negated = negated;
    r->is_compiled = error == 0;
    if (error != 0)
        regerror(error, &r->expression, reason, sizeof reason);
    return error != 0 ? reason : text[0] == '\0' ? "a regular expression is missing" : NULL;
}

const char *report_filter_add(struct report_filter **filter, const char *text)
{
    size_t bytes = strlen(text) + 1;
    struct report_filter *added = malloc(sizeof *added + bytes);
    const char *error = NULL;
    if (!added)
        return "out of memory";
    *added = (struct report_filter){.next = *filter};
    memcpy(added->text, text, bytes);
    *filter = added;
    bool negated = text[0] == '!';
    if (text[negated] == '~')
        return read_regular(added, text + negated + 1, negated);
    for (char *at = added->text, *next; at && !error; at = next) {
        next = strchr(at, '|');
        if (next)
            *next++ = '\0';
        struct term *term = calloc(1, sizeof *term);
        if (!term)
            return "out of memory";
        term->next = added->terms;
        added->terms = term;
        error = read_term(term, at);
    }
    return error;
}

int report_filter_read(void *filter, const char *text)
{
    const char *reason = report_filter_add(filter, text);
    if (reason)
        cmd_error("--filter: '%s': %s", text, reason);
    return reason ? STATUS_USAGE : 0;
}

void report_filter_free(struct report_filter *filter)
{
    for (struct report_filter *next; filter; filter = next) {
        next = filter->next;
        for (struct term *term = filter->terms, *after; term; term = after) {
            after = term->next;
            free(term);
        }
        if (filter->regular && filter->regular->is_compiled)
            regfree(&filter->regular->expression);
        if (filter->regular)
            hash_free(&filter->regular->known);
        free(filter->regular);
        free(filter);
    }
}

/* --- Comparing ------------------------------------------------------------------------------------------------------- */

static void read_string(char text[NAME_BYTES], const struct profile *profile, int64_t index)
{
    ProtobufCBinaryData string = profile_string(profile, index);
    size_t n = string.len < NAME_BYTES - 1 ? string.len : NAME_BYTES - 1;
    if (n > 0)
        memcpy(text, string.data, n);
    text[n] = '\0';
}

static bool fits(const char *pattern, const struct profile *profile, int64_t index)
{
    char text[NAME_BYTES];
    read_string(text, profile, index);
    return pattern_fits(pattern, text);
}

/* The name of a frame. A call without a function has the name that reports show: "library+0x1234". */
static void read_frame(char text[NAME_BYTES], const struct profile *profile, uint64_t id)
{
    const JespanPprof__Function *function = profile_function(profile, report_outer_function(profile, id));
    const JespanPprof__Location *location = function ? NULL : profile_location(profile, id);
    if (location)
        stack_address(text, NAME_BYTES, profile, location);
    else
        read_string(text, profile, function ? function->name : 0);
}

static bool fits_frame(const char *pattern, const struct profile *profile, uint64_t id)
{
    char text[NAME_BYTES];
    read_frame(text, profile, id);
    return pattern_fits(pattern, text);
}

/* Whether the names fit the path from frame `at` inwards; frame 0 is the leaf. On a mismatch, the last `**` takes a frame more. */
static bool fits_path(const struct term *term, const struct profile *profile, const JespanPprof__Sample *sample, size_t at)
{
    size_t name = 0, stars = term->n_names, from = at;
    while (name < term->n_names) {
        if (strcmp(term->names[name], "**") == 0) {
            stars = name++;
            from = at;
        } else if (at > 0 && fits_frame(term->names[name], profile, sample->location_id[at - 1])) {
            name++;
            at--;
        } else if (stars < term->n_names && from > 0) {
            at = --from;
            name = stars + 1;
        } else {
            return false;
        }
    }
    return true;
}

static bool fits_anywhere(const struct term *term, const struct profile *profile, const JespanPprof__Sample *sample)
{
    bool found = term->n_names == 0;
    for (size_t at = sample->n_location_id; at > 0 && !found; at--)
        found = fits_path(term, profile, sample, at);
    return found;
}

static bool fits_label(const struct label_term *wanted, const struct profile *profile, const JespanPprof__Label *label)
{
    char number[32];
    if (!fits(wanted->key, profile, label->key))
        return false;
    if (label->str != 0)
        return fits(wanted->value, profile, label->str);
    snprintf(number, sizeof number, "%lld", (long long)label->num);
    return pattern_fits(wanted->value, number) || (label->num == 0 && pattern_fits(wanted->value, ""));
}

static bool fits_labels(const struct term *term, const struct profile *profile, const JespanPprof__Sample *sample)
{
    for (size_t i = 0; i < term->n_labels; i++) {
        bool found = false;
        for (size_t k = 0; k < sample->n_label && !found; k++)
            found = fits_label(&term->labels[i], profile, sample->label[k]);
        if (!found)
            return false;
    }
    return true;
}

/* Without memory, a frame is compared each time. */
static bool fits_once(struct regular *r, const struct report_input *input, uint64_t id)
{
    char text[NAME_BYTES];
    uint64_t hash = report_location_hash(input, id);
    const uint64_t *known = hash_find(&r->known, hash);
    if (known)
        return *known;
    read_frame(text, &input->profile, id);
    bool found = regexec(&r->expression, text, 0, NULL, 0) == 0;
    (void)hash_add(&r->known, hash, found);
    return found;
}

static bool fits_regular(struct regular *r, const struct report_input *input, const JespanPprof__Sample *sample)
{
    bool found = false;
    for (size_t i = 0; i < sample->n_location_id && !found; i++)
        found = fits_once(r, input, sample->location_id[i]);
    return found != r->negated;
}

bool report_filter_fits(const struct report_filter *filter, const struct report_input *input, const JespanPprof__Sample *sample)
{
    for (; filter; filter = filter->next) {
        bool found = filter->regular && fits_regular(filter->regular, input, sample);
        for (const struct term *term = filter->terms; term && !found; term = term->next)
            found = term->negated != (fits_labels(term, &input->profile, sample) && fits_anywhere(term, &input->profile, sample));
        if (!found)
            return false;
    }
    return true;
}
