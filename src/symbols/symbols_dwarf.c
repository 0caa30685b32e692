/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions, inlined functions and lines from DWARF.
 *
 * A unit is walked once, for all places in it, and only if it has any. So 10,000 places take about as long as one in each of
 * the units. libdw's own search walks the unit from its start for each place, and needs .debug_aranges, which clang leaves
 * out. */
#include "symbols_parts.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 64 /* of namespaces and classes around a function, and of blocks in it */

struct unit {
    Dwarf_Die *die;        /* has the ranges and the lines */
    struct symbols_place *places;
    size_t n;
    uint64_t bias; /* an address of DWARF's + bias = an address of libdwfl's */
    Dwarf_Files *files;
};

/* --- Ranges --------------------------------------------------------------------------------------------------------- */

/* The first place at or after an address. */
static size_t find_place(const struct symbols_place *places, size_t n, uint64_t address)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (places[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

typedef void on_place(struct unit *unit, Dwarf_Die *die, struct symbols_place *place);

/* Calls on() for each place in the ranges of a function or unit. Returns the number of calls. */
static size_t each_place(struct unit *unit, Dwarf_Die *die, on_place *on)
{
    Dwarf_Addr base = 0, low, high;
    size_t n = 0;
    for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &low, &high)) > 0;)
        for (size_t i = find_place(unit->places, unit->n, low + unit->bias);
             i < unit->n && unit->places[i].address < high + unit->bias; i++, n++)
            if (on)
                on(unit, die, &unit->places[i]);
    return n;
}

/* --- One function --------------------------------------------------------------------------------------------------- */

static const char *text_of(Dwarf_Die *die, unsigned attribute)
{
    Dwarf_Attribute value;
    return dwarf_formstring(dwarf_attr_integrate(die, attribute, &value));
}

static int number_of(Dwarf_Die *die, unsigned attribute)
{
    Dwarf_Attribute value;
    Dwarf_Word word;
    return dwarf_formudata(dwarf_attr_integrate(die, attribute, &value), &word) == 0 && word <= INT32_MAX ? (int)word : 0;
}

static struct symbols_function describe(Dwarf_Die *die)
{
    struct symbols_function function = {.linkage_name = text_of(die, DW_AT_linkage_name), .start_line = number_of(die, DW_AT_decl_line)};
    if (!function.linkage_name)
        function.linkage_name = text_of(die, DW_AT_MIPS_linkage_name);
    function.name = text_of(die, DW_AT_name);
    return function;
}

static const char *file_name(struct unit *unit, int number)
{
    size_t n;
    if (!unit->files && dwarf_getsrcfiles(unit->die, &unit->files, &n) != 0)
        return NULL;
    return dwarf_filesrc(unit->files, (size_t)number, NULL, NULL);
}

/* The block or the inlined function in a function that has the place; false: there is none. */
static bool find_inner(Dwarf_Die *outer, Dwarf_Addr address, Dwarf_Die *inner)
{
    for (int error = dwarf_child(outer, inner); error == 0; error = dwarf_siblingof(inner, inner)) {
        int tag = dwarf_tag(inner);
        if ((tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block || tag == DW_TAG_try_block || tag == DW_TAG_catch_block)
            && dwarf_haspc(inner, address) > 0)
            return true;
    }
    return false;
}

/* Returns the number of functions at the place, the outermost first. */
static size_t find_inlined(Dwarf_Die *function, Dwarf_Addr address, Dwarf_Die chain[SYMBOLS_MAX_INLINED])
{
    Dwarf_Die at = *function, inner;
    size_t n = 0;
    chain[n++] = *function;
    for (int depth = 0; n < SYMBOLS_MAX_INLINED && depth < 2 * MAX_DEPTH && find_inner(&at, address, &inner); depth++) {
        if (dwarf_tag(&inner) == DW_TAG_inlined_subroutine)
            chain[n++] = inner;
        at = inner;
    }
    return n;
}

static void set_line(struct unit *unit, Dwarf_Addr address, struct symbols_function *function)
{
    Dwarf_Line *line = dwarf_getsrc_die(unit->die, address);
    if (!line)
        return;
    dwarf_lineno(line, &function->line);
    function->file = dwarf_linesrc(line, NULL, NULL);
}

static void take_function(struct unit *unit, Dwarf_Die *die, struct symbols_place *place)
{
    Dwarf_Die chain[SYMBOLS_MAX_INLINED];
    Dwarf_Addr address = place->address - unit->bias;
    if (place->functions)
        return;
    size_t n = find_inlined(die, address, chain);
    struct symbols_function *functions = calloc(n, sizeof *functions);
    if (!functions)
        return;
    for (size_t i = 0; i < n; i++) {
        struct symbols_function *function = &functions[n - 1 - i];
        *function = describe(&chain[i]);
        if (i + 1 < n) {
            function->line = number_of(&chain[i + 1], DW_AT_call_line);
            function->file = file_name(unit, number_of(&chain[i + 1], DW_AT_call_file));
        }
    }
    set_line(unit, address, &functions[0]);
    place->functions = functions;
    place->n_functions = n;
}

/* A place in no function, as in code of an assembler, may have a line. */
static void take_line(struct unit *unit, Dwarf_Die *die, struct symbols_place *place)
{
    struct symbols_function line = {0};
    (void)die;
    if (place->functions)
        return;
    set_line(unit, place->address - unit->bias, &line);
    if (line.file && (place->functions = calloc(1, sizeof line))) {
        *place->functions = line;
        place->n_functions = 1;
    }
}

/* --- Units ---------------------------------------------------------------------------------------------------------- */

static bool may_have_functions(int tag)
{
    return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_class_type || tag == DW_TAG_structure_type
        || tag == DW_TAG_union_type || tag == DW_TAG_enumeration_type;
}

/* Functions within functions have a name in the symbol table, and a line. */
static void walk(struct unit *unit, Dwarf_Die *outer, int depth)
{
    Dwarf_Die die;
    for (int error = dwarf_child(outer, &die); error == 0; error = dwarf_siblingof(&die, &die)) {
        int tag = dwarf_tag(&die);
        if (tag == DW_TAG_subprogram)
            each_place(unit, &die, take_function);
        else if (may_have_functions(tag) && depth < MAX_DEPTH)
            walk(unit, &die, depth + 1);
    }
}

void symbols_dwarf_find(const struct symbols_file *file, struct symbols_place *places, size_t n)
{
    Dwarf_Addr bias;
    Dwarf_CU *cu = NULL;
    Dwarf_Die die, split;
    uint8_t type;
    Dwarf *dwarf = dwfl_module_getdwarf(file->module, &bias);
    while (dwarf && dwarf_get_units(dwarf, cu, &cu, NULL, &type, &die, &split) == 0) {
        struct unit unit = {&die, places, n, bias, NULL};
        if (type == DW_UT_partial || type == DW_UT_type || each_place(&unit, &die, NULL) == 0)
            continue;
        walk(&unit, type == DW_UT_skeleton && dwarf_tag(&split) != DW_TAG_invalid ? &split : &die, 0);
        each_place(&unit, &die, take_line);
    }
}
