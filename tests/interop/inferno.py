# SPDX-License-Identifier: BSD-2-Clause
"""usage: inferno.py COUNT-NAME FILE

Prints the frames of an SVG file that inferno drew, in the order of their starts: value and path.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

SVG, FRAME = "{http://www.w3.org/2000/svg}", "{http://github.com/jonhoo/inferno}"


def read(count_name, path):
    title = re.compile(rf"(.*) \(([0-9,]+) {count_name}, [0-9.]+%\)", re.DOTALL)
    frames = []
    for group in ElementTree.parse(path).getroot().iter(SVG + "g"):
        rect = group.find(SVG + "rect")
        if rect is None or rect.get(FRAME + "w") is None:
            continue
        name, value = title.fullmatch(group.find(SVG + "title").text).groups()
        frame = dict(name=name, start=int(rect.get(FRAME + "x")), value=int(rect.get(FRAME + "w")), y=float(rect.get("y")))
        assert frame["value"] == int(value.replace(",", "")), frame
        frames.append(frame)
    frames.sort(key=lambda f: (f["start"], -f["y"]))
    return frames


def print_paths(frames):
    above = []
    for frame in frames:
        while above and above[-1]["y"] <= frame["y"]:
            above.pop()
        above.append(frame)
        for outer in above[:-1]:
            assert outer["start"] <= frame["start"] and frame["start"] + frame["value"] <= outer["start"] + outer["value"], frame
        if len(above) > 1:  # the first is that of all
            print(frame["value"], ";".join(outer["name"] for outer in above[1:]))


if __name__ == "__main__":
    print_paths(read(sys.argv[1], sys.argv[2]))
