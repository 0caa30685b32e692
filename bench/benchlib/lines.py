# SPDX-License-Identifier: BSD-2-Clause
"""Draws series of points as lines, as a complete SVG file."""

from . import svg

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 360, 60, 20, 60, 50
STEPS = [m * 10**e for e in range(-2, 7) for m in (1, 2, 5)]
MARKS = 8


def marks(most):
    step = next(s for s in STEPS if most / s <= MARKS)
    return [step * i for i in range(int(most / step) + 1)]


def axes(most_x, most_y, place_x, place_y, unit_x, unit_y):
    bottom = place_y(0)
    for mark in marks(most_y):
        y = place_y(mark)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>'
        yield svg.text(LEFT - 6, y + 4, f"{mark:g}", "end")
    for mark in marks(most_x):
        yield svg.text(place_x(mark), bottom + 16, f"{mark:g}", "middle")
    yield f'<line x1="{LEFT}" y1="{bottom:.1f}" x2="{WIDTH - RIGHT}" y2="{bottom:.1f}" stroke="#444"/>'
    yield svg.text((LEFT + WIDTH - RIGHT) / 2, bottom + 36, unit_x, "middle")
    yield svg.text(8, TOP - 8, unit_y)


def legend(names):
    for i, name in enumerate(names):
        x = LEFT + i * ((WIDTH - LEFT) // max(len(names), 1))
        yield f'<rect x="{x}" y="{svg.TITLE}" width="10" height="10" fill="{svg.COLOURS[2 * i]}"/>'
        yield svg.text(x + 14, svg.TITLE + 9, name)


def render(title, series, unit_x, unit_y):
    """The chart as text. `series`: lists of pairs by name, at most five."""
    most_x = max(x for points in series.values() for x, _ in points)
    most_y = max(y for points in series.values() for _, y in points) * 1.05

    def place_x(x):
        return LEFT + (WIDTH - LEFT - RIGHT) * x / most_x

    def place_y(y):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / most_y

    lines = []
    for i, points in enumerate(series.values()):
        path = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{svg.COLOURS[2 * i]}" stroke-width="1.5"/>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">'
    )
    under = ['<rect width="100%" height="100%" fill="white"/>', svg.text(LEFT, 16, title, kind="title")]
    under += [*legend(series), *axes(most_x, most_y, place_x, place_y, unit_x, unit_y)]
    return "\n".join([head, f"<style>{svg.STYLE}</style>", *under, *lines, "</svg>"]) + "\n"
