# SPDX-License-Identifier: BSD-2-Clause
"""usage: page.py PICTURES OPEN STACKS SIDECAR CLOSED TOKEN PPROF

Looks at a page_program at the address OPEN, at one at STACKS that takes stacks, at two of a SIDECAR, at one at CLOSED that wants a
token, and at a google/pprof that has a profile of it.
"""
import base64
import json
import os
import pathlib
import signal
import sys
import urllib.request
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from browser import Browser, Failed, check, equal, run_test, serve, wait_for

MIB = 1 << 20
HOSTILE = "<img src=x onerror=alert(1)>"
SPANS = {"request", "growing", "größe 漢字", HOSTILE}
REFRESH_S = 3

# A cell's title has the figure in full. Of the first cell only the name is of interest, which stands before labels.
ROWS = """return [...document.querySelectorAll('#rows tr')].map(row => [
    row.querySelector('bdi').textContent, ...[...row.cells].slice(1).map(cell => Number(cell.title))])"""
HEAD = "return [...document.querySelectorAll('#head th')].map(cell => cell.hidden ? '' : cell.innerText)"
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


def check_peaks(browser):
    """What was freed shows in the peak. A peak is no figure of pictures, so sorting by it does not choose it."""
    column = browser.run(HEAD).index("peak") - 1
    shown = rows(browser)
    for name, peak in (("größe 漢字", 4 * MIB), (HOSTILE, 3 * MIB)):
        equal(f"the peak of {name}", shown[name][column], peak)
        check(shown[name][column] >= shown[name][0], f"{name} has more than its peak")
    check(shown["(root)"][column] >= max(7 * MIB, shown["request"][column]), "the peak of the root is too low")
    chosen = "return document.querySelector('#figure').value"
    before = browser.run(chosen)
    browser.click(f"#head th:nth-child({column + 2})")
    equal("the figure of pictures", browser.run(chosen), before)
    browser.click("#head th:nth-child(2)")


def check_narrow(browser):
    """On a telephone names keep room. The table can be scrolled; the page is not wider than the screen."""
    browser.devtools("Emulation.setDeviceMetricsOverride", width=390, height=700, deviceScaleFactor=2, mobile=True)
    for view in ("flame", "history", "threads", "rss", "limits", "table"):
        browser.click(f"input[value={view}]")
        wait_for(f"the {view}", lambda: view not in ("threads", "rss") or facts(browser))
        equal(f"the width of the {view}", browser.run("return document.documentElement.scrollWidth"), 390)
    width = browser.run("return document.querySelector('#rows td').clientWidth")
    check(width > 120, f"names have {width} pixels")
    browser.devtools("Emulation.clearDeviceMetricsOverride")


# Frames of the picture: what a context has, in full, and how wide its frame is.
FRAMES = """return [...document.querySelectorAll('g.frame')].map(frame => [
    frame.__data__.data.context.name, frame.__data__.data.value, Number(frame.querySelector('rect').getAttribute('width'))])"""
PRESS = """document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}));
    return document.activeElement.getAttribute('aria-label')"""


def frames(browser):
    return {name: (value, width) for name, value, width in browser.run(FRAMES)}


# Answers of /spans in which contexts allocate so many bytes; in the second one a context was recycled, from the third one was left out.
MODEL = """const zero = Object.fromEntries(FIGURES.map(made => [made.name, 0])), contexts = new Contexts(), allocated = 3;
const figures = bytes => ({...zero, alloc_bytes: bytes});
const answer = (time, retired, left_out, spans) => momentOf({time, left_out, retired: figures(retired),
    spans: spans.map(([id, parent, name, own, total]) => ({id, parent, name, kind: parent ? 'span' : 'root', target: '', file: '',
        line: 0, labels: {}, ...figures(own), total: figures(total)}))}, contexts);
const first = answer(1, 0, 0, [[1, 0, '(root)', 0, 1500], [2, 1, 'old', 1000, 1000], [3, 1, 'work', 500, 500]]);
const second = answer(2, 1000, 0, [[1, 0, '(root)', 0, 900], [3, 1, 'work', 900, 900]]);
const third = answer(3, 1000, 1, [[1, 0, '(root)', 0, 1000], [3, 1, 'work', 900, 900]]);
const root = first.contexts().find(context => !context.parent);
const changes = (to, from) => Object.fromEntries(difference(to, from).contexts().map(context =>
    [context.name, difference(to, from).total_of(context, allocated)]));
return [changes(second, first), second.total_of(root, allocated), changes(third, second), third.isPart, third.own_of(root, allocated),
    Chart.rates([first, second, third], allocated, seriesOf([first, second, third], allocated, null).all)]"""


