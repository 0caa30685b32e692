/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads command lines with getopt_long(3), with messages of jespan's own. */
#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "command.h"

#define MAX_OPTIONS 32 /* below all letters */
#define HELP MAX_OPTIONS

/* The table for getopt: what it returns is the index of a row, or HELP. */
struct table {
    const struct cmd_option *rows;
    int n;
    struct option options[MAX_OPTIONS + 2];
    char letters[2 * MAX_OPTIONS + 4];
};

static int argument(const struct cmd_option *row)
{
    return row->unset ? optional_argument : row->text || row->count || row->bytes || row->read ? required_argument : no_argument;
}

/* A + before the letters ends the options at the first other word; a : tells a missing value from an unknown option. */
static void make_table(struct table *t, const struct cmd_option *rows, enum cmd_order order)
{
    char *letter = t->letters;
    t->rows = rows;
    letter += sprintf(letter, "%s:h", order == OPTIONS_FIRST ? "+" : "");
    for (t->n = 0; rows[t->n].name && t->n < MAX_OPTIONS; t->n++) {
        const struct cmd_option *row = &rows[t->n];
        t->options[t->n] = (struct option){row->name, argument(row), NULL, t->n};
        if (row->letter)
            letter += sprintf(letter, "%c%s", row->letter, argument(row) == required_argument ? ":" : "");
    }
    t->options[t->n] = (struct option){"help", no_argument, NULL, HELP};
    t->options[t->n + 1] = (struct option){0};
}

/* ---- Errors ---- */

static int fail(const char *command, const char *what, int bytes, const char *word, const char *then)
{
    cmd_error("%s'%.*s'%s; see 'jespan help %s'", what, bytes, word, then, command);
    return STATUS_USAGE;
}

static int count_begun(const struct table *t, const char *name, size_t bytes)
{
    int n = 0;
    for (const struct option *option = t->options; option->name; option++)
        n += strncmp(option->name, name, bytes) == 0;
    return n;
}

/* For a letter, getopt sets optopt, and optind may still be before the word. For a long option, optopt is 0, or the index of an option
 * that takes no value, and optind is behind the word. */
static int fail_unknown(const struct table *t, char **argv)
{
    char letter[] = {'-', (char)optopt, '\0'};
    const char *word = argv[optind - 1];
    int name_bytes = (int)strcspn(word, "=");
    if (optopt > HELP || strncmp(word, "--", 2) != 0)
        return fail(argv[0], "unknown option ", 2, letter, "");
    int n_begun = count_begun(t, word + 2, (size_t)name_bytes - 2);
    return n_begun > 1   ? fail(argv[0], "several options begin with ", name_bytes, word, "")
           : n_begun > 0 ? fail(argv[0], "", name_bytes, word, " takes no value")
                         : fail(argv[0], "unknown option ", name_bytes, word, "");
}

/* ---- Reading ---- */

int cmd_count(const char *option, const char *word, uint64_t *count)
{
    char *end;
    *count = strtoull(word, &end, 10);
    if (word[0] >= '0' && word[0] <= '9' && !*end && *count <= UINT32_MAX)
        return 0;
    cmd_error("%s: '%s' is not a number from 0 to %" PRIu32, option, word, UINT32_MAX);
    return STATUS_USAGE;
}

static int read_bytes(const char *option, const char *word, uint64_t *bytes)
{
    if (bytes_parse(word, bytes) == 0)
        return 0;
    cmd_error("%s: '%s' is not a number of bytes such as 500K", option, word);
    return STATUS_USAGE;
}

static int read_choice(const struct table *t, const struct cmd_option *row)
{
    const struct cmd_option *made = t->rows;
    while (made->name && !(made->choice == row->choice && made->chosen == *row->choice))
        made++;
    if (!made->name || made == row) {
        *row->choice = row->chosen;
        return 0;
    }
    cmd_error("--%s and --%s cannot go together", made->name, row->name);
    return STATUS_USAGE;
}

static int read_row(const struct table *t, const struct cmd_option *row)
{
    char name[64];
    if (row->on)
        *row->on = true;
    if (row->off)
        *row->off = false;
    if (row->choice && read_choice(t, row) != 0)
        return STATUS_USAGE;
    if (row->text)
        *row->text = optarg ? optarg : row->unset;
    snprintf(name, sizeof name, "--%s", row->name);
    int status = row->count ? cmd_count(name, optarg, row->count) : row->bytes ? read_bytes(name, optarg, row->bytes) : 0;
    return status == 0 && row->read ? row->read(row->data, optarg) : status;
}

static const struct cmd_option *find_letter(const struct table *t, int letter)
{
    for (int i = 0; i < t->n; i++)
        if (letter != 0 && t->rows[i].letter == letter)
            return &t->rows[i];
    return NULL;
}

