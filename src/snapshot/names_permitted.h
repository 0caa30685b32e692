/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of mallctl that another process may ask the program for. */
#ifndef JESPAN_NAMES_PERMITTED_H
#define JESPAN_NAMES_PERMITTED_H

#include <stdint.h>

#include "base/mailbox.h"

struct permitted_name {
    const char *pattern;
    unsigned access; /* to read, set and call it */
    enum mailbox_kind kind; /* MAILBOX_UNSIGNED also for MAILBOX_BOOL: its size tells */
};

/* NULL: the name may not be used with this verb (enum mailbox_verb). A name that is found need not exist. */
const struct permitted_name *names_permitted_find(const char *name, uint32_t verb);

#endif