def check_model(browser):
    """What was recycled, and what the service leaves out, is no change."""
    grown, whole, to_part, is_part, rest, rates = browser.run(MODEL)
    equal("growth", grown, {"(root)": 400, "old": 0, "work": 400})
    equal("with what was recycled", whole, 1900)
    equal("growth to a part", (to_part["work"], to_part["(root)"], is_part), (0, 100, True))
    equal("what was recycled and left out", rest, 1100)
    equal("rates", rates, [0, 400, 100])


def check_tree(browser):
    """A context can be collapsed, and a search shows what it finds with the contexts above it."""
    browser.click("#pause")
    browser.click("#head th:nth-child(2)")
    check(browser.run("return document.body.innerText.includes('100 %')"), "the root has no share")
    browser.run("[...document.querySelectorAll('#rows tr')].find(row => row.innerText.includes('request')).querySelector('button').click()")
    check("growing" not in rows(browser), "what is collapsed is shown")
    browser.type("#search", "TENANT=")
    equal("found", list(rows(browser)), ["(root)", "request", "growing"])
    check("1 spans, " in browser.run("return document.querySelector('#found').textContent"), "nothing says what was found")
    browser.run("const s = document.querySelector('#search'); s.value = ''; s.dispatchEvent(new Event('input'))")
    browser.click("#fold")  # expands all
    check(SPANS <= set(rows(browser)), "what is expanded is not shown")
    total = rows(browser)["request"][0]
    browser.click("#own")
    check(rows(browser)["request"][0] < total == rows(browser)["growing"][0], "own figures are wrong")
    browser.click("#own")


def check_flame(browser, pictures):
    """Each frame has the figure of the table, and the width that belongs to it; the keyboard zooms."""
    figures = {name: row[0] for name, row in rows(browser).items() if row[0]}
    for view in ("flame", "icicle"):
        browser.click(f"input[value={view}]")
        shown = frames(browser)
        equal(f"figures of the {view}", {name: value for name, (value, _) in shown.items()}, figures)
        whole = shown["(root)"]
        for name, (value, width) in shown.items():
            check(abs(width / whole[1] - value / whole[0]) < 0.002, f"{name} is {width} of {whole[1]} wide")
        browser.check_picture(f"{pictures}/{view}.png", ["growing", "request"])
    browser.run("document.querySelector('g.frame[tabindex=\"0\"]').focus()")
    check("(root): " in browser.run(PRESS, "Tab"), "the root does not have the focus")
    browser.run(PRESS, "ArrowUp")
    label = browser.run(PRESS, "ArrowDown")
    check(label.startswith("request {route=/a/b?c=d}: "), f"an arrow key leads to {label}")
    browser.run(PRESS, "Enter")
    wait_for("the zoom", lambda: abs(frames(browser)["request"][1] - frames(browser)["(root)"][1]) < 1)
    browser.run(PRESS, "Escape")
    wait_for("the whole", lambda: frames(browser)["request"][1] < 0.9 * frames(browser)["(root)"][1])


def ask(address, path):
    with urllib.request.urlopen(f"{address}/{path}") as answer:
        return json.load(answer)


MOMENTS = """return source.moments().map(moment => [moment.time, Boolean(moment.sampled),
    Object.fromEntries(moment.contexts().map(at => [at.name, FIGURES.map((_, f) => moment.total_of(at, f))]))])"""


def sampled(history):
    """From the time of each sample to the figures of its contexts, by name."""
    names = {context["number"]: context["name"] for context in history["contexts"]}
    return {sample["time"]: {names[number]: values for number, *values in sample["totals"]} for sample in history["samples"]}


