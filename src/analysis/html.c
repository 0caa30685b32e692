/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan html`: dumps as a page in one file. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "console/command.h"
#include "console/options.h"
#include "console/output.h"
#include "exporters/http_page.h"
#include "html.h"
#include "profile/allocators.h"

#define MAX_DUMPS_BYTES (19u << 20) /* of the dumps in the page; beyond that, moments are left out */

/* All parts that differ between two pages are in base64, so a dump cannot bring a script into a page. The nonce need
 * not be secret. */
#define NONCE "jespan"

struct mark {
    const char *text;
    void (*write)(FILE *to, const struct html_pack *dumps);
};

static void write_policy(FILE *to, const struct html_pack *dumps)
{
    (void)dumps;
    fputs("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'nonce-" NONCE
          "'; style-src 'nonce-" NONCE "'; base-uri 'none'; form-action 'none'\">", to);
}

static void write_nonce(FILE *to, const struct html_pack *dumps)
{
    (void)dumps;
    fputs(NONCE, to);
}

static void write_dumps(FILE *to, const struct html_pack *dumps)
{
    html_pack_write_base64(dumps, to);
}

/* The page of the service http (exporters/http_page.html). Each mark in it begins with @, and is replaced by a text. Returns false after
 * an error, with its errno. */
static bool write_page(FILE *to, const struct html_pack *dumps)
{
    static const struct mark marks[] = {
        {"<!--@HEAD@-->", write_policy}, {"@NONCE@", write_nonce}, {"@DUMPS@", write_dumps}};
    const char *from = http_page;
    while (!ferror(to)) {
        const struct mark *next = NULL;
        const char *at = NULL;
        for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
            const char *found = strstr(from, marks[i].text);
            if (found && (!at || found < at)) {
                at = found;
                next = &marks[i];
            }
        }
        if (!next)
            return fputs(from, to) != EOF && fflush(to) == 0;
        fwrite(from, 1, (size_t)(at - from), to);
        next->write(to, dumps);
        from = at + strlen(next->text);
    }
    return false;
}

static int write_packed(FILE *to, const void *packed)
{
    return write_page(to, packed) ? 0 : errno != 0 ? -errno : -EIO;
}

/* Packs the dumps, with fewer moments if they take too much room. Returns an exit status. */
static int pack(struct html_pack *packed, struct html_dumps *dumps, const struct html_file *files, size_t n)
{
    size_t moments = html_files_moments(files, n), step = 1;
    for (;; step *= 2) {
        const char *failed = files[0].name;
        html_pack_begin(packed);
        const char *reason = html_dumps_write(dumps, packed, files, n, step, &failed);
        if (html_pack_end(packed) != 0 && !reason)
            reason = "out of memory";
        if (reason)
            return cmd_fail(failed, reason, STATUS_USAGE);
        if (html_pack_base64_bytes(packed) <= MAX_DUMPS_BYTES || step >= moments)
            break;
        html_pack_free(packed);
    }
    if (step > 1)
        cmd_warning("the page has one of %zu dumps, as all of them take more than %u MiB", step, MAX_DUMPS_BYTES >> 20);
    return 0;
}

static int write_words(const char *path, bool calls, char **words, size_t n)
{
    struct html_file *files = calloc(n, sizeof *files);
    struct html_dumps *dumps = html_dumps_new(calls);
    struct html_pack packed = {.bytes = NULL};
    const char *failed = words[0];
    for (size_t i = 0; files && i < n; i++)
        files[i] = (struct html_file){.name = words[i], .kept = -1};
    const char *reason = files && dumps ? html_files_sort(dumps, files, n, &failed) : "out of memory";
    if (reason)
        cmd_error("%s: %s", failed, reason);
    int status = reason ? STATUS_USAGE : pack(&packed, dumps, files, n);
    if (status == 0)
        status = cmd_write_file(path, write_packed, &packed);
    html_pack_free(&packed);
    html_dumps_free(dumps);
    for (size_t i = 0; files && i < n; i++)
        if (files[i].kept >= 0)
            close(files[i].kept);
    free(files);
    return status;
}

static bool is_packed(const char *path)
{
    unsigned char begin[2] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, begin, sizeof begin);
    if (fd >= 0)
        close(fd);
    return n == sizeof begin && begin[0] == 0x1f && begin[1] == 0x8b;
}

/* Without its name, the page would take the place of the first dump. Returns 0, or prints an error and returns STATUS_USAGE. */
static int check_page(const char *path, char **words, size_t n)
{
    struct stat page, dump;
    if (strcmp(path, "-") == 0 || path[0] == '\0' || stat(path, &page) != 0 || !S_ISREG(page.st_mode))
        return cmd_output_name(path);
    bool is_dump = is_packed(path);
    for (size_t i = 0; i < n && !is_dump; i++)
        is_dump = stat(words[i], &dump) == 0 && dump.st_dev == page.st_dev && dump.st_ino == page.st_ino;
    return is_dump ? cmd_fail(path, "is a dump and would be lost; --output needs the name of a page", STATUS_USAGE) : 0;
}

static int run(int argc, char **argv)
{
    const char *path = NULL;
    bool calls = false;
    const struct cmd_option rows[] = {{"output", 'o', .text = &path}, {"calls", .on = &calls}, {"allocator", .read = allocators_read}, {0}};
    int status = cmd_options(argc, argv, rows, OPTIONS_ANYWHERE);
    if (status != OPTIONS_READ)
        return status;
    if (!path || optind == argc) {
        cmd_error("%s; see 'jespan help html'", path ? "there is no FILE" : "there is no --output PAGE");
        return STATUS_USAGE;
    }
    char **words = argv + optind;
    size_t n = (size_t)(argc - optind);
    text_init();
    status = check_page(path, words, n);
    return status != 0 ? status : write_words(path, calls, words, n);
}

const struct command command_html = {
    .name = "html",
    .summary = "write dumps as a page with flame graph and history",
    .usage =
        "usage: jespan html [OPTION…] -o PAGE.html FILE.pb.gz…\n"
        "\n"
        "Writes a page in one file that any browser opens from disk, without a network:\n"
        "a table, a flame graph, an icicle and a history of the dumps' spans, the\n"
        "difference of any two dumps, and a search. A dump of times belongs to the heap\n"
        "dump that was written with it. A FILE may be all that 'jespan report' reads.\n"
        "\n"
        "  -o, --output PAGE  the page's name; - is standard output\n"
        "  --calls            the calls of 'jespan run --stacks' too, below the spans\n"
        "  --allocator NAME   as in 'jespan report'\n"
        "\n"
        "If the dumps take more than 19 MiB, the page has every second one of them, or\n"
        "every fourth, and so on. The last dump is always there.\n"
        "\n"
        "Exit status: 0; 1 the page could not be written; 2 wrong command line or file.\n",
    .run = run,
};
