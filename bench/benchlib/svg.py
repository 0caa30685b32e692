# SPDX-License-Identifier: BSD-2-Clause
"""Draws the ratios as a bar chart, with a group for each row and a bar for each variant, as a complete SVG file.

The scale is logarithmic if a ratio is above 4. Otherwise a profiler that costs 600 times as much would hide the others.
A line marks 1, the cost of plain jemalloc.
"""

import math
from xml.sax.saxutils import escape

BAR, GAP, LEFT, RIGHT, TITLE = 14, 12, 150, 70, 28
WIDTH = 860
LEGEND_COLUMNS, LEGEND_LINE = 5, 16
LOGARITHMIC_ABOVE = 4
COLOURS = ["#1f77b4", "#aec7e8", "#17becf", "#7f7f7f", "#ff7f0e", "#2ca02c", "#9467bd", "#d62728", "#8c564b", "#e377c2"]
STYLE = "text{font:12px sans-serif;fill:#222}.title{font-weight:bold}.value{font-size:10px}"


def compared(row):
    return [v for v in row.variants if v.name != v.base and {v.name, v.base} <= row.samples.keys()]


def scale(ratios):
    """A function from a ratio to its position, and the ratios to mark on the axis."""
    most = max(*ratios, 1.2)
    room = WIDTH - LEFT - RIGHT
    if most <= LOGARITHMIC_ABOVE:
        step = 0.5 if most > 1.5 else 0.25
        return lambda r: LEFT + room * r / most, [step * i for i in range(int(most / step) + 1)]
    least = min(*ratios, 0.5)
    span = math.log(most / least)
    marks = [m * 10**e for e in range(-1, 5) for m in (1, 2, 5) if least <= m * 10**e <= most]
    return lambda r: LEFT + room * math.log(r / least) / span, marks


def text(x, y, what, anchor="start", kind=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(what)}</text>'


def legend(names):
    for i, name in enumerate(names):
        x = LEFT + i % LEGEND_COLUMNS * ((WIDTH - LEFT) // LEGEND_COLUMNS)
        y = TITLE + i // LEGEND_COLUMNS * LEGEND_LINE
        yield f'<rect x="{x}" y="{y}" width="10" height="10" fill="{COLOURS[i % len(COLOURS)]}"/>'
        yield text(x + 14, y + 9, name)


def axis(place, marks, top, bottom):
    for mark in marks:
        colour = "#444" if mark == 1 else "#ddd"
        yield f'<line x1="{place(mark):.1f}" y1="{top}" x2="{place(mark):.1f}" y2="{bottom}" stroke="{colour}"/>'
        yield text(place(mark), bottom + 16, f"{mark:g}", "middle")


def group(row, top, place, names):
    variants = compared(row)
    yield text(LEFT - 8, top + BAR * len(variants) / 2 + 4, row.name, "end")
    for i, variant in enumerate(variants):
        ratio, y = row.best_ratio(variant), top + i * BAR
        colour = COLOURS[names.index(variant.name) % len(COLOURS)]
        width = max(place(ratio) - LEFT, 1)
        yield f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 2}" fill="{colour}"/>'
        yield text(LEFT + width + 4, y + BAR - 4, f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}", kind="value")


def render(rows):
    """The chart as text. None: there is nothing to compare."""
    rows = [r for r in rows if r.samples and compared(r) and not r.more]
    if not rows:
        return None
    names = list(dict.fromkeys(v.name for r in rows for v in compared(r)))
    place, marks = scale([r.best_ratio(v) for r in rows for v in compared(r)])
    top = TITLE + -(-len(names) // LEGEND_COLUMNS) * LEGEND_LINE + 4
    y, bars = top + GAP, []
    for row in rows:
        bars += group(row, y, place, names)
        y += BAR * len(compared(row)) + GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 30}" viewBox="0 0 {WIDTH} {y + 30}">'
    title = text(LEFT, 16, "Ratio to plain jemalloc, best of all rounds; lower is better", kind="title")
    background = '<rect width="100%" height="100%" fill="white"/>'
    under = [background, title, *legend(names), *axis(place, marks, top, y)]
    return "\n".join([head, f"<style>{STYLE}</style>", *under, *bars, "</svg>"]) + "\n"