def check_limits(browser, pictures, address):
    """What limits refused is in the view of limits, and an event in the history. The chart has the limit of what it shows."""
    browser.click("input[value=limits]")
    told = {limit["name"]: limit for limit in ask(address, "limits")["limits"]}
    shown = dict(browser.run("""return [...document.querySelectorAll('#facts-rows tr')].map(row => [
        row.cells[0].textContent, [...row.cells].slice(1).map(cell => Number(cell.title))])"""))
    equal("limits", {name.split(" > ")[-1].split(" {")[0]: figures[3] for name, figures in shown.items()},
          {name: limit["hard_bytes"] for name, limit in told.items()})
    equal("the limit of request", shown["request {route=/a/b?c=d}"][3], 40 * MIB)
    equal("what request has", shown["request {route=/a/b?c=d}"][0], browser.run(MOMENTS)[-1][2]["request"][0])
    check(0 < shown["bounded"][4] <= told["bounded"]["refusals"], "nothing was refused")
    browser.check_picture(f"{pictures}/limits.png", ["bounded", "40.0 MiB"])
    browser.click("input[value=arenas]")
    check("There are no span arenas." in browser.text(), "nothing says that there are no arenas")
    browser.click("input[value=history]")
    events = browser.run("return [...document.querySelectorAll('#events button')].map(event => event.textContent)")
    check(events and all("refused" in event for event in events), f"the events are {events}")
    sums = {f"{event['count']:,}" for sample in ask(address, "history")["samples"] for event in sample["events"]}
    check(all(event.split()[-2] in sums for event in events), f"{events} are not {sums}")
    browser.click("#events li:last-child button")
    check("(now)" not in browser.run("return document.querySelector('#when').textContent"), "an event does not lead to its moment")
    check("limit" not in browser.run("return document.querySelector('.u-legend').textContent"), "the root has a limit")
    browser.run("""chosen = null; focus = source.moments().at(-1).contexts().find(context => context.name === 'request'); draw()""")
    check("hard limit" in browser.run("return document.querySelector('.u-legend').textContent"), "the limit is not in the chart")
    browser.check_picture(f"{pictures}/limit.png", ["growing", "refused"])
    browser.run("focus = null; draw()")
    browser.click("input[value=table]")


def check_no_calls(browser):
    """Where no stacks are taken, there is no column that needs them, and the page says how to take them."""
    check("temporary" not in browser.run(HEAD), "a column has figures that are not counted")
    browser.click("#calls")
    wait_for("the switch", lambda: "The program takes no stacks" in browser.text())
    check(f" {browser.run('return source.process').split()[-1]} stacks sampled" in browser.text(), "nothing says how stacks are taken")
    browser.click("#calls")
    check("takes no stacks" not in browser.text(), "the hint stays")


def check_calls(browser, pictures, address):
    """Calls are below their spans, in all pictures. They are those of the answer, and what is in use is the same as without them."""
    browser.open(address)
    wait_for("the spans", lambda: SPANS <= set(rows(browser)))
    check("temporary" in browser.run(HEAD), "a column is missing")
    browser.click("#calls")
    wait_for("the calls", lambda: any(name.startswith("page_program+0x") for name in rows(browser)))
    check("Calls have no names here" in browser.text(), "nothing says where calls have names")
    browser.click("#pause")
    shown = browser.run("""const moment = source.moments().at(-1); return moment.contexts().map(at =>
        [pathOf(at).map(titleOf).join(" > "), at.kind, moment.own_of(at, 0), moment.total_of(at, 0)])""")
    told = {span["id"]: span for span in ask(address, "stacks")["spans"]}
    equal("calls and spans", {path.split(" > ")[-1].split(" {")[0] for path, *_ in shown} - {span["name"] for span in told.values()}, set())
    equal("what all have", sum(own for _, _, own, _ in shown), next(total for _, kind, _, total in shown if kind == "root"))
    below = {path.split(" > ")[-2] for path, kind, own, _ in shown if kind == "stack" and path.startswith("größe")}
    check(len(below) > 1, f"größe has no calls: {shown}")
    check(all(own == 0 for path, kind, own, _ in shown if path == "größe 漢字"), "what calls have counts for the span too")
    browser.type("#search", "page_program+0x")
    check("spans, " in browser.run("return document.querySelector('#found').textContent"), "calls are not found")
    browser.click("input[value=icicle]")
    drawn = browser.run("return [...document.querySelectorAll('g.frame')].map(frame => frame.__data__.data.context.kind)")
    check(drawn.count("stack") > 5 and drawn.count("root") == 1, f"the icicle has {drawn}")
    browser.check_picture(f"{pictures}/calls.png", ["page_program", "growing"])


CALLS = """const moment = source.moments().at(-1); return moment.contexts().filter(at => at.kind === 'stack').map(at =>
    [at.name, at.place, moment.total_of(at, 0)])"""


