# SPDX-License-Identifier: BSD-2-Clause
"""usage: flame_svg.py [--totals] FILE

Reads a flame graph that jespan drew, as a viewer does: paths come from where frames are. Prints a line for each frame, sorted: its
own value, or its total, and its path. Fails if frames overlap, are no part of the frame below them, or are not as wide as their value.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"
LEFT, WIDTH, HEIGHT = 10, 1180, 18
FIGURE = r"([0-9]+) [^ ]+(?: \([0-9.]+ [^ )]+\))?"
TITLE = re.compile(f"(.*): {FIGURE}, ([0-9.]+) %, alone {FIGURE}", re.DOTALL)


class Frame:
    def __init__(self, group):
        self.name, total, share, own = TITLE.fullmatch(group.find(SVG + "title").text).groups()
        self.total, self.share, self.own = int(total), float(share), int(own)
        rect = group.find(SVG + "rect")
        self.x, self.y, self.width = (float(rect.get(key)) for key in ("x", "y", "width"))
        self.colour = rect.get("fill")
        shown = group.find(SVG + "text")
        self.shown = "" if shown is None else shown.text
        self.below = None

    def path(self):
        return (self.below.path() if self.below and self.below.below else "") + ";" + self.name


def read(path):
    root = ElementTree.parse(path).getroot()
    assert root.tag == SVG + "svg", root.tag
    assert not [e for e in root.iter() if e.tag.split("}")[1] not in ("svg", "title", "style", "text", "g", "rect")]
    frames = [Frame(group) for group in root.iter(SVG + "g")]
    everything, *others = frames
    assert (everything.x, everything.width, everything.share) == (LEFT, WIDTH, 100.0 if everything.total else 0.0), vars(everything)
    by_row = {}
    for frame in frames:
        by_row.setdefault(frame.y, []).append(frame)
    for frame in others:
        middle = frame.x + frame.width / 2
        frame.below = next(f for f in by_row[frame.y + HEIGHT] if f.x <= middle <= f.x + f.width)
        wanted = WIDTH * frame.total / everything.total
        assert abs(frame.width - wanted) <= 0.02, (frame.name, frame.width, wanted)
        assert frame.below.x - 0.02 <= frame.x and frame.x + frame.width <= frame.below.x + frame.below.width + 0.02, vars(frame)
        assert frame.shown == frame.name or (frame.name.startswith(frame.shown[:-1]) and frame.shown[-1:] in ("…", "")), vars(frame)
    for row in by_row.values():
        row.sort(key=lambda f: f.x)
        for left, right in zip(row, row[1:]):
            assert left.x + left.width <= right.x + 0.011, (left.name, right.name)
    hidden = [text.text for text in root.iter(SVG + "text") if (text.text or "").startswith("Frames that are too narrow")]
    if not hidden:
        assert sum(f.own for f in others) == everything.total
    return others


if __name__ == "__main__":
    for frame in sorted(read(sys.argv[-1]), key=Frame.path):
        print(frame.total if sys.argv[1] == "--totals" else frame.own, frame.path()[1:].encode("unicode_escape").decode())
