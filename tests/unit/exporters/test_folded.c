/* SPDX-License-Identifier: BSD-2-Clause */
/* The exporter of folded stacks: each line is read as flame graph tools read it, and must give the path, the names and
 * the value of its row back, whatever bytes the names have. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../support/check.h"
#include "../../support/made_snapshot.h"
#include "exporters/utf8.h"
#include "report/dump_dir.h"
#include "report/exporter.h"

#define MAX_FRAMES 512
#define TEXT_BYTES ((size_t)64 << 20)
#define FRAME_BYTES 200000

EXPORTER_DEFINE(folded);

/* Takes all bytes, or fails with EIO from write number `fail_at` on. */
struct text_sink {
    struct exporter_sink sink;
    size_t bytes;
    int n_writes, fail_at;
};

static char text[TEXT_BYTES];

static void check_text(const char *is, const char *should_be)
{
    if (strcmp(is, should_be) != 0)
        check_fail("is \"%.2000s\", should be \"%.2000s\"", is, should_be);
}

static int take_text(struct exporter_sink *sink, const void *data, size_t bytes)
{
    struct text_sink *to = (struct text_sink *)sink;
    if (++to->n_writes == to->fail_at)
        return -EIO;
    CHECK_EQ(to->fail_at && to->n_writes > to->fail_at, 0); /* nothing comes after an error */
    CHECK(to->bytes + bytes < sizeof text);
    memcpy(text + to->bytes, data, bytes);
    text[to->bytes += bytes] = '\0';
    return 0;
}

static struct text_sink fold(const struct snapshot *s, enum exporter_profile profile)
{
    struct text_sink to = {{take_text, NULL}, 0, 0, 0};
    text[0] = '\0';
    CHECK_EQ(jespan_exporter_folded.encode(s, profile, &to.sink), 0);
    CHECK_EQ(strlen(text), to.bytes);
    return to;
}

/* ---- Exact text ---- */

static void check_small(void)
{
    struct snapshot *s = made_snapshot("small", 0);
    fold(s, EXPORTER_HEAP);
    check_text(text, "(root) 1000\n"
                     "(jespan) 4096\n"
                     "request{route=/doc,tenant=blue} 300\n"
                     "request{route=/doc,tenant=blue};parse{route=/doc,tenant=green,format=} 1048576\n"
                     "request{route=/put,shard=7,request=4096,zero=0,below=-12} 64\n");
    fold(s, EXPORTER_TIME);
    check_text(text, "(root) 12000000\n"
                     "thread:main 7200000000\n"
                     "request{route=/doc,tenant=blue} 250000\n"
                     "request{route=/doc,tenant=blue};parse{route=/doc,tenant=green,format=} 90000\n"
                     "request{route=/put,shard=7,request=4096,zero=0,below=-12};parse 15\n"
                     "(retired) 64000000\n");
    struct text_sink to = {{take_text, NULL}, 0, 0, 0};
    CHECK_EQ(jespan_exporter_folded.encode(s, EXPORTER_N_PROFILES, &to.sink), -EINVAL);
    made_snapshot_free(s);
}

static void check_escapes(void)
{
    static const struct snapshot_label labels[] = {{"a b", "50% off;\n"}};
    const struct snapshot_row rows[] = {
        {.parent_row = 0, .name = "(root)"},
        {.parent_row = 0, .name = "phase 2", .labels = labels, .n_labels = 1, .totals = {.alloc_bytes = 9}},
        {.parent_row = 1, .name = "", .totals = {.alloc_bytes = 8}},
        {.parent_row = 2, .name = "\x7f\xff\xe2\x82\xac \xc2", .totals = {.alloc_bytes = 7}},
    };
    struct snapshot *s = made_snapshot_of(rows, 4);
    fold(s, EXPORTER_HEAP);
    check_text(text, "phase%202{a%20b=50%25%20off%3B%0A} 9\n"
                     "phase%202{a%20b=50%25%20off%3B%0A};(unnamed) 8\n"
                     "phase%202{a%20b=50%25%20off%3B%0A};(unnamed);%7F%FF\xe2\x82\xac%20%C2 7\n");
    made_snapshot_free(s);
}

/* ---- Reading back ---- */

/* Undoes the escapes of `text` up to `end`. */
static const char *decode(const char *from, const char *end)
{
    static char decoded[FRAME_BYTES];
    size_t n = 0;
    for (; from < end && n < sizeof decoded - 1; n++) {
        char hex[3] = {from[0] == '%' ? from[1] : '\0', from[0] == '%' ? from[2] : '\0', '\0'};
        decoded[n] = hex[0] ? (char)strtoul(hex, NULL, 16) : *from;
        from += hex[0] ? 3 : 1;
    }
    decoded[n] = '\0';
    return decoded;
}

