/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules of `alert` of another process. */
#include <errno.h>
#include <string.h>

#include "snapshot/alert_figures.h"
#include "snapshot/names_outside_parts.h"

const char *names_outside_alert_name(size_t i)
{
    return i == 0 ? "rule" : i <= ALERT_N_FIGURES ? alert_figure_name(i - 1) : NULL;
}

/* The figures may lie in a page that a core does not have. */
static int get_figure(struct view *view, uint64_t at, size_t which, struct mailbox_answer *answer)
{
    struct alert_figures figures;
    if (!at || names_outside_copy(view, &figures, at, sizeof figures) != 0)
        return -ENOENT;
    return names_outside_number(answer, alert_figure(&figures, which));
}

int names_outside_alert(struct view *view, uint64_t shown_at, uint32_t rule, const char *name, struct mailbox_answer *answer)
{
    struct alerts_shown shown;
    size_t i = 0;
    while (names_outside_alert_name(i) && strcmp(names_outside_alert_name(i), name) != 0)
        i++;
    if (!names_outside_alert_name(i))
        return -EOPNOTSUPP;
    int error = names_outside_copy(view, &shown, shown_at, sizeof shown);
    if (error)
        return error;
    if (rule < 1 || rule > load_relaxed(&shown.n) || rule > ALERTS_MOST)
        return -ENOENT;
    if (i == 0)
        return names_outside_text(view, space_address(shown.rules[rule - 1]), answer);
    uint64_t figures = space_address(load_relaxed(&shown.figures));
    return get_figure(view, figures ? figures + (rule - 1) * sizeof(struct alert_figures) : 0, i - 1, answer);
}
