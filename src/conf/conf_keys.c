/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration keys as an array. The command has it too: `jespan conf` prints it. */
#include <stddef.h>

#include "conf/conf.h"

#define ROW(name, type, min, max, text, choices, help) {#name, type, offsetof(struct conf, name), min, max, text, help, choices},
#define KEY_BOOL(name, text, help) ROW(name, CONF_BOOL, 0, 0, text, NULL, help)
#define KEY_NUMBER(name, text, min, max, help) ROW(name, CONF_NUMBER, min, max, text, NULL, help)
#define KEY_CHOICE(name, text, choices, help) ROW(name, CONF_CHOICE, 0, 0, text, choices, help)
#define KEY_STRING(name, text, help) ROW(name, CONF_STRING, 0, 0, text, NULL, help)
#define KEY_SECRET(name, text, help) ROW(name, CONF_SECRET, 0, 0, text, NULL, help)
#define KEY_URL(name, text, help) ROW(name, CONF_URL, 0, 0, text, NULL, help)

const struct conf_key conf_keys[] = {
#include "conf/conf_keys.def"
    {0},
};
