/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of these functions, as symbols have them, C++ and Rust demangled. */
#include "allocators.h"

#include <stddef.h>
#include <string.h>

#include "console/command.h"

/* Lists of names; `*` at the end of a name stands for anything. To add those of a program or library, add a row. */
static const char *const known[] = {
    /* libc, and jespan's mallocx() */
    "malloc|calloc|realloc|reallocarray|memalign|posix_memalign|aligned_alloc|valloc|pvalloc|strdup|strndup|mallocx|rallocx",
    /* C++ */
    "operator new*|_Znw*|_Zna*|__gnu_cxx::new_allocator*|std::__new_allocator*|std::allocator_traits<*|std::allocator<*",
    /* Rust */
    "alloc::alloc::*|<alloc::alloc::*|alloc::raw_vec::*|<alloc::raw_vec::*|__rust_alloc*|__rust_realloc*|__rdl_*",
    /* GNU programs (gnulib, libiberty), git */
    "xmalloc|xcalloc|xzalloc|xrealloc|xreallocarray|xnmalloc|xnrealloc|x2realloc|x2nrealloc|xpalloc|xcharalloc|xmemdup|xmemdup0|"
    "xstrdup|xstrndup|ximalloc|xizalloc|xicalloc|xirealloc|ximemdup|xinmalloc|xireallocarray|do_xmalloc|do_xmallocz|xmallocz|"
    "xmallocz_gently|xmemdupz",
    /* GLib, Mono */
    "g_malloc|g_malloc0|g_malloc_n|g_malloc0_n|g_realloc|g_realloc_n|g_try_malloc|g_try_malloc0|g_try_malloc_n|g_try_malloc0_n|"
    "g_try_realloc|g_try_realloc_n|g_memdup|g_memdup2|g_strdup|g_strndup|g_slice_alloc|g_slice_alloc0|g_aligned_alloc|"
    "g_aligned_alloc0|monoeg_malloc|monoeg_malloc0|monoeg_realloc|monoeg_g_calloc|monoeg_try_malloc|monoeg_g_memdup|monoeg_g_strdup",
    /* CPython */
    "PyMem_Malloc|PyMem_Calloc|PyMem_Realloc|PyMem_RawMalloc|PyMem_RawCalloc|PyMem_RawRealloc|PyObject_Malloc|PyObject_Calloc|"
    "PyObject_Realloc|_PyMem_RawMalloc|_PyMem_RawCalloc|_PyMem_RawRealloc|_PyMem_Strdup|_PyMem_RawStrdup|_PyObject_Malloc|"
    "_PyObject_Calloc|_PyObject_Realloc|_PyMem_Debug*",
    /* Ruby, Perl, PHP, Lua, Prolog */
    "ruby_xmalloc*|ruby_xcalloc*|ruby_xrealloc*|ruby_sized_xrealloc*|ruby_strdup|objspace_xmalloc*|objspace_xcalloc*|"
    "objspace_xrealloc*",
    "Perl_safesysmalloc|Perl_safesyscalloc|Perl_safesysrealloc",
    "_emalloc*|_ecalloc*|_erealloc*|_estrdup*|_estrndup*|_safe_emalloc*|_safe_malloc*|_safe_realloc*|__zend_malloc|__zend_calloc|"
    "__zend_realloc",
    "l_alloc|luaM_malloc_|luaM_realloc_|luaM_saferealloc_|luaM_growaux_",
    "PL_malloc*|PL_realloc*",
    /* HotSpot, V8 */
    "os::malloc*|os::realloc*|os::strdup*|AllocateHeap*|ReallocateHeap*|CHeapObj<*",
    "v8::base::Malloc*|v8::base::Calloc*|v8::internal::AllocWithRetry*|v8::internal::Malloced::*",
    /* OpenSSL, OpenLDAP, libuv, FFmpeg, Qt */
    "CRYPTO_malloc|CRYPTO_zalloc|CRYPTO_realloc|CRYPTO_clear_realloc|CRYPTO_memdup|CRYPTO_strdup|CRYPTO_strndup|CRYPTO_secure_malloc|"
    "CRYPTO_secure_zalloc",
    "ber_memalloc*|ber_memcalloc*|ber_memrealloc*|ber_strdup*|ch_malloc|ch_calloc|ch_realloc|ch_strdup",
    "uv__malloc|uv__calloc|uv__realloc|uv__strdup",
    "av_malloc|av_mallocz|av_malloc_array|av_mallocz_array|av_calloc|av_realloc|av_realloc_f|av_realloc_array|av_reallocp|"
    "av_reallocp_array|av_memdup|av_strdup|av_strndup|av_fast_malloc|av_fast_mallocz|av_fast_realloc",
    "QArrayData::allocate*|QArrayData::reallocate*",
    /* Redis, SQLite, MariaDB, PostgreSQL */
    "zmalloc*|zcalloc*|zrealloc*|zstrdup|ztrymalloc*|ztrycalloc*|ztryrealloc*|hi_malloc|hi_calloc|hi_realloc|hi_strdup|s_malloc|"
    "s_realloc",
    "sqlite3MemMalloc|sqlite3MemRealloc|mallocWithAlarm|sqlite3Malloc|sqlite3MallocZero|sqlite3Realloc|sqlite3_malloc|"
    "sqlite3_malloc64|sqlite3_realloc|sqlite3_realloc64|sqlite3DbMallocRaw|sqlite3DbMallocRawNN|sqlite3DbMallocZero|sqlite3DbRealloc|"
    "sqlite3DbReallocOrFree|sqlite3DbStrDup|sqlite3DbStrNDup|dbMallocRawFinish|dbReallocFinish",
    "my_malloc|my_realloc|my_multi_malloc|my_multi_malloc_large|my_large_malloc|my_strdup|my_strndup|my_memdup",
    "palloc|palloc0|palloc_extended|repalloc|pstrdup|pnstrdup|MemoryContextAlloc*|MemoryContextStrdup|AllocSetAlloc*|AllocSetRealloc|"
    "GenerationAlloc*|SlabAlloc|pg_malloc*|pg_realloc|pg_strdup",
    /* nginx, Apache */
    "ngx_alloc|ngx_calloc|ngx_memalign|ngx_palloc|ngx_pnalloc|ngx_pcalloc|ngx_pmemalign|ngx_palloc_block|ngx_palloc_large|"
    "ngx_palloc_small",
    "apr_palloc|apr_palloc_debug|apr_pcalloc|apr_pcalloc_debug|apr_pstrdup|apr_pstrndup|apr_pmemdup|allocator_alloc|"
    "apr_allocator_alloc",
};

