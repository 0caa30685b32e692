/* SPDX-License-Identifier: BSD-2-Clause */
/* Documents on disk, in one SQLite database. */
#include "store.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spans.h"

enum statement { UPDATE, INSERT, DELETE, SELECT, SEARCH, COUNT, N_STATEMENTS };

static const char *const statement_sql[N_STATEMENTS] = {
    [UPDATE] = "UPDATE documents SET body = ?3 WHERE collection = ?1 AND id = ?2",
    [INSERT] = "INSERT INTO documents (collection, id, body) VALUES (?1, ?2, ?3)",
    [DELETE] = "DELETE FROM documents WHERE collection = ?1 AND id = ?2",
    [SELECT] = "SELECT body FROM documents WHERE collection = ?1 AND id = ?2",
    [SEARCH] = "SELECT id, body FROM documents WHERE collection = ?1 AND instr(body, ?2) ORDER BY id LIMIT ?3",
    [COUNT] = "SELECT count(*) FROM documents",
};

/* With the write-ahead log, readers do not wait for the writer; losing power may cost the last writes. */
static const char schema_sql[] = "PRAGMA journal_mode = WAL;"
                                 "PRAGMA synchronous = NORMAL;"
                                 "CREATE TABLE IF NOT EXISTS documents"
                                 "(collection TEXT, id TEXT, body TEXT NOT NULL, PRIMARY KEY (collection, id));";

struct connection {
    sqlite3 *db;
    sqlite3_stmt *statements[N_STATEMENTS];
    struct connection *next_idle;
};

struct store {
    jespan_span_t *span;
    jespan_context_t context; /* of all that SQLite allocates: it serves everyone, and is within no tenant's limit */
    struct connection writer;
    pthread_mutex_t lock;
    pthread_cond_t returned;
    struct connection *idle;
    unsigned n_readers;
    struct connection readers[];
};

static int failed(struct connection *c)
{
    fprintf(stderr, "docstore: store: %s\n", c->db ? sqlite3_errmsg(c->db) : "out of memory");
    return -EIO;
}

static int connection_open(struct connection *c, const char *path)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;

    if (sqlite3_open_v2(path, &c->db, flags, NULL) || sqlite3_busy_timeout(c->db, 10000) ||
        sqlite3_exec(c->db, schema_sql, NULL, NULL, NULL))
        return failed(c);
    for (int i = 0; i < N_STATEMENTS; i++)
        if (sqlite3_prepare_v3(c->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT, &c->statements[i], NULL))
            return failed(c);
    return 0;
}

static void connection_close(struct connection *c)
{
    for (int i = 0; i < N_STATEMENTS; i++)
        sqlite3_finalize(c->statements[i]);
    sqlite3_close(c->db);
}

static void open_context(struct store *s)
{
    JESPAN_SITE(site, "sqlite");

    s->span = jespan_open(&site, JESPAN_ROOT, NULL, 0);
    s->context = JESPAN_ROOT;
    if (jespan_enter(s->span) == 0) {
        s->context = jespan_current();
        jespan_exit(s->span);
    }
}

static int open_connections(struct store *s, const char *path, unsigned n_readers)
{
    int error;
    JESPAN_CREDIT(s->context);

    error = connection_open(&s->writer, path);
    for (unsigned i = 0; !error && i < n_readers; i++) {
        error = connection_open(&s->readers[i], path);
        s->readers[i].next_idle = s->idle;
        s->idle = &s->readers[i];
        s->n_readers++;
    }
    return error;
}

int store_open(struct store **store, const char *path, unsigned n_readers)
{
    struct store *s = calloc(1, sizeof *s + n_readers * sizeof s->readers[0]);
    int error;

    if (!s)
        return -ENOMEM;
    open_context(s);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->returned, NULL);
    error = open_connections(s, path, n_readers);
    if (error) {
        store_close(s);
        return error;
    }
    *store = s;
    return 0;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    for (unsigned i = 0; i < s->n_readers; i++)
        connection_close(&s->readers[i]);
    connection_close(&s->writer); /* last, so that it is the one that folds the log into the database */
    pthread_cond_destroy(&s->returned);
    pthread_mutex_destroy(&s->lock);
    jespan_close(s->span);
    free(s);
}

static struct connection *reader_take(struct store *s)
{
    struct connection *c;

    pthread_mutex_lock(&s->lock);
    while (!s->idle)
        pthread_cond_wait(&s->returned, &s->lock);
    c = s->idle;
    s->idle = c->next_idle;
    pthread_mutex_unlock(&s->lock);
    return c;
}

static void reader_return(struct store *s, struct connection *c)
{
    pthread_mutex_lock(&s->lock);
    c->next_idle = s->idle;
    s->idle = c;
    pthread_cond_signal(&s->returned);
    pthread_mutex_unlock(&s->lock);
}

static int bind_text(struct connection *c, enum statement which, int index, const char *text, size_t bytes)
{
    return sqlite3_bind_text64(c->statements[which], index, text, bytes, SQLITE_STATIC, SQLITE_UTF8) ? failed(c) : 0;
}

