/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots: each is one mapping that holds rows, labels, ages and strings. */
#include "snapshot/snapshot.h"

#include <errno.h>
#include <string.h>

#include "base/meta.h"
#include "heap/timing.h"
#include "snapshot/snapshot_builder.h"

struct extent {
    uint32_t rows, labels, ages;
    size_t text_bytes;
};

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- Which rows there are ---- */

/* Only the first three ids have contexts of these kinds. */
static bool has_good_kind(uint32_t id, unsigned kind)
{
    static const enum context_kind fixed[] = {
        [CONTEXT_ID_ROOT] = CONTEXT_ROOT, [CONTEXT_ID_SELF] = CONTEXT_SELF, [CONTEXT_ID_UNSAMPLED] = CONTEXT_UNSAMPLED};
    if (id <= CONTEXT_ID_UNSAMPLED)
        return kind == fixed[id];
    return kind == CONTEXT_SPAN || kind == CONTEXT_THREAD || kind == CONTEXT_PERIOD;
}

static void count_row(struct snapshot_builder *b, struct extent *n, uint32_t id, const struct context *c)
{
    struct place *place = &b->places[id];
    if (id == CONTEXT_ID_UNSAMPLED) {
        place->row = 0; /* the root's */
    } else if (place->kind == CONTEXT_PERIOD) {
        place->row = n->ages++;
    } else {
        if (place->kind != CONTEXT_SPAN)
            b->last_special_row = n->rows;
        place->row = n->rows++;
        n->labels += c->label_count;
        n->text_bytes += lesser(c->label_bytes, LABEL_TEXT_MAX) + LABEL_ALIGN;
    }
}

/* Numbers the rows, and counts the memory that they and their labels take. */
static int count_rows(struct snapshot_builder *b, struct extent *n)
{
    int error = 0;
    for (uint32_t first = 0; !error && first < b->end; first += BLOCK_IDS) {
        error = builder_copy_block(b, first);
        for (uint32_t i = first ? 0 : 1; !error && i < BLOCK_IDS && first + i < b->end; i++) {
            const struct context *c = &b->block->contexts[i];
            struct place *place = &b->places[first + i];
            bool is_live = b->block->lives[i] & 1 && has_good_kind(first + i, c->kind);
            *place = (struct place){.life = is_live ? b->block->lives[i] : 0, .kind = is_live ? c->kind & 7 : 0};
            if (is_live)
                count_row(b, n, first + i, c);
            else if (first + i <= CONTEXT_ID_UNSAMPLED)
                return -EBADMSG;
        }
    }
    return error;
}

/* ---- Rows ---- */

/* Texts that have no NUL where they should, as only another process can have them, end with the set. */
static void set_labels(struct snapshot_builder *b, struct snapshot_row *row, const struct context *c, char *text)
{
    char *end = text + c->label_bytes;
    end[-1] = '\0';
    row->labels = b->label;
    for (unsigned i = 0; i < c->label_count && text < end && b->label < b->labels_end; i++, b->label++) {
        char *value = text + strlen(text) + 1;
        if (value >= end)
            return;
        bool is_integer = c->label_integers >> i & 1;
        *b->label = (struct snapshot_label){.key = text, .value = value, .is_integer = is_integer,
                                            .integer = is_integer ? labels_integer(value) : 0};
        row->n_labels++;
        text = value + strlen(value) + 1;
    }
}

static void fill_outlived(struct snapshot_builder *b, struct snapshot_row *row)
{
    struct seen spare, *seen = view_seen(b->view, row->id, 2 * row->generation + 1, &spare);
    uint64_t objects = totals_inuse_objects(&row->totals), bytes = totals_inuse_bytes(&row->totals);
    if (!row->open_spans) {
        seen->outlived_objects = objects;
        seen->outlived_bytes = bytes;
    }
    row->totals.outlived_objects = lesser(seen->outlived_objects, objects);
    row->totals.outlived_bytes = lesser(seen->outlived_bytes, bytes);
}

