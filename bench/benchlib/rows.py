# SPDX-License-Identifier: BSD-2-Clause
"""The rows of the benchmark: what is measured, for which variants, and the rounds that measure them.

Single times vary by 15 % and more from one moment to the next, so variants take turns within a round, in an order that
turns round with each, and a ratio is always between two figures of the same round.
"""

import dataclasses
import fnmatch
import statistics
import typing

from . import target
from .variants import JESPAN

# The expectation of a row, by the first pattern that matches its name. For ratios of jespan to plain jemalloc it is the
# largest, or the smallest if more is better. For rows that only jespan has it is the largest figure. For memory it is
# bytes added.
EXPECTED = [
    ("pair", 1.6), ("churn", 1.2), ("cold", 1.03), ("handover-*t", 1.25), ("enter+exit", 26), ("rss-mean", 8),
    ("redis*-cpu*", 1.08), ("redis-*-rps", None), ("*-cpu*", 1.02), ("*-rps", 0.98), ("*-rss", 1.08),
    ("snapshot-100000", 25), ("refused-*", 1000),
]
# Rows that only jespan has.
ALONE = ("span", "timed", "stacks", "contexts", "snapshot")
ADDED = ("memory", "peer-memory")
# The expected cost of each exact profiler, in time or memory, as a multiple of jespan's cost.
TIMES = 2.5


@dataclasses.dataclass
class Row:
    """One line of the result. `measure` takes a variant and returns its figure, or the best and the mean."""

    name: str
    kind: str
    unit: str
    help: str
    variants: list
    measure: typing.Callable
    most_rounds: int = 1000
    more: bool = False  # is better
    samples: dict = dataclasses.field(default_factory=dict)
    means: dict = dataclasses.field(default_factory=dict)

    def add(self, variant, figure):
        best, mean = figure if isinstance(figure, tuple) else (figure, figure)
        self.samples.setdefault(variant.name, []).append(best)
        self.means.setdefault(variant.name, []).append(mean)

    def variant(self, name):
        return next((v for v in self.variants if v.name == name), None)

    def pairs(self, variant):
        """Its figures and those of the variant to compare with, by round. Both are means if the row asks for that."""
        figures = self.means if variant.by_mean else self.samples
        return list(zip(figures[variant.name], figures[variant.base], strict=True))

    def figures(self, variant):
        return (self.means if variant.by_mean else self.samples)[variant.name]

    def best(self, variant):
        return self.best_of(self.figures(variant))

    def best_of(self, figures):
        return max(figures) if self.more else min(figures)

    def median(self, variant):
        return statistics.median(self.figures(variant))

    def best_ratio(self, variant):
        mine, base = zip(*self.pairs(variant), strict=True)
        return self.best_of(mine) / self.best_of(base)

    def ratios(self, variant):
        return [mine / base for mine, base in self.pairs(variant)]

    def extra(self, variant):
        """The median over rounds of what is added."""
        return statistics.median(mine - base for mine, base in self.pairs(variant))

    @property
    def expected(self):
        return next((figure for pattern, figure in EXPECTED if fnmatch.fnmatch(self.name, pattern)), None)

    @property
    def judged(self):
        """jespan's figure, which the expectation is about. None: not measured."""
        jespan = self.variant(JESPAN)
        if not jespan or not self.samples:
            return None
        if self.kind in ADDED:
            return self.extra(jespan)
        return self.best(jespan) if self.kind in ALONE else self.best_ratio(jespan)

    @property
    def missed(self):
        if self.expected is None or self.judged is None:
            return False
        return self.judged < self.expected - 0.005 if self.more else self.judged > self.expected + 0.005

    def times_jespan(self, variant):
        """The cost of the variant as a multiple of jespan's: its time, or the memory that it adds."""
        jespan = self.variant(JESPAN)
        if self.kind in ADDED:
            return self.extra(variant) / self.extra(jespan)
        return self.best_ratio(variant) / self.best_ratio(jespan)

    @property
    def too_near(self):
        """Exact profilers whose multiple of jespan's cost is smaller than expected."""
        exact = [v for v in self.variants if v.exact and v.name in self.samples]
        return [v.name for v in exact if self.times_jespan(v) < TIMES]


class Shared:
    """A run with the figures of several rows, by name. The first row runs it, the others use its figures."""

    def __init__(self, run):
        self.run, self.left = run, {}

    def take(self, name, variant):
        left = self.left.setdefault(variant.name, {})
        if name not in left:
            left.update(self.run(variant))
        return left.pop(name)

    def taker(self, name):
        return lambda variant: self.take(name, variant)


# Memory figures hardly vary, so a few rounds are enough.
UNITS = {"memory": "B", "idle": "B"}
MEMORY_ROUNDS = 3


def workload_rows(program, variants, kinds, milliseconds, memory_rounds=MEMORY_ROUNDS):
    """A row for each workload of these kinds that the program has and a variant can run."""

    def measure(name):
        def figure(variant):
            got = target.run_workload(program, variant, [name, "--ms", max(milliseconds, variant.least_ms)])
            return got["value"], got.get("mean", got["value"])

        return figure

    for name, kind, text in target.list_workloads(program):
        able = [v for v in variants if kind in v.kinds]
        if kind in kinds and able:
            rounds = memory_rounds if kind in UNITS else Row.most_rounds
            yield Row(name, kind, UNITS.get(kind, "ns"), text, able, measure(name), rounds)


def with_mean(found):
    """The rows, and one for the mean of the memory rows, which needs no run."""
    memory = [r for r in found if r.kind == "memory"]
    yield from found
    if len(memory) > 1:
        mean = lambda variant: statistics.mean(r.samples[variant.name][-1] for r in memory)  # noqa: E731
        text = "the mean of these, each size counting once"
        yield Row("rss-mean", "memory", "B", text, memory[0].variants, mean, memory[0].most_rounds)


def matching(rows, patterns):
    """The rows whose name matches one of the patterns. Without patterns all rows."""
    return [r for r in rows if not patterns or any(fnmatch.fnmatch(r.name, p) for p in patterns)]


def measure_all(rows, rounds):
    for number in range(rounds):
        target.say(f"round {number + 1} of {rounds}")
        for row in rows:
            if number < row.most_rounds:
                measure_round(row, number)


def measure_round(row, number):
    """Runs all variants once: forwards in even rounds, backwards in odd ones, so that a drift favours none."""
    for variant in row.variants if number % 2 == 0 else reversed(row.variants):
        row.add(variant, row.measure(variant))
