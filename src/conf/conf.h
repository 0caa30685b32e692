/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration: one table of keys, read once at boot from `jespan_conf` and then JESPAN_CONF, in MALLOC_CONF's
 * style.
 *
 * To add a key: a row in conf_keys.def.
 */
#ifndef JESPAN_CONF_H
#define JESPAN_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define CONF_STRING_BYTES 1024

/* A field for each row of conf_keys.def, with the key's name. The value of a choice is a member of an enum: of one below,
 * or of enum cpu_clock_kind. Texts come last: most are empty, and their pages take no memory then. */
struct conf {
#define KEY_BOOL(name, ...) bool name;
#define KEY_NUMBER(name, ...) uint64_t name;
#define KEY_CHOICE(name, ...) uint64_t name;
#define KEY_STRING(name, ...)
#define KEY_SECRET(name, ...)
#define KEY_URL(name, ...)
#include "conf/conf_keys.def"
#define KEY_BOOL(name, ...)
#define KEY_NUMBER(name, ...)
#define KEY_CHOICE(name, ...)
#define KEY_STRING(name, ...) char name[CONF_STRING_BYTES];
#define KEY_SECRET(name, ...) char name[CONF_STRING_BYTES];
#define KEY_URL(name, ...) char name[CONF_STRING_BYTES];
#include "conf/conf_keys.def"
};

extern INTERNAL struct conf conf;
extern bool conf_follow_fork_chosen; /* a configuration sets follow_fork, to true or false */
extern bool conf_is_silent;          /* only_programs leaves this program out */

enum track_time { TRACK_TIME_OFF, TRACK_TIME_WALL, TRACK_TIME_CPU };
enum dump_at_exit { DUMP_AT_EXIT_FALSE, DUMP_AT_EXIT_TRUE, DUMP_AT_EXIT_AFTER, DUMP_AT_EXIT_BOTH };
enum on_limit { ON_LIMIT_FAIL, ON_LIMIT_EVENT, ON_LIMIT_ABORT, ON_LIMIT_DUMP };
enum pyroscope_api { PYROSCOPE_PUSH, PYROSCOPE_INGEST };
enum pyroscope_uncertain { PYROSCOPE_RETRY, PYROSCOPE_DROP };

/* Secrets are never printed. URLs are printed without user and password. */
enum conf_type { CONF_BOOL, CONF_NUMBER, CONF_STRING, CONF_SECRET, CONF_URL, CONF_CHOICE };

struct conf_key {
    const char *name;
    enum conf_type type;
    size_t offset;
    uint64_t minimum, maximum; /* for a number */
    const char *default_text;
    const char *help; /* Markdown, for docs/configuration.md; `jespan conf` prints it as plain text */
    const char *choices; /* for a choice: "a|b|c"; its value is the place in this list, from 0 on */
};

extern const struct conf_key conf_keys[]; /* ends with a NULL name */

/* Sets the defaults, then reads the symbol, then the environment. Names errors on stderr and ignores wrong parts. Needs
 * no memory. */
void conf_boot(void);

/* The same in a sidecar. That of `jespan run` has the configuration of the programs, and names its errors for them. */
void conf_boot_sidecar(bool of_run);

/* Leaves all reports of this process to the sidecar, except events, which only the process sees. */
void conf_leave_to_sidecar(void);

/* Sets keys by environment variables of other tools; conf_variables.c has the table. `variable` is a function such as
 * getenv(). Names errors on stderr and ignores wrong values. */
void conf_variables_read(const char *(*variable)(const char *name));

/* Returns NULL where there is no such key. */
const struct conf_key *conf_find(const char *name);

/* Sets a key, or names the error on stderr. `name` and `origin` are for the message. */
void conf_set(const struct conf_key *key, const char *name, const char *value, const char *origin);

/* A reader of a list calls such a function for each wrong item. `why` says what is wrong, such as "has no name". `key` names the
 * list. */
typedef void conf_wrong_item(const char *key, const char *item, const char *why);

/* One that names the item on stderr, and says that it is ignored. */
void conf_warn_item(const char *key, const char *item, const char *why);

/* Reads a string in the form of JESPAN_CONF. `origin` names it in messages. */
void conf_parse(const char *text, const char *origin);

#endif