/* Spans that were opened by jespan_open() say when they closed. Of others it is noticed here. */
static void fill_closed(struct snapshot_builder *b, struct snapshot_row *row, const struct context *c)
{
    struct seen spare, *seen = view_seen(b->view, row->id, 2 * row->generation + 1, &spare);
    if (load_relaxed(&c->opens))
        seen->closed_time = load_relaxed(&c->closed_time);
    else if (seen->exits != row->totals.exits)
        seen->closed_time = b->time;
    seen->exits = row->totals.exits;
    if (seen->closed_time)
        row->closed_ns = builder_age_ns(b, b->time, seen->closed_time);
}

void builder_times_to_ns(const struct snapshot_builder *b, struct totals *t)
{
    t->wall = builder_to_ns(b, t->wall);
    t->busy = builder_to_ns(b, t->busy);
    t->cpu = b->view->cpu_times ? builder_to_ns(b, t->cpu) : 0; /* else it counts busy time */
    t->cpu_user = builder_to_ns(b, t->cpu_user);
    t->cpu_system = builder_to_ns(b, t->cpu_system);
    t->idle = builder_to_ns(b, t->idle);
}

struct totals builder_own_figures(struct snapshot_builder *b, uint32_t id, const struct totals *sum)
{
    const struct context *c = &b->block->contexts[id % BLOCK_IDS];
    struct totals own = *sum;
    if (b->places[id].life > 1) {
        totals_subtract(&own, &b->block->bases[id % BLOCK_IDS]);
        b->owes_frees |= (int64_t)own.free_objects < 0 || (int64_t)own.free_bytes < 0;
    }
    own.opens += load_relaxed(&c->opens);
    own.wall += timing_resolve_open(load_relaxed(&c->wall), load_relaxed(&c->handles), b->time);
    totals_floor_times(&own);
    builder_times_to_ns(b, &own);
    own.idle = totals_idle(&own);
    return own;
}

/* For now all wall time is the row's own. subtract_children_wall() comes when all rows are filled. */
static void fill_wall(struct snapshot_builder *b, struct snapshot_row *row)
{
    row->wall_ns = row->totals.wall;
    if (row->kind == CONTEXT_SPAN)
        b->children_wall[row->parent_row] += row->wall_ns;
}

/* A row without id has no context any more. */
static int fill_row(struct snapshot_builder *b, uint32_t id, const struct totals *sum)
{
    const struct context *c = &b->block->contexts[id % BLOCK_IDS];
    struct place *place = &b->places[id];
    struct snapshot_row *row = &b->rows[place->row];
    const struct place *parent = c->parent < b->end ? &b->places[c->parent] : NULL;
    int error = 0;
    bool is_same = b->block->lives[id % BLOCK_IDS] == place->life && parent && place_has_row(parent);
    const struct site *site = is_same ? b->view->reader->site(b->view, c->site, &error) : NULL;
    *row = (struct snapshot_row){.id = 0};
    if (!site) {
        place->life = 0;
        b->has_dropped = true;
        return error;
    }
    *row = (struct snapshot_row){.id = id, .generation = tree_incarnation(place->life), .parent_row = parent->row,
                                 .kind = place->kind, .line = site->line,
                                 .name = site->name, .target = site->target, .file = site->file,
                                 .totals = builder_own_figures(b, id, sum)};
    row->open_spans = load_relaxed(&c->handles) + (uint32_t)(row->totals.enters - row->totals.exits);
    fill_wall(b, row);
    builder_note_recycled(b, id);
    if (row->kind == CONTEXT_SPAN) {
        fill_outlived(b, row);
        fill_closed(b, row, c);
    }
    if (b->block->texts[id % BLOCK_IDS])
        set_labels(b, row, c, b->block->texts[id % BLOCK_IDS]);
    return 0;
}

/* Unsampled spans belong to their nearest sampled ancestor, which is the root. The root's row is filled before. Wall
 * time of what is the root's own is busy time, so theirs is left out. */
static void fill_unsampled(struct snapshot_builder *b, const struct totals *sum)
{
    struct snapshot_row *root = &b->rows[0];
    struct totals own = builder_own_figures(b, CONTEXT_ID_UNSAMPLED, sum);
    own.wall = 0;
    builder_note_recycled(b, CONTEXT_ID_UNSAMPLED);
    root->open_spans += load_relaxed(&b->block->contexts[CONTEXT_ID_UNSAMPLED].handles) + (uint32_t)(own.enters - own.exits);
    totals_add(&root->totals, &own);
}