/* Makes the text that a frame must have, without escapes. */
static const char *frame_of(const struct snapshot_row *row)
{
    static char expected[FRAME_BYTES];
    char *end = stpcpy(expected, row->name[0] ? row->name : "(unnamed)");
    for (uint32_t i = 0; i < row->n_labels; i++)
        end += sprintf(end, "%c%s=%s", i ? ',' : '{', row->labels[i].key, row->labels[i].value);
    strcpy(end, row->n_labels ? "}" : "");
    return expected;
}

static bool is_root(const struct snapshot *s, uint32_t row)
{
    return row >= s->n_rows || s->rows[row].parent_row == row;
}

/* Compares the frames from the innermost on. `stack` to `end` is the line without its value. */
static void check_path(const struct snapshot *s, uint32_t row, const char *stack, const char *end)
{
    for (int n = 0;; n++) {
        const char *frame = end;
        while (frame > stack && frame[-1] != ';')
            frame--;
        bool is_cut = n == MAX_FRAMES, is_last = frame == stack;
        check_text(decode(frame, end), is_cut ? "(path cut)" : frame_of(&s->rows[row]));
        if (!is_cut)
            row = s->rows[row].parent_row;
        CHECK_EQ(is_last, is_cut || is_root(s, row));
        if (is_last)
            return;
        end = frame - 1;
    }
}

/* A line has one blank, before the value. It has no other blank or control character. */
static const char *check_line(const struct snapshot *s, uint32_t row, const char *line)
{
    const char *end = strchr(line, '\n'), *blank = memrchr(line, ' ', (size_t)(end - line));
    char *digits_end;
    for (const char *c = line; c < end; c++)
        CHECK((unsigned char)*c > ' ' || c == blank);
    CHECK(blank > line && blank[1] >= '1' && blank[1] <= '9');
    CHECK_EQ(strtoull(blank + 1, &digits_end, 10), totals_inuse_bytes(&s->rows[row].totals));
    CHECK(digits_end == end);
    check_path(s, row, line, blank);
    return end + 1;
}

static void check_kind(const char *kind, uint32_t n)
{
    struct snapshot *s = made_snapshot(kind, n);
    fold(s, EXPORTER_HEAP);
    CHECK(utf8_valid(text));
    const char *line = text;
    for (uint32_t row = 0; row < s->n_rows; row++)
        if (totals_inuse_bytes(&s->rows[row].totals) > 0)
            line = check_line(s, row, line);
    CHECK_EQ(*line, '\0');
    made_snapshot_free(s);
}

/* ---- Errors and memory ---- */

static void check_errors_of_sink(void)
{
    struct snapshot *s = made_snapshot("rows", 20000);
    int n_writes = fold(s, EXPORTER_HEAP).n_writes;
    CHECK(n_writes > 3);
    for (int i = 1; i <= n_writes; i++) {
        struct text_sink to = {{take_text, NULL}, 0, 0, i};
        CHECK_EQ(jespan_exporter_folded.encode(s, EXPORTER_HEAP, &to.sink), -EIO);
        CHECK_EQ(to.n_writes, i);
    }
    made_snapshot_free(s);
}

static int n_taken;

static void *take(size_t bytes)
{
    n_taken++;
    return calloc(1, bytes);
}

static void give(void *p)
{
    n_taken -= p != NULL;
    free(p);
}

static void *take_nothing(size_t bytes)
{
    (void)bytes;
    return NULL;
}

static void check_memory_of_sink(void)
{
    static const struct exporter_memory memory = {take, give}, none = {take_nothing, give};
    struct snapshot *s = made_snapshot("small", 0);
    struct text_sink to = {{take_text, &memory}, 0, 0, 0}, without = {{take_text, &none}, 0, 0, 0};
    CHECK_EQ(jespan_exporter_folded.encode(s, EXPORTER_HEAP, &to.sink), 0);
    CHECK_EQ(n_taken, 0);
    CHECK(to.bytes > 0);
    CHECK_EQ(jespan_exporter_folded.encode(s, EXPORTER_HEAP, &without.sink), -ENOMEM);
    CHECK_EQ(without.n_writes, 0);
    made_snapshot_free(s);
}

int main(void)
{
    check_small();
    check_escapes();
    check_kind("empty", 0);
    check_kind("twins", 0);
    check_kind("hostile", 0);
    check_kind("chain", 600);
    check_kind("rows", 20000);
    check_errors_of_sink();
    check_memory_of_sink();
    return check_result();
}