def check_named_calls(browser, pictures, address):
    """A sidecar names calls, soon. They keep their names, and moments without names do not stay."""
    browser.open(address)
    wait_for("the spans", lambda: SPANS <= set(rows(browser)))
    browser.click("#calls")
    wait_for("the names", lambda: browser.run("return source.names") == "all" and "grow" in rows(browser))
    check("Calls have no names here" not in browser.text(), "calls have names, and the page says that they have none")
    calls = {name: (place, value) for name, place, value in browser.run(CALLS)}
    check(calls["grow"][0].startswith("page_program.c:") and calls["grow"][1] > 10 * MIB, f"grow is {calls['grow']}")
    check(f"grow {calls['grow'][0]}" in " ".join(browser.text().split()), "the line of a call is not shown")
    check("page_program+0x" not in browser.text(), "a call has no name")
    wait_for("another moment", lambda: browser.run("return source.moments().length") > 1)
    equal("moments without names", browser.run("return source.moments().filter(moment => moment.lacksNames).length"), 0)
    for view in ("flame", "icicle", "table"):
        browser.click(f"input[value={view}]")
        browser.check_picture(f"{pictures}/named_{view}.png", ["main", "request"])


def check_views(browser, pictures, address):
    """Threads, resident memory and calls can be read on a telephone and in the dark."""
    views = (("threads", "#facts td", ["thread", "page_program"]), ("rss", "#waterfall td", ["objects in use", "bytes"]),
             ("table", "#rows td", ["main", "request"]))
    for name, options in (("dark", {"width": 1200, "height": 700, "deviceScaleFactor": 2, "mobile": False}),
                          ("narrow", {"width": 390, "height": 700, "deviceScaleFactor": 2, "mobile": True})):
        browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}] if name == "dark" else [])
        browser.devtools("Emulation.setDeviceMetricsOverride", **options)
        for view, cell, words in views:
            browser.click(f"input[value={view}]")
            wait_for(view, lambda: view == "table" and "grow" in rows(browser) or facts(browser))
            bright = browser.run(BRIGHTNESS, cell, "color"), browser.run(BRIGHTNESS, "#head th", "backgroundColor")
            check(bright[0] > 150 > 80 > bright[1] if name == "dark" else bright[0] < 80, f"{view}: the brightness is {bright}")
            wide = browser.run("return document.documentElement.scrollWidth")
            check(wide <= options["width"], f"{view}, {name}: the page is {wide} pixels wide")
            browser.check_picture(f"{pictures}/{view}_{name}.png", words)
    browser.devtools("Emulation.clearDeviceMetricsOverride")


STATE = "return document.querySelector('#state').textContent"


def check_ends(browser, address):
    """The page says that the process that is shown has ended, and that all have, and keeps its history."""
    pids = [process["pid"] for process in ask(address, "processes")["processes"]]
    browser.open(address)
    wait_for("the menu", lambda: browser.run("return document.querySelectorAll('#pid option').length") == 2)
    choose = "const menu = document.querySelector('#pid'); menu.value = arguments[0]; menu.dispatchEvent(new Event('change'))"
    for pid in (pids[1], pids[0]):
        browser.run(choose, str(pid))
        wait_for("the process", lambda: browser.run("return source.shown?.pid") == pid and SPANS <= set(rows(browser)))
        wait_for("a moment", lambda: browser.run("return source.moments().filter(moment => !moment.sampled).length") > 1)
        os.kill(pid, signal.SIGKILL)
        wait_for("the end", lambda: f"page_program ({pid}) has ended" in browser.run(STATE))
        check(SPANS <= set(rows(browser)) and browser.run("return source.moments().length") > 1, "the history is gone")
        if pid == pids[1]:
            equal("the menu", browser.run("return document.querySelector('#pid').selectedOptions[0].textContent"), f"page_program ({pid}) has ended")
            browser.click("input[value=threads]")
            wait_for("the end of threads", lambda: browser.text().count(f"page_program ({pid}) has ended. Its last figures") == 2)
            browser.click("input[value=table]")
    wait_for("nobody", lambda: "Nobody answers here any more" in browser.run(STATE))
    check("Failed to fetch" not in browser.text(), "the page does not say it in plain words")
    browser.click("input[value=flame]")
    check("growing" in frames(browser), "a picture of the last moment is missing")


