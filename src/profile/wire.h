/* SPDX-License-Identifier: BSD-2-Clause */
/* Protobuf's wire format: numbers, and where a field ends. */
#ifndef JESPAN_PROFILE_WIRE_H
#define JESPAN_PROFILE_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define WIRE_MAX_BYTES ((size_t)1 << 30) /* of a field */

enum wire_type { WIRE_NUMBER = 0, WIRE_8_BYTES = 1, WIRE_BYTES = 2, WIRE_4_BYTES = 5 };

/* Returns the bytes that a number takes; 0: it goes on behind `n`; SIZE_MAX: it has more than `most` bytes. */
static inline size_t wire_number(const uint8_t *at, size_t n, size_t most, uint64_t *value)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n && i < most; i++) {
        sum |= (uint64_t)(at[i] & 0x7f) << (7 * i);
        if (at[i] < 0x80) {
            *value = sum;
            return i + 1;
        }
    }
    return n < most ? 0 : SIZE_MAX;
}

enum { WIRE_NUMBER_BYTES = 10, WIRE_HEAD_BYTES = 5 }; /* the most bytes of a number; of a tag and of a length */

/* A field: its tag, and a number, or perhaps a length and then its content. */
struct wire_field {
    uint32_t number;
    enum wire_type type;
    uint64_t value;        /* of a number */
    size_t content, bytes; /* where its content begins, and where it ends */
};

/* Returns the bytes that must be there to say more: as many as the field has, if it is whole. SIZE_MAX: it is no field. */
static inline size_t wire_field(const uint8_t *at, size_t n, struct wire_field *field)
{
    uint64_t tag, number = 0, length = 0;
    size_t tag_bytes = wire_number(at, n, WIRE_HEAD_BYTES, &tag), more = 0;
    if (tag_bytes == 0 || tag_bytes == SIZE_MAX)
        return tag_bytes == 0 ? n + 1 : SIZE_MAX;
    field->number = (uint32_t)(tag >> 3);
    field->type = (enum wire_type)(tag & 7);
    if (field->type == WIRE_NUMBER || field->type == WIRE_BYTES) {
        size_t most = field->type == WIRE_NUMBER ? WIRE_NUMBER_BYTES : WIRE_HEAD_BYTES;
        more = wire_number(at + tag_bytes, n - tag_bytes, most, &number);
        if (more == 0 || more == SIZE_MAX)
            return more == 0 ? n + 1 : SIZE_MAX;
        length = field->type == WIRE_BYTES ? number : 0;
    } else if (field->type == WIRE_8_BYTES || field->type == WIRE_4_BYTES) {
        length = field->type == WIRE_8_BYTES ? 8 : 4;
    } else {
        return SIZE_MAX;
    }
    if (length > WIRE_MAX_BYTES)
        return SIZE_MAX;
    field->value = number;
    field->content = tag_bytes + more;
    return field->bytes = field->content + (size_t)length;
}

#endif
