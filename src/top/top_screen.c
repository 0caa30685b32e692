/* SPDX-License-Identifier: BSD-2-Clause */
/* The screen of `jespan top`, with ncurses: keys, and what is drawn. */
#include <config.h>

#define NCURSES_WIDECHAR 1
#include <ncurses.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "console/command.h"
#include "top.h"

#define TITLE_LINES 3
#define KEYS_WAIT_MS 50

struct screen {
    struct top *top;
    uint32_t selected, first; /* rows */
    bool is_typing;           /* a filter */
    bool shows_keys;
    bool quits;
    char typed[TOP_FILTER_BYTES];
    bool colours;
};

enum { NORMAL, GROWS, SHRINKS };

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
    stopped = signal;
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- Drawing ---- */

static void put(int y, const struct text *text, attr_t attributes, short colour)
{
    if (y >= LINES)
        return;
    attr_set(attributes, colour, NULL);
    move(y, 0);
    addnwstr(text->chars, (int)(text->n < (size_t)COLS ? text->n : (size_t)COLS));
    if (attributes & A_REVERSE)
        chgat(-1, attributes, colour, NULL);
    attr_set(A_NORMAL, 0, NULL);
}

static uint32_t body_lines(void)
{
    return LINES > TITLE_LINES + 1 ? (uint32_t)LINES - TITLE_LINES - 1 : 0;
}

/* The row that is selected stays in sight, whatever the size of the terminal. */
static void keep_in_sight(struct screen *s)
{
    uint32_t n = s->top->n_rows, body = body_lines();
    s->selected = n == 0 ? 0 : s->selected >= n ? n - 1 : s->selected;
    if (s->selected < s->first)
        s->first = s->selected;
    if (body > 0 && s->selected >= s->first + body)
        s->first = s->selected - body + 1;
    if (s->first + body > n)
        s->first = n > body ? n - body : 0;
}

static short colour_of(const struct screen *s, const struct top_row *row)
{
    return !s->colours || row->figures.growth == 0 ? NORMAL : row->figures.growth > 0 ? GROWS : SHRINKS;
}

static void put_foot(const struct screen *s, struct text *text)
{
    text_clear(text);
    if (s->is_typing) {
        text_add(text, "filter: ");
        text_add_bytes(text, s->typed, strlen(s->typed), sizeof s->typed);
        text_add(text, "_");
    } else if (s->shows_keys) {
        text_add(text, "any key: back");
    } else if (s->top->ended) {
        text_add(text, s->top->ended);
        text_add(text, "; q quits");
    } else {
        text_add(text, "q quit  p pause  s sort: ");
        text_add(text, top_sort_names[s->top->sort]);
        text_add(text, "  / filter  t tree  v view: ");
        text_add(text, top_view_names[s->top->view]);
        text_add(text, "  ? keys");
    }
    put(LINES - 1, text, s->top->ended ? A_BOLD : A_DIM, 0);
}

static void put_keys(struct text *text)
{
    int y = TITLE_LINES;
    for (const char *line = top_keys; *line != '\0' && y < LINES - 1; y++) {
        size_t n = strcspn(line, "\n");
        text_clear(text);
        text_add_bytes(text, line, n, n);
        put(y, text, A_NORMAL, 0);
        line += n + (line[n] == '\n');
    }
}

static void put_rows(const struct screen *s, struct text *text, size_t columns)
{
    const char *none = top_none(s->top);
    for (uint32_t i = 0; i < body_lines() && s->first + i < s->top->n_rows; i++) {
        uint32_t row = s->first + i;
        top_line(text, s->top, row, columns);
        put(TITLE_LINES + (int)i, text, row == s->selected ? A_REVERSE : A_NORMAL, colour_of(s, &s->top->rows[row]));
    }
    if (none && body_lines() > 0) {
        text_clear(text);
        text_add_bytes(text, none, strlen(none), columns);
        put(TITLE_LINES, text, A_DIM, 0);
    }
}

static void draw(struct screen *s)
{
    static struct text text;
    size_t columns = COLS > 0 ? (size_t)COLS : 1;
    erase();
    keep_in_sight(s);
    top_title(&text, s->top, columns);
    put(0, &text, A_BOLD, 0);
    top_sparkline(&text, s->top, columns);
    put(1, &text, A_NORMAL, 0);
    top_headings(&text, s->top, columns);
    put(2, &text, A_UNDERLINE, 0);
    if (s->shows_keys)
        put_keys(&text);
    else
        put_rows(s, &text, columns);
    put_foot(s, &text);
    refresh();
}

/* ---- Keys ---- */