static int fill_chunk(struct snapshot_builder *b, uint32_t first)
{
    struct totals sums[READING_CHUNK];
    int error = b->view->reader->chunk(b->reading, first, sums);
    for (uint32_t id = first ? first : CONTEXT_ID_ROOT; !error && id < b->end && id < first + READING_CHUNK; id++) {
        if (!(b->places[id].life & 1))
            continue;
        if (id == CONTEXT_ID_UNSAMPLED)
            fill_unsampled(b, &sums[id - first]);
        else if (b->places[id].kind == CONTEXT_PERIOD)
            ages_fill(b, id, &sums[id - first]);
        else
            error = fill_row(b, id, &sums[id - first]);
    }
    return error;
}

static int fill_rows(struct snapshot_builder *b)
{
    int error = 0;
    for (uint32_t block = 0; !error && block < b->end; block += BLOCK_IDS) {
        error = builder_copy_block(b, block);
        for (uint32_t first = block; !error && first < b->end && first < block + BLOCK_IDS; first += READING_CHUNK)
            error = fill_chunk(b, first);
    }
    return error ? error : b->rows[0].id ? 0 : -EBADMSG;
}

/* ---- Buffered frees ---- */

/* Frees of a context that was recycled meanwhile are in its base already. */
static void add_buffered(void *builder, uint32_t id, uint32_t bytes)
{
    struct snapshot_builder *b = builder;
    if (!id || id >= b->end || !(b->places[id].life & 1))
        return;
    const struct totals freed = {.free_objects = 1, .free_bytes = bytes};
    if (b->places[id].kind == CONTEXT_PERIOD) {
        struct totals *age = &b->ages[b->places[id].row].totals;
        totals_add(age, &freed);
        totals_floor_inuse(age);
        return;
    }
    struct snapshot_row *row = &b->rows[b->places[id].row];
    totals_add(&row->totals, &freed);
    totals_floor_inuse(&row->totals);
    if (row->kind == CONTEXT_SPAN)
        fill_outlived(b, row);
}

/* The base of a recycled id contains frees that were buffered then. If this reading found such a free neither in the
 * buffer nor in the counter, because the thread was just moving it, the new context would have negative frees. */
static void floor_all_frees(struct snapshot_builder *b)
{
    struct snapshot *s = &b->mapping->public;
    if (!b->owes_frees)
        return;
    for (struct snapshot_row *row = b->rows; row < b->rows + s->n_rows; row++)
        totals_floor_frees(&row->totals);
    for (struct snapshot_age *age = b->ages; age < b->ages + s->n_ages; age++)
        totals_floor_frees(&age->totals);
}

/* ---- Rows that are gone ---- */

/* The new numbers of rows lie where the places were. */
static uint32_t pack_rows(struct snapshot_builder *b)
{
    uint32_t *now = (uint32_t *)b->places, n = 0;
    for (uint32_t i = 0; i < b->mapping->public.n_rows; i++) {
        now[i] = b->rows[i].id ? n : NO_ROW;
        if (!b->rows[i].id)
            continue;
        b->children_wall[n] = b->children_wall[i];
        b->recycled_wall[n] = b->recycled_wall[i];
        if (b->past)
            b->past[n] = b->past[i];
        b->rows[n++] = b->rows[i];
    }
    return n;
}

/* A row whose parent is gone goes as well in the tree; where a process was stopped in between, it goes to the root. */
static void remove_dropped(struct snapshot_builder *b)
{
    struct snapshot *s = &b->mapping->public;
    const uint32_t *now = (const uint32_t *)b->places;
    uint32_t last_special = 0, n_ages = 0;
    if (!b->has_dropped)
        return;
    s->n_rows = pack_rows(b);
    for (uint32_t i = 0; i < s->n_rows; i++) {
        struct snapshot_row *row = &b->rows[i];
        row->parent_row = now[row->parent_row] == NO_ROW ? 0 : now[row->parent_row];
        if (row->kind != CONTEXT_SPAN)
            last_special = i;
    }
    b->last_special_row = last_special;
    for (uint32_t i = 0; i < s->n_ages; i++) {
        struct snapshot_age *age = &b->ages[i];
        if (age->row == NO_ROW || now[age->row] == NO_ROW)
            continue;
        age->row = now[age->row];
        b->ages[n_ages++] = *age;
    }
    s->n_ages = n_ages;
}

