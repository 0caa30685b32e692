/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of `jespan check`, and their values in the dumps of a run. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/leaks.h"
#include "analysis/report.h"
#include "base/parse.h"
#include "check.h"

const char *check_add_max(struct check *check, const char *text)
{
    struct check_rule *rule = &check->rules[check->n];
    const char *less = strrchr(text, '<');
    if (check->n == CHECK_MAX_RULES)
        return "there are too many rules";
    if (!less || less == text || bytes_parse(less + 1, &rule->bound) != 0 || rule->bound == 0)
        return "a rule is SPANS<BYTES, such as request<64M";
    if (strpbrk(text, "|!,()"))
        return "spans cannot contain any of |!,()";
    rule->text = text;
    rule->bound_text = less + 1;
    rule->spans = strndup(text, (size_t)(less - text));
    if (!rule->spans)
        return "out of memory";
    check->n++;
    return strcmp(rule->spans, "*") == 0 ? NULL : report_filter_add(&rule->filter, rule->spans);
}

const char *check_add_no_outlived(struct check *check)
{
    if (check->n == CHECK_MAX_RULES)
        return "there are too many rules";
    check->rules[check->n++] = (struct check_rule){.text = "nothing outlives its span", .bound = 1, .outlived = true};
    return NULL;
}

void check_free(struct check *check)
{
    for (size_t i = 0; i < check->n; i++) {
        free(check->rules[i].spans);
        free(check->rules[i].context);
        report_filter_free(check->rules[i].filter);
    }
}

bool check_holds(const struct check_rule *rule)
{
    return (uint64_t)rule->bytes < rule->bound;
}

/* ---- One dump ---- */

/* The text of a context, in UTF-8. Returns NULL if there is no memory or the sample cannot be decoded. */
static char *context_text(struct report_input *input, uint32_t i)
{
    static struct text text;
    JespanPprof__Sample *sample;
    if (profile_sample(&input->profile, i, &sample) != 0)
        return NULL;
    const struct report_place place = {i, (uint32_t)stack_locations(&input->profile, sample), 0};
    report_path(&text, input, sample, &place);
    profile_sample_free(&input->profile, sample);
    text_fit(&text, REPORT_MAX_COLUMNS);
    char *bytes = malloc(text.n * 4 + 1), *end = bytes;
    for (size_t k = 0; bytes && k < text.n; k++) {
        int n = wctomb(end, text.chars[k]);
        if (n > 0)
            end += n;
        else
            *end++ = '?';
    }
    if (bytes)
        *end = '\0';
    return bytes;
}

/* The highest peak, with all below it, of contexts that fit. If they lie in several places of the tree, this is the peak of one of
 * them. *holder is the one that had most itself, of those that fit; or else the one of the peak. Returns 0 or a negative errno. */
static int find_peak(const struct check_rule *rule, struct report_input *input, int64_t *most, uint32_t *holder)
{
    int64_t held = 0;
    int error = 0;
    *most = 0;
    for (uint32_t i = 0; i < input->profile.parts->n_sample && error == 0; i++) {
        JespanPprof__Sample *sample;
        int64_t peaks[PROFILE_N_PEAKS];
        error = profile_sample(&input->profile, i, &sample);
        if (error != 0)
            break;
        profile_peaks(&input->profile, sample, peaks);
        bool fits = report_filter_fits(rule->filter, input, sample);
        if (fits && (peaks[PROFILE_PEAK_OWN] > held || (!held && peaks[PROFILE_PEAK_TOTAL] > *most)))
            *holder = i;
        if (fits && peaks[PROFILE_PEAK_OWN] > held)
            held = peaks[PROFILE_PEAK_OWN];
        if (fits && peaks[PROFILE_PEAK_TOTAL] > *most)
            *most = peaks[PROFILE_PEAK_TOTAL];
        profile_sample_free(&input->profile, sample);
    }
    return error;
}

static void set_most(struct check_rule *rule, struct report_input *input, pid_t process, int64_t bytes, uint32_t sample)
{
    rule->bytes = bytes;
    rule->process = process;
    free(rule->context);
    rule->context = context_text(input, sample);
}

static const char *read_rule(struct check_rule *rule, struct report_input *input, pid_t process)
{
    static const struct suppressions none;
    const struct leaks_wanted wanted = {rule->filter, &none, false, rule->outlived};
    struct leaks leaks;
    int64_t bytes = 0, peak = 0;
    uint32_t sample = 0;
    int error = leaks_read(&leaks, input, &wanted);
    for (uint32_t i = 0; i < leaks.n && error == 0; i++)
        bytes = report_sum(bytes, leaks.items[i].bytes);
    if (error == 0 && bytes > rule->bytes)
        set_most(rule, input, process, bytes, leaks.parts[leaks.items[0].part].sample);
    leaks_free(&leaks);
    if (error == 0 && !rule->outlived)
        error = find_peak(rule, input, &peak, &sample);
    if (error == 0 && peak > rule->bytes)
        set_most(rule, input, process, peak, sample);
    return error == 0 ? NULL : "a dump cannot be decoded";
}

static const char *read_dump(struct check *check, const char *path, pid_t process, bool at_exit)
{
    static struct report_input input;
    const struct report_source source = {.frames = REPORT_LOCATIONS};
    const char *reason = report_input_read(&input, path, &source);
    for (size_t i = 0; i < check->n && !reason; i++)
        if (at_exit || !check->rules[i].outlived)
            reason = read_rule(&check->rules[i], &input, process);
    report_input_free(&input);
    return reason;
}

/* ---- All ---- */

enum kind { OTHER, BEFORE_END, AT_EXIT, AT_KILL };

/* Returns what follows heap.PID.NUMBER. in the name of a dump, or heap.PID.TIME.NUMBER. if another process had the number PID
 * before, or another `jespan run` wrote dumps of this process. NULL: it is no dump. */
static const char *find_suffix(const char *name, int *pid)
{
    int end = 0, more = 0;
    sscanf(name, "heap.%d.%*u.%n", pid, &end);
    sscanf(name + end, "%*u.%n", &more);
    return end > 0 ? name + end + more : NULL;
}

static enum kind find_kind(const char *suffix)
{
    if (strcmp(suffix, "pb.gz") == 0)
        return AT_EXIT;
    if (strcmp(suffix, "killed.pb.gz") == 0 || strcmp(suffix, "oom.pb.gz") == 0)
        return AT_KILL;
    return strcmp(suffix, "peak.pb.gz") == 0 || strcmp(suffix, "alert.pb.gz") == 0 ? BEFORE_END : OTHER;
}

const char *check_read(struct check *check, const char *directory)
{
    char path[4096];
    const char *reason = NULL;
    DIR *files = opendir(directory);
    if (!files)
        return "the directory of the dumps cannot be read";
    for (struct dirent *file; !reason && (file = readdir(files));) {
        int pid = 0;
        const char *suffix = find_suffix(file->d_name, &pid);
        enum kind kind = suffix ? find_kind(suffix) : OTHER;
        if (kind == OTHER)
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, file->d_name);
        check->n_ends += kind == AT_EXIT || kind == AT_KILL;
        reason = read_dump(check, path, pid, kind == AT_EXIT);
    }
    closedir(files);
    return !reason && check->n_ends == 0 ? "the program left no dump at its end" : reason;
}
