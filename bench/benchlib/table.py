# SPDX-License-Identifier: BSD-2-Clause
"""Prints rows as text or Markdown tables, and all figures as JSON.

With just plain jemalloc and jespan there is a table with all statistics of the two; with more variants, one of ratios
and one of times, in which each variant has a column. Before them, the few ratios that README.md has.
"""

import json
import statistics

from .rows import ADDED, TIMES
from .variants import JESPAN, PLAIN, SPAN

MARK = "MISSED"
NONE = "–"
SHORT = {SPAN: "in span"}
# The columns of README's table, and their rows.
SUMMARY = {
    "malloc + free at once": "pair", "10,000 live objects": "churn", "2,000,000 live objects": "cold",
    "one thread to another": "handover", "redis `SET`, CPU": "redis-cpu", "redis, RSS": "redis-rss",
}


def number(value, digits=1):
    return f"{value:,.{digits}f}"


def figure(value):
    return number(value, 0 if value >= 1000 else 1 if value >= 1 else 3)


def name(row):
    return f"{row.name} ({row.unit})"


def expectation(row):
    if row.expected is None:
        return NONE
    text = f"{'≥' if row.more else '≤'} {row.expected:g}"
    return f"{text} {MARK}" if row.missed else text


def quartiles(values):
    if len(values) < 2:
        return NONE
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{low:.2f}–{high:.2f}"


def two_ratios(row, variant):
    return f"{row.best_ratio(variant):.2f} / {statistics.median(row.ratios(variant)):.2f}"


def two_figures(row, variant):
    return f"{figure(row.best(variant))} / {figure(row.median(variant))}"


def extra_cell(row, variant):
    added = "" if variant.name == variant.base else f" ({row.extra(variant):+,.1f})"
    return number(row.median(variant)) + added


def all_variants(rows):
    """In the order of the request, each once."""
    return list({v.name: v for row in rows for v in row.variants}.values())


def by_variant(rows, variants, cell):
    """A line for each row, a column for each variant, and the expectation."""
    head = ["", *(SHORT.get(v.name, v.name) for v in variants), "expected"]
    body = [
        [name(row), *(cell(row, v) if v.name in row.samples else NONE for v in variants), expectation(row)]
        for row in rows
    ]
    return head, body


def detailed(rows):
    times, ratios = ["plain best", "median", "jespan best", "median"], ["ratio best", "median", "quartiles", "in span"]
    return ["", *times, *ratios, "expected"], [detailed_cells(row) for row in rows]


def detailed_cells(row):
    plain, jespan, inside = (row.variant(v) for v in (PLAIN, JESPAN, SPAN))
    times = [figure(f(v)) for v in (plain, jespan) for f in (row.best, row.median)]
    ratios = row.ratios(jespan)
    return [
        name(row), *times, f"{row.best_ratio(jespan):.2f}", f"{statistics.median(ratios):.2f}", quartiles(ratios),
        two_ratios(row, inside) if inside else NONE, expectation(row),
    ]


def alone(rows):
    """The rows that only jespan has."""
    lines = []
    for row in rows:
        jespan = row.variant(JESPAN)
        lines.append([name(row), figure(row.best(jespan)), figure(row.median(jespan)), expectation(row)])
    return ["", "best", "median", "expected"], lines


def summary(measured):
    """README's table. Empty unless all its rows were measured."""
    rows = {r.name: r for r in measured if r.kind in ("time", "program") and r.samples and r.variant(JESPAN)}
    if not rows.keys() >= set(SUMMARY.values()):
        return [], []
    return list(SUMMARY), [[f"{rows[n].best_ratio(rows[n].variant(JESPAN)):.2f}" for n in SUMMARY.values()]]


def times_table(rows):
    """The cost of each exact profiler as a multiple of jespan's."""
    peers = [v for v in all_variants(rows) if v.exact]
    head, body = by_variant(rows, peers, lambda row, v: f"{row.times_jespan(v):.1f}")
    for row, line in zip(rows, body, strict=True):
        line[-1] = f"≥ {TIMES}" + (f" {MARK}" if row.too_near else "")
    return head, body


def tables(measured):
    """Tuples of title, head and body."""
    of_kind = lambda *kinds: [r for r in measured if r.kind in kinds and r.samples]  # noqa: E731
    yield "Ratio to plain jemalloc, best of all rounds", *summary(measured)
    for title, rows in (
        ("Time, and real programs", of_kind("time", "program")),
        ("Time, small enough for all", of_kind("peer")),
        ("Growing heap", of_kind("heap")),
        ("Memory that an idle thread keeps", of_kind("idle")),
    ):
        variants = all_variants(rows)
        if {v.name for v in variants} in ({PLAIN, JESPAN}, {PLAIN, JESPAN, SPAN}):
            yield title, *detailed(rows)
        elif rows:
            compared = [v for v in variants if v.name != v.base]
            yield f"{title}: ratio to plain, best / median", *by_variant(rows, compared, two_ratios)
            yield f"{title}: best / median", *by_variant(rows, variants, two_figures)
    yield "Span API, jespan alone", *alone(of_kind("span"))
    timed = of_kind("timed")
    yield "Span API by what is timed: best / median", *by_variant(timed, all_variants(timed), two_figures)
    stacks = of_kind("stacks")
    yield "Stacks of calls by mode: best / median", *by_variant(stacks, all_variants(stacks), two_figures)
    yield "Growing number of contexts, jespan alone", *alone(of_kind("contexts", "snapshot"))
    pauses = of_kind("pause")
    yield "Gaps between allocations: best / median", *by_variant(pauses, all_variants(pauses), two_figures)
    for kind in ADDED:
        memory = of_kind(kind)
        yield "Memory, bytes of RSS per object (added)", *by_variant(memory, all_variants(memory), extra_cell)
    yield "Exact profilers: how many times jespan's time and added memory", *times_table(of_kind("peer", "peer-memory"))


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
    for title, head, body in tables(measured):
        if body:
            lines += ["", *([f"**{title}**", ""] if markdown else [title])]
            lines += (markdown_lines if markdown else text_lines)(head, body)
    return "\n".join(lines)


def write_json(path, measured, header):
    """All figures, so that other statistics need no other run."""
    fields = ("name", "kind", "unit", "help", "expected", "more", "samples", "means")
    found = [{field: getattr(r, field) for field in fields} for r in measured]
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"about": header, "rows": found}, f, indent=1)
        f.write("\n")
