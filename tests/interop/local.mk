# SPDX-License-Identifier: BSD-2-Clause
all_peer_tests += \
	%D%/alloy_delta.sh \
	%D%/go.sh \
	%D%/heaptrack.sh \
	%D%/html.sh \
	%D%/http_pprof.sh \
	%D%/inferno.sh \
	%D%/otlp_collector.sh \
	%D%/page.sh \
	%D%/pprof.sh \
	%D%/pprof_allocators.sh \
	%D%/pprof_unloaded.sh \
	%D%/prometheus.sh \
	%D%/python.sh \
	%D%/pyroscope_client.sh \
	%D%/pyroscope_ingest.sh \
	%D%/pyroscope_push.sh \
	%D%/rust.sh \
	%D%/speedscope.sh \
	%D%/symbols.sh

# What they compile or run
test_support += \
	%D%/collector/go.mod \
	%D%/collector/go.sum \
	%D%/collector/main.go \
	%D%/delta/main.go \
	%D%/heaptrack_program.c \
	%D%/html_dumps.py \
	%D%/inferno.py \
	%D%/html_program.c \
	%D%/pprof_allocators_program.cc \
	%D%/judge/check.go \
	%D%/judge/go.mod \
	%D%/judge/go.sum \
	%D%/judge/main.go \
	%D%/judge/report.go \
	%D%/judge_refusals.py \
	%D%/otlp_profiles.py \
	%D%/page.py \
	%D%/page_program.c \
	%D%/prometheus.py \
	%D%/prometheus_program.c \
	%D%/push_program.c \
	%D%/pyroscope_client.py \
	%D%/python_fastapi.py \
	%D%/python_gunicorn.py \
	%D%/python_numpy.py \
	%D%/python_service.py \
	%D%/python_spans.py \
	%D%/python_traces.py \
	%D%/rust/Cargo.lock \
	%D%/rust/Cargo.toml \
	%D%/rust/src/bin/flame.rs \
	%D%/rust/src/bin/many.rs \
	%D%/rust/src/bin/many_tasks.rs \
	%D%/rust/src/bin/tasks.rs \
	%D%/rust/src/bin/threads.rs \
	%D%/rust/src/lib.rs \
	%D%/speedscope.py \
	%D%/symbols_compare.py
