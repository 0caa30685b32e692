# SPDX-License-Identifier: BSD-2-Clause
# The exporters. The module NAME.la is made of NAME.c. To add one: its file, its line here, and a row in
# src/report/exporter.h. The archive for static programs (Makefile.am) has them all.
exporter_modules = %D%/folded.la
if PPROF
exporter_modules += %D%/pprof.la
endif

# What they need besides their file
exporters_folded_la_SOURCES = %D%/folded.c %D%/folded.h %D%/utf8.c
exporters_pprof_la_LIBADD = exporters/libcommon.la

# The encoder of pprof, which several modules have in them
pprof_sources = \
	%D%/code_maps.c \
	%D%/exporter_memory.h \
	%D%/hash_index.c %D%/hash_index.h \
	%D%/pprof.h \
	%D%/pprof_encode.c \
	%D%/pprof_head.c \
	%D%/pprof_out.c %D%/pprof_parts.h \
	%D%/pprof_sites.c \
	%D%/pprof_stacks.c \
	%D%/pprof_strings.c \
	%D%/utf8.c %D%/utf8.h

# What services have in them
service_sources = \
	%D%/calls.c %D%/calls.h \
	%D%/calls_names.c \
	%D%/digest.c %D%/digest.h \
	%D%/digest_fold.c \
	%D%/digest_nodes.c %D%/digest_nodes.h \
	%D%/label_names.c %D%/label_names.h \
	%D%/period.c %D%/period.h \
	%D%/period_stacks.c %D%/period_stacks.h \
	%D%/random.c %D%/random.h

# What services that push have in them
push_sources = \
	%D%/push_answer.c \
	%D%/push_calls.c %D%/push_calls.h \
	%D%/push_outcome.c \
	%D%/push_protocol.h \
	%D%/push_queue.c %D%/push_queue.h \
	%D%/push_request.c %D%/push_request.h \
	%D%/push_secrets.c \
	%D%/push_send.c %D%/push_send.h \
	%D%/push_target.c \
	%D%/pusher.c %D%/pusher.h

pyroscope_sources = \
	%D%/pyroscope.c \
	%D%/pyroscope_labels.c %D%/pyroscope_labels.h \
	%D%/pyroscope_request.c %D%/pyroscope_request.h

otlp_sources = \
	%D%/otlp.c \
	%D%/otlp_request.c %D%/otlp_request.h \
	%D%/otlp_source.c \
	%D%/otlp_tables.c %D%/otlp_tables.h

events_sources = \
	%D%/events.c \
	%D%/events_file.c \
	%D%/events_flame.c \
	%D%/events_out.h \
	%D%/events_paths.c \
	%D%/events_text.c \
	%D%/events_formats.c \
	%D%/flame_svg.c %D%/flame_svg.h \
	%D%/svg_text.c %D%/svg_text.h \
	%D%/folded.c %D%/folded.h \
	%D%/utf8.c %D%/utf8.h

http_sources = \
	%D%/http.c \
	%D%/http_alerts.c \
	%D%/http_answer.h \
	%D%/http_arenas.c \
	%D%/http_history.c \
	%D%/http_limits.c \
	%D%/http_listen.c %D%/http_listen.h \
	%D%/http_metrics.c \
	%D%/http_page.h \
	%D%/http_pprof.c \
	%D%/http_processes.c \
	%D%/http_request.c \
	%D%/http_resident.c \
	%D%/http_routes.c \
	%D%/http_rows.c %D%/http_rows.h \
	%D%/http_series.c %D%/http_series.h \
	%D%/http_server.c %D%/http_server.h \
	%D%/http_spans.c \
	%D%/http_stacks.c \
	%D%/http_start.c %D%/http_start.h \
	%D%/http_text.c %D%/http_text.h \
	%D%/http_threads.c \
	%D%/http_timeline.c %D%/http_timeline.h \
	%D%/http_view.c %D%/http_view.h \
	src/base/http_address.c src/base/http_address.h

EXTRA_DIST += %D%/README.md
