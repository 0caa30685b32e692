/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration: one table of keys, read once at boot from `jespan_conf` and then JESPAN_CONF, in MALLOC_CONF's
 * style.
 *
 * To add a key: a field here and a row in conf_keys.c.
 */
#ifndef JESPAN_CONF_H
#define JESPAN_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONF_STRING_BYTES 1024

struct conf {
    uint64_t max_contexts;
    bool thread_contexts;
    uint64_t track_time; /* enum track_time */
    uint64_t cpu_clock;  /* enum cpu_clock_kind */
    uint64_t age_period_s;
    bool inherit;
    char sampler[CONF_STRING_BYTES];
    char sampler_sites[CONF_STRING_BYTES];
    char record_labels[CONF_STRING_BYTES];
    uint64_t max_arenas;
    char arena[CONF_STRING_BYTES];
    uint64_t max_limits;
    char limit[CONF_STRING_BYTES];
    uint64_t on_limit; /* enum on_limit */
    uint64_t limit_interval_ms;
    char dump_dir[CONF_STRING_BYTES];
    uint64_t dump_interval_s;
    uint64_t dump_keep;
    uint64_t dump_dir_files;
    uint64_t dump_dir_bytes;
    uint64_t dump_at_exit; /* enum dump_at_exit */
    uint64_t dump_at_exit_min_ms;
    uint64_t dump_at_exit_pid;
    bool dump_time;
    char dump_on[CONF_STRING_BYTES];
    char dump_signal[CONF_STRING_BYTES];
    uint64_t dump_oom_percent;
    uint64_t dump_pressure_percent;
    uint64_t dump_peak_percent;
    uint64_t dump_on_interval_s;
    uint64_t dump_reserve_bytes;
    bool follow_fork;
    char only_programs[CONF_STRING_BYTES];
    char module_dir[CONF_STRING_BYTES];
    char reporters[CONF_STRING_BYTES];
    uint64_t reporter_interval_ms;
    char series_labels[CONF_STRING_BYTES];
    char resource_attributes[CONF_STRING_BYTES];
    char pyroscope_url[CONF_STRING_BYTES];
    char pyroscope_app[CONF_STRING_BYTES];
    uint64_t pyroscope_api; /* enum pyroscope_api */
    uint64_t pyroscope_interval_ms;
    char pyroscope_labels[CONF_STRING_BYTES];
    char pyroscope_user[CONF_STRING_BYTES];
    char pyroscope_password[CONF_STRING_BYTES];
    char pyroscope_token[CONF_STRING_BYTES];
    char pyroscope_tenant[CONF_STRING_BYTES];
    char pyroscope_headers[CONF_STRING_BYTES];
    char pyroscope_ca_file[CONF_STRING_BYTES];
    char pyroscope_cert_file[CONF_STRING_BYTES];
    char pyroscope_key_file[CONF_STRING_BYTES];
    bool pyroscope_insecure;
    char pyroscope_proxy[CONF_STRING_BYTES];
    uint64_t pyroscope_connect_timeout_ms;
    uint64_t pyroscope_timeout_ms;
    uint64_t pyroscope_exit_timeout_ms;
    uint64_t pyroscope_uncertain; /* enum pyroscope_uncertain */
    uint64_t pyroscope_inuse_interval_ms;
    uint64_t pyroscope_queue_bytes;
    uint64_t pyroscope_queue_age_s;
    uint64_t pyroscope_max_samples;
    uint64_t pyroscope_max_bytes;
    char http_listen[CONF_STRING_BYTES];
    char http_token[CONF_STRING_BYTES];
    uint64_t http_max_series;
    uint64_t shutdown_timeout_ms;
    bool confirm_conf;
};

extern struct conf conf;
extern bool conf_follow_fork_chosen; /* a configuration sets follow_fork, to true or false */

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
    const char *help;
    const char *choices; /* for a choice: "a|b|c"; its value is the place in this list, from 0 on */
};

extern const struct conf_key conf_keys[]; /* ends with a NULL name */

/* Sets the defaults, then reads the symbol, then the environment. Names errors on stderr and ignores wrong parts. Needs
 * no memory. */
void conf_boot(void);

/* Sets keys by environment variables of other tools; conf_variables.c has the table. `variable` is a function such as
 * getenv(). Names errors on stderr and ignores wrong values. */
void conf_variables_read(const char *(*variable)(const char *name));

/* Returns NULL where there is no such key. */
const struct conf_key *conf_find(const char *name);

/* Sets a key, or names the error on stderr. `name` and `origin` are for the message. */
void conf_set(const struct conf_key *key, const char *name, const char *value, const char *origin);

/* Reads a string as that of JESPAN_CONF. `origin` names it in messages. */
void conf_parse(const char *text, const char *origin);

#endif
