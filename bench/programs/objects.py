# SPDX-License-Identifier: BSD-2-Clause
"""Makes and drops what Python programs are made of: an index of words, trees of objects, strings, tuples and lists.

usage: objects.py ROUNDS
"""

import sys


class Node:
    def __init__(self, value):
        self.value, self.left, self.right = value, None, None

    def insert(self, value):
        node = self
        while True:
            side = "left" if value < node.value else "right"
            if (below := getattr(node, side)) is None:
                setattr(node, side, Node(value))
                return
            node = below


def random_numbers(count, state=12345):
    for _ in range(count):
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
        yield state


def word_index():
    """Words and where they occur, sorted by how often."""
    index = {}
    for place, n in enumerate(random_numbers(60_000)):
        index.setdefault(f"word-{n % 5000}", []).append((place, str(n)))
    return sorted(((len(places), word) for word, places in index.items()), reverse=True)[:10]


def tree():
    root = Node(2**30)
    for n in random_numbers(10_000):
        root.insert(n)
    return root


def text():
    """Lines joined, split and joined again."""
    lines = [",".join(str(n >> shift) for shift in range(0, 30, 3)) for n in random_numbers(10_000)]
    return sum(len("".join(reversed(line.split(",")))) for line in lines)


def main():
    kept = []
    for _ in range(int(sys.argv[1])):
        kept.append((word_index(), tree(), text()))
    print(len(kept), kept[0][0][0], kept[0][2])


if __name__ == "__main__":
    main()