/* Only damaged books have paths that go in a circle. The circle is cut at the root. */
static void cut_circles(struct snapshot_builder *b)
{
    uint32_t *walk = (uint32_t *)b->places; /* by row: the row from which it was reached first, plus 1 */
    if (!b->view->outside)
        return;
    memset(walk, 0, b->mapping->public.n_rows * sizeof *walk);
    b->rows[0].parent_row = 0;
    for (uint32_t i = 0; i < b->mapping->public.n_rows; i++) {
        uint32_t row = i, last = i;
        for (; !walk[row]; row = b->rows[row].parent_row) {
            walk[row] = i + 1;
            last = row;
        }
        if (row && walk[row] == i + 1)
            b->rows[last].parent_row = 0;
    }
}

/* ---- Times ---- */

static void set_self_wall(struct snapshot_row *row, uint64_t wall)
{
    row->totals.wall = wall;
    row->totals.idle = totals_idle(&row->totals);
}

/* Subtracts the wall time of its children from each row. The wall time of a row that is no span is its own busy time
 * and its children's wall time; there are few such rows, and their parents come before them. */
static void subtract_children_wall(struct snapshot_builder *b)
{
    for (uint32_t i = b->mapping->public.n_rows; i--;) {
        struct snapshot_row *row = &b->rows[i];
        uint64_t children = b->children_wall[i] + builder_to_ns(b, b->recycled_wall[i]);
        bool is_special = i <= b->last_special_row && row->kind != CONTEXT_SPAN;
        if (!children && !is_special)
            continue;
        if (is_special) {
            row->wall_ns = row->totals.busy + children;
            b->children_wall[row->parent_row] += i ? row->wall_ns : 0;
        }
        set_self_wall(row, row->wall_ns - lesser(children, row->wall_ns));
    }
}

/* Times that are shown never go back. A time may fall for three reasons: not all times are read at the same moment, the
 * clock's rate becomes known better, and wall time less that of the spans below shrinks where these overlap. Then the
 * former time is shown until the new one has caught up. */
static void raise_to(uint64_t *shown, uint64_t *now)
{
    if (*shown < *now)
        *shown = *now;
    *now = *shown;
}

static void keep_shown(struct shown *shown, struct totals *t)
{
    raise_to(&shown->wall, &t->wall);
    raise_to(&shown->busy, &t->busy);
    raise_to(&shown->cpu, &t->cpu);
    raise_to(&shown->cpu_user, &t->cpu_user);
    raise_to(&shown->cpu_system, &t->cpu_system);
    raise_to(&shown->idle, &t->idle);
}

static void keep_shown_and_add_up(struct snapshot_builder *b)
{
    struct snapshot *s = &b->mapping->public;
    struct totals all = {0};
    for (struct snapshot_row *row = b->rows; row < b->rows + s->n_rows; row++) {
        struct seen spare, *seen = view_seen(b->view, row->id, 2 * row->generation + 1, &spare);
        keep_shown(&seen->shown, &row->totals);
        raise_to(&seen->shown.wall_inclusive, &row->wall_ns);
        totals_add(&all, &row->totals);
    }
    keep_shown(&b->view->retired_shown, &s->retired);
    totals_add(&all, &s->retired);
    keep_shown(&b->view->all_shown, &all);
    s->all = all;
}

/* ---- A snapshot ---- */

/* Reuses an old snapshot's memory if its size is about right, which saves page faults. */
static struct snapshot_mapping *get_mapping(struct snapshot_mapping *old, size_t bytes)
{
    if (old && old->bytes >= bytes && old->bytes / 2 <= bytes)
        return old;
    bytes += bytes / 8; /* so that it fits the next snapshots too; untouched pages take no memory */
    struct snapshot_mapping *mapping = meta_emergency_alloc(bytes);
    if (mapping)
        mapping->bytes = bytes;
    return mapping;
}

