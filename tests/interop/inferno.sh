#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The real inferno-flamegraph draws our folded stacks and our streams of events, as graph and as chart, with their exact figures;
# and our own flame graph has the frames of inferno's.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/fetched.sh
. "$top_srcdir/tests/support/fetched.sh"

INFERNO_VERSION=0.12.8

# Without optimisation: half a minute of CPU time
fill_inferno() {
    cargo install --debug --locked --no-default-features --features cli --version "$INFERNO_VERSION" --root "$1" inferno
}

"$JESPAN_CMD" help report > /dev/null || skip "built without the pprof exporter"
need cargo python3
unset RUSTFLAGS CARGO_TARGET_DIR
build_once "inferno-$INFERNO_VERSION" fill_inferno

program=$scratch/events_program
compile "$program" tests/integration/events_program.c
cd "$scratch"
"$JESPAN_CMD" run --quiet --conf flame_svg_figure:busy --flame folded --flame-svg ours.svg --flame-events events -- \
    "$program" shop threads odd deep 30 2> said || fail_with "the program fails" said

# draw NAME COUNT-NAME OPTION… < LINES
draw() {
    local name=$1 count=$2
    shift 2
    "$built/bin/inferno-flamegraph" --minwidth 0 --countname "$count" "$@" > "$name.svg" 2> said || fail_with "inferno draws no $name" said
    [ ! -s said ] || fail_with "inferno warns of $name" said
    python3 -B "$top_srcdir/tests/interop/inferno.py" "$count" "$name.svg" > "$name.frames" 2> said || fail_with "$name.svg cannot be read" said
}

# graph_of FILE: the frames that its lines make, as TOTAL PATH
graph_of() {
    awk '{ value = $NF; sub(/ [0-9]+$/, ""); n = split($0, names, ";"); path = ""
           for (i = 1; i <= n; i++) { path = path (i > 1 ? ";" : "") names[i]; total[path] += value } }
        END { for (path in total) print total[path], path }' "$1" | sort
}

# The frames of a chart in the order of their starts, and those that its lines make: one goes on while lines have its name at its place.
chart_of() {
    python3 -B - "$1" << 'END'
import sys
frames, open_frames, now = [], [], 0
for line in open(sys.argv[1]):
    stack, ns = line.rstrip("\n").rsplit(" ", 1)
    names = stack.split(";")
    same = 0
    while same < min(len(names), len(open_frames)) and open_frames[same][2] == names[same]:
        same += 1
    del open_frames[same:]
    for i in range(same, len(names)):
        open_frames.append([now, 0, names[i], ";".join(names[:i + 1])])
        frames.append(open_frames[-1])
    for frame in open_frames:
        frame[1] += int(ns)
    now += int(ns)
for start, ns, _, path in sorted((f for f in frames if f[1]), key=lambda f: (f[0], len(f[3]))):
    print(ns, path)
END
}

draw folded us < folded
graph_of folded | diff - <(sort folded.frames) > said || fail_with "inferno's graph of folded stacks" said
draw events ns < events
graph_of events | diff - <(sort events.frames) > said || fail_with "inferno's graph of events" said
draw chart ns --flamechart < <(tac events)
chart_of events | diff - chart.frames > said || fail_with "inferno's chart of events" said
[ "$(grep -c ';shop::request$' chart.frames)" = 3 ] || fail_with "requests are not one after the other" chart.frames

# Frames that ours leaves out are those of less than a tenth of a pixel.
python3 -B "$top_srcdir/tests/support/flame_svg.py" --totals ours.svg | sort > ours.frames
python3 -B - folded.frames ours.frames << 'END' || fail "our flame graph has other frames than inferno's"
import re, sys
from urllib.parse import unquote_to_bytes

def clean(path):
    text = unquote_to_bytes(path.replace(";", "\0")).decode("utf-8", "replace")
    return re.sub("[\1-\x1f\x7f\uffff]", "\ufffd", text).replace("\0", ";").replace("{", " {")

theirs, ours = {}, {}
for line in open(sys.argv[1]):
    total, path = line.rstrip("\n").split(" ", 1)
    theirs[clean(path)] = int(total)
for line in open(sys.argv[2]):
    total, path = line.rstrip("\n").split(" ", 1)
    ours[path.encode().decode("unicode_escape")] = int(total)
narrowest = sum(total for path, total in theirs.items() if ";" not in path.replace("/a;1", "")) / 11800
assert len(ours) > 5, ours
for path in theirs.keys() | ours.keys():
    assert theirs.get(path) == ours.get(path) or (path not in ours and theirs[path] <= narrowest), (path, theirs.get(path), ours.get(path))
END
finish
