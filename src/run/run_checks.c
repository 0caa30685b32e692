/* SPDX-License-Identifier: BSD-2-Clause */
/* Refuses addresses, lists and files with which a run would have nothing to show at its end. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/http_address.h"
#include "conf/conf.h"
#include "console/command.h"
#include "console/options.h"
#include "policy/limit_rules.h"
#include "report/alerts.h"
#include "report/event_watch.h"
#include "run.h"
#include "span/arena_conf.h"

/* ---- Addresses ---- */

static const char *why_no_port(const char *text)
{
    char *end;
    unsigned long port = strtoul(text, &end, 10);
    bool is_port = text[0] >= '0' && text[0] <= '9' && *end == '\0' && port > 0 && port <= 65535;
    return is_port ? NULL : "the port must be a number from 1 to 65535";
}

/* HOST, HOST:PORT or [ADDRESS]:PORT */
static const char *why_no_authority(const char *text)
{
    const char *end = text[0] == '[' ? strchr(text, ']') : text + strcspn(text, ":");
    if (!end || end == text)
        return "the URL has no host";
    end += *end == ']';
    return *end == '\0' ? NULL : *end == ':' ? why_no_port(end + 1) : "the URL has no host";
}

/* What stands before the last @ of the authority is a user with a password, which may have any characters. */
static const char *why_no_url(const char *url)
{
    char authority[CONF_STRING_BYTES];
    size_t scheme = strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;
    if (scheme == 0 || url[scheme] == '\0')
        return "the URL is not http://… or https://…";
    for (const char *at = url; *at; at++)
        if ((unsigned char)*at <= ' ' || *at == 127)
            return "the URL contains a blank or a control character";
    if (strpbrk(url, "?#"))
        return "the URL must be without ? and #";
    const char *user_end = strrchr(url, '@'), *host = user_end ? user_end + 1 : url + scheme;
    size_t n = strcspn(host, "/");
    if (n >= sizeof authority)
        return "the URL has no host";
    *(char *)mempcpy(authority, host, n) = '\0';
    return why_no_authority(authority);
}

/* The message leaves the URL out, since it may contain a password. */
int run_check_url(const char *option, const char *url)
{
    const char *wrong = url[0] == '\0' ? NULL : why_no_url(url);
    if (!wrong)
        return 0;
    cmd_error("%s: %s", option, wrong);
    return STATUS_USAGE;
}

int run_check_http(const char *option, const char *text)
{
    struct http_address address;
    const char *wrong = text[0] == '\0' ? NULL : http_address_parse(&address, text);
    if (!wrong)
        return 0;
    cmd_error("%s: '%s': %s", option, text, wrong);
    return STATUS_USAGE;
}

/* ---- Lists, by the code with which the program reads them ---- */

static bool is_wrong; /* an item of the list that is read */

static void refuse(const char *option, const char *item, const char *why)
{
    cmd_error("%s: '%s' %s", option, item, why);
    is_wrong = true;
}

static int refused(void)
{
    return is_wrong ? STATUS_USAGE : 0;
}

int run_check_limits(const char *option, const char *list)
{
    static struct limit_rule rules[LIMIT_RULES_MAX];
    char text[CONF_STRING_BYTES];
    limit_rules_read(rules, strcpy(text, list), refuse, option);
    return refused();
}

int run_check_arenas(const char *option, const char *list)
{
    arena_conf_read(list, refuse, option);
    return refused();
}

int run_check_alerts(const char *option, const char *list)
{
    alerts_read(list, refuse, option);
    return refused();
}

int run_check_events(const char *option, const char *list)
{
    event_watch_read(list, refuse, option);
    return refused();
}

/* ---- Addresses in a configuration ---- */

static int check_pair(const char *pair)
{
    static const struct {
        const char *key;
        int (*check)(const char *option, const char *value);
    } keys[] = {{"http_listen", run_check_http}, {"pyroscope_url", run_check_url}, {"otlp_url", run_check_url}};
    char option[64];
    size_t n = strcspn(pair, ":");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (pair[n] == ':' && strlen(keys[i].key) == n && strncmp(pair, keys[i].key, n) == 0) {
            snprintf(option, sizeof option, "--conf: %s", keys[i].key);
            return keys[i].check(option, pair + n + 1);
        }
    return 0;
}

int run_check_conf(const char *text)
{
    char *copy = strdup(text), *rest = copy, *pair;
    int status = 0;
    while (status == 0 && (pair = strsep(&rest, ",")))
        status = check_pair(pair);
    free(copy);
    return status;
}

/* ---- Files ---- */

int run_check_files(const struct run_options *options)
{
    const struct cmd_output outputs[] = {{"--flame", options->flame},
                                         {"--flame-events", options->flame_events},
                                         {"--flame-svg", options->flame_svg},
                                         {"--trace", options->trace}};
    return cmd_output_files(outputs, sizeof outputs / sizeof *outputs);
}