static bool lay_out(struct snapshot_builder *b, const struct extent *n, struct snapshot *old)
{
    b->mapping = get_mapping((struct snapshot_mapping *)old,
                             sizeof *b->mapping + n->rows * sizeof *b->rows + n->labels * sizeof *b->label +
                                 n->ages * sizeof *b->ages + n->text_bytes);
    if (!b->mapping)
        return false;
    b->rows = (struct snapshot_row *)(b->mapping + 1);
    b->label = (struct snapshot_label *)(b->rows + n->rows);
    b->ages = (struct snapshot_age *)(b->label + n->labels);
    b->labels_end = (struct snapshot_label *)b->ages;
    b->text = (char *)(b->ages + n->ages);
    b->text_end = b->text + n->text_bytes;
    b->mapping->public = (struct snapshot){
        .n_rows = n->rows, .rows = b->rows, .n_ages = n->ages, .ages = b->ages, .epoch = ++b->view->epoch,
        .pid = b->view->pid, .from_outside = b->view->outside};
    return true;
}

static void set_clock(struct snapshot *s, uint64_t start_ns)
{
    s->time_unix_ns = clock_unix_ns();
    s->start_unix_ns = s->time_unix_ns - (clock_ns(CLOCK_BOOTTIME) - start_ns);
}

static int make(struct snapshot_builder *b)
{
    int error = fill_rows(b);
    if (error)
        return error;
    b->mapping->public.pending_bytes = b->view->reader->end(b->reading, add_buffered, b);
    error = builder_validate(b);
    if (error)
        return error;
    remove_dropped(b);
    cut_circles(b);
    floor_all_frees(b);
    ages_fold(b);
    subtract_children_wall(b);
    totals_floor_times(&b->mapping->public.retired);
    builder_times_to_ns(b, &b->mapping->public.retired);
    keep_shown_and_add_up(b);
    set_clock(&b->mapping->public, b->view->start_ns);
    return 0;
}

int view_take(struct view *view, struct snapshot **old)
{
    struct snapshot_builder b = {.view = view};
    struct extent n = {0};
    int error = builder_begin(&b);
    if (!error)
        error = count_rows(&b, &n);
    if (!error)
        error = lay_out(&b, &n, *old) ? make(&b) : -ENOMEM;
    builder_end(&b);
    struct snapshot *s = b.mapping ? &b.mapping->public : NULL;
    if (error && s != *old)
        snapshot_free(s);
    if (error)
        return error;
    if (s != *old)
        snapshot_free(*old);
    *old = s;
    return 0;
}

void snapshot_free(struct snapshot *s)
{
    struct snapshot_mapping *mapping = (struct snapshot_mapping *)s;
    if (mapping)
        meta_return(mapping, mapping->bytes);
}

const struct snapshot_row *snapshot_find(const struct snapshot *s, uint32_t id)
{
    uint32_t low = 0, high = s->n_rows;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (s->rows[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->n_rows && s->rows[low].id == id ? &s->rows[low] : NULL;
}

/* Walks up from each row to one whose place is known, and notes the place of all rows on the way. Without memory for
 * that, the row alone is returned. */
struct totals snapshot_inclusive(const struct snapshot *s, uint32_t row)
{
    enum { UNKNOWN, BELOW, ELSEWHERE };
    struct totals sum = s->rows[row].totals;
    uint8_t *place = meta_map(s->n_rows);
    if (!place)
        return sum;
    place[0] = ELSEWHERE;
    place[row] = BELOW;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        uint32_t top = i;
        while (place[top] == UNKNOWN)
            top = s->rows[top].parent_row;
        uint8_t found = place[top];
        for (uint32_t r = i; place[r] == UNKNOWN; r = s->rows[r].parent_row)
            place[r] = found;
        if (found == BELOW && i != row)
            totals_add(&sum, &s->rows[i].totals);
    }
    meta_unmap(place, s->n_rows);
    sum.wall = s->rows[row].wall_ns;
    sum.idle = totals_idle(&sum);
    return sum;
}
