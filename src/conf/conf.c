/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration: the table and its reader. */
#include "conf/conf.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/descriptor.h"
#include "base/die.h"
#include "base/list.h"
#include "base/meta.h"
#include "base/pattern.h"
#include "config.h"

struct conf conf;
bool conf_follow_fork_chosen;

/* A program may define it. It is weak, so a static program without it can be linked. */
EXPORT extern const char *jespan_conf __attribute__((weak));

static void *field(const struct conf_key *key)
{
    return (char *)&conf + key->offset;
}

static int set_number(const struct conf_key *key, const char *text)
{
    char *end;
    if (*text < '0' || *text > '9')
        return -1;
    unsigned long long n = 0;
    for (end = (char *)text; *end >= '0' && *end <= '9'; end++)
        if (__builtin_mul_overflow(n, 10ull, &n) || __builtin_add_overflow(n, (unsigned)(*end - '0'), &n))
            return -1;
    if (*end || n < key->minimum || n > key->maximum)
        return -1;
    *(uint64_t *)field(key) = n;
    return 0;
}

static int set_choice(const struct conf_key *key, const char *text)
{
    int i = list_find(key->choices, text);
    if (i < 0)
        return -1;
    *(uint64_t *)field(key) = (uint64_t)i;
    return 0;
}

static const char *choice_text(const struct conf_key *key, char *text, size_t bytes)
{
    struct list_item choice;
    const char *rest = key->choices;
    for (uint64_t i = 0; list_next(&rest, &choice) && i < *(uint64_t *)field(key); i++)
        ;
    jespan_assert(choice.bytes < bytes);
    *(char *)mempcpy(text, choice.text, choice.bytes) = '\0';
    return text;
}

static int set(const struct conf_key *key, const char *text)
{
    switch (key->type) {
    case CONF_BOOL:
        if (strcmp(text, "true") && strcmp(text, "false"))
            return -1;
        *(bool *)field(key) = text[0] == 't';
        return 0;
    case CONF_NUMBER:
        return set_number(key, text);
    case CONF_STRING:
    case CONF_SECRET:
    case CONF_URL:
        if (strlen(text) >= CONF_STRING_BYTES)
            return -1;
        if (text[0] || *(char *)field(key)) /* an empty default does not touch the page */
            strcpy(field(key), text);
        return 0;
    case CONF_CHOICE:
        return set_choice(key, text);
    }
    return -1;
}

/* ---- Messages about errors ----
 *
 * A key may be misspelled, and a comma may be missing, so any value may be a secret. Keys consist of lower-case letters
 * and underscores. Secrets seldom do. */

#define MAX_SHOWN 32

static size_t key_length(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyz_");
}

static bool is_hidden(const struct conf_key *key)
{
    return key->type == CONF_SECRET || key->type == CONF_URL;
}

/* The part of `text` that may be meant as a key, with "…" in place of the rest. Text that follows the key of a secret
 * is hidden, too. The result is valid until the next call. */
static const char *shown_name(const char *text)
{
    static char shown[MAX_SHOWN + sizeof "…"];
    text += strspn(text, " \t");
    size_t n = key_length(text), hidden = 0;
    for (const struct conf_key *key = conf_keys; key->name; key++) {
        size_t length = strlen(key->name);
        if (is_hidden(key) && !strncmp(text, key->name, length) && length > hidden)
            hidden = length;
    }
    if (hidden || n > MAX_SHOWN || !strchr(" \t=:;", text[n]))
        n = hidden;
    memcpy(shown, text, n);
    strcpy(shown + n, text[n] ? "…" : "");
    return shown;
}

/* Whether a wrong value is shown: it can only be a mistyped number or word. Words are not shown for keys of services,
 * since they may be secrets, such as a key of an API. */
