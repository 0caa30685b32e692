/* SPDX-License-Identifier: BSD-2-Clause */
/* The results of `jespan check`: lines of text, a file in JUnit's XML, and a table in Markdown. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

#include "analysis/report.h"
#include "check.h"

/* "96.0 MiB in process 4711; most by request > parse" */
static void describe(char *to, size_t bytes, const struct check_rule *rule)
{
    char figure[FIGURE_BYTES];
    figure_bytes(figure, rule->bytes, false);
    if (rule->bytes == 0)
        snprintf(to, bytes, "0 B");
    else
        snprintf(to, bytes, "%s in process %d; most by %s", figure, (int)rule->process, rule->context ? rule->context : "?");
}

void check_print(const struct check *check)
{
    char value[8192];
    for (size_t i = 0; i < check->n; i++) {
        describe(value, sizeof value, &check->rules[i]);
        printf("%s  %s: %s\n", check_holds(&check->rules[i]) ? "pass" : "FAIL", check->rules[i].text, value);
    }
}

/* ---- Files ---- */

/* Returns the bytes of the character at `text`, or 0 if it cannot be shown. Names need not be UTF-8, but XML must be. */
static size_t shown_bytes(const char *text)
{
    mbstate_t state = {0};
    wchar_t c;
    size_t n = mbrtowc(&c, text, strnlen(text, MB_LEN_MAX), &state);
    return n <= MB_LEN_MAX && iswprint((wint_t)c) ? n : 0;
}

/* Puts each of the characters `special` as its number, which HTML and XML know. */
static void put_escaped(FILE *to, const char *text, const char *special)
{
    while (*text) {
        size_t n = shown_bytes(text);
        if (n == 0)
            fputc('?', to);
        else if (strchr(special, *text))
            fprintf(to, "&#%d;", *text);
        else
            fwrite(text, 1, n, to);
        text += n > 0 ? n : 1;
    }
}

static void put_xml(FILE *to, const char *text)
{
    put_escaped(to, text, "<>&\"'");
}

static void put_markdown(FILE *to, const char *text)
{
    put_escaped(to, text, "<>&|*_`[]\\~");
}

static int finish(FILE *to)
{
    int error = ferror(to) ? EIO : 0;
    if (fclose(to) != 0 && error == 0)
        error = errno;
    return -error;
}

static size_t n_failed(const struct check *check)
{
    size_t n = 0;
    for (size_t i = 0; i < check->n; i++)
        n += !check_holds(&check->rules[i]);
    return n;
}

/* <TAG message="TEXT"/> */
static void put_message(FILE *to, const char *tag, const char *text)
{
    fprintf(to, "<%s message=\"", tag);
    put_xml(to, text);
    fputs("\"/>", to);
}

static void put_case(FILE *to, const struct check *check, const struct check_rule *rule)
{
    char value[8192];
    describe(value, sizeof value, rule);
    fputs("  <testcase classname=\"jespan\" name=\"", to);
    put_xml(to, rule->text);
    fputs("\">", to);
    if (check->not_checked) {
        put_message(to, "error", check->not_checked);
    } else if (!check_holds(rule)) {
        put_message(to, "failure", value);
    } else {
        fputs("<system-out>", to);
        put_xml(to, value);
        fputs("</system-out>", to);
    }
    fputs("</testcase>\n", to);
}

int check_write_junit(const struct check *check, const char *path)
{
    FILE *to = fopen(path, "we");
    if (!to)
        return -errno;
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", to);
    fprintf(to, "<testsuite name=\"jespan check\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\">\n", check->n + 1,
            (check->not_checked ? 0 : n_failed(check)) + (check->program_status != 0), check->not_checked ? check->n : 0);
    fputs("  <testcase classname=\"jespan\" name=\"exit status of ", to);
    put_xml(to, check->program);
    if (check->program_status == 0)
        fputs("\"/>\n", to);
    else
        fprintf(to, "\"><failure message=\"status %d\"/></testcase>\n", check->program_status);
    for (size_t i = 0; i < check->n; i++)
        put_case(to, check, &check->rules[i]);
    fputs("</testsuite>\n", to);
    return finish(to);
}

int check_write_markdown(const struct check *check, const char *path)
{
    char value[8192];
    FILE *to = fopen(path, "ae"); /* GitHub's summary has the texts of all steps */
    if (!to)
        return -errno;
    fputs("### Memory of ", to);
    put_markdown(to, check->program);
    if (check->not_checked) {
        fprintf(to, "\n\nExit status %d. Nothing was checked: %s.\n\n", check->program_status, check->not_checked);
        return finish(to);
    }
    fprintf(to, "\n\nExit status %d. %zu of %zu rules hold.\n\n| | rule | most |\n|---|---|---|\n", check->program_status,
            check->n - n_failed(check), check->n);
    for (size_t i = 0; i < check->n; i++) {
        describe(value, sizeof value, &check->rules[i]);
        fputs(check_holds(&check->rules[i]) ? "| pass | " : "| **fail** | ", to);
        put_markdown(to, check->rules[i].text);
        fputs(" | ", to);
        put_markdown(to, value);
        fputs(" |\n", to);
    }
    fputc('\n', to);
    return finish(to);
}
