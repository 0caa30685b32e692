/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan conf`: prints the keys of JESPAN_CONF with their defaults and what they mean. */
#include <fnmatch.h>
#include <stdio.h>

#include "cmd.h"
#include "conf/conf.h"

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
    const char *pattern = argc > 1 ? argv[1] : "*";
    int found = 0;
    if (argc > 2 || (pattern[0] == '-' && pattern[1] != '\0')) {
        cmd_error("there is more than one PATTERN; see 'jespan help conf'");
        return STATUS_USAGE;
    }
    for (const struct conf_key *key = conf_keys; key->name; key++) {
        if (fnmatch(pattern, key->name, 0) != 0)
            continue;
        printf("%s\n    %s\n", key->name, key->help);
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