FACT_ROWS = """return [...document.querySelectorAll('#facts-rows tr')].map(row => [...row.cells].map(cell => cell.title))"""


def facts(browser):
    """The rows of the table of a view that shows no tree, with all figures in full; none while it is hidden."""
    return [] if browser.run("return document.querySelector('#facts').hidden") else browser.run(FACT_ROWS)


def check_threads(browser, pictures, address):
    """Each thread has the figures of the answer. Each column sorts, and its button keeps the focus."""
    browser.click("input[value=threads]")
    wait_for("the threads", lambda: facts(browser) and browser.run("return source.readings.threads !== Infinity"))
    told = browser.run("return source.facts.threads.threads")
    expected = [[t["name"] + (f" {t['id']}" if t["id"] else ""), t["context"] or ("(ended)" if t["id"] else ""), t["alloc_bytes"], t["free_bytes"],
                 t["freed_by_others_bytes"][1], t["inuse_bytes"][1], t["busy_ns"], t["cpu_ns"]] for t in told]
    shown = [row[:2] + [int(figure) for figure in row[2:]] for row in facts(browser)]
    equal("threads", shown, expected)
    first = next(t for t in ask(address, "threads")["threads"] if t["name"] == "page_program")
    row = next(row for row in shown if row[0] == f"page_program {first['id']}")
    check(10 * MIB < row[2] <= first["alloc_bytes"] and row[6] <= first["busy_ns"], f"{row} has more than {first} later")
    for column in range(len(expected[0])):
        browser.click(f"#facts-head th:nth-child({column + 1}) button")
        values = [row[column] if column < 2 else int(row[column]) for row in facts(browser)]
        if column > 1:
            equal(f"the order of column {column}", values, sorted(values, reverse=True))
        else:
            equal(f"what column {column} has", sorted(values), sorted(row[column] for row in expected))
        equal("the column that sorts", browser.run("return [...document.querySelectorAll('#facts-head th[aria-sort]')].map(th => th.cellIndex)"), [column])
    browser.check_picture(f"{pictures}/threads.png", ["program", "allocated"])
    browser.click("#pause")
    browser.run("document.querySelector('#facts-head button').focus()")
    before = browser.run("return JSON.stringify(source.facts.threads)")
    wait_for("other figures", lambda: browser.run("return JSON.stringify(source.facts.threads)") != before)
    equal("the focus", browser.run("return document.activeElement.textContent"), "thread")
    browser.click("#pause")


BARS = """return [...document.querySelectorAll('#parts tr')].map(row => [row.cells[0].textContent, Number(row.cells[1].title),
    ...row.cells[3].style.backgroundImage.match(/[0-9.]+(?=%)/g).map(Number)])"""


def check_resident(browser, pictures, address):
    """The bars of the parts follow each other and add up to the kernel's resident memory. Each span has the figures of the answer."""
    browser.click("input[value=rss]")
    wait_for("the parts", lambda: facts(browser) and browser.run("return source.readings.rss !== Infinity"))
    told = browser.run("return source.facts.rss")
    *parts, whole = browser.run(BARS)
    equal("parts", {text: value for text, value, *_ in parts},
          {told["meanings"][name]: value for name, value in told["parts"].items() if value})
    equal("the whole", whole[1], told["rss_bytes"])
    check(abs(sum(part[1] for part in parts) - whole[1]) <= 4096, f"{parts} are not {whole}")
    resident = ask(address, "spans?limit=0")["resident_bytes"]
    check(abs(whole[1] - resident) < 0.2 * resident, f"{whole[1]} is not the {resident} of the kernel")
    at = 0
    for text, value, start, _, end, _ in parts:
        check(abs(start - at) < 0.01 and abs(end - start - 100 * value / whole[1]) < 0.01, f"the bar of {text} is from {start} to {end}")
        at = end
    equal("the bar of the whole", whole[2::2], [0, 100])
    equal("spans", {row[0]: [int(figure) for figure in row[1:]] for row in facts(browser)},
          {c["context"]: [c[f"{name}_bytes"] for name in ("inuse", "resident", "pinned", "pinned_alone")] for c in told["contexts"]})
    growing = next(row for row in facts(browser) if row[0].startswith("request > growing {"))
    check(int(growing[1]) > 10 * MIB, "growing has too little")
    check(not browser.has_dialog(), "there is a dialog")
    browser.check_picture(f"{pictures}/rss.png", ["objects in use", "growing"])
    browser.click("input[value=table]")


