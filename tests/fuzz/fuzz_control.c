/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of `jespan ctl`, both sides of the mailbox (base/mailbox.h).
 *
 * The program's side: the input is what another process writes into the mailbox, with check sums that are right or not. A
 * thread takes all requests and answers them. The command's side: the input is what a hostile process has in its mailbox,
 * which the command reads, asks and takes back. That mailbox is a file here.
 *
 * The first byte says which side, then the input has slots: flags, words, and a request.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mailbox.h"
#include "fuzz.h"
#include "heap/classes.h"
#include "jespan/jespan.h"
#include "../support/family.h"
#include "malloc/track.h"
#include "snapshot/mailbox_outside.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "thread_contexts:false,max_contexts:1024";

/* ---- Inputs ---- */

enum { KEEPS_NO_END = 1, HAS_NO_CHECK = 2, HAS_LIFE = 4, HAS_VALUE = 8 };

static void read_text(struct fuzz_input *in, char *to, size_t room, bool has_end)
{
    size_t n = 0;
    memset(to, has_end ? 0 : 'x', room);
    while (n < room - has_end && in->at < in->end && *in->at)
        to[n++] = (char)*in->at++;
    fuzz_number(in, 1);
}

static void read_request(struct fuzz_input *in, struct mailbox_request *request, uint32_t number, unsigned flags)
{
    *request = (struct mailbox_request){.number = number, .verb = (uint32_t)fuzz_number(in, 1), .token = 1 + number};
    request->has_value = (flags & HAS_VALUE) != 0;
    if (flags & HAS_VALUE)
        request->value = fuzz_number(in, 8);
    if (flags & HAS_LIFE)
        request->life = (uint32_t)fuzz_number(in, 4);
    read_text(in, request->name, sizeof request->name, !(flags & KEEPS_NO_END));
    read_text(in, request->words, sizeof request->words, !(flags & KEEPS_NO_END));
    request->check = flags & HAS_NO_CHECK ? fuzz_number(in, 8) : mailbox_check(request);
}

/* ---- The program's side ---- */

static bool is_valid(const struct mailbox_request *request)
{
    return request->check == mailbox_check(request) && memchr(request->name, '\0', sizeof request->name) &&
           memchr(request->words, '\0', sizeof request->words);
}

static void check_answer(unsigned slot)
{
    const struct mailbox_answer *answer = &mailbox.answer[slot];
    FUZZ_REQUIRE(answer->error >= 0 && answer->kind <= MAILBOX_WORDS);
    FUZZ_REQUIRE(memchr(answer->words, '\0', sizeof answer->words));
    if (is_valid(&mailbox.request[slot]))
        FUZZ_REQUIRE(answer->token == mailbox.request[slot].token);
}

/* What a request has changed is of no interest to the next input. */
static void set_back(void)
{
    bool off = false;
    const char *stacks = "off";
    F(mallctl)("background_thread", NULL, NULL, &off, sizeof off);
    F(mallctl)("spans.stacks", NULL, NULL, &stacks, sizeof stacks);
}

static bool are_answered(void)
{
    bool all = !(load_relaxed(&slow_work) & SLOW_MAIL);
    for (unsigned i = 0; i < MAILBOX_SLOTS; i++)
        all &= load_acquire(&mailbox.words[i].answered) == load_relaxed(&mailbox.words[i].asked);
    return all;
}

static void take_requests(struct fuzz_input *in)
{
    bool posted[MAILBOX_SLOTS] = {false};
    while (in->at < in->end) {
        unsigned flags = (unsigned)fuzz_number(in, 1), slot = flags >> 5;
        uint32_t number = load_relaxed(&mailbox.words[slot].taken) + 1 + (uint32_t)fuzz_number(in, 1);
        read_request(in, &mailbox.request[slot], number, flags);
        store_relaxed(&mailbox.words[slot].asked, number);
        posted[slot] = true;
    }
    atomic_fetch_or(&slow_work, SLOW_MAIL);
    classes_hide();
    mailbox_look();
    while (!are_answered()) /* jemalloc's background thread has seen them first, and answers */
        usleep(1000);
    for (unsigned i = 0; i < MAILBOX_SLOTS; i++) {
        const struct mailbox_words *words = &mailbox.words[i];
        FUZZ_REQUIRE(load_relaxed(&words->asked) == load_relaxed(&words->taken));
        FUZZ_REQUIRE(load_relaxed(&words->asked) == load_relaxed(&words->answered));
        if (posted[i])
            check_answer(i);
    }
    F(free)(F(malloc)(100));
    set_back();
}

/* ---- The command's side ---- */

/* Where a hostile process would have them, as the file has them. */
struct hostile {
    struct mailbox mailbox;
    uint32_t slow_work;
    struct class_row classes[CLASS_ROWS];
};

