# SPDX-License-Identifier: BSD-2-Clause
"""usage: page.py PICTURES OPEN CLOSED TOKEN PPROF

Looks at a page_program at the address OPEN, at one at CLOSED that wants a token, and at a google/pprof that has a
profile of it.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from browser import Browser, Failed, check, equal, run_test, wait_for

HOSTILE = "<img src=x onerror=alert(1)>"
SPANS = {"request", "growing", "größe 漢字", HOSTILE}
REFRESH_S = 3

# A cell's title has the figure in full. Of the first cell only the name is of interest, which stands before labels.
ROWS = """return [...document.querySelectorAll('#rows tr')].map(row => [
    row.cells[0].firstChild.textContent, ...[...row.cells].slice(1).map(cell => Number(cell.title))])"""
HEAD = "return [...document.querySelectorAll('#head th')].map(cell => cell.innerText)"
BRIGHTNESS = """return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]].match(/[0-9.]+/g)
    .slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3"""


def rows(browser):
    return {row[0]: row[1:] for row in browser.run(ROWS)}


def check_names(browser):
    """All are shown as text, and nothing was made of what looks like HTML."""
    wait_for("the spans", lambda: SPANS <= set(rows(browser)))
    check("tenant=\"><script>alert(2)</script>" in browser.text(), "the label is missing")
    check("1,010 KiB" in browser.text(), "1008 KiB are not shown as 1,010 KiB")
    equal("images", browser.run("return document.images.length"), 0)
    equal("scripts", browser.run("return document.scripts.length"), 1)
    check(not browser.has_dialog(), "there is a dialog")


def check_narrow(browser):
    """Names keep room; what does not fit is to be scrolled to."""
    browser.devtools("Emulation.setDeviceMetricsOverride", width=500, height=400, deviceScaleFactor=2, mobile=False)
    heights = browser.run("return [...document.querySelectorAll('#rows td:first-child')].map(cell => cell.offsetHeight)")
    check(max(heights) < 3 * min(heights), f"the heights of rows are {heights}")
    browser.devtools("Emulation.clearDeviceMetricsOverride")


def figures(browser):
    return rows(browser)["growing"]


def check_refresh(browser):
    """Figures follow the program; where it pauses they stay."""
    before = figures(browser)
    wait_for("other figures", lambda: figures(browser) != before)
    browser.click("#pause")
    before = figures(browser)
    try:
        wait_for("", lambda: figures(browser) != before, REFRESH_S + 1)
    except Failed:
        browser.click("#pause")
        wait_for("other figures", lambda: figures(browser) != before)
    else:
        raise Failed("a page that pauses goes on")


def check_order(browser):
    """A click on each column puts the rows in the order of its figures."""
    browser.click("#tree")
    columns = len(browser.run(HEAD))
    for column in range(1, columns):
        browser.click(f"#head th:nth-child({column + 1})")
        ordered = [row[column] for row in browser.run(ROWS)]
        equal(f"column {column}", ordered, sorted(ordered, reverse=True))
    browser.click("#head th:nth-child(1)")
    names = [row[0] for row in browser.run(ROWS) if row[0] in ("growing", "request")]
    equal("names", names, ["growing", "request"])
    browser.click("#tree")


def check_pictures(browser, pictures):
    """The page can be read, also where the user likes it dark."""
    words = ["growing", "request", "onerror=alert(1)", "1,010 KiB"]
    browser.check_picture(f"{pictures}/page.png", words)
    check(browser.run(BRIGHTNESS, "th", "backgroundColor") > 200, "the page is not light")
    browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    check(browser.run(BRIGHTNESS, "th", "backgroundColor") < 80, "the page is not dark")
    browser.check_picture(f"{pictures}/dark.png", words)


def check_page(browser, pictures, address):
    browser.open(address)
    check_names(browser)
    check_order(browser)
    check_narrow(browser)
    check_pictures(browser, pictures)
    check_refresh(browser)
    browser.check_no_errors()
    browser.check_requests(address + "/")


def check_token(browser, address, token):
    """The page asks for the token, and then shows the spans."""
    browser.open(address)
    wait_for("a question", lambda: "Token" in browser.text())
    check("growing" not in browser.text(), "spans are shown to anyone")
    browser.type("#token", token + "\n")
    check_names(browser)
    check(token not in browser.run("return document.documentElement.outerHTML"), "the token is shown")


def check_flame_graph(browser, pictures, address):
    browser.open(address + "/ui/flamegraph?si=inuse_space")
    wait_for("a flame graph", lambda: all(name in browser.text() for name in SPANS))
    browser.check_picture(f"{pictures}/flame_graph.png", ["growing", "request"])
    check(not browser.has_dialog(), "there is a dialog")


def test(pictures, address, closed, token, pprof):
    with Browser(1200, 400) as browser:
        check_page(browser, pictures, address)
        check_token(browser, closed, token)
        check_flame_graph(browser, pictures, pprof)


run_test(test)
