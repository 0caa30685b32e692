/* SPDX-License-Identifier: BSD-2-Clause */
/* The names that only a thread of the program can read. If a name is neither here nor in the books, the program need not be
 * asked. Of jemalloc's names, those are here that a version from 5.2 on has and names_permitted.c permits. So a name that is
 * here need not exist in the program's jemalloc. */
#include <stdbool.h>
#include <string.h>

#include "snapshot/names_outside_parts.h"
#include "snapshot/names_permitted.h"
#include "span/tree.h"

#define MUTEX "num_ops num_wait num_spin_acq num_owner_switch total_wait_time max_wait_time max_num_thds"
#define SLABS \
    "npageslabs_nonhuge npageslabs_huge nactive_nonhuge nactive_huge ndirty_nonhuge ndirty_huge npageslabs nactive ndirty"

/* In `before`, # stands for a number, and @ for a word. */
static const struct group {
    const char *before, *names;
} groups[] = {
    {"spans.", "epoch"},
    {"spans.stats.", "unsampled reporters reporter_misses"},
    {"spans.#.", "open"},
    {"spans.arenas.#.",
     "cached_bytes active_bytes dirty_bytes muzzy_bytes retained_bytes resident_bytes fragmentation_ppm"},
    {"", "version epoch background_thread max_background_threads"},
    {"config.",
     "cache_oblivious debug fill lazy_lock malloc_conf prof prof_libgcc prof_libunwind stats utrace "
     "xmalloc opt_safety_checks prof_frameptr"},
    {"opt.",
     "abort abort_conf metadata_thp retain dss narenas percpu_arena oversize_threshold background_thread "
     "max_background_threads dirty_decay_ms muzzy_decay_ms stats_print stats_print_opts junk zero utrace "
     "xmalloc tcache thp lg_extent_max_active_fit lg_tcache_max prof prof_prefix prof_active "
     "prof_thread_active_init lg_prof_sample lg_prof_interval prof_gdump prof_final prof_leak prof_accum "
     "confirm_conf cache_oblivious trust_madvise hpa hpa_slab_max_alloc hpa_hugification_threshold "
     "hpa_hugify_delay_ms hpa_min_purge_interval_ms hpa_dirty_mult hpa_sec_nshards hpa_sec_max_alloc "
     "hpa_sec_max_bytes hpa_sec_bytes_after_flush hpa_sec_batch_fill_extra mutex_max_spin stats_interval "
     "stats_interval_opts experimental_infallible_new tcache_max tcache_nslots_small_min "
     "tcache_nslots_small_max tcache_nslots_large lg_tcache_nslots_mul tcache_gc_incr_bytes "
     "tcache_gc_delay_bytes lg_tcache_flush_small_div lg_tcache_flush_large_div prof_leak_error "
     "prof_recent_alloc_max prof_stats prof_sys_thread_name prof_time_resolution lg_san_uaf_align "
     "zero_realloc experimental_hpa_start_huge_if_thp_always experimental_hpa_enforce_hugify "
     "hpa_hugify_sync experimental_hpa_max_purge_nhp hpa_purge_threshold hpa_min_purge_delay_ms "
     "hpa_hugify_style huge_arena_pac_thp experimental_tcache_gc prof_bt_max prof_pid_namespace "
     "debug_double_free_max_scan disable_large_size_classes process_madvise_max_batch"},
    {"arena.#.", "dirty_decay_ms muzzy_decay_ms retain_grow_limit initialized dss"},
    {"arenas.", "dirty_decay_ms muzzy_decay_ms narenas nbins nhbins nlextents quantum page tcache_max"},
    {"arenas.bin.#.", "size nregs slab_size nshards"},
    {"arenas.lextent.#.", "size"},
    {"prof.", "active gdump thread_active_init lg_sample interval"},
    {"stats.",
     "allocated active metadata metadata_thp resident mapped retained zero_reallocs metadata_edata "
     "metadata_rtree pinned"},
    {"stats.background_thread.", "num_threads num_runs run_interval"},
    {"stats.mutexes.@.", MUTEX},
    {"stats.arenas.#.",
     "nthreads uptime dss dirty_decay_ms muzzy_decay_ms pactive pdirty pmuzzy mapped retained extent_avail "
     "dirty_npurge dirty_nmadvise dirty_purged muzzy_npurge muzzy_nmadvise muzzy_purged base internal "
     "metadata_thp tcache_bytes resident abandoned_vm tcache_stashed_bytes hpa_sec_bytes metadata_edata "
     "metadata_rtree hpa_sec_hits hpa_sec_misses hpa_sec_dalloc_noflush hpa_sec_dalloc_flush "
     "hpa_sec_overfills pinned"},
    {"stats.arenas.#.small.", "allocated nmalloc ndalloc nrequests nfills nflushes"},
    {"stats.arenas.#.large.", "allocated nmalloc ndalloc nrequests nfills nflushes"},
    {"stats.arenas.#.mutexes.@.", MUTEX},
    {"stats.arenas.#.bins.#.",
     "nmalloc ndalloc nrequests curregs nfills nflushes nslabs nreslabs curslabs nonfull_slabs"},
    {"stats.arenas.#.bins.#.mutex.", MUTEX},
    {"stats.arenas.#.lextents.#.", "nmalloc ndalloc nrequests curlextents"},
    {"stats.arenas.#.extents.#.", "ndirty nmuzzy nretained dirty_bytes muzzy_bytes retained_bytes"},
    {"stats.arenas.#.hpa_shard.",
     "npurge_passes npurges nhugifies ndehugifies npageslabs nactive ndirty nhugify_failures"},
    {"stats.arenas.#.hpa_shard.@.", SLABS},
    {"stats.arenas.#.hpa_shard.nonfull_slabs.#.", SLABS},
};

/* The rest of the name behind the pattern, or NULL. */
static const char *find_behind(const char *pattern, const char *name)
{
    for (; *pattern; pattern++) {
        size_t n = *pattern == '#' ? strspn(name, "0123456789") : *pattern == '@' ? strcspn(name, ".") : *pattern == *name;
        if (!n)
            return NULL;
        name += n;
    }
    return name;
}

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = words; n && (at = strstr(at, word)); at++)
        if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ' '))
            return true;
    return false;
}

static bool is_of_context(const char *name)
{
    bool is_total, of_total = strncmp(name, "total.", 6) == 0;
    const char *known;
    for (size_t i = 0; (known = names_outside_context_name(i, &is_total)); i++)
        if (strcmp(known, of_total ? name + 6 : name) == 0)
            return is_total || !of_total;
    return false;
}

bool names_outside_is_asked(const char *name)
{
    const char *rest;
    if (!names_permitted_find(name, MAILBOX_GET))
        return false;
    _Static_assert(CONTEXT_ID_UNSAMPLED == 3, "it has no row, so the books do not have its names");
    if ((rest = find_behind("spans.3.", name)) && is_of_context(rest))
        return true;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if ((rest = find_behind(groups[i].before, name)) && !strchr(rest, ' ') && has_word(groups[i].names, rest))
            return true;
    return false;
}
