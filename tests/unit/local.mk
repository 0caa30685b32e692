# SPDX-License-Identifier: BSD-2-Clause
# A unit test lies in the folder of the room of src/ that it tests. It is one C file: one line here.
unit_tests += \
	%D%/base/test_array \
	%D%/base/test_clock \
	%D%/base/test_constants \
	%D%/base/test_cpu_clock \
	%D%/base/test_dump_on \
	%D%/base/test_encode \
	%D%/base/test_lock \
	%D%/base/test_memory_bounds \
	%D%/base/test_memory_pressure \
	%D%/base/test_meta_array \
	%D%/base/test_pattern \
	%D%/base/test_text_is \
	%D%/console/test_text \
	%D%/conf/test_conf \
	%D%/conf/test_conf_variables \
	%D%/heap/test_classes \
	%D%/heap/test_header \
	%D%/heap/test_concurrent \
	%D%/heap/test_depot \
	%D%/heap/test_fork \
	%D%/heap/test_install \
	%D%/heap/test_large \
	%D%/heap/test_magazine \
	%D%/heap/test_pagemap \
	%D%/heap/test_pagemap_arena \
	%D%/heap/test_sums \
	%D%/heap/test_tables \
	%D%/heap/test_timing \
	%D%/heap/test_timing_threads \
	%D%/jemalloc-hooks/test_extents \
	%D%/jemalloc-hooks/test_span_extents \
	%D%/jemalloc-hooks/test_span_policy \
	%D%/stacks/test_epilogue \
	%D%/stacks/test_frames \
	%D%/stacks/test_sframe \
	%D%/stacks/test_stack_bounds \
	%D%/stacks/test_trail \
	%D%/stacks/test_unwind \
	%D%/span/test_context_path \
	%D%/span/test_handles \
	%D%/span/test_labels \
	%D%/span/test_peaks \
	%D%/span/test_sampler \
	%D%/span/test_sites \
	%D%/span/test_span \
	%D%/span/test_tree \
	%D%/policy/test_arena_figures \
	%D%/policy/test_claims_fork \
	%D%/policy/test_limits \
	%D%/policy/test_limit_charge \
	%D%/policy/test_limits_fork \
	%D%/malloc/test_kept_exceptions \
	%D%/malloc/test_late_refusals \
	%D%/malloc/test_mailbox \
	%D%/snapshot/test_again \
	%D%/snapshot/test_reading \
	%D%/snapshot/test_snapshot \
	%D%/snapshot/test_sums_kept \
	%D%/snapshot/test_names \
	%D%/snapshot/test_view \
	%D%/snapshot/test_view_hostile \
	%D%/snapshot/test_view_interrupted \
	%D%/report/test_alerts \
	%D%/report/test_dump \
	%D%/report/test_dump_dir \
	%D%/report/test_dump_special \
	%D%/report/test_goodbye \
	%D%/report/test_limit_events \
	%D%/report/test_oom_forecast \
	%D%/report/test_reporter_tell \
	%D%/report/test_reporters \
	%D%/sidecar/test_call_names \
	%D%/sidecar/test_ending \
	%D%/sidecar/test_event_dumps \
	%D%/api/test_label_api \
	%D%/api/test_traceparent

if PPROF
unit_tests += \
	%D%/profile/test_samples \
	%D%/symbols/test_symbols \
	%D%/snapshot/test_period \
	%D%/exporters/test_digest \
	%D%/exporters/test_folded \
	%D%/exporters/test_pprof
if PYROSCOPE
unit_tests += \
	%D%/exporters/test_otlp_request \
	%D%/exporters/test_push_calls \
	%D%/exporters/test_push_queue \
	%D%/exporters/test_push_secrets \
	%D%/exporters/test_pyroscope_labels \
	%D%/exporters/test_pyroscope_request \
	%D%/exporters/test_pyroscope_service
endif
if HTTP
unit_tests += \
	%D%/exporters/test_http_answers \
	%D%/exporters/test_http_history \
	%D%/exporters/test_http_listen \
	%D%/exporters/test_http_requests \
	%D%/exporters/test_http_series \
	%D%/exporters/test_http_text
endif
if !SANITIZER
# They have a malloc of their own, as sanitizers do.
unit_tests += \
	%D%/exporters/test_digest_memory \
	%D%/exporters/test_pprof_memory
if PYROSCOPE
unit_tests += \
	%D%/exporters/test_otlp_memory \
	%D%/exporters/test_push_calls_memory \
	%D%/exporters/test_pyroscope_memory
endif
endif
endif
