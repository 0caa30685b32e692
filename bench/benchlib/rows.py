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

# Variants: without jespan, with it, and with it inside an open span.
PLAIN, JESPAN, SPAN = "plain", "jespan", "in span"
# Ratio, bytes or nanoseconds above which a row is marked; from the prototype's figures in the design.
EXPECTED = {"pair": 2.0, "churn": 1.4, "cold": 1.1, "enter+exit": 30, "rss": 8}


@dataclasses.dataclass
class Row:
    """One line of the result. `measure` takes a variant and returns its figure."""

    name: str
    kind: str
    unit: str
    help: str
    variants: list
    measure: typing.Callable
    most_rounds: int = 1000
    samples: dict = dataclasses.field(default_factory=dict)

    @property
    def expected(self):
        return EXPECTED.get(self.name.split("-")[0] if self.kind == "memory" else self.name)

    def best(self, variant):
        return min(self.samples[variant])

    def median(self, variant):
        return statistics.median(self.samples[variant])

    def ratios(self, variant):
        """To plain, round by round."""
        return [mine / plain for mine, plain in zip(self.samples[variant], self.samples[PLAIN], strict=True)]

    def extra(self, variant):
        """What is added to plain, round by round; the median."""
        pairs = zip(self.samples[variant], self.samples[PLAIN], strict=True)
        return statistics.median(mine - plain for mine, plain in pairs)


UNITS = {"time": "ns", "span": "ns", "memory": "B"}
VARIANTS = {"time": [PLAIN, JESPAN, SPAN], "span": [JESPAN], "memory": [PLAIN, JESPAN]}
# Memory figures hardly vary.
MEMORY_ROUNDS = 3


def workload_rows(program, libraries, milliseconds, memory_rounds=MEMORY_ROUNDS):
    """A row for each workload that the program knows."""

    def measure(name):
        def figure(variant):
            inside = ["--span"] if variant == SPAN else []
            return target.run_workload(program, libraries[variant], [name, "--ms", milliseconds, *inside])["value"]

        return figure

    for name, kind, text in target.list_workloads(program):
        rounds = memory_rounds if kind == "memory" else Row.most_rounds
        yield Row(name, kind, UNITS[kind], text, VARIANTS[kind], measure(name), rounds)


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
        row.samples.setdefault(variant, []).append(row.measure(variant))
