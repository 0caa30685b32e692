/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks through code that was unloaded. */
#include "span/stack_code.h"

#include <link.h>

#include "base/lock.h"
#include "span/stack_mode.h"
#include "span/tree.h"
#include "stacks/codes.h"
#include "stacks/stacks.h"

_Atomic uint64_t stack_code_loads = 1;
static _Atomic bool is_due;

static bool goes_through(uint32_t frame, uint64_t start, uint64_t end)
{
    while (frame && (stack_frames[frame].return_address <= start || stack_frames[frame].return_address > end))
        frame = stack_frames[frame].parent;
    return frame;
}

/* A thread that has such a context in its cache finds that the generation is another one. */
static COLD void forget_unloaded(void)
{
    uint64_t start, end;
    while (codes_take_unloaded(&start, &end))
        for (uint32_t id = CONTEXT_ID_ROOT; id < tree_end(); id++)
            if (tree_is_live(id) && contexts[id].kind == CONTEXT_STACK && goes_through(contexts[id].stack & ~STACK_SAMPLED, start, end))
                tree_forget(id);
}

static void count_load(void)
{
    atomic_fetch_add_explicit(&stack_code_loads, 1, memory_order_seq_cst);
}

COLD void stack_code_begin(void)
{
    count_load();
    codes_look(true);
    forget_unloaded();
}

/* The lock comes after that of the dynamic linker, as where dlopen(3) allocates. */
static COLD int add(struct dl_phdr_info *object, size_t bytes, void *unused)
{
    (void)bytes;
    (void)unused;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        lock(LOCK_TREE);
        codes_add(object->dlpi_addr + segment->p_vaddr);
        unlock(LOCK_TREE);
        break;
    }
    return 0;
}

/* To find the path of a library takes readlink(2), for which sandboxes kill: that of apt does. So those with which the program starts are
 * looked at before it can set one up. */
static COLD __attribute__((constructor)) void add_loaded(void)
{
    if (load_relaxed(&stacks_mode) != STACKS_OFF)
        dl_iterate_phdr(add, NULL);
}

static COLD void look(void)
{
    store_relaxed(&is_due, false);
    codes_look(false);
    forget_unloaded();
}

/* Without the lock, each context has to ask again whether its stacks are taken, which takes the lock. */
COLD void stack_code_look(void)
{
    count_load();
    if (lock_if_possible(LOCK_TREE)) {
        look();
        unlock(LOCK_TREE);
        return;
    }
    store_relaxed(&is_due, true);
    atomic_fetch_add_explicit(&stack_mode_taken, 2, memory_order_seq_cst);
}

COLD void stack_code_look_if_due(void)
{
    if (load_relaxed(&is_due))
        look();
}

COLD void stack_code_translate(uintptr_t *return_addresses, uint32_t n)
{
    codes_translate(return_addresses, n);
    forget_unloaded();
}
