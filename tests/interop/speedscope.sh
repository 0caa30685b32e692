#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The real speedscope, opened in Chromium, shows the spans of a dump.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/fetched.sh
. "$top_srcdir/tests/support/fetched.sh"

SPEEDSCOPE_VERSION=1.25.0

fill_speedscope() {
    cd "$1"
    npm pack --silent "speedscope@$SPEEDSCOPE_VERSION"
    tar -xzf ./*.tgz
}

need python3 chromium chromedriver tesseract npm
build_once "speedscope-$SPEEDSCOPE_VERSION" fill_speedscope

program=$scratch/dump_program
compile "$program" tests/integration/dump_program.c
mkdir "$scratch/site"
cp -r "$built/package/dist/release/." "$scratch/site"
JESPAN_CONF=module_dir:$JESPAN_MODULES "$program" figures dump "$scratch/site/heap.pb.gz" > "$scratch/figures"
TMPDIR=$scratch python3 -B "$top_srcdir/tests/interop/speedscope.py" "$scratch/site" "$scratch/figures" || failures=1
finish
