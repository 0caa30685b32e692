#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The page that `jespan html` makes of dumps, opened from disk in Chromium; and what it says about files that are no dumps.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

need python3 chromium chromedriver tesseract npm # npm: without it, the page has no pictures

program=$scratch/html_program
compile "$program" tests/interop/html_program.c
mkdir "$scratch/dumps"
(cd "$scratch/dumps" && JESPAN_CONF=module_dir:$JESPAN_MODULES,dump_dir:.,dump_at_exit:true,dump_time:true "$program")

"$top_builddir/jespan" html -o "$scratch/dumps.html" "$scratch"/dumps/* > "$scratch/said" 2>&1 || fail_with "status $?" "$scratch/said"
[ ! -s "$scratch/said" ] || fail_with "it says something" "$scratch/said"
"$top_builddir/jespan" html -o - "$scratch"/dumps/* | cmp - "$scratch/dumps.html" || fail_with "standard output has another page" /dev/null
TMPDIR=$scratch python3 -B "$top_srcdir/tests/interop/html_dumps.py" "$scratch" "$scratch/dumps.html" || failures=1

# names ARGUMENT…: the names of all contexts of a page
names() {
    "$top_builddir/jespan" html "$@" -o - "$scratch"/stacks/heap.9.pb.gz | python3 -c "
import base64, json, re, sys, zlib
text = re.search('<template id=.dumps.>([^<]*)', sys.stdin.read())[1]
for moment in json.loads(zlib.decompress(base64.b64decode(text), 31))['moments']:
    print(*(context[1] for context in moment['contexts']), sep='\n')"
}

mkdir "$scratch/stacks"
(cd "$scratch/stacks" && JESPAN_CONF=module_dir:$JESPAN_MODULES,stacks:all "$program")
names --calls > "$scratch/said"
grep -qx main "$scratch/said" || fail_with "--calls shows no call of main" "$scratch/said"
names > "$scratch/said"
! grep -qx main "$scratch/said" || fail_with "calls are shown without --calls" "$scratch/said"
grep -qx request "$scratch/said" || fail_with "the spans are missing" "$scratch/said"

# refuses STATUS MESSAGE ARGUMENT…
refuses() {
    local status=0 expected=$1 message=$2
    shift 2
    "$top_builddir/jespan" html "$@" > "$scratch/said" 2>&1 || status=$?
    [ "$status" = "$expected" ] || fail_with "status $status: html $*" "$scratch/said"
    grep -qxF "jespan: $message" "$scratch/said" || fail_with "html $* says something else" "$scratch/said"
}

refuses 2 "there is no --output PAGE; see 'jespan help html'" "$scratch/dumps/heap.9.pb.gz"
refuses 2 "there is no FILE; see 'jespan help html'" -o "$scratch/none.html"
refuses 2 "$program: not a pprof profile" -o "$scratch/none.html" "$scratch/dumps/heap.9.pb.gz" "$program"
refuses 1 "$scratch/none/none.html: No such file or directory" -o "$scratch/none/none.html" "$scratch/dumps/heap.9.pb.gz"
refuses 1 "/dev/full: No space left on device" -o /dev/full "$scratch/dumps/heap.9.pb.gz"
[ ! -e "$scratch/none.html" ] || fail_with "a page was written" /dev/null
finish