def check_past(browser, address, before):
    """The page begins with what the service has sampled, and fills a pause with it."""
    shown = {time: figures for time, is_part, figures in browser.run(MOMENTS) if is_part}
    check(len(shown) > 1, "the page does not begin with what was sampled")
    for time in set(sampled(before)) & set(shown):
        figures = sampled(before)[time]
        equal(f"what is shown of {time}", {name: values[:9] for name, values in shown[time].items()}, figures)
    browser.click("#pause")
    last = browser.run("return source.moments().at(-1).time")
    later = wait_for("two samples", lambda: (got := ask(address, f"history?since={last + 1}"))["samples"][2:] and got)
    missing = set(list(sampled(later))[:2])
    browser.click("#pause")
    wait_for("these samples", lambda: missing <= {time for time, is_part, _ in browser.run(MOMENTS) if is_part})
    browser.run("const m = document.querySelector('#moment'); m.value = 0; m.dispatchEvent(new Event('input'))")
    browser.click("#since")
    browser.click("#pause")
    change = browser.run(MOMENTS)[-1][2]["growing"], sampled(before)[min(sampled(before))].get("growing", 9 * [0])
    equal("the change", figures_of(browser, "opened"), change[0][4] - change[1][4])
    browser.click("#pause")
    browser.click("#forget")


def figures_of(browser, title):
    return figures(browser)[browser.run(HEAD).index(title) - 1]


def check_history(browser, pictures):
    """The sum of all bands is what is in use; an earlier moment can be chosen, and what changed since."""
    browser.click("#pause")
    browser.click("input[value=table]")
    wait_for("three moments", lambda: browser.run("return Number(document.querySelector('#moment').max) >= 2"))
    browser.click("#pause")
    browser.run("""const m = document.querySelector('#moment'); m.value = source.moments().findIndex(moment => !moment.sampled);
        m.dispatchEvent(new Event('input'))""")
    before = figures(browser)
    browser.click("#since")
    change = figures(browser)
    browser.click("#forget")
    equal("the change", change, [now - then for now, then in zip(figures(browser), before)])
    opened = browser.run(HEAD).index("opened") - 1
    check(change[opened] > 0, "nothing was opened meanwhile")
    browser.click("input[value=history]")
    equal("the sum of all bands",
          browser.run("return chart.bands.reduce((sum, band) => sum + band.values.at(-1), 0)"),
          browser.run("return source.moments().at(-1).total[0]"))
    browser.check_picture(f"{pictures}/history.png", ["request", "resident"])
    browser.click("input[value=table]")
    browser.click("#pause")


SVG = "{http://www.w3.org/2000/svg}"


def check_downloads(browser, pictures):
    """The picture as a file has the frames of the page; pprof's profile is written for page.sh, with what it should have."""
    browser.click("#pause")
    for view in ("flame", "icicle"):
        browser.click(f"input[value={view}]")
        svg = browser.run("return pictureSvg()")
        pathlib.Path(f"{pictures}/{view}.svg").write_text(svg, encoding="utf-8")
        drawn = {group.find(SVG + "title").text: float(group.find(SVG + "rect").get("width"))
                 for group in xml.etree.ElementTree.fromstring(svg).iter(SVG + "g")}
        shown = browser.run("""return [...document.querySelectorAll('g.frame')].map(frame =>
            [frame.getAttribute('aria-label'), Number(frame.querySelector('rect').getAttribute('width'))])""")
        equal(f"frames of the file of the {view}", set(drawn), {label for label, _ in shown})
        whole, whole_drawn = max(width for _, width in shown), max(drawn.values())
        for label, width in shown:
            check(abs(width / whole - drawn[label] / whole_drawn) < 0.002, f"{label} is {drawn[label]} wide in the file")
    browser.click("input[value=history]")
    svg = browser.run("return pictureSvg()")
    pathlib.Path(f"{pictures}/history.svg").write_text(svg, encoding="utf-8")
    equal("bands of the file", [group.find(SVG + "title").text for group in xml.etree.ElementTree.fromstring(svg).iter(SVG + "g")],
          browser.run("return chart.bands.map(band => band.name)"))
    profile = browser.run("""return btoa(String.fromCharCode(...pprofBytes(source.moments().at(-1), figure, () => true)))""")
    pathlib.Path(f"{pictures}/page.pb").write_bytes(base64.b64decode(profile))
    own = browser.run("""const moment = source.moments().at(-1);
        return moment.contexts().map(context => [context.name, moment.own_of(context, 0)]).filter(line => line[1])""")
    pathlib.Path(f"{pictures}/page.expected").write_text("".join(f"{value}B {name}\n" for name, value in own if "<" not in name), encoding="utf-8")
    browser.click("input[value=table]")
    for link, suffix in (("folded", "folded"), ("csv", "csv"), ("pprof", "pb")):
        browser.click(f"#{link}")
        equal("the file", browser.run("return document.getElementById(arguments[0]).download", link), f"page_program.{suffix}")
    check(browser.run("return document.querySelector('#svg').hidden"), "there is a picture of the table")
    browser.click("#pause")


