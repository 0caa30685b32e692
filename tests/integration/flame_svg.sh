#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Flame graphs as SVG: `jespan run --flame-svg` and `jespan report --svg` have the figures of folded stacks and of the report,
# whatever bytes the names have.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null || skip "built without the pprof exporter"
need python3
program=$scratch/events_program
compile "$program" tests/integration/events_program.c
cd "$scratch"

# run OPTION… -- WORD…
run() {
    rm -rf F* S* dumps
    "$JESPAN_CMD" run --quiet --flame F --flame-svg S --dump-dir dumps --interval 0 --time "$@" 2> err || fail_with "the program fails: $*" err
}

read_svg() {
    python3 -B "$top_srcdir/tests/support/flame_svg.py" "$1" > "$1.frames" 2> said || fail_with "$1 cannot be read as a flame graph" said
}

# The same paths and values as those of folded stacks. Several contexts may have one path.
compare_with_folded() {
    python3 - F S.frames << 'END' || fail_with "the folded stacks and the picture differ" F S.frames
import re, sys
from collections import Counter
from urllib.parse import unquote_to_bytes

def clean(name):
    text = unquote_to_bytes(name).decode("utf-8", "replace")
    return re.sub("[\0-\x1f\x7f\uffff]", "\ufffd", text).replace("{", " {")

folded, drawn = Counter(), Counter()
for line in open(sys.argv[1]):
    path, value = line.rsplit(" ", 1)
    folded[";".join(map(clean, path.split(";")))] += int(value)
for line in open(sys.argv[2]):
    value, path = line.rstrip("\n").split(" ", 1)
    drawn[path.encode().decode("unicode_escape")] += int(value)
narrowest = sum(folded.values()) / 11800 # a tenth of a pixel
assert not drawn - folded, drawn - folded
assert all(value <= narrowest and path not in drawn for path, value in (folded - drawn).items()), folded - drawn
assert len(folded) > 5, folded
END
}

# The contexts of the program's own spans, by `jespan report` of the dump at exit: own value and path
reported() {
    "$JESPAN_CMD" report --json dumps/heap.*.pb.gz | python3 -c '
import json, sys
for row in json.load(sys.stdin)["rows"]:
    if row["inuse_bytes"] and not row["path"][0].startswith(("(", "thread:")):
        print(row["inuse_bytes"], ";".join(row["path"]))' | sort
}

# frames FILE: the same of a picture, without labels
frames() {
    grep -v ' thread:\|^0 \| (' "$1" | sed 's/ {[^}]*}//g' | sort
}

test_times() {
    local mode
    for mode in --sidecar --in-process; do
        run "$mode" --conf flame_svg_figure:busy -- "$program" threads shop odd deep 20
        read_svg S
        compare_with_folded
        equal "$mode: stderr" "$(cat err)" ""
    done
    "$JESPAN_CMD" report --svg --sort opens dumps/time.*.pb.gz > R || fail "report --svg of times fails"
    read_svg R
    equal "spans that were opened" "$(sed -n '/};/d; s/ {.*//; / request$/p' R.frames | sort | xargs)" "1 request 2 request"
}

test_memory() {
    run -- "$program" threads shop odd
    read_svg S
    "$JESPAN_CMD" report --svg dumps/heap.*.pb.gz > R || fail "report --svg fails"
    read_svg R
    reported > wanted
    [ -s wanted ] || fail "the report has no spans"
    equal "the dump" "$(frames R.frames | grep -c 'request;parse$')" "$(grep -c 'request;parse$' wanted)"
    equal "the end: values" "$(frames S.frames | cut -d' ' -f1)" "$(cut -d' ' -f1 wanted)"
    equal "the dump: values" "$(frames R.frames | cut -d' ' -f1)" "$(cut -d' ' -f1 wanted)"
    grep -q '<script>alert(1)</script>&amp;"'\'' {<k>=\\ufffd&}$' S.frames || fail_with "no frame of an odd name" S.frames
    grep -q 'a\\ufffd\\ufffd\\ufffdb\\ufffd {' S.frames || fail_with "no frame of a name that is not XML" S.frames
    grep -q '(unnamed) {' S.frames || fail_with "no frame of a span without a name" S.frames
    "$JESPAN_CMD" report --svg dumps/heap.*.pb.gz | cmp - R || fail "the same dump has another picture"
    "$JESPAN_CMD" report --svg --inclusive dumps/heap.*.pb.gz | cmp - R || fail "--inclusive changes the picture, which adds up anyway"
    "$JESPAN_CMD" report --svg --filter parse dumps/heap.*.pb.gz > R
    read_svg R
    equal "--filter" "$(frames R.frames | sed 's/.*;//' | sort -u)" parse
}

# Frames too far from the bottom are not drawn, and counted.
test_deep() {
    run -- "$program" deep 1000
    read_svg S
    equal "drawn" "$(grep -c '\blevel$' S.frames)" 512
    grep -q 'to be drawn: 48[89]<' S || fail_with "what is not drawn is not said" S
}

refuses() {
    local status=0 expected=$1
    shift
    "$JESPAN_CMD" "$@" > out 2> err || status=$?
    equal "status of: $*" "$status" 2
    equal "stderr of: $*" "$(cat err)" "jespan: $expected"
}

test_refusals() {
    refuses "--svg and --diff cannot go together" report --svg --diff dumps dumps
    refuses "--svg is for paths: it cannot go with another --by" report --svg --by name dumps
    refuses "--svg and --folded are for figures that add up: they cannot go with --sort peak or lifetime; atpeak does" report --svg --sort peak dumps
    refuses "--flame-svg: the value is empty" run --flame-svg '' -- "$program"
}

test_times
test_memory
test_deep
test_refusals
finish
