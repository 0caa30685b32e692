# SPDX-License-Identifier: BSD-2-Clause
"""usage: speedscope.py SITE FIGURES

SITE is a directory with speedscope and heap.pb.gz; FIGURES has what a program said of itself when it wrote that.
"""
import gzip
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from browser import PATIENCE_S, Browser, Failed, check, run_test, serve, wait_for

SPANS = ["handle", "parse"]


def read_varint(data, at):
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1


def without_functions(profile):
    """The same profile, without its messages of the kind Function, which have the names."""
    kept, at = [], 0
    while at < len(profile):
        start = at
        tag, at = read_varint(profile, at)
        value, at = read_varint(profile, at)
        if tag & 7 == 2:
            at += value
        if tag >> 3 != 5:
            kept.append(profile[start:at])
    return b"".join(kept)


def show(browser, address, name, view):
    browser.open("about:blank")  # another fragment alone loads nothing
    browser.open(f"{address}/index.html#profileURL={name}.pb.gz&view={view}")
    wait_for(f"{name} is open", lambda: f"{name}.pb.gz" in browser.text())


def check_flame_graph(browser, address, name, patience_s=PATIENCE_S):
    """Names are on a canvas, so they can only be seen. Its pastel colours keep tesseract from seeing them all."""
    show(browser, address, name, "left-heavy")
    browser.run("document.body.style.filter = 'brightness(1.3) contrast(2)'")
    browser.check_picture(f"{sys.argv[1]}/{name}.png", SPANS, patience_s)


def check_blank(browser, address):
    """The check can fail: names are not seen where there are none."""
    try:
        check_flame_graph(browser, address, "nameless", 0)
    except Failed as failed:
        check("does not show ['handle', 'parse']" in str(failed), failed)
    else:
        raise Failed("names are seen of spans without names")


def check_table(browser, address, figures):
    """A span's own memory is what the program said: the last column of alloc_objects, …, inuse_bytes, name."""
    show(browser, address, "heap", "sandwich")
    rows = wait_for("a table", lambda: browser.run(
        "return [...document.querySelectorAll('tr')].map(row => [...row.cells].map(cell => cell.innerText.trim()))")[1:])
    shown = {row[2]: row[1] for row in rows}
    for span in SPANS:
        own = sum(int(line.split()[3]) for line in figures if line.endswith(f" {span}\n"))
        text = f"{own / 1024:.2f} KB" if own < 1 << 20 else f"{own / (1 << 20):.2f} MB"
        check(shown.get(span, "").startswith(text), f"{span} is not {text}: {shown}")
    browser.check_picture(f"{sys.argv[1]}/table.png", SPANS)


def test(site, figures):
    profile = gzip.decompress(pathlib.Path(site, "heap.pb.gz").read_bytes())
    pathlib.Path(site, "nameless.pb.gz").write_bytes(without_functions(profile))
    address = serve(site)
    with Browser() as browser, open(figures) as file:
        check_flame_graph(browser, address, "heap")
        check_table(browser, address, list(file))
        check_blank(browser, address)
        browser.check_no_errors()
        browser.check_requests(address + "/")


run_test(test)
