# SPDX-License-Identifier: BSD-2-Clause
"""Prints rows as text or Markdown tables, and all figures as JSON."""

import json
import statistics

from . import rows

TIME_HEAD = ["", "plain best", "median", "jespan best", "median", "ratio best", "median", "quartiles", "in span", "expected"]
SPAN_HEAD = ["", "best", "median", "expected"]
MEMORY_HEAD = ["", "plain", "jespan", "added", "expected"]
MARK = "MISSED"


def number(value, digits=1):
    return f"{value:,.{digits}f}"


def figure(row, value):
    return number(value, 0 if value >= 1000 else 1)


def expectation(row, value, digits=1):
    if row.expected is None:
        return "–"
    text = f"≤ {row.expected:.{digits}f}"
    return text if round(value, 2) <= row.expected else f"{text} {MARK}"


def quartiles(values):
    if len(values) < 2:
        return "–"
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{low:.2f}–{high:.2f}"


def best_ratio(row, variant):
    return row.best(variant) / row.best(rows.PLAIN)


def time_cells(row):
    ratios = row.ratios(rows.JESPAN)
    middle = statistics.median(ratios)
    inside = "–"
    if rows.SPAN in row.samples:
        inside = f"{best_ratio(row, rows.SPAN):.2f} / {statistics.median(row.ratios(rows.SPAN)):.2f}"
    plain = [figure(row, row.best(rows.PLAIN)), figure(row, row.median(rows.PLAIN))]
    mine = [figure(row, row.best(rows.JESPAN)), figure(row, row.median(rows.JESPAN))]
    best = best_ratio(row, rows.JESPAN)
    return [
        f"{row.name} ({row.unit})", *plain, *mine, f"{best:.2f}", f"{middle:.2f}", quartiles(ratios), inside,
        expectation(row, best),
    ]


def span_cells(row):
    best = row.best(rows.JESPAN)
    return [f"{row.name} ({row.unit})", number(best), number(row.median(rows.JESPAN)), expectation(row, best, 0)]


def memory_cells(row):
    added = row.extra(rows.JESPAN)
    plain, mine = row.median(rows.PLAIN), row.median(rows.JESPAN)
    return [f"{row.name} ({row.unit})", number(plain), number(mine), number(added), expectation(row, added, 0)]


# Each table: its title, the kinds of row in it, its head, and the cells of a row.
TABLES = [
    ("Time, and real programs", ("time", "program"), TIME_HEAD, time_cells),
    ("Span API, jespan alone", ("span",), SPAN_HEAD, span_cells),
    ("Memory, bytes of RSS per object", ("memory",), MEMORY_HEAD, memory_cells),
]


def text_lines(head, body):
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    for line in [head, *body]:
        cells = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))]
        yield "  ".join(cells).rstrip()


def markdown_lines(head, body):
    yield f"| {' | '.join(head)} |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    for line in body:
        yield f"| {' | '.join(line)} |"


def render(measured, header, markdown):
    """All tables that have rows, under the lines of the header."""
    lines = list(header)
    for title, kinds, head, cells in TABLES:
        body = [cells(r) for r in measured if r.kind in kinds and r.samples]
        if body:
            lines += ["", *([f"**{title}**", ""] if markdown else [title])]
            lines += (markdown_lines if markdown else text_lines)(head, body)
    return "\n".join(lines)


def missed(measured):
    """Names of rows beyond what is expected of them, in the order of the tables."""
    names = []
    for _, kinds, _, cells in TABLES:
        names += [r.name for r in measured if r.kind in kinds and r.samples and cells(r)[-1].endswith(MARK)]
    return names


def write_json(path, measured, header):
    """Every single figure, so that other statistics can be had without another run."""
    found = [
        {"name": r.name, "kind": r.kind, "unit": r.unit, "help": r.help, "expected": r.expected, "samples": r.samples}
        for r in measured
    ]
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"about": header, "rows": found}, f, indent=1)
        f.write("\n")