static void take_typed(struct screen *s, int key)
{
    size_t n = strlen(s->typed);
    if (key == '\n' || key == KEY_ENTER) {
        strcpy(s->top->filter, s->typed);
        s->is_typing = false;
    } else if (key == 27) {
        s->is_typing = false;
    } else if ((key == KEY_BACKSPACE || key == 127 || key == 8) && n > 0) {
        s->typed[n - 1] = '\0';
    } else if (key >= ' ' && key < 256 && key != 127 && n + 1 < sizeof s->typed) {
        s->typed[n] = (char)key;
        s->typed[n + 1] = '\0';
    }
}

static void move_by(struct screen *s, int64_t rows)
{
    int64_t to = (int64_t)s->selected + rows;
    s->selected = to < 0 ? 0 : to > UINT32_MAX ? UINT32_MAX : (uint32_t)to;
}

static void take_move(struct screen *s, int key)
{
    int64_t page = body_lines();
    if (key == KEY_UP || key == 'k')
        move_by(s, -1);
    else if (key == KEY_DOWN || key == 'j')
        move_by(s, 1);
    else if (key == KEY_PPAGE)
        move_by(s, -page);
    else if (key == KEY_NPAGE)
        move_by(s, page);
    else if (key == KEY_HOME || key == 'g')
        s->selected = 0;
    else if (key == KEY_END || key == 'G')
        move_by(s, UINT32_MAX);
}

static void choose(struct screen *s, int key)
{
    struct top *top = s->top;
    switch (key) {
    case 'q':
        s->quits = true;
        break;
    case 'p':
    case ' ':
        top->paused = !top->paused;
        break;
    case 't':
        top->tree = !top->tree;
        break;
    case 's':
        top->sort = (top->sort + 1) % TOP_N_SORTS;
        break;
    case 'S':
        top->sort = (top->sort + TOP_N_SORTS - 1) % TOP_N_SORTS;
        break;
    case '/':
        s->is_typing = true;
        s->typed[0] = '\0';
        break;
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
        top->view = (enum top_view)(key - '1');
        break;
    case 'v':
        top->view = (top->view + 1) % TOP_N_VIEWS;
        break;
    case '?':
    case 'h':
        s->shows_keys = true;
        break;
    case '-':
        top_toggle_all(top, true);
        break;
    case '+':
        top_toggle_all(top, false);
        break;
    default:
        take_move(s, key);
    }
}

static int take_key(struct screen *s, int key)
{
    bool is_collapsed = s->selected < s->top->n_rows && s->top->rows[s->selected].is_collapsed;
    enum top_view view = s->top->view;
    if (s->shows_keys)
        s->shows_keys = key == KEY_RESIZE;
    else if (s->is_typing)
        take_typed(s, key);
    else if (key == KEY_LEFT)
        top_toggle(s->top, s->selected, true);
    else if (key == KEY_RIGHT)
        top_toggle(s->top, s->selected, false);
    else if (key == '\n' || key == KEY_ENTER)
        top_toggle(s->top, s->selected, !is_collapsed);
    else
        choose(s, key);
    int error = s->top->view != view ? top_items_read(s->top) : 0;
    return error ? error : top_arrange(s->top);
}

/* ---- The loop ---- */

static int loop(struct screen *s, uint64_t interval_ms)
{
    uint64_t due = now_ms() + interval_ms;
    int error = 0;
    while (!s->quits && !stopped && error == 0) {
        uint64_t now = now_ms();
        draw(s);
        timeout(s->top->ended ? 1000 : now >= due ? KEYS_WAIT_MS : (int)(due - now));
        int key = getch();
        if (key != ERR)
            error = take_key(s, key);
        if (now_ms() < due)
            continue;
        due = now_ms() + interval_ms;
        if (!s->top->paused && error == 0)
            error = top_read(s->top);
    }
    return error;
}

static void begin_colours(struct screen *s)
{
    const char *no_colour = getenv("NO_COLOR");
    s->colours = has_colors() && !(no_colour && no_colour[0] != '\0') && start_color() == OK && use_default_colors() == OK;
    if (s->colours) {
        init_pair(GROWS, COLOR_RED, -1);
        init_pair(SHRINKS, COLOR_GREEN, -1);
    }
}

int top_show(struct top *top, uint64_t interval_ms)
{
    struct screen s = {.top = top};
    const char *terminal = getenv("TERM");
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (!screen) {
        cmd_error("TERM: the terminal '%s' is unknown: use --once or --count N", terminal ? terminal : "");
        return STATUS_USAGE;
    }
    const struct sigaction action = {.sa_handler = stop};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    begin_colours(&s);
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    set_escdelay(50);
    int error = loop(&s, interval_ms);
    endwin();
    delscreen(screen);
    if (error)
        cmd_error("out of memory");
    if (stopped && stopped != SIGINT)
        return 128 + stopped;
    return error ? STATUS_USAGE : 0;
}
