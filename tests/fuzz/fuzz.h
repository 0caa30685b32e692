/* SPDX-License-Identifier: BSD-2-Clause */
/* What a fuzz target is made of: fuzz_begin() once, then fuzz_one() for each input.
 *
 * tools/fuzz builds a target for libFuzzer. `make check` builds it with a main() of its own, which runs the inputs of the
 * corpus in tests/fuzz/corpus, and damaged copies of them. FUZZ_COPIES says how many of each.
 */
#ifndef JESPAN_TESTS_FUZZ_H
#define JESPAN_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fuzz_begin(void);
static void fuzz_one(const uint8_t *data, size_t bytes);

#define FUZZ_REQUIRE(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            abort(); \
        } \
    } while (0)

/* ---- An input is read from its start. Behind its end are zeros. ---- */

struct fuzz_input {
    const uint8_t *at, *end;
};

static inline uint64_t fuzz_number(struct fuzz_input *in, unsigned bytes)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < bytes && in->at < in->end; i++)
        number |= (uint64_t)*in->at++ << 8 * i;
    return number;
}

#ifdef JESPAN_LIBFUZZER

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    fuzz_begin();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    fuzz_one(data, bytes);
    return 0;
}

#else

#include <dirent.h>

/* Always the same copies, so that a failure comes again. */
static inline void fuzz_damaged(const uint8_t *data, size_t bytes, unsigned copies)
{
    uint32_t random = (uint32_t)bytes;
    uint8_t *copy = malloc(bytes ? bytes : 1);
    for (unsigned i = 0; copy && i < copies; i++) {
        memcpy(copy, data, bytes);
        for (unsigned n = 0; n < 1 + i % 8 && bytes; n++) {
            random = random * 1664525 + 1013904223;
            copy[(random >> 8) % bytes] = (uint8_t)(random >> 5);
        }
        fuzz_one(copy, i % 4 == 3 ? bytes / 2 : bytes);
    }
    free(copy);
}

static inline void fuzz_file(const char *path, unsigned copies)
{
    static uint8_t data[1 << 20];
    FILE *file = fopen(path, "r");
    FUZZ_REQUIRE(file);
    size_t bytes = fread(data, 1, sizeof data, file);
    fclose(file);
    fuzz_one(data, bytes);
    fuzz_damaged(data, bytes, copies);
}

/* The corpus is the directory that is named as the target. */
int main(int argc, char **argv)
{
    const char *top = getenv("top_srcdir"), *copies = getenv("FUZZ_COPIES"), *name = strrchr(argv[0], '/');
    char directory[4096], path[8192];
    unsigned n = 0;
    fuzz_begin();
    for (int i = 1; i < argc; i++)
        fuzz_file(argv[i], 0);
    if (argc > 1)
        return 0;
    snprintf(directory, sizeof directory, "%s/tests/fuzz/corpus/%s", top ? top : ".", name ? name + 1 : argv[0]);
    DIR *corpus = opendir(directory);
    FUZZ_REQUIRE(corpus);
    for (struct dirent *one; (one = readdir(corpus));) {
        if (one->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, one->d_name);
        fuzz_file(path, copies ? (unsigned)atoi(copies) : 4);
        n++;
    }
    closedir(corpus);
    FUZZ_REQUIRE(n > 0);
    return 0;
}

#endif

#endif
