/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan leaks`: what is in use, by stack, with the spans that allocated it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/command.h"
#include "console/options.h"
#include "console/text.h"
#include "leaks.h"
#include "profile/allocators.h"
#include "report.h"

#define MAX_CONTEXTS 5 /* shown of a leak */
#define MAX_LABELS 64  /* shown of a context */
#define MAX_NAME_CHARS 1000
#define COLUMNS 120

struct options {
    struct suppressions suppressions;
    struct report_filter *filter;
    struct report_source source;
    uint64_t min_bytes, top;
    int error_exitcode;
};

/* --- One leak ----------------------------------------------------------------------------------------------------------- */

static void add_string(struct text *text, const struct profile *profile, int64_t index)
{
    ProtobufCBinaryData string = profile_string(profile, index);
    text_add_bytes(text, string.data, string.len, MAX_NAME_CHARS);
}

static void add_span(struct text *text, const struct profile *profile, uint64_t id)
{
    const JespanPprof__Location *location = profile_location(profile, id);
    const JespanPprof__Function *function =
        location && location->n_line > 0 ? profile_function(profile, location->line[0]->function_id) : NULL;
    add_string(text, profile, function ? function->name : 0);
}

static void add_label(struct text *text, const struct profile *profile, const JespanPprof__Label *label)
{
    char number[32];
    add_string(text, profile, label->key);
    text_add(text, "=");
    add_string(text, profile, label->str);
    snprintf(number, sizeof number, "%" PRId64, label->num);
    text_add(text, label->str == 0 ? number : "");
}

/* "outer > inner {key=value}" */
static void add_context(struct text *text, const struct profile *profile, const JespanPprof__Sample *sample)
{
    size_t first = stack_locations(profile, sample);
    for (size_t i = sample->n_location_id; i > first; i--) {
        text_add_part(text);
        add_span(text, profile, sample->location_id[i - 1]);
    }
    if (first == sample->n_location_id)
        text_add(text, "(no span)");
    for (size_t i = 0; i < sample->n_label && i < MAX_LABELS; i++) {
        text_add(text, i == 0 ? " {" : ", ");
        add_label(text, profile, sample->label[i]);
    }
    text_add(text, sample->n_label > 0 ? "}" : "");
}

static void print_fitted(struct text *text, const char *indent, size_t columns)
{
    text_fit(text, columns);
    fputs(indent, stdout);
    text_print(text);
}

/* The figure stands before each context if there are several. */
static int print_context(struct profile *profile, const struct leak *leak, const struct leak_part *part)
{
    static struct text text;
    char figure[FIGURE_BYTES];
    JespanPprof__Sample *sample;
    int error = profile_sample(profile, part->sample, &sample);
    if (error != 0)
        return error;
    figure_bytes(figure, part->bytes, false);
    text_clear(&text);
    add_context(&text, profile, sample);
    print_fitted(&text, "    in ", COLUMNS - 24);
    printf(leak->n_parts > 1 ? "  (%s)\n" : "\n", figure);
    profile_sample_free(profile, sample);
    return 0;
}

static void print_frame(const struct profile *profile, const struct stack_call *frame)
{
    static struct text name, place;
    text_clear(&name);
    text_clear(&place);
    stack_add_name(&name, profile, frame);
    stack_add_place(&place, profile, frame);
    text_fit(&place, COLUMNS / 2);
    print_fitted(&name, "        ", COLUMNS - 10 - place.n);
    fputs(place.n > 0 ? "  " : "", stdout);
    text_print(&place);
    putchar('\n');
}

static int print_stack(struct profile *profile, uint32_t i, bool all_frames)
{
    struct stack stack = {0};
    JespanPprof__Sample *sample;
    int error = profile_sample(profile, i, &sample);
    if (error != 0)
        return error;
    error = stack_read(&stack, profile, sample, all_frames);
    for (size_t k = 0; k < stack.n && error == 0; k++)
        print_frame(profile, &stack.frames[k]);
    if (stack.is_cut)
        puts("        …");
    stack_free(&stack);
    profile_sample_free(profile, sample);
    return error;
}

static int print_leak(struct profile *profile, const struct leaks *leaks, const struct leak *leak, bool all_frames)
{
    char figure[FIGURE_BYTES];
    uint32_t n = leak->n_parts < MAX_CONTEXTS ? leak->n_parts : MAX_CONTEXTS;
    figure_bytes(figure, leak->bytes, false);
    printf("%s in %" PRId64 " object%s\n", figure, leak->objects, leak->objects == 1 ? "" : "s");
    int error = 0;
    for (uint32_t i = 0; i < n && error == 0; i++)
        error = print_context(profile, leak, &leaks->parts[leak->part + i]);
    if (n < leak->n_parts)
        printf("    in %" PRIu32 " other contexts\n", leak->n_parts - n);
    if (error == 0)
        error = print_stack(profile, leaks->parts[leak->part].sample, all_frames);
    putchar('\n');
    return error;
}

/* --- All ---------------------------------------------------------------------------------------------------------------- */

struct sum {
    int64_t bytes, objects;
    uint64_t n;
};

static void add(struct sum *sum, const struct leak *leak)
{
    sum->bytes += leak->bytes < INT64_MAX - sum->bytes ? leak->bytes : INT64_MAX - sum->bytes;
    sum->objects += leak->objects < INT64_MAX - sum->objects ? leak->objects : INT64_MAX - sum->objects;
    sum->n++;
}

static void print_sum(const char *what, const struct sum *sum)
{
    char figure[FIGURE_BYTES];
    figure_bytes(figure, sum->bytes, false);
    printf("%s%s in %" PRId64 " object%s of %" PRIu64 " stack%s\n", what, figure, sum->objects, sum->objects == 1 ? "" : "s", sum->n,
           sum->n == 1 ? "" : "s");
}

static void print_suppressions(const struct suppressions *all, const struct sum *sum)
{
    static struct text text;
    char figure[FIGURE_BYTES];
    if (sum->n == 0)
        return;
    print_sum("suppressed: ", sum);
    for (size_t i = 0; i < all->n; i++)
        if (all->items[i].n_stacks > 0) {
            figure_bytes(figure, all->items[i].bytes, false);
            text_clear(&text);
            text_add_bytes(&text, all->items[i].pattern, strlen(all->items[i].pattern), MAX_NAME_CHARS);
            printf("    %10s  leak:", figure);
            text_print(&text);
            putchar('\n');
        }
}

/* Returns 0 or a negative errno; *n is the number of leaks that count. */
static int print_leaks(struct profile *profile, const struct leaks *leaks, const struct options *options, uint64_t *n)
{
    struct sum found = {0}, suppressed = {0}, small = {0};
    for (uint32_t i = 0; i < leaks->n; i++) {
        const struct leak *leak = &leaks->items[i];
        bool is_small = (uint64_t)leak->bytes < options->min_bytes;
        add(leak->suppressed_by ? &suppressed : is_small ? &small : &found, leak);
        bool is_shown = !leak->suppressed_by && !is_small && (options->top == 0 || found.n <= options->top);
        int error = is_shown ? print_leak(profile, leaks, leak, options->source.all_frames) : 0;
        if (error != 0)
            return error;
    }
    print_sum("in use: ", &found);
    if (options->top > 0 && found.n > options->top)
        printf("    not shown: %" PRIu64 " of them; see --top\n", found.n - options->top);
    if (small.n > 0)
        print_sum("smaller than --min-bytes: ", &small);
    print_suppressions(&options->suppressions, &suppressed);
    *n = found.n;
    return 0;
}

static const char *describe(int error)
{
    return error == 0 ? NULL : error == -EBADMSG ? "not a pprof profile" : error == -E2BIG ? "too many functions" : "out of memory";
}

/* Returns NULL, or the reason in words. */
static const char *leaks_of(struct report_input *input, const struct options *options, uint64_t *n)
{
    struct leaks leaks;
    if (input->profile.kind != PROFILE_HEAP)
        return "a profile of times has no leaks";
    const struct leaks_wanted wanted = {options->filter, &options->suppressions, options->source.all_frames, options->source.outlived};
    int error = leaks_read(&leaks, input, &wanted);
    if (error == 0 && !leaks.has_stacks && leaks.n > 0)
        cmd_warning("%s has no stacks; start the program with 'jespan run --stacks' to see the lines of its code", input->name);
    if (error == 0)
        error = print_leaks(&input->profile, &leaks, options, n);
    leaks_free(&leaks);
    return describe(error);
}

/* --- Options ------------------------------------------------------------------------------------------------------------ */

static int read_suppressions(void *data, const char *path)
{
    struct options *options = data;
    char buffer[256];
    const char *reason = suppressions_read(&options->suppressions, path, buffer);
    return reason ? cmd_fail(path, reason, STATUS_USAGE) : 0;
}

static int read_error_exitcode(void *data, const char *word)
{
    struct options *options = data;
    char *end;
    long number = strtol(word, &end, 10);
    options->error_exitcode = (int)number;
    if (word[0] >= '0' && word[0] <= '9' && *end == '\0' && number <= 255)
        return 0;
    cmd_error("--error-exitcode: '%s' is not a number from 0 to 255", word);
    return STATUS_USAGE;
}

static int read_older_than(void *data, const char *word)
{
    struct options *options = data;
    if (report_duration_read(word, &options->source.older_s) && options->source.older_s > 0)
        return 0;
    cmd_error("--older-than: '%s' is not a time such as 90s, 10m, 2h or 1d", word);
    return STATUS_USAGE;
}

static int read_options(struct options *options, int argc, char **argv)
{
    const struct cmd_option rows[] = {
        {"suppressions", .read = read_suppressions, .data = options},
        {"error-exitcode", .read = read_error_exitcode, .data = options},
        {"min-bytes", .bytes = &options->min_bytes},
        {"filter", .read = report_filter_read, .data = &options->filter},
        {"older-than", .read = read_older_than, .data = options},
        {"at", .text = &options->source.at},
        {"outlived", .on = &options->source.outlived},
        {"top", .count = &options->top},
        {"allocator", .read = allocators_read},
        {"all-frames", .on = &options->source.all_frames},
        {0},
    };
    return cmd_options(argc, argv, rows, OPTIONS_ANYWHERE);
}

static int report(const char *word, const struct options *options)
{
    static struct report_input input;
    uint64_t n = 0;
    text_init();
    const char *reason = report_input_read(&input, word, &options->source);
    if (!reason)
        reason = leaks_of(&input, options, &n);
    if (reason)
        cmd_error("%s: %s", input.name, reason);
    report_input_free(&input);
    int status = reason ? STATUS_USAGE : cmd_finish_output();
    return status == 0 && n > 0 ? options->error_exitcode : status;
}

static int run(int argc, char **argv)
{
    struct options options = {.top = isatty(STDOUT_FILENO) ? 20 : 0, .source = {.frames = REPORT_LOCATIONS}};
    int status = read_options(&options, argc, argv);
    if (status == OPTIONS_READ && argc - optind > 1) {
        cmd_error("there is more than one INPUT; see 'jespan help leaks'");
        status = STATUS_USAGE;
    }
    if (status == OPTIONS_READ)
        status = report(optind < argc ? argv[optind] : ".", &options);
    suppressions_free(&options.suppressions);
    report_filter_free(options.filter);
    return status;
}

const struct command command_leaks = {
    .name = "leaks",
    .summary = "print what is in use, by stack, with the spans that allocated it",
    .usage =
        "usage: jespan leaks [OPTION…] [FILE.pb.gz | DIRECTORY | URL | PID | CORE | -]\n"
        "\n"
        "Prints the memory that a heap dump has in use, by the stack that allocated it, the\n"
        "most first, with the spans and labels. A dump that was written at exit shows what\n"
        "the program did not free. Of a DIRECTORY (default: the current one) it is the\n"
        "newest heap dump. A URL and a PID are programs to be read now, as by 'jespan\n"
        "report'. A CORE is that of a program that died,\n"
        "or its state file.\n"
        "\n"
        "The program must run with stacks: jespan run --stacks.\n"
        "\n"
        "  --suppressions FILE  leave out stacks that FILE names, in LeakSanitizer's format:\n"
        "                       a line leak:PATTERN for a function, a file or a library\n"
        "  --error-exitcode N   the exit status is N if anything is printed; for CI\n"
        "  --outlived           only what outlived its span: of a process, memory of contexts\n"
        "                       without an open span; of a dump that was written at exit, all\n"
        "                       that spans allocated; not of a URL\n"
        "  --older-than AGE     of a process that runs with age_period_s, only what was allocated\n"
        "                       in periods that began so long ago or longer: 90s, 10m, 2h, 1d\n"
        "  --filter EXPR        only spans that fit, as in 'jespan report'\n"
        "  --at TIME            the dump of a directory that was the newest then\n"
        "  --min-bytes N        only stacks that have so many bytes in use, as 500K\n"
        "  --top N              the first N stacks; 0: all (default: 20 on a terminal, else\n"
        "                       all)\n"
        "  --allocator NAME     a function that allocates for its callers, as xmalloc does: it is\n"
        "                       left out; 'pool_*' is all of these names. May be repeated\n"
        "  --all-frames         also frames of the allocator and of libc's start\n"
        "\n"
        "Exit status: 0, or that of --error-exitcode; 1 the output could not be written; 2\n"
        "wrong command line or file.\n",
    .run = run,
};
