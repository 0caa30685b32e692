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

# Ratio, bytes or nanoseconds above which a row is marked; from the prototype's figures in the design.
EXPECTED = {"pair": 1.6, "churn": 1.2, "cold": 1.1, "enter+exit": 8, "rss": 8}


@dataclasses.dataclass
class Row:
    """One line of the result. `measure` takes a variant and returns its figure, or its best and its mean."""

    name: str
    kind: str
    unit: str
    help: str
    variants: list
    measure: typing.Callable
    most_rounds: int = 1000
    samples: dict = dataclasses.field(default_factory=dict)
    means: dict = dataclasses.field(default_factory=dict)

    def add(self, variant, figure):
        best, mean = figure if isinstance(figure, tuple) else (figure, figure)
        self.samples.setdefault(variant.name, []).append(best)
        self.means.setdefault(variant.name, []).append(mean)

    def variant(self, name):
        return next((v for v in self.variants if v.name == name), None)

    def pairs(self, variant):
        """Its figures and those of what it is compared with, round by round, both of them means if it asks for that."""
        figures = self.means if variant.by_mean else self.samples
        return list(zip(figures[variant.name], figures[variant.base], strict=True))

    def best(self, variant):
        return min((self.means if variant.by_mean else self.samples)[variant.name])

    def median(self, variant):
        return statistics.median((self.means if variant.by_mean else self.samples)[variant.name])

    def best_ratio(self, variant):
        mine, base = zip(*self.pairs(variant), strict=True)
        return min(mine) / min(base)

    def ratios(self, variant):
        return [mine / base for mine, base in self.pairs(variant)]

    def extra(self, variant):
        """What is added, round by round; the median."""
        return statistics.median(mine - base for mine, base in self.pairs(variant))

    @property
    def expected(self):
        return EXPECTED.get(self.name.split("-")[0] if self.kind == "memory" else self.name)

    @property
    def judged(self):
        """The figure that the expectation is about: jespan's; None where it was not measured."""
        jespan = self.variant(JESPAN)
        if not jespan:
            return None
        if self.kind == "memory":
            return self.extra(jespan)
        return self.best(jespan) if self.kind == "span" else self.best_ratio(jespan)

    @property
    def missed(self):
        return self.expected is not None and self.judged is not None and round(self.judged, 2) > self.expected


UNITS = {"memory": "B"}
# Memory figures hardly vary.
MEMORY_ROUNDS = 3


def workload_rows(program, variants, kinds, milliseconds, memory_rounds=MEMORY_ROUNDS):
    """A row for each workload of these kinds that the program knows and a variant can run."""

    def measure(name):
        def figure(variant):
            got = target.run_workload(program, variant, [name, "--ms", max(milliseconds, variant.least_ms)])
            return got["value"], got["mean"]

        return figure

    for name, kind, text in target.list_workloads(program):
        able = [v for v in variants if kind in v.kinds]
        if kind in kinds and able:
            rounds = memory_rounds if kind == "memory" else Row.most_rounds
            yield Row(name, kind, UNITS.get(kind, "ns"), text, able, measure(name), rounds)


def matching(rows, patterns):
    """The rows whose name matches one of the patterns; all without any."""
    return [r for r in rows if not patterns or any(fnmatch.fnmatch(r.name, p) for p in patterns)]


def measure_all(rows, rounds):
    for number in range(rounds):
        target.say(f"round {number + 1} of {rounds}")
        for row in rows:
            if number < row.most_rounds:
                measure_round(row, number)


def measure_round(row, number):
    """All variants once. Forwards in even rounds, backwards in odd ones, so that a drift favours none."""
    for variant in row.variants if number % 2 == 0 else reversed(row.variants):
        row.add(variant, row.measure(variant))