int cmd_options(int argc, char **argv, const struct cmd_option *rows, enum cmd_order order)
{
    struct table t;
    make_table(&t, rows, order);
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, t.letters, t.options, NULL)) != -1;) {
        if (option == HELP || option == 'h')
            return cmd_help();
        if (option == ':')
            return fail(argv[0], "", (int)strlen(argv[optind - 1]), argv[optind - 1], " needs a value");
        const struct cmd_option *row = find_letter(&t, option);
        if (!row && option == '?')
            return fail_unknown(&t, argv);
        int status = read_row(&t, row ? row : &t.rows[option]);
        if (status != 0)
            return status;
    }
    return OPTIONS_READ;
}

/* ---- Files that are written at the end ---- */

int cmd_no_stdout(const char *option, const char *path)
{
    if (strcmp(path, "-") != 0)
        return 0;
    cmd_error("%s: '-' is not possible, since standard output belongs to PROGRAM; './-' is a file of that name", option);
    return STATUS_USAGE;
}

#define PLACE_BYTES (2 * PATH_MAX)
#define MAX_LINKS 40 /* the kernel follows as many */

/* The directory of a path, with the slash at its end. Returns the name in it. */
static const char *split_path(char directory[PATH_MAX], const char *path)
{
    const char *slash = strrchr(path, '/');
    snprintf(directory, PATH_MAX, "%.*s", slash ? (int)(slash + 1 - path) : 2, slash ? path : "./");
    return slash ? slash + 1 : path;
}

/* Where a file will be that is not there yet: a link to a file that is missing makes that file. Returns 0 or a positive
 * errno. */
static int find_new_place(char place[PLACE_BYTES], const char *path)
{
    char directory[PATH_MAX], link[PATH_MAX];
    if (snprintf(place, PLACE_BYTES, "%s", path) >= PATH_MAX)
        return ENAMETOOLONG;
    for (int i = 0; i < MAX_LINKS; i++) {
        ssize_t n = readlink(place, link, sizeof link - 1);
        if (n < 0)
            return errno == EINVAL || errno == ENOENT ? 0 : errno;
        link[n] = '\0';
        split_path(directory, place);
        if (snprintf(place, PLACE_BYTES, "%s%s", link[0] == '/' ? "" : directory, link) >= PATH_MAX)
            return ENAMETOOLONG;
    }
    return ELOOP;
}

/* Returns 0 or a positive errno. */
static int why_unwritable(const char *path)
{
    struct stat status;
    char directory[PATH_MAX], place[PLACE_BYTES];
    if (stat(path, &status) == 0)
        return S_ISDIR(status.st_mode) ? EISDIR : access(path, W_OK) == 0 ? 0 : errno;
    if (errno != ENOENT || path[0] == '\0')
        return errno;
    int error = find_new_place(place, path);
    if (error != 0)
        return error;
    if (*split_path(directory, place) == '\0')
        return EISDIR;
    return access(directory, W_OK | X_OK) == 0 ? 0 : errno;
}

static int check_output(const struct cmd_output *output)
{
    int status = cmd_no_stdout(output->option, output->path), error = status == 0 ? why_unwritable(output->path) : 0;
    if (error == 0)
        return status;
    cmd_error("%s: cannot write '%s': %s", output->option, output->path, strerror(error));
    return STATUS_PREPARE;
}

/* The path without links. The file may not be there yet. */
static bool find_place(char place[PLACE_BYTES], const char *path)
{
    char directory[PATH_MAX], real[PATH_MAX], new[PLACE_BYTES];
    if (realpath(path, place))
        return true;
    if (find_new_place(new, path) != 0)
        return false;
    const char *name = split_path(directory, new);
    return realpath(directory, real) && snprintf(place, PLACE_BYTES, "%s/%s", real, name) < PLACE_BYTES;
}

/* Two outputs to a device or a pipe do not overwrite each other. */
static bool is_same_file(const char *a, const char *b)
{
    char first[PLACE_BYTES], second[PLACE_BYTES];
    struct stat x, y;
    if (stat(a, &x) == 0 && stat(b, &y) == 0)
        return x.st_dev == y.st_dev && x.st_ino == y.st_ino && S_ISREG(x.st_mode);
    return find_place(first, a) && find_place(second, b) && strcmp(first, second) == 0;
}

int cmd_output_files(const struct cmd_output *outputs, size_t n)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < n; i++) {
        status = outputs[i].path ? check_output(&outputs[i]) : 0;
        for (size_t k = 0; status == 0 && outputs[i].path && k < i; k++)
            if (outputs[k].path && is_same_file(outputs[k].path, outputs[i].path)) {
                cmd_error("%s and %s name the same file, '%s'", outputs[k].option, outputs[i].option, outputs[i].path);
                status = STATUS_USAGE;
            }
    }
    return status;
}

/* ---- Words ---- */

const char *cmd_only_word(int argc, char **argv, const char *what)
{
    if (argc - optind == 1)
        return argv[optind];
    cmd_error("there is %s %s; see 'jespan help %s'", optind == argc ? "no" : "more than one", what, argv[0]);
    return NULL;
}

pid_t cmd_only_pid(int argc, char **argv)
{
    const char *word = cmd_only_word(argc, argv, "PID");
    pid_t pid = word ? cmd_pid(word) : 0;
    if (word && !pid)
        cmd_no_pid(word);
    return pid;
}
