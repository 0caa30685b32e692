/* SPDX-License-Identifier: BSD-2-Clause */
/* The wire format: a field is a varint tag, number << 3 | type, and then what the type says. */
#include "wire.h"

#include <stddef.h>

/* Groups, 3 and 4, are not used by pprof. */
enum { TYPE_VARINT = 0, TYPE_FIXED64 = 1, TYPE_BYTES = 2, TYPE_FIXED32 = 5 };

#define MAX_FIELD_NUMBER ((1u << 29) - 1)
#define FIELD_USED_UP UINT32_MAX /* no field's number */

static bool take_varint(struct wire *wire, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && wire->at < wire->end; shift += 7) {
        uint8_t byte = *wire->at++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool take_bytes(struct wire *wire, uint64_t bytes, struct wire *taken)
{
    if (bytes > (size_t)(wire->end - wire->at))
        return false;
    *taken = (struct wire){wire->at, wire->at + bytes};
    wire->at += bytes;
    return true;
}

static bool take_content(struct wire *wire, struct wire_field *field, uint64_t type)
{
    uint64_t bytes;
    switch (type) {
    case TYPE_VARINT:
        return take_varint(wire, &field->value);
    case TYPE_FIXED64: /* pprof has no fixed numbers; skipped */
        return take_bytes(wire, 8, &field->bytes);
    case TYPE_FIXED32:
        return take_bytes(wire, 4, &field->bytes);
    case TYPE_BYTES:
        field->is_bytes = true;
        return take_varint(wire, &bytes) && take_bytes(wire, bytes, &field->bytes);
    default:
        return false;
    }
}

int wire_next(struct wire *wire, struct wire_field *field)
{
    uint64_t tag;
    *field = (struct wire_field){0};
    if (wire->at == wire->end)
        return 0;
    if (!take_varint(wire, &tag) || tag >> 3 == 0 || tag >> 3 > MAX_FIELD_NUMBER)
        return -1;
    field->number = (uint32_t)(tag >> 3);
    return take_content(wire, field, tag & 7) ? 1 : -1;
}

int wire_next_number(struct wire_field *rest, uint64_t *number)
{
    if (rest->is_bytes) {
        if (rest->bytes.at == rest->bytes.end)
            return 0;
        return take_varint(&rest->bytes, number) ? 1 : -1;
    }
    if (rest->number == FIELD_USED_UP)
        return 0;
    *number = rest->value;
    rest->number = FIELD_USED_UP;
    return 1;
}
