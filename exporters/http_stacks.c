/* SPDX-License-Identifier: BSD-2-Clause */
/* /stacks: as /spans, with the calls that allocated below each context. */
#include <errno.h>
#include <string.h>

#include "calls.h"
#include "http_answer.h"
#include "stacks/stacks.h"

/* ---- The switch ---- */

/* The process checks the mode too, but may do so when nobody waits for its answer any more. */
void http_stacks_switch(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    const char *mode = request->mode, *names;
    if (!mode || stacks_mode_of(mode, &names) < 0) {
        http_answer_line(answer, 400, "mode must be off, sampled or all, the last two perhaps with @NAME|NAME*");
        return;
    }
    int error = source->host->mallctl("spans.stacks", NULL, NULL, &mode, sizeof mode);
    bool is_set = error == 0 && strcmp(http_spans_stacks(source), mode) == 0;
    if (error != 0)
        http_answer_line(answer, error == EINVAL ? 400 : error == EPERM || error == EACCES ? 403 : 503,
                         error == EINVAL ? "mode is too long" : strerror(error));
    else
        http_answer_line(answer, is_set ? 200 : 202, is_set ? "done" : "the program does it when it next allocates");
}

/* ---- The calls ---- */

void http_stacks_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    uint32_t limit;
    const struct snapshot *s = http_spans_limit(request, &limit, answer) ? http_answer_look(source, answer) : NULL;
    if (!s)
        return;
    struct calls c;
    int missing = calls_make(&c, s) ? calls_ask_names(&c, source->host) : -ENOMEM;
    const char *names = !source->host->name_calls ? "none" : missing > 0 ? "some" : "all";
    answer->status = 200;
    answer->type = "application/json; charset=utf-8";
    if (missing < 0 || !calls_show_names(&c) || !http_spans_write(&answer->body, &c.shown, limit, source, names))
        http_answer_line(answer, 503, "there is no memory for the answer");
    calls_free(&c);
}
