/* SPDX-License-Identifier: BSD-2-Clause */
/* Environment variables of other tools that set our keys: those of Pyroscope's clients (from their documentation, and
 * from the Java agent's for the lists) and of OpenTelemetry (from its specification of resources, of variables and of
 * the OTLP exporter). */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/encode.h"
#include "conf/conf.h"
#include "conf/conf_values.h"

/* Writes the value in the form of our key to `to`, of CONF_STRING_BYTES. Returns false where the value is wrong. */
typedef bool convert(char *to, const char *value);

/* ---- The lists ---- */

struct writer {
    char *to;
    size_t n;
};

static bool put(struct writer *w, char c)
{
    if (w->n + 1 >= CONF_STRING_BYTES)
        return false;
    w->to[w->n++] = c;
    w->to[w->n] = '\0';
    return true;
}

/* Converts KEY=VALUE,KEY=VALUE to the same with |. Keeps the pairs that fit if the list is too long. */
static bool convert_pairs(char *to, const char *value)
{
    struct writer w = {to, 0};
    size_t whole = 0;
    bool fits = true;
    for (to[0] = '\0'; *value && fits; value++) {
        if (*value == ',')
            whole = w.n;
        fits = put(&w, *value == ',' ? '|' : *value);
    }
    if (!fits)
        to[whole] = '\0';
    return true;
}

/* The same, and decodes %XX. A part must be NAME=VALUE, and no value may have a |, which would end it. */
static bool convert_headers(char *to, const char *value)
{
    char text[CONF_STRING_BYTES], *next = text, *pair;
    struct writer w = {to, 0};
    bool fits = strlen(value) < sizeof text;
    if (fits)
        strcpy(text, value);
    for (to[0] = '\0'; fits && (pair = strsep(&next, ","));) {
        pair += strspn(pair, " \t");
        if (!*pair)
            continue;
        percent_decode(pair);
        fits = *pair != '=' && strchr(pair, '=') && !strchr(pair, '|') && (!w.n || put(&w, '|'));
        for (; *pair && fits; pair++)
            fits = put(&w, *pair);
    }
    return fits;
}

static const char *skip_space(const char *p)
{
    return p + strspn(p, " \t\r\n");
}

/* Copies a JSON string, which may have the escapes \" \\ and \/ and no others. It must have no |, which would end the
 * value. Returns the text after the string, or NULL. */
static const char *put_json_string(struct writer *w, const char *p)
{
    if (*p++ != '"')
        return NULL;
    for (; *p && *p != '"'; p++) {
        if (*p == '\\' && (!*++p || !strchr("\"\\/", *p)))
            return NULL;
        if (*p == '|' || (unsigned char)*p < ' ' || !put(w, *p))
            return NULL;
    }
    return *p ? p + 1 : NULL;
}

/* {"NAME":"VALUE", …} */
static bool convert_json(char *to, const char *value)
{
    struct writer w = {to, 0};
    const char *p = skip_space(value);
    to[0] = '\0';
    if (*p != '{')
        return false;
    p = skip_space(p + 1);
    while (*p != '}') {
        if (w.n && (*p != ',' || !put(&w, '|')))
            return false;
        p = put_json_string(&w, w.n ? skip_space(p + 1) : p);
        p = p ? skip_space(p) : "";
        if (*p != ':' || !put(&w, '='))
            return false;
        p = put_json_string(&w, skip_space(p + 1));
        if (!p)
            return false;
        p = skip_space(p);
    }
    return !*skip_space(p + 1);
}

/* ---- Times ---- */

/* Converts "15s", "500ms" or "1m". A number alone counts seconds. */
static bool convert_duration(char *to, const char *value)
{
    static const struct {
        const char *name;
        unsigned long long ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60000}, {"h", 3600000}};
    unsigned long long n = 0;
    size_t digits = strspn(value, "0123456789");
    if (!digits || digits > 9)
        return false;
    for (size_t i = 0; i < digits; i++)
        n = n * 10 + (unsigned long long)(value[i] - '0');
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (!strcmp(units[i].name, value + digits)) {
            char number[NUMBER_BYTES];
            strcpy(to, number_text(number, n * units[i].ms, 10));
            return true;
        }
    return false;
}

/* ---- The table ---- */

struct row {
    const char *variable, *key;
    convert *convert;     /* NULL: the value is used unchanged */
    const char *expected; /* the values it takes, for the message, which shows no value since that may be a secret. NULL: there
                           * is no message, since the variable is not meant for jespan alone */
};

/* Later rows win over earlier ones. */
static const struct row rows[] = {
    {"OTEL_RESOURCE_ATTRIBUTES", "resource_attributes", convert_pairs, NULL},
    {"OTEL_SERVICE_NAME", "pyroscope_app", NULL, NULL},
    {"OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", "otlp_url", NULL, NULL},
    {"OTEL_EXPORTER_OTLP_HEADERS", "otlp_headers", convert_headers, NULL},
    {"OTEL_EXPORTER_OTLP_PROFILES_HEADERS", "otlp_headers", convert_headers, "a list NAME=VALUE,NAME=VALUE without |"},
    {"OTEL_EXPORTER_OTLP_CERTIFICATE", "otlp_ca_file", NULL, NULL},
    {"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "otlp_cert_file", NULL, NULL},
    {"OTEL_EXPORTER_OTLP_CLIENT_KEY", "otlp_key_file", NULL, NULL},
    {"PYROSCOPE_SERVER_ADDRESS", "pyroscope_url", NULL, NULL},
    {"PYROSCOPE_APPLICATION_NAME", "pyroscope_app", NULL, NULL},
    {"PYROSCOPE_BASIC_AUTH_USER", "pyroscope_user", NULL, NULL},
    {"PYROSCOPE_BASIC_AUTH_PASSWORD", "pyroscope_password", NULL, NULL},
    {"PYROSCOPE_AUTH_TOKEN", "pyroscope_token", NULL, NULL},
    {"PYROSCOPE_TENANT_ID", "pyroscope_tenant", NULL, NULL},
    {"PYROSCOPE_LABELS", "pyroscope_labels", convert_pairs, NULL},
    {"PYROSCOPE_HTTP_HEADERS", "pyroscope_headers", convert_json,
     "a JSON object of strings such as {\"NAME\":\"VALUE\"}, without \\u and |"},
    {"PYROSCOPE_UPLOAD_INTERVAL", "pyroscope_interval_ms", convert_duration, "a duration such as 15s, 500ms or 1m"},
};

static void read_row(const struct row *row, const char *value)
{
    char converted[CONF_STRING_BYTES];
    bool good = !row->convert || row->convert(converted, value);
    if (!good && row->expected)
        CONF_WARN(row->variable, ": the value is not ", row->expected, " and is ignored");
    if (good)
        conf_set(conf_find(row->key), row->key, row->convert ? converted : value, row->variable);
}

void conf_variables_read(const char *(*variable)(const char *name))
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *value = variable(rows[i].variable);
        if (value && *value)
            read_row(&rows[i], value);
    }
}