static int bind_key(struct connection *c, enum statement which, const struct document_key *key)
{
    int error = bind_text(c, which, 1, key->collection, strlen(key->collection));

    return error ? error : bind_text(c, which, 2, key->id, strlen(key->id));
}

/* Ends a statement: without the reset it would keep its read transaction, without the rest the caller's pointers. */
static void finish(struct connection *c, enum statement which)
{
    sqlite3_reset(c->statements[which]);
    sqlite3_clear_bindings(c->statements[which]);
}

/* Runs a bound statement that changes rows. Returns -ENOENT if it changed none. */
static int change(struct connection *c, enum statement which)
{
    int error = sqlite3_step(c->statements[which]) == SQLITE_DONE ? 0 : failed(c);

    finish(c, which);
    return !error && sqlite3_changes(c->db) == 0 ? -ENOENT : error;
}

static int put(struct connection *c, enum statement which, const struct document_key *key, const char *text,
               size_t bytes)
{
    int error = bind_key(c, which, key);

    if (!error)
        error = bind_text(c, which, 3, text, bytes);
    return error ? error : change(c, which);
}

int store_put(struct store *s, const struct document_key *key, const char *text, size_t bytes, bool *created)
{
    int error;
    JESPAN_CREDIT(s->context);

    error = put(&s->writer, UPDATE, key, text, bytes);
    *created = error == -ENOENT;
    return *created ? put(&s->writer, INSERT, key, text, bytes) : error;
}

int store_delete(struct store *s, const struct document_key *key)
{
    int error;
    JESPAN_CREDIT(s->context);

    error = bind_key(&s->writer, DELETE, key);
    return error ? error : change(&s->writer, DELETE);
}

static void *malloc_for(jespan_context_t owner, size_t bytes)
{
    JESPAN_CREDIT(owner);
    return malloc(bytes);
}

static int copy_column(sqlite3_stmt *statement, int column, jespan_context_t owner, char **text, size_t *bytes)
{
    const unsigned char *body = sqlite3_column_text(statement, column);

    *bytes = (size_t)sqlite3_column_bytes(statement, column);
    *text = body ? malloc_for(owner, *bytes + 1) : NULL;
    if (!*text)
        return -ENOMEM;
    memcpy(*text, body, *bytes + 1);
    return 0;
}

static int get(struct connection *c, const struct document_key *key, jespan_context_t owner, char **text, size_t *bytes)
{
    int error = bind_key(c, SELECT, key);

    if (!error) {
        switch (sqlite3_step(c->statements[SELECT])) {
        case SQLITE_ROW: error = copy_column(c->statements[SELECT], 0, owner, text, bytes); break;
        case SQLITE_DONE: error = -ENOENT; break;
        default: error = failed(c);
        }
    }
    finish(c, SELECT);
    return error;
}

int store_get(struct store *s, const struct document_key *key, char **text, size_t *bytes)
{
    struct connection *c = reader_take(s);
    jespan_context_t caller = jespan_current();
    int error;
    JESPAN_CREDIT(s->context);

    error = get(c, key, caller, text, bytes);
    reader_return(s, c);
    return error;
}

static int tell(sqlite3_stmt *statement, jespan_context_t caller, store_hit *hit, void *context)
{
    const char *id = (const char *)sqlite3_column_text(statement, 0);
    const char *text = (const char *)sqlite3_column_text(statement, 1);
    JESPAN_CREDIT(caller);

    return id && text ? hit(context, id, text, (size_t)sqlite3_column_bytes(statement, 1)) : -ENOMEM;
}

static int search(struct connection *c, jespan_context_t caller, store_hit *hit, void *context)
{
    sqlite3_stmt *statement = c->statements[SEARCH];
    int step, error = 0;

    while (!error && (step = sqlite3_step(statement)) != SQLITE_DONE) {
        if (step != SQLITE_ROW)
            return failed(c);
        error = tell(statement, caller, hit, context);
    }
    return error;
}

int store_search(struct store *s, const char *collection, const char *words, unsigned limit, store_hit *hit,
                 void *context)
{
    struct connection *c = reader_take(s);
    jespan_context_t caller = jespan_current();
    int error;
    JESPAN_CREDIT(s->context);

    error = bind_text(c, SEARCH, 1, collection, strlen(collection));
    if (!error)
        error = bind_text(c, SEARCH, 2, words, strlen(words));
    if (!error && sqlite3_bind_int64(c->statements[SEARCH], 3, limit))
        error = failed(c);
    if (!error)
        error = search(c, caller, hit, context);
    finish(c, SEARCH);
    reader_return(s, c);
    return error;
}

int store_count(struct store *s, uint64_t *documents)
{
    struct connection *c = reader_take(s);
    int error;
    JESPAN_CREDIT(s->context);

    error = sqlite3_step(c->statements[COUNT]) == SQLITE_ROW ? 0 : failed(c);
    if (!error)
        *documents = (uint64_t)sqlite3_column_int64(c->statements[COUNT], 0);
    finish(c, COUNT);
    reader_return(s, c);
    return error;
}