static struct mailbox_outside box = {.directory = -1, .at = offsetof(struct hostile, mailbox),
                                     .slow_work_at = offsetof(struct hostile, slow_work),
                                     .classes_at = offsetof(struct hostile, classes)};

static void read_slots(struct fuzz_input *in, struct hostile *to)
{
    uint32_t base = (uint32_t)fuzz_number(in, 4); /* numbers are near each other; else the command would wait for a minute */
    for (unsigned i = 0; i < MAILBOX_SLOTS; i++)
        to->mailbox.words[i] = (struct mailbox_words){base, base, base, base};
    while (in->at < in->end) {
        unsigned flags = (unsigned)fuzz_number(in, 1), slot = flags >> 5;
        struct mailbox_words *words = &to->mailbox.words[slot];
        store_relaxed(&words->asked, base + (uint32_t)fuzz_number(in, 1));
        store_relaxed(&words->taken, base + (uint32_t)fuzz_number(in, 1));
        store_relaxed(&words->answered, base + (uint32_t)fuzz_number(in, 1));
        store_relaxed(&words->left, base + (uint32_t)fuzz_number(in, 1));
        read_request(in, &to->mailbox.request[slot], base + (uint32_t)fuzz_number(in, 1), flags);
        struct mailbox_answer *answer = &to->mailbox.answer[slot];
        answer->token = fuzz_number(in, 1);
        answer->error = (int32_t)fuzz_number(in, 4);
        answer->kind = (uint32_t)fuzz_number(in, 4);
        read_text(in, answer->words, sizeof answer->words, !(flags & KEEPS_NO_END));
    }
}

static void check_entries(void)
{
    struct mailbox_entry entry;
    for (unsigned i = 0; i < MAILBOX_SLOTS; i++) {
        FUZZ_REQUIRE(mailbox_read(&box, i, &entry) == 0);
        FUZZ_REQUIRE(memchr(entry.request.name, '\0', sizeof entry.request.name));
        FUZZ_REQUIRE(memchr(entry.request.words, '\0', sizeof entry.request.words));
        FUZZ_REQUIRE(memchr(entry.answer.words, '\0', sizeof entry.answer.words));
    }
}

/* Nobody answers, so no request is left where it is to be taken back. */
static void ask(const char *name, enum mailbox_late late)
{
    struct mailbox_request request = {.verb = late == MAILBOX_LEAVE ? MAILBOX_SET : MAILBOX_GET};
    struct mailbox_answer answer;
    snprintf(request.name, sizeof request.name, "%s", name);
    int error = mailbox_ask(&box, &request, &answer, 0, late);
    FUZZ_REQUIRE(error <= 0);
    if (error == 0)
        FUZZ_REQUIRE(answer.token == request.token && memchr(answer.words, '\0', sizeof answer.words));
    if (error == -EINPROGRESS)
        FUZZ_REQUIRE(late == MAILBOX_LEAVE);
}

static void read_hostile(struct fuzz_input *in)
{
    static struct hostile hostile;
    unsigned short_by = (unsigned)fuzz_number(in, 1);
    memset(&hostile, 0, sizeof hostile);
    hostile.slow_work = (uint32_t)fuzz_number(in, 1);
    memcpy(hostile.classes, size_to_class, sizeof hostile.classes);
    read_slots(in, &hostile);
    FUZZ_REQUIRE(pwrite(box.memory, &hostile, sizeof hostile, 0) == (ssize_t)sizeof hostile);
    check_entries();
    if (short_by & 1) /* it ends meanwhile: its memory is gone */
        FUZZ_REQUIRE(ftruncate(box.memory, (off_t)(sizeof hostile / 256 * short_by)) == 0);
    for (unsigned i = 0; i < MAILBOX_SLOTS; i += 3) {
        int error = mailbox_take_back(&box, i);
        FUZZ_REQUIRE(error == 0 || error == -EBUSY || short_by & 1);
    }
    ask("spans.count", MAILBOX_TAKE_BACK);
    ask(hostile.mailbox.request[1].name[0] == 's' ? "spans.stacks" : "background_thread", MAILBOX_LEAVE);
}

static void fuzz_one(const uint8_t *data, size_t bytes)
{
    struct fuzz_input in = {data, data + bytes};
    if (fuzz_number(&in, 1) & 1)
        read_hostile(&in);
    else
        take_requests(&in);
}

static void fuzz_begin(void)
{
    static const struct jespan_site site = {.name = "span", .file = "file.c", .line = 7};
    void (*volatile wanted)(const struct mailbox_request *, struct mailbox_answer *) = mailbox_execute; /* links it */
    FUZZ_REQUIRE(wanted && track_thread());
    jespan_enter(jespan_open(&site, JESPAN_ROOT, NULL, 0));
    F(free)(F(malloc)(32));
    box.memory = memfd_create("process", MFD_CLOEXEC);
    FUZZ_REQUIRE(box.memory >= 0);
}
