# SPDX-License-Identifier: BSD-2-Clause
integration_tests += \
	%D%/ages \
	%D%/arena_magazines \
	%D%/arenas \
	%D%/arenas_policy \
	%D%/arenas_promised \
	%D%/conformance \
	%D%/credit \
	%D%/ctl \
	%D%/descriptors \
	%D%/figures \
	%D%/fork \
	%D%/host \
	%D%/identity \
	%D%/inherit \
	%D%/jemalloc_figures \
	%D%/labels \
	%D%/limits \
	%D%/limits_promised \
	%D%/main_ends \
	%D%/no_membarrier \
	%D%/out_of_memory \
	%D%/peaks \
	%D%/publish_trace \
	%D%/regions \
	%D%/regions_held \
	%D%/regions_odd \
	%D%/regions_promised \
	%D%/reporters \
	%D%/samplers \
	%D%/span_events \
	%D%/span_memory \
	%D%/span_nesting \
	%D%/spans \
	%D%/spans_bounded \
	%D%/spans_wrong \
	%D%/stacks_hostile \
	%D%/thread_memory \
	%D%/thread_names \
	%D%/threads_late \
	%D%/times \
	%D%/times_forward \
	%D%/times_order \
	%D%/times_threads

# The same in C++; a source needs a line of its own.
cxx_tests += \
	%D%/attached \
	%D%/inherit_std \
	%D%/limits_new \
	%D%/regions_pmr \
	%D%/regions_thrown
tests_integration_attached_SOURCES = %D%/attached.cc
tests_integration_inherit_std_SOURCES = %D%/inherit_std.cc
tests_integration_limits_new_SOURCES = %D%/limits_new.cc
tests_integration_regions_pmr_SOURCES = %D%/regions_pmr.cc
tests_integration_regions_thrown_SOURCES = %D%/regions_thrown.cc

script_tests += \
	%D%/abort.sh \
	%D%/api.sh \
	%D%/conf.sh \
	%D%/guard.sh \
	%D%/heap_bugs.sh \
	%D%/late_start.sh \
	%D%/libc_malloc.sh \
	%D%/little_memory.sh \
	%D%/misuse.sh \
	%D%/opentelemetry.sh \
	%D%/operators.sh \
	%D%/otel_context.sh \
	%D%/probes.sh \
	%D%/reporter_modules.sh \
	%D%/services.sh \
	%D%/stats_print.sh \
	%D%/unfollowed.sh
if STATIC_BINDING
script_tests += %D%/early.sh %D%/memcheck.sh
endif

all_dump_script_tests += \
	%D%/alerts.sh \
	%D%/check.sh \
	%D%/command.sh \
	%D%/core.sh \
	%D%/ctl_outside.sh \
	%D%/ctl_values.sh \
	%D%/dump.sh \
	%D%/dump_format.sh \
	%D%/dump_on.sh \
	%D%/dump_on_sidecar.sh \
	%D%/events.sh \
	%D%/flame_svg.sh \
	%D%/functions.sh \
	%D%/installed.sh \
	%D%/job_control.sh \
	%D%/leaks.sh \
	%D%/leaks_older.sh \
	%D%/leaks_server.sh \
	%D%/outputs.sh \
	%D%/outside.sh \
	%D%/peaks_reported.sh \
	%D%/report.sh \
	%D%/report_large.sh \
	%D%/report_model.sh \
	%D%/report_text.sh \
	%D%/rss.sh \
	%D%/run_options.sh \
	%D%/run_end_line.sh \
	%D%/run_programs.sh \
	%D%/sandbox.sh \
	%D%/sidecar.sh \
	%D%/stack_modes.sh \
	%D%/stacks_peaks.sh \
	%D%/stacks_random.sh \
	%D%/lifetimes.sh \
	%D%/generated.sh \
	%D%/stacks_ended.sh \
	%D%/stacks_reloaded.sh \
	%D%/stacks_signal.sh \
	%D%/stacks_cut.sh \
	%D%/stacks_temporary.sh \
	%D%/stacks_sframe.sh \
	%D%/stacks_unloaded.sh \
	%D%/state_file.sh \
	%D%/threads.sh \
	%D%/top.sh \
	%D%/top_url.sh \
	%D%/tree.sh \
	%D%/static.sh

all_load_tests += \
	%D%/preload.sh

http_script_tests += \
	%D%/closes_twice.sh \
	%D%/http.sh \
	%D%/http_hostile.sh \
	%D%/http_names.sh \
	%D%/http_views.sh

pyroscope_script_tests += \
	%D%/closes_all.sh \
	%D%/otlp_faults.sh \
	%D%/pyroscope_faults.sh \
	%D%/pyroscope_forked.sh \
	%D%/pyroscope_secrets.sh \
	%D%/pyroscope_short.sh \
	%D%/pyroscope_v2.sh

# What they compile or run
test_support += \
	%D%/abort_program.c \
	%D%/alerts_program.c \
	%D%/peaks_program.c \
	%D%/stacks_peaks_program.c \
	%D%/stacks_random_program.c \
	%D%/lifetimes_program.c \
	%D%/stacks_reloaded_program.c \
	%D%/stacks_signal_program.c \
	%D%/stacks_cut_program.c \
	%D%/stacks_temporary_program.c \
	%D%/generated_program.c \
	%D%/stacks_unloaded_program.c \
	%D%/api_classes.cc \
	%D%/api_disabled.c \
	%D%/api_mallctl.c \
	%D%/closes_all_program.c \
	%D%/closes_twice_program.c \
	%D%/conf_program.c \
	%D%/dump_exit_program.cc \
	%D%/dump_on_program.c \
	%D%/dump_program.c \
	%D%/dump_tls_program.c \
	%D%/early_program.c \
	%D%/events_program.c \
	%D%/guard_program.c \
	%D%/heap_bugs_program.c \
	%D%/http_hostile.py \
	%D%/http_names.py \
	%D%/http_program.c \
	%D%/http_views.py \
	%D%/http_views_program.c \
	%D%/http_views_threads.c \
	%D%/installed_program.c \
	%D%/late_start_program.c \
	%D%/leaks_server.cc \
	%D%/little_memory_mmap.c \
	%D%/little_memory_program.c \
	%D%/opentelemetry_program.cc \
	%D%/otel_context_program.cc \
	%D%/probes_program.c \
	%D%/pyroscope_program.c \
	%D%/report_program.c \
	%D%/report_model.py \
	%D%/report_model_frames.h \
	%D%/report_model_library.c \
	%D%/report_model_program.c \
	%D%/rss_freed_program.c \
	%D%/rss_program.c \
	%D%/sandbox_program.c \
	%D%/sandbox_strict_program.c \
	%D%/services_module.c \
	%D%/services_program.c \
	%D%/stats_print_program.c \
	%D%/sidecar_program.c \
	%D%/state_file_program.c \
	%D%/symbols_library.c \
	%D%/symbols_program.cc \
	%D%/threads_program.c \
	%D%/top_program.c
