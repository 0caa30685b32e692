# SPDX-License-Identifier: BSD-2-Clause
"""symbols_compare.py RAW: compares the functions and lines of a profile, as pprof -raw prints it, with addr2line -i -f -C.

Prints "N addresses, M functions" at the end. Addresses in [jespan], [vdso] and files without debug information are left out.
"""
import os
import re
import subprocess
import sys


def segments(path):
    """(offset, address, bytes) of each segment of the file that is loaded"""
    text = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
    return [[int(word, 16) for word in line.split()[1:5]] for line in text.splitlines() if line.split()[:1] == ["LOAD"]]


def address_in(path, offset):
    for at, address, _, size in segments(path):
        if at <= offset < at + size:
            return address + offset - at
    raise ValueError(f"{path} has no byte {offset:#x}")


def read(raw):
    """{mapping number: (start, offset, file)} and [(mapping number, address, [(function, file, line)])]"""
    mappings, locations, part = {}, [], ""
    for line in raw:
        if line.rstrip() in ("Locations", "Mappings"):
            part = line.rstrip()
        elif part == "Mappings":
            found = re.match(r"(\d+): (0x[0-9a-f]+)/0x[0-9a-f]+/(0x[0-9a-f]+) (\S+)", line)
            mappings[int(found[1])] = (int(found[2], 16), int(found[3], 16), found[4])
        elif part == "Locations":
            head = re.match(r" *\d+: (0x[0-9a-f]+) M=(\d+) ?", line)
            if head:
                locations.append((int(head[2]), int(head[1], 16), []))
                line = line[head.end():]
            found = re.match(r"\s*(.*) (\S*):(\d+):\d+ s=\d+", line)
            if found:
                locations[-1][2].append((found[1], os.path.basename(found[2]), int(found[3])))
    return mappings, locations


def addr2line(path, addresses):
    """the functions of each address, the innermost first; an address is printed before its functions"""
    command = ["addr2line", "-a", "-i", "-f", "-C", "-e", path, *map(hex, addresses)]
    lines = iter(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())
    found = []
    for line in lines:
        if re.fullmatch("0x[0-9a-f]+", line):
            found.append([])
            continue
        file, number = re.sub(r" \(discriminator \d+\)$", "", next(lines)).rsplit(":", 1)
        file = "" if file == "??" else os.path.basename(file)
        found[-1].append((line, file, int(number) if number.isdigit() else 0))
    return found


def main():
    with open(sys.argv[1], encoding="utf-8") as raw:
        mappings, locations = read(raw)
    n_addresses = n_functions = n_wrong = 0
    for name in sys.argv[2:]:
        inside = [(mappings[m], address, frames) for m, address, frames in locations if os.path.basename(mappings[m][2]) == name]
        path = inside[0][0][2]
        addresses = [address_in(path, address - start + offset) for (start, offset, _), address, _ in inside]
        for address, expected, (_, _, frames) in zip(addresses, addr2line(path, addresses), inside):
            if expected != frames:
                print(f"{path} {address:#x}:\n  is:        {frames}\n  should be: {expected}")
                n_wrong += 1
            n_addresses += 1
            n_functions += len(frames)
    print(f"{n_addresses} addresses, {n_functions} functions")
    sys.exit(n_wrong != 0)


main()
