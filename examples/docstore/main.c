/* SPDX-License-Identifier: BSD-2-Clause */
/* docstore: a small JSON document service, as an example of a program that uses jespan's spans. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "docs.h"
#include "http.h"
#include "tenant.h"

struct options {
    const char *path;
    unsigned long port, cache_mb, tenant_mb, threads;
};

static const char usage[] =
    "usage: docstore [--port N] [--db PATH] [--cache-mb N] [--tenant-mb N] [--threads N]\n"
    "Serves JSON documents on 127.0.0.1 until SIGTERM or SIGINT.\n"
    "  --port N      port to listen on; 0 picks a free one and prints it (8080)\n"
    "  --db PATH     SQLite database, created if it is not there (docstore.db)\n"
    "  --cache-mb N  parsed documents kept in memory (64)\n"
    "  --tenant-mb N memory that the requests of a tenant may have at a time; 0: any amount (64)\n"
    "  --threads N   threads that serve requests (4)\n";

static void fail(const char *what, const char *which)
{
    fprintf(stderr, "docstore: %s%s%s\n", what, which ? " " : "", which ? which : "");
    exit(2);
}

static unsigned long number(const char *text, unsigned long min, unsigned long max, const char *what)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (end == text || *end || *text == '-' || value < min || value > max)
        fail(what, text);
    return value;
}

static struct options parse_options(int argc, char **argv)
{
    static const struct option names[] = {
        {"port", required_argument, NULL, 'p'},    {"db", required_argument, NULL, 'd'},
        {"cache-mb", required_argument, NULL, 'c'}, {"tenant-mb", required_argument, NULL, 'm'},
        {"threads", required_argument, NULL, 't'},  {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct options o = {.path = "docstore.db", .port = 8080, .cache_mb = 64, .tenant_mb = 64, .threads = 4};
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (c) {
        case 'p': o.port = number(optarg, 0, 65535, "bad port"); break;
        case 'd': o.path = optarg; break;
        case 'c': o.cache_mb = number(optarg, 1, 65536, "bad cache size"); break;
        case 'm': o.tenant_mb = number(optarg, 0, 65536, "bad limit of tenants"); break;
        case 't': o.threads = number(optarg, 1, 64, "bad number of threads"); break;
        case 'h': fputs(usage, stdout); exit(0);
        default: fputs(usage, stderr); exit(2);
        }
    }
    if (optind < argc)
        fail("unexpected argument", argv[optind]);
    return o;
}

/* Signals that end the service are blocked before any thread starts, so that only wait_for_end() gets them. */
static void block_signals(sigset_t *ends)
{
    sigemptyset(ends);
    sigaddset(ends, SIGTERM);
    sigaddset(ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, ends, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void wait_for_end(const sigset_t *ends)
{
    int which;

    while (sigwait(ends, &which))
        ;
}

static int serve(struct docs *docs, const struct options *o, const sigset_t *ends)
{
    uint16_t port = (uint16_t)o->port;
    struct http *http = http_start(docs, &port, (unsigned)o->threads);

    if (!http) {
        fprintf(stderr, "docstore: cannot listen on port %lu: %s\n", o->port, strerror(errno));
        return 1;
    }
    printf("docstore: listening on http://127.0.0.1:%u, process %ld\n", (unsigned)port, (long)getpid());
    fflush(stdout);
    wait_for_end(ends);
    http_stop(http);
    return 0;
}

int main(int argc, char **argv)
{
    struct options o = parse_options(argc, argv);
    sigset_t ends;
    struct docs *docs;
    int error, status;

    block_signals(&ends);
    tenants_start(o.tenant_mb << 20);
    error = docs_open(&docs, o.path, o.cache_mb << 20, (unsigned)o.threads);
    if (error) {
        fprintf(stderr, "docstore: cannot open %s: %s\n", o.path, strerror(-error));
        return 1;
    }
    status = serve(docs, &o, &ends);
    docs_close(docs);
    return status;
}
