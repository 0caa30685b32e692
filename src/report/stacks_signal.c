/* SPDX-License-Identifier: BSD-2-Clause */
/* The signal that switches stacks on and off. */
#include "report/stacks_signal.h"

#include <errno.h>
#include <string.h>

#include "base/die.h"
#include "base/mailbox.h"
#include "conf/conf.h"
#include "report/signals.h"
#include "stacks/stacks.h"

static void handle(int number)
{
    (void)number;
    mailbox_ask_switch();
}

static void install(const char *name)
{
    static struct own_signal own = {.handle = handle};
    int error = signals_install(&own, name);
    if (error == -EBUSY)
        WARN("stacks_signal: '", name, "' is ignored: there is a handler for this signal");
    else if (error)
        WARN("stacks_signal: '", name, "' is not a signal that can switch stacks, and is ignored");
}

static bool can_switch_on(const char *mode)
{
    const char *names;
    return strlen(mode) < STACK_MODE_BYTES && stacks_mode_of(mode, &names) > STACKS_OFF;
}

COLD void stacks_signal_boot(void)
{
    char name[32] = "";
    const char *text = conf.stacks_signal;
    size_t bytes = strcspn(text, "=");
    if (!*text || conf_is_silent)
        return;
    memcpy(name, text, bytes < sizeof name ? bytes : sizeof name - 1);
    mailbox_stacks = text[bytes] ? text + bytes + 1 : stacks_mode_name(STACKS_ALL);
    if (can_switch_on(mailbox_stacks))
        install(name);
    else
        WARN("stacks_signal: '", mailbox_stacks, "' is not sampled, all, sampled@NAMES or all@NAMES; the signal is ignored");
}
