# SPDX-License-Identifier: BSD-2-Clause
# What the tests include, compile or run
test_support += \
	%D%/alert_thread.h \
	%D%/arenas.h \
	%D%/booted.h \
	%D%/bounded.sh \
	%D%/browser.py \
	%D%/cases.h \
	%D%/cgroup.sh \
	%D%/check.h \
	%D%/command.sh \
	%D%/complaints.h \
	%D%/ctl.h \
	%D%/dump_parts.h \
	%D%/failing_malloc.h \
	%D%/dumps.sh \
	%D%/entered.h \
	%D%/family.h \
	%D%/fault_modes.py \
	%D%/fault_server.py \
	%D%/faults.sh \
	%D%/fetched.sh \
	%D%/flame_svg.py \
	%D%/give_back.h \
	%D%/http.sh \
	%D%/lib.sh \
	%D%/made_root.h \
	%D%/made_snapshot.h \
	%D%/many_locks.h \
	%D%/mappings.h \
	%D%/maps.h \
	%D%/model.h \
	%D%/model_check.h \
	%D%/no_memory.h \
	%D%/objects.h \
	%D%/one_processor.h \
	%D%/opentelemetry.h \
	%D%/opentelemetry.sh \
	%D%/otel_context.py \
	%D%/own_rseq.h \
	%D%/pages.h \
	%D%/pprof_read.h \
	%D%/pprof_tool.sh \
	%D%/pushed.py \
	%D%/report_oracle.py \
	%D%/peers.sh \
	%D%/pyroscope.sh \
	%D%/regions.h \
	%D%/span_extents.h \
	%D%/spans.h \
	%D%/thread_sanitizer.supp \
	%D%/times.h \
	%D%/told.h

if PPROF
test_programs += %D%/make_profile %D%/make_stacks
endif

# Plugins, from one template
check_LTLIBRARIES += %D%/mix_one.la %D%/mix_two.la
plugin_ldflags = -shared -module -avoid-version -rpath /nowhere
tests_support_mix_one_la_SOURCES = %D%/mix_module.c
tests_support_mix_one_la_CPPFLAGS = $(AM_CPPFLAGS) -DMIX_TARGET='"mix_one"'
tests_support_mix_one_la_LDFLAGS = $(plugin_ldflags)
tests_support_mix_two_la_SOURCES = %D%/mix_module.c
tests_support_mix_two_la_CPPFLAGS = $(AM_CPPFLAGS) -DMIX_TARGET='"mix_two"'
tests_support_mix_two_la_LDFLAGS = $(plugin_ldflags)