#define OWN_MOST 64u
static const char *own[OWN_MOST];
static size_t n_own;

/* A name that ends with * fits all that begin with the rest. */
static bool fits(ProtobufCBinaryData name, const char *word, size_t n)
{
    bool is_beginning = n && word[n - 1] == '*';
    n -= is_beginning;
    if (name.len < n || (name.len > n && !is_beginning))
        return false;
    return n == 0 || memcmp(name.data, word, n) == 0;
}

static bool is_in_list(ProtobufCBinaryData name, const char *list)
{
    for (size_t n; *list; list += n + (list[n] == '|')) {
        n = strcspn(list, "|");
        if (fits(name, list, n))
            return true;
    }
    return false;
}

bool allocators_have(ProtobufCBinaryData name)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (is_in_list(name, known[i]))
            return true;
    for (size_t i = 0; i < n_own; i++)
        if (fits(name, own[i], strlen(own[i])))
            return true;
    return false;
}

int allocators_read(void *unused, const char *word)
{
    (void)unused;
    if (word[0] != '\0' && n_own < OWN_MOST) {
        own[n_own++] = word;
        return 0;
    }
    cmd_error(word[0] ? "--allocator: there are more than %u" : "--allocator: there is no name", OWN_MOST);
    return STATUS_USAGE;
}
