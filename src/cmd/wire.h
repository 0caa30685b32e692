/* SPDX-License-Identifier: BSD-2-Clause */
/* Walks protobuf's wire format in place, without memory of its own. Never reads outside the bytes given, whatever they
 * are. */
#ifndef JESPAN_CMD_WIRE_H
#define JESPAN_CMD_WIRE_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes still to be read. */
struct wire {
    const uint8_t *at, *end;
};

struct wire_field {
    uint32_t number;
    bool is_bytes;     /* a string, a message or packed numbers; else a number */
    uint64_t value;    /* the number */
    struct wire bytes; /* the rest */
};

/* Takes the next field. Returns 1, 0 at the end, -1 when the bytes are no message. */
int wire_next(struct wire *wire, struct wire_field *field);

/* Takes the next number of a repeated field, which may be packed or a single one: `rest` is a copy of the field, used
 * up by this. Returns 1, 0 at the end, -1 when the bytes are no numbers. */
int wire_next_number(struct wire_field *rest, uint64_t *number);

#endif
