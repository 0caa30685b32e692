/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan conf`: prints the keys of JESPAN_CONF with their defaults and what they mean. */
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "conf/conf.h"
#include "console/command.h"
#include "console/options.h"

#define INDENT 4
#define COLUMNS 80

/* Returns how many bytes of Markdown at `at` have no place in a plain text: a reference in parentheses, the target of a link, or
 * a mark. */
static size_t markup(const char *at)
{
    const char *end = strncmp(at, " ([", 3) == 0 ? strstr(at, "))") : strncmp(at, "](", 2) == 0 ? strchr(at, ')') : NULL;
    if (end)
        return (size_t)(end - at) + (*at == ' ' ? 2 : 1);
    return *at == '`' || *at == '[';
}

/* Prints a word after a blank, or on a line of its own. Continuation bytes of UTF-8 take no column. */
static void print_word(const char *word, size_t bytes, size_t *column)
{
    size_t width = 0;
    for (size_t i = 0; i < bytes; i++)
        width += (word[i] & 0xC0) != 0x80;
    bool fits = *column > 0 && *column + 1 + width <= COLUMNS;
    printf("%s%*s%.*s", fits || *column == 0 ? "" : "\n", fits ? 1 : INDENT, "", (int)bytes, word);
    *column = (fits ? *column + 1 : INDENT) + width;
}

static void make_plain(char *to, const char *last, const char *from)
{
    while (*from != '\0' && to < last) {
        size_t bytes = markup(from);
        if (bytes == 0)
            *to++ = *from++;
        from += bytes;
    }
    *to = '\0';
}

static void print_help(const char *help)
{
    char plain[1024];
    size_t column = 0, bytes;
    make_plain(plain, plain + sizeof plain - 1, help);
    for (const char *at = plain; *at != '\0'; at += bytes + strspn(at + bytes, " ")) {
        bytes = strcspn(at, " ");
        print_word(at, bytes, &column);
    }
    putchar('\n');
}

static void print_values(const struct conf_key *key)
{
    if (key->type == CONF_BOOL)
        printf("    true or false");
    else if (key->type == CONF_NUMBER)
        printf("    %llu to %llu", (unsigned long long)key->minimum, (unsigned long long)key->maximum);
    else if (key->type == CONF_CHOICE)
        printf("    one of %s", key->choices);
    else
        printf("    a text");
    if (key->default_text[0] != '\0')
        printf("; default %s", key->default_text);
    putchar('\n');
}

static int run(int argc, char **argv)
{
    const struct cmd_option none[] = {{0}};
    int found = 0, status = cmd_options(argc, argv, none, OPTIONS_ANYWHERE);
    if (status != OPTIONS_READ)
        return status;
    const char *pattern = optind < argc ? cmd_only_word(argc, argv, "PATTERN") : "*";
    if (!pattern)
        return STATUS_USAGE;
    for (const struct conf_key *key = conf_keys; key->name; key++) {
        if (fnmatch(pattern, key->name, 0) != 0)
            continue;
        printf("%s\n", key->name);
        print_help(key->help);
        print_values(key);
        found++;
    }
    if (found == 0) {
        cmd_error("no key of the configuration matches '%s'", pattern);
        return STATUS_USAGE;
    }
    return cmd_finish_output();
}

const struct command command_conf = {
    .name = "conf",
    .summary = "print the keys of JESPAN_CONF and what they mean",
    .usage =
        "usage: jespan conf [PATTERN]\n"
        "\n"
        "Prints the keys of JESPAN_CONF=\"key:value,key:value\" with their meaning, values\n"
        "and default. With PATTERN, such as 'dump_*', prints only keys that fit it.\n"
        "\n"
        "Exit status: 0; 1 the output could not be written; 2 wrong command line, or no\n"
        "such key.\n",
    .run = run,
};
