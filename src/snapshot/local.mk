# SPDX-License-Identifier: BSD-2-Clause
# What a snapshot needs, of this process or of another
snapshot_sources = \
	%D%/alert_figures.h \
	%D%/books.h \
	%D%/event_reader.c %D%/event_reader.h \
	%D%/names_permitted.c %D%/names_permitted.h \
	%D%/reading.h \
	%D%/reading_add.c \
	%D%/row_find.c %D%/row_find.h \
	%D%/row_order.h \
	%D%/row_path.c %D%/row_path.h \
	%D%/snapshot.c %D%/snapshot.h \
	%D%/snapshot_again.c \
	%D%/snapshot_changes.c \
	%D%/snapshot_builder.h \
	%D%/snapshot_collect.c \
	%D%/snapshot_finish.c \
	%D%/snapshot_known.c \
	%D%/snapshot_rows.c \
	%D%/snapshot_parts.c \
	%D%/space.c %D%/space.h \
	%D%/sums_kept.c %D%/sums_kept.h \
	%D%/thread_bounds.h \
	%D%/view_parts.h

# What only a snapshot of another process needs: for programs of our own, not for the library
outside_sources = \
	%D%/core_file.c %D%/core_file.h \
	%D%/core_notes.c %D%/core_notes.h \
	%D%/fork_base.c %D%/fork_base.h \
	%D%/limits_outside.c %D%/limits_outside.h \
	%D%/mailbox_outside.c %D%/mailbox_outside.h \
	%D%/names_outside.c %D%/names_outside.h \
	%D%/names_outside_alerts.c \
	%D%/names_outside_arenas.c \
	%D%/names_outside_asked.c \
	%D%/names_outside_contexts.c \
	%D%/names_outside_parts.h \
	%D%/names_outside_threads.c \
	%D%/reading_outside.c \
	%D%/sites_outside.c \
	%D%/threads_outside.c \
	%D%/view.c %D%/view.h \
	%D%/view_find.c \
	%D%/view_heap.c %D%/view_heap.h \
	%D%/view_heap_parts.h \
	%D%/view_heap_walk.c \
	%D%/view_mappings.c %D%/view_mappings.h \
	%D%/view_resident.c %D%/view_resident.h \
	%D%/view_shares.c \
	%D%/view_threads.c %D%/view_threads.h

core_sources += \
	$(snapshot_sources) \
	%D%/outlived.c %D%/outlived.h \
	%D%/reading.c \
	%D%/snapshot_delta.h \
	%D%/snapshot_own.c \
	%D%/state_books.c \
	%D%/top_holders.c %D%/top_holders.h

EXTRA_DIST += %D%/README.md