def check_files(browser, pictures):
    """The pictures open alone."""
    address = serve(pictures)
    for name, words in (("flame", ["growing", "request"]), ("history", ["request", "MiB"])):
        browser.open(f"{address}/{name}.svg")
        browser.check_picture(f"{pictures}/{name}_file.png", words)


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
    for column, title in enumerate(browser.run(HEAD)):
        if column == 0 or not title:
            continue
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
    check(browser.run(BRIGHTNESS, "#head th", "backgroundColor") > 200, "the page is not light")
    browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    check(browser.run(BRIGHTNESS, "#head th", "backgroundColor") < 80, "the page is not dark")
    browser.check_picture(f"{pictures}/dark.png", words)


def check_page(browser, pictures, address):
    before = wait_for("three samples", lambda: (got := ask(address, "history"))["samples"][2:] and got)
    browser.open(address)
    check_names(browser)
    check_model(browser)
    check_past(browser, address, before)
    check_peaks(browser)
    check_order(browser)
    check_narrow(browser)
    check_pictures(browser, pictures)
    browser.devtools("Emulation.setEmulatedMedia", features=[])
    check_refresh(browser)
    check_tree(browser)
    check_no_calls(browser)
    check_limits(browser, pictures, address)
    check_threads(browser, pictures, address)
    check_resident(browser, pictures, address)
    check_flame(browser, pictures)
    check_history(browser, pictures)
    check_downloads(browser, pictures)
    browser.check_no_errors()
    browser.check_requests(address + "/")
    check_files(browser, pictures)


def check_token(browser, address, token):
    """The page asks for the token, and then shows the spans."""
    browser.open(address)
    wait_for("a question", lambda: "Token" in browser.text())
    check("growing" not in browser.text(), "spans are shown to anyone")
    browser.type("#token", token + "\n")
    check_names(browser)
    check(token not in browser.run("return document.documentElement.outerHTML"), "the token is shown")


def check_switch(browser):
    """With a token, the page has the program take stacks, and take no more."""
    browser.click("#calls")
    wait_for("the switch", lambda: "Take them, for all that it allocates from now on" in browser.text())
    check("jespan ctl" not in browser.text(), "the page says how to switch by a command, and has a switch")
    browser.click("#take-all")
    wait_for("calls", lambda: any(name.startswith("page_program+0x") for name in rows(browser)))
    check("The program takes stacks: all." in " ".join(browser.text().split()), "the mode is not shown")
    browser.click("#take-none")
    wait_for("no stacks", lambda: "The program takes no stacks" in browser.text())
    browser.click("#take-sampled")
    wait_for("samples", lambda: "The program takes stacks: sampled." in " ".join(browser.text().split()))


def check_flame_graph(browser, pictures, address):
    browser.open(address + "/ui/flamegraph?si=inuse_space")
    wait_for("a flame graph", lambda: all(name in browser.text() for name in SPANS))
    browser.check_picture(f"{pictures}/flame_graph.png", ["growing", "request"])
    check(not browser.has_dialog(), "there is a dialog")


def test(pictures, address, stacks, sidecar, closed, token, pprof):
    with Browser(1200, 700) as browser:
        check_page(browser, pictures, address)
        check_calls(browser, pictures, stacks)
        check_named_calls(browser, pictures, sidecar)
        check_views(browser, pictures, sidecar)
        check_ends(browser, sidecar)
        check_token(browser, closed, token)
        check_switch(browser)
    with Browser(1200, 400) as browser:
        check_flame_graph(browser, pictures, pprof)


run_test(test)