static bool is_shown(const struct conf_key *key, const char *value)
{
    const char *word = value + strspn(value, " ");
    size_t n = strspn(word, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-._");
    bool remote = !strncmp(key->name, "pyroscope_", 10) || !strncmp(key->name, "http_", 5);
    if (word[n] || n > MAX_SHOWN)
        return false;
    return !n || !remote || (key->type == CONF_NUMBER && n <= 12 && strspn(word, "0123456789+-."));
}

#define NAME_BYTES 48   /* more than any key has */
#define TYPING_ERRORS 2 /* in a name that is still taken for a key's */

static char plain(char c)
{
    return c == '-' ? '_' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The number of characters to insert, leave out or replace to turn `key` into `name`. */
static unsigned edits(const char *name, const char *key)
{
    unsigned row[NAME_BYTES], n = (unsigned)strlen(key);
    for (unsigned i = 0; i <= n; i++)
        row[i] = i;
    for (unsigned line = 0; name[line]; line++) {
        unsigned diagonal = row[0];
        row[0] = line + 1;
        for (unsigned i = 1; i <= n; i++) {
            unsigned least = diagonal + (plain(name[line]) != key[i - 1]);
            diagonal = row[i];
            least = least <= row[i] ? least : row[i] + 1;
            row[i] = least <= row[i - 1] ? least : row[i - 1] + 1;
        }
    }
    return row[n];
}

/* The name of the key that was probably meant, or NULL. */
static const char *similar_key(const char *name)
{
    const char *similar = NULL;
    unsigned least = TYPING_ERRORS + 1;
    for (const struct conf_key *key = conf_keys; key->name && strlen(name) < NAME_BYTES; key++) {
        unsigned n = edits(name, key->name);
        if (n < least && 2 * n < strlen(name)) {
            least = n;
            similar = key->name;
        }
    }
    return similar;
}

static void complain_of_key(const char *origin, const char *name)
{
    const char *similar = similar_key(name);
    WARN(origin, ": unknown key \"", shown_name(name), "\" is ignored", similar ? "; is " : "", similar ? similar : "",
         similar ? " meant?" : "");
}

static void complain(const char *origin, const struct conf_key *key, const char *name, const char *value)
{
    char low[NUMBER_BYTES], high[NUMBER_BYTES];
    if (!key) {
        complain_of_key(origin, name);
        return;
    }
    bool shown = is_shown(key, value);
    const char *begin = shown ? ":\"" : ": the value", *text = shown ? value : "", *end = shown ? "\"" : "";
    if (key->type == CONF_NUMBER)
        WARN(origin, ": ", name, begin, text, end, " is not a number from ", number_text(low, key->minimum, 10), " to ",
             number_text(high, key->maximum, 10), " and is ignored");
    else if (key->type == CONF_BOOL)
        WARN(origin, ": ", name, begin, text, end, " is neither true nor false and is ignored");
    else if (key->type == CONF_CHOICE)
        WARN(origin, ": ", name, begin, text, end, " is none of ", key->choices, " and is ignored");
    else
        WARN(origin, ": ", name, ": the value is longer than 1023 bytes and is ignored");
}

const struct conf_key *conf_find(const char *name)
{
    const struct conf_key *key = conf_keys;
    while (key->name && strcmp(key->name, name))
        key++;
    return key->name ? key : NULL;
}

void conf_set(const struct conf_key *key, const char *name, const char *value, const char *origin)
{
    if (!key || set(key, value))
        complain(origin, key, name, value);
    else if (key->offset == offsetof(struct conf, follow_fork))
        conf_follow_fork_chosen = true;
}

/* Splits "key:value" at the colon. Returns the key, or NULL where there is none. */
static const struct conf_key *split_pair(char *pair, char **value)
{
    char *colon = strchr(pair, ':');
    *value = colon ? colon + 1 : NULL;
    if (!colon)
        return NULL;
    *colon = '\0';
    return conf_find(pair);
}

/* The pair before this one in the string. A value with a comma in it continues after the comma. */
struct before {
    const struct conf_key *key; /* NULL: an unknown one */
    bool may_be_secret;
    char shown[MAX_SHOWN + sizeof "…"]; /* the part of its name that may be shown */
};

static void note_key(struct before *before, const struct conf_key *key, const char *name)
{
    before->key = key;
    before->may_be_secret = !key || is_hidden(key);
    strcpy(before->shown, shown_name(name));
}

/* The text after the comma may be part of a secret. If it has the @ of a URL, the URL before it has only the user and a
 * part of the password, so it is deleted. */
static void complain_of_rest(const struct before *before, const char *name, bool has_at, const char *origin)
{
    const char *similar = similar_key(name);
    if (before->key && before->key->type == CONF_URL && has_at)
        set(before->key, "");
    if (similar)
        WARN(origin, ": an unknown key that is like ", similar, " is ignored; it is not shown, as it may be part of the value of ",
             before->shown, " before it");
    else
        WARN(origin, ": the text after a comma behind ", before->shown, " is no key:value and is ignored; it is not shown, as it may be "
             "part of the value, which cannot contain a comma");
}

/* Finds the key of a secret inside another key's value. There a comma is missing. */
static const struct conf_key *find_secret_within(const char *value)
{
    for (const struct conf_key *key = conf_keys; key->name; key++)
        for (const char *at = value; is_hidden(key) && (at = strstr(at, key->name)); at++)
            if (strchr(" \t=:", at[strlen(key->name)]) && at[strlen(key->name)])
                return key;
    return NULL;
}

static void parse_pair(char *pair, struct before *before, const char *origin)
{
    char *value;
    bool has_at = strchr(pair, '@');
    const struct conf_key *key = split_pair(pair, &value), *within = value ? find_secret_within(value) : NULL;
    if (!key && before->may_be_secret) {
        complain_of_rest(before, pair, has_at, origin);
        return;
    }
    note_key(before, key, pair);
    if (!value)
        WARN(origin, ": \"", before->shown, "\" is not key:value and is ignored");
    else if (within && key && !is_hidden(key)) {
        before->may_be_secret = true;
        WARN(origin, ": ", key->name, ": the value has ", within->name, " in it and is ignored; a comma separates keys");
    } else
        conf_set(key, pair, value, origin);
}

/* As parse_pair(), for a pair that is too long; `begin` is its beginning. */
static void skip_pair(char *begin, struct before *before, const char *origin)
{
    char *value;
    const struct conf_key *key = split_pair(begin, &value);
    if (key || !before->may_be_secret)
        note_key(before, key, begin);
    if (key)
        WARN(origin, ": ", key->name, ": the value is longer than 1023 bytes and is ignored");
    else
        WARN(origin, ": a text longer than 1023 bytes between two commas is no key:value and is ignored");
}

void conf_parse(const char *text, const char *origin)
{
    char pair[CONF_STRING_BYTES + 64];
    struct before before = {0};
    while (*text) {
        size_t n = strcspn(text, ","), copied = n < sizeof pair ? n : sizeof pair - 1;
        memcpy(pair, text, copied);
        pair[copied] = '\0';
        if (copied < n)
            skip_pair(pair, &before, origin);
        else if (n)
            parse_pair(pair, &before, origin);
        text += n + (text[n] == ',');
    }
}

#define ENVIRON_BYTES ((size_t)4 * 1024 * 1024) /* more than the kernel lets a program start with by default */

/* Reads the environment from /proc, for an allocation that comes before libc has set environ. The result is a sequence
 * of strings. The mapping stays, since variables that were found are in it. */
static COLD const char *early_environment(const char **end)
{
    char *text = meta_map(ENVIRON_BYTES), *to = text;
    int fd = text ? descriptor_open("/proc/self/environ", O_RDONLY, 0) : -1;
    ssize_t n = 1;
    while (fd >= 0 && n > 0 && (size_t)(to - text) < ENVIRON_BYTES - 1) {
        n = read(fd, to, ENVIRON_BYTES - 1 - (size_t)(to - text));
        to += n > 0 ? n : 0;
    }
    if (fd >= 0)
        close(fd);
    *end = to;
    return text;
}

/* As getenv(), at any time. */
static const char *variable(const char *name)
{
    static const char *early, *end;
    size_t n = strlen(name);
    if (environ)
        return getenv(name);
    if (!early)
        early = early_environment(&end);
    for (const char *p = early; p && p < end; p += strlen(p) + 1)
        if (!strncmp(p, name, n) && p[n] == '=')
            return p + n + 1;
    return NULL;
}

/* Whether the text is HOST, HOST:PORT or [ADDRESS]:PORT, perhaps with a path. */
static bool is_authority(const char *text)
{
    size_t n = text[0] == '[' ? strspn(text + 1, "0123456789abcdefABCDEF:.") + 1
                              : strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_");
    if (text[0] == '[' && text[n++] != ']')
        return false;
    if (n && text[n] == ':')
        n += 1 + strspn(text + n + 1, "0123456789");
    return n && (!text[n] || text[n] == '/') && !strpbrk(text + n, "?#");
}

/* The URL without user and password. These stand between the scheme and the last @, since a password may hold any
 * character that should have been encoded. If the rest is no address, it may be a password too, and is not shown. */
static const char *url_without_user(const char *url)
{
    static char shown[CONF_STRING_BYTES + 8];
    const char *at = strrchr(url, '@'), *host = strstr(url, "://");
    size_t scheme = host && host - url == (ptrdiff_t)key_length(url) ? (size_t)(host - url) + 3 : 0;
    if (!url[0])
        return url;
    const char *rest = at ? at + 1 : url + scheme;
    bool plain = !*rest || (is_authority(rest) && (at || scheme || strchr(rest, ':')));
    memcpy(shown, url, scheme);
    strcpy(shown + scheme, at ? "***@" : "");
    strcat(shown, plain ? rest : "***");
    return shown;
}

static const char *text_of(const struct conf_key *key, char *number)
{
    const char *text = field(key);
    switch (key->type) {
    case CONF_BOOL:
        return *(bool *)field(key) ? "true" : "false";
    case CONF_NUMBER:
        return number_text(number, *(uint64_t *)field(key), 10);
    case CONF_CHOICE:
        return choice_text(key, number, NUMBER_BYTES);
    case CONF_SECRET:
        return *text ? "***" : text;
    case CONF_URL:
        return url_without_user(text);
    case CONF_STRING:
        return text;
    }
    return text;
}

static void print_conf(void)
{
    char number[NUMBER_BYTES];
    for (const struct conf_key *key = conf_keys; key->name; key++)
        WARN(key->name, ":", text_of(key, number));
}

/* Lists are used later, or never, but their errors are named at the start. The text may be a secret and is not
 * shown. */
static void check_pairs(const char *name, const char *list, const char *consequence)
{
    char number[NUMBER_BYTES];
    struct list_item item;
    for (uint64_t i = 1; list_next(&list, &item); i++)
        if (!list_name_bytes(&item) || strcspn(item.text, " \t") < list_name_bytes(&item))
            WARN(name, ": item ", number_text(number, i, 10), " is not NAME=VALUE", consequence);
}

/* A program may change its directory later. `max_bytes` is the room for the path with its NUL. */
static void make_absolute(char *relative, size_t max_bytes)
{
    char path[2 * CONF_STRING_BYTES];
    if (!relative[0] || relative[0] == '/' || !getcwd(path, CONF_STRING_BYTES))
        return;
    strcat(path, "/");
    strcat(path, relative);
    if (strlen(path) < max_bytes)
        strcpy(relative, path);
}

static void make_paths_absolute(void)
{
    make_absolute(conf.dump_dir, CONF_STRING_BYTES);
    if (!strncmp(conf.http_listen, "unix:", 5))
        make_absolute(conf.http_listen + 5, sizeof ((struct sockaddr_un *)0)->sun_path);
}

/* ---- only_programs ---- */

/* The name of the program's file, and the name it was executed by, which may be that of a script or a link. */
struct program {
    char path[CONF_STRING_BYTES];
    const char *file;
    char command[16];
};

static void find_program(struct program *p)
{
    ssize_t n = readlink("/proc/self/exe", p->path, sizeof p->path - 1);
    p->path[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(p->path, '/');
    p->file = slash ? slash + 1 : p->path;
    if (prctl(PR_GET_NAME, p->command))
        p->command[0] = '\0';
}

/* Whether one of the patterns fits. Changes the text of the list. */
static bool fits_one(char *patterns, const struct program *p)
{
    for (const char *pattern; (pattern = list_take(&patterns));)
        if (strchr(pattern, '/') ? pattern_fits(pattern, p->path)
                                 : pattern_fits(pattern, p->file) || pattern_fits(pattern, p->command))
            return true;
    return false;
}

static bool is_left_out(void)
{
    struct program p;
    struct list_item first;
    char patterns[CONF_STRING_BYTES];
    if (!list_next(&(const char *){conf.only_programs}, &first))
        return false;
    find_program(&p);
    return !fits_one(strcpy(patterns, conf.only_programs), &p);
}

/* Makes the process write no file and send nothing. */
static void be_silent(void)
{
    conf.dump_dir[0] = conf.dump_on[0] = conf.reporters[0] = conf.pyroscope_url[0] = conf.http_listen[0] = '\0';
    if (conf.on_limit == ON_LIMIT_DUMP)
        conf.on_limit = ON_LIMIT_FAIL;
}

/* The sidecar reports for this process. What concerns it alone has no effect here. */
static void leave_to_sidecar(void)
{
    conf.dump_dir[0] = conf.dump_on[0] = conf.pyroscope_url[0] = conf.http_listen[0] = '\0';
    if (conf.on_limit == ON_LIMIT_DUMP)
        conf.on_limit = ON_LIMIT_FAIL;
}

static COLD void read_all(void)
{
    for (const struct conf_key *key = conf_keys; key->name; key++)
        set(key, key->default_text);
    if (&jespan_conf && jespan_conf)
        conf_parse(jespan_conf, "jespan_conf");
    if (!getauxval(AT_SECURE)) {
        conf_variables_read(variable);
        const char *text = variable("JESPAN_CONF");
        if (text)
            conf_parse(text, "JESPAN_CONF");
    }
    make_paths_absolute();
    check_pairs("pyroscope_labels", conf.pyroscope_labels, " and is ignored");
    check_pairs("resource_attributes", conf.resource_attributes, " and is ignored");
    check_pairs("pyroscope_headers", conf.pyroscope_headers, "; nothing can be pushed with it");
}

COLD void conf_boot(void)
{
    read_all();
    if (conf.sidecar[0])
        leave_to_sidecar();
    if (getauxval(AT_SECURE) || is_left_out()) /* a setuid program is silent, whatever jespan_conf says */
        be_silent();
    if (conf.confirm_conf)
        print_conf();
}

void conf_boot_sidecar(void)
{
    read_all();
    conf.sidecar[0] = '\0';
}
