# SPDX-License-Identifier: BSD-2-Clause
"""usage: html_dumps.py PICTURES PAGE

Looks at the page that `jespan html` made of the dumps of html_program.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from browser import Browser, check, equal, run_test, wait_for

MIB = 1 << 20
HOSTILE = "</template><script>alert(1)</script>"

# From a context's path with its labels to the figure of the column that is sorted by.
ROWS = """return Object.fromEntries([...document.querySelectorAll('#rows tr')].map(row => [
    [...row.cells[0].querySelectorAll('bdi:not(.place)')].map(text => text.textContent).join(' '),
    Number(row.cells[1].title)]).filter(([name]) => !/jespan|thread:/.test(name)))"""
MOVE = "const m = document.querySelector('#moment'); m.value = arguments[0]; m.dispatchEvent(new Event('input'))"
IN_USE = [  # of `request route=/one`, of its part, and of `request route=/two`, in each dump
    (1.5 * MIB, MIB, 0), (6 * MIB, 4 * MIB, 0), (3 * MIB, 2 * MIB, 12 * MIB)]


def rows(browser):
    return {name: value for name, value in browser.run(ROWS).items() if value}


PEAKS = {  # at the last dump: with all contexts below, and alone
    "request {route=/one}": (6 * MIB, 0), "request {route=/one} > part {key=a}": (4 * MIB, 4 * MIB),
    "request {route=/two}": (12 * MIB, 0)}


def check_peaks(browser):
    """Peaks stay when memory is freed, and are not added up."""
    shown = dict(browser.run("""const m = source.moments()[2];
        return m.contexts().map(c => [pathOf(c).map(titleOf).join(' > '), [m.total_of(c, PEAK), m.own_of(c, PEAK)]])"""))
    for name, peaks in PEAKS.items():
        equal(f"peaks of {name}", tuple(shown[name]), peaks)
    root = shown["(root)"][0]
    check(15 * MIB <= root < 15.5 * MIB, f"the peak of the root is {root}")
    first = browser.run("""const m = source.moments()[0];
        return m.total_of(m.contexts().find(c => titleOf(c) === 'request {route=/one}'), PEAK)""")
    equal("the peak at the first dump", first, 1.5 * MIB)


def check_moment(browser, one, part, two):
    found = browser.run("""return source.moments()[arguments[0]].contexts().map(c => [pathOf(c).map(titleOf).join(' > '),
        source.moments()[arguments[0]].total_of(c, IN_USE)])""", check_moment.at)
    found = dict(found)
    equal("/one", found["request {route=/one}"], one)
    equal("its part", found["request {route=/one} > part {key=a}"], part)
    equal("its other part", found["request {route=/one} > part {key=" + HOSTILE + "}"], one - part)
    equal("/two", found.get("request {route=/two}", 0), two)


def check_moments(browser):
    """Dumps are in the order of their times, and labels belong to the spans that have them."""
    equal("dumps", browser.run("return source.moments().map(m => m.title.replace(/.* · /, '').replace(/[0-9]+[.]1[.]/g, 'PID.'))"),
          ["heap.9.pb.gz", "heap.10.pb.gz", "heap.PID.pb.gz, time.PID.pb.gz"])
    for check_moment.at in (0, 2, 1):
        check_moment(browser, *IN_USE[check_moment.at])
        browser.run(MOVE, check_moment.at)
        equal("the first row", rows(browser)["request route=/one"], IN_USE[check_moment.at][0])


def check_difference(browser):
    browser.run(MOVE, 0)
    browser.click("#since")
    browser.run(MOVE, 1)
    equal("the change to the second dump", rows(browser)["request route=/one"], 4.5 * MIB)
    browser.run(MOVE, 2)
    equal("the change of /two", rows(browser)["request route=/two"], 12 * MIB)
    browser.click("#forget")


def check_views(browser, pictures):
    browser.click("input[value=flame]")
    equal("frames", sorted(browser.run("""return [...document.querySelectorAll('g.frame')].map(f => f.__data__.data.value)
        .filter(v => v >= 1048576 && v % 524288 === 0)""")), sorted([3 * MIB, 2 * MIB, MIB, 12 * MIB, 8 * MIB, 4 * MIB]))
    browser.check_picture(f"{pictures}/dumps.png", ["part"])
    browser.click("input[value=history]")
    equal("bands", browser.run("""return chart.bands.filter(b => b.name.startsWith('request'))
        .map(b => [b.name, b.values]).sort()"""),
        [["request {route=/one}", [m[0] for m in IN_USE]], ["request {route=/two}", [m[2] for m in IN_USE]]])
    browser.run("const f = document.querySelector('#figure'); f.value = '4'; f.dispatchEvent(new Event('change'))")
    browser.click("input[value=table]")
    equal("opened", browser.run("""const m = source.moments()[2];
        return m.own_of(m.contexts().find(c => titleOf(c) === 'request {route=/one}'), 4)"""), 3)


def test(pictures, page):
    with Browser(1200, 700) as browser:
        browser.open("file://" + page)
        wait_for("rows", lambda: len(browser.run(ROWS)) > 3)
        check_moments(browser)
        check_peaks(browser)
        check_difference(browser)
        check_views(browser, pictures)
        equal("scripts", browser.run("return document.scripts.length"), 1)
        check(not browser.has_dialog(), "there is a dialog")
        browser.check_no_errors()
        browser.check_requests("file://")


run_test(test)
