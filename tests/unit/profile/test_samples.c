/* SPDX-License-Identifier: BSD-2-Clause */
/* Samples as the command decodes them, compared with protobuf-c: of random messages, many of them damaged, both read the same or
 * both refuse. SEED=N starts with other ones. */
#include "src/profile/profile_sample.c"

#include <stdio.h>

#include "../../support/check.h"

enum { MESSAGES = 200000, MOST_BYTES = 4096 };

/* What profile_sample() needs besides. */
static ProtobufCBinaryData given;

int profile_fields_sample(struct profile_fields *f, size_t i, ProtobufCBinaryData *bytes)
{
    (void)f;
    (void)i;
    *bytes = given;
    return 0;
}

int profile_frames_apply(struct profile *profile, JespanPprof__Sample *sample)
{
    (void)profile;
    (void)sample;
    return 0;
}

/* ---- Random messages ---- */

static uint64_t state;

static uint64_t random_number(void)
{
    return hash_mix(state += 0x9e3779b97f4a7c15u);
}

static unsigned below(unsigned n)
{
    return (unsigned)(random_number() % n);
}

struct message {
    uint8_t at[MOST_BYTES];
    size_t n;
};

static void add_byte(struct message *m, unsigned byte)
{
    if (m->n < MOST_BYTES)
        m->at[m->n++] = (uint8_t)byte;
}

static void add_number(struct message *m, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        add_byte(m, (unsigned)(number & 0x7f) | 0x80);
    add_byte(m, (unsigned)number);
}

static void add_bytes_field(struct message *m, unsigned field, const struct message *content)
{
    add_number(m, field << 3 | WIRE_BYTES);
    add_number(m, content->n);
    for (size_t i = 0; i < content->n; i++)
        add_byte(m, content->at[i]);
}

static void add_number_field(struct message *m, unsigned field, uint64_t number)
{
    add_number(m, field << 3 | WIRE_NUMBER);
    add_number(m, number);
}

/* 1 to 64 bits */
static uint64_t any_number(void)
{
    return random_number() >> below(64);
}

static void add_random_field(struct message *m)
{
    struct message content = {.n = 0};
    unsigned kind = below(12), n = below(8);
    if (kind < 4) {
        for (unsigned i = 0; i < n; i++)
            add_number(&content, any_number());
        add_bytes_field(m, 1 + kind % 2, &content);
    } else if (kind < 6) {
        add_number_field(m, 1 + kind % 2, any_number());
    } else if (kind < 10) {
        for (unsigned i = 0; i < n; i++)
            add_number_field(&content, 1 + below(5), any_number());
        add_bytes_field(m, 3, &content);
    } else {
        add_number(m, (1 + below(20)) << 3 | (kind == 10 ? WIRE_8_BYTES : WIRE_4_BYTES));
        for (int i = 0; i < (kind == 10 ? 8 : 4); i++)
            add_byte(m, below(256));
    }
}

static void damage(struct message *m)
{
    size_t at = m->n == 0 ? 0 : below((unsigned)m->n);
    switch (below(4)) {
    case 0:
        m->n = at;
        break;
    case 1:
        add_byte(m, below(256));
        break;
    default:
        m->at[at] = (uint8_t)(below(3) == 0 ? below(256) : m->at[at] ^ 1u << below(8));
    }
}

/* ---- The comparison ---- */

static void compare_samples(const JespanPprof__Sample *a, const JespanPprof__Sample *b)
{
    CHECK_EQ(a->n_location_id, b->n_location_id);
    CHECK_EQ(a->n_value, b->n_value);
    CHECK_EQ(a->n_label, b->n_label);
    for (size_t i = 0; i < a->n_location_id && i < b->n_location_id; i++)
        CHECK_EQ(a->location_id[i], b->location_id[i]);
    for (size_t i = 0; i < a->n_value && i < b->n_value; i++)
        CHECK_EQ(a->value[i], b->value[i]);
    for (size_t i = 0; i < a->n_label && i < b->n_label; i++) {
        CHECK_EQ(a->label[i]->key, b->label[i]->key);
        CHECK_EQ(a->label[i]->str, b->label[i]->str);
        CHECK_EQ(a->label[i]->num, b->label[i]->num);
        CHECK_EQ(a->label[i]->num_unit, b->label[i]->num_unit);
    }
}

/* Returns whether it is a sample. The memory ends with the message, so that AddressSanitizer sees a read behind it. */
static bool check_message(struct profile *profile, const struct message *m)
{
    JespanPprof__Sample *ours;
    uint8_t *exact = malloc(m->n);
    if (m->n > 0)
        memcpy(exact, m->at, m->n);
    JespanPprof__Sample *theirs = jespan_pprof__sample__unpack(NULL, m->n, exact);
    given = (ProtobufCBinaryData){m->n, exact};
    profile->parts->n_sample_type = theirs ? theirs->n_value : below(5);
    int error = profile_sample(profile, 0, &ours);
    CHECK_EQ(error, theirs ? 0 : -EBADMSG);
    if (ours && theirs)
        compare_samples(ours, theirs);
    profile_sample_free(profile, ours);
    if (theirs) {
        profile->parts->n_sample_type = theirs->n_value + 1;
        CHECK_EQ(profile_sample(profile, 0, &ours), -EBADMSG);
        jespan_pprof__sample__free_unpacked(theirs, NULL);
    }
    free(exact);
    return theirs;
}

int main(void)
{
    JespanParts__Profile parts = {.n_sample_type = 0};
    struct profile profile = {.parts = &parts};
    uint64_t n_samples = 0;
    state = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : 1;
    for (unsigned i = 0; i < MESSAGES; i++) {
        struct message m = {.n = 0};
        for (unsigned k = below(6); k > 0; k--)
            add_random_field(&m);
        for (unsigned k = below(2) ? below(4) : 0; k > 0; k--)
            damage(&m);
        n_samples += check_message(&profile, &m);
    }
    CHECK(n_samples > MESSAGES / 2 && n_samples < MESSAGES - 1000); /* neither all nor none is refused */
    profile_samples_free(&profile);
    return check_result();
}
