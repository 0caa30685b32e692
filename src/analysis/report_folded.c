/* SPDX-License-Identifier: BSD-2-Clause */
/* The table as folded stacks, for flame graph tools: a line for each row, with its path and the figure that rows are sorted
 * by. docs/folded.md has the format. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "html.h"

static void print_name(const struct text *name)
{
    for (size_t i = 0; i < name->n; i++) {
        wchar_t c = name->chars[i];
        if (c <= ' ' || c == 0x7F || c == ';' || c == '%')
            printf("%%%02X", (unsigned)c);
        else
            text_print_char(c);
    }
}

static void print_frame(struct text *text, const struct report_input *input, const struct html_frame *frame)
{
    text_clear(text);
    report_add_name(text, input, frame->location);
    for (uint32_t i = 0; i < frame->n_labels; i++) {
        text_add(text, i == 0 ? "{" : ",");
        report_add_string(text, &input->profile, frame->labels[i]->key);
        text_add(text, "=");
        report_add_label_value(text, &input->profile, frame->labels[i]);
    }
    text_add(text, frame->n_labels > 0 ? "}" : "");
    print_name(text);
}

static int print_row(struct text *text, struct report_input *input, const struct html_labels *labels, const struct report_row *row)
{
    struct html_walk walk;
    JespanPprof__Sample *sample;
    int error = profile_sample(&input->profile, row->place.sample, &sample);
    if (error != 0)
        return error;
    html_walk_begin(&walk, labels, input, sample);
    for (bool later = false; html_walk_next(&walk); later = true) {
        fputs(later ? ";" : "", stdout);
        print_frame(text, input, &walk.frame);
    }
    printf(" %" PRId64 "\n", row->key);
    profile_sample_free(&input->profile, sample);
    return 0;
}

static int learn_labels(struct html_labels *labels, struct report_input *input)
{
    int error = 0;
    for (size_t i = 0; i < input->profile.parts->n_sample && error == 0; i++) {
        JespanPprof__Sample *sample;
        error = profile_sample(&input->profile, i, &sample);
        if (error != 0)
            return error;
        error = html_labels_learn(labels, input, sample);
        profile_sample_free(&input->profile, sample);
    }
    return error;
}

int report_print_folded(struct report_table *table)
{
    struct html_labels labels = {0};
    struct report_input *input = &table->inputs[0];
    struct text *text = text_new();
    int error = text ? learn_labels(&labels, input) : -ENOMEM;
    for (uint32_t i = 0; error == 0 && i < table->sections[0].n_shown && !ferror(stdout); i++)
        if (table->rows.items[i].key != 0)
            error = print_row(text, input, &labels, &table->rows.items[i]);
    html_labels_free(&labels);
    free(text);
    return error;
}
