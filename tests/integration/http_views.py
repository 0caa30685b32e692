# SPDX-License-Identifier: BSD-2-Clause
"""http_views.py JESPAN BASE PID QUERY: compares /threads and /rss with `jespan threads` and `jespan rss` of a process that is quiet.
http_views.py BASE names: what http_views_program has with its stacks, and that answers are bounded.
http_views.py BASE threads N BYTES: what http_views_threads has, with more pairs of a thread and a context than an answer takes.
"""
import json
import subprocess
import sys
import urllib.request

failed = False


def check(what, value, expected, tolerance=0):
    global failed
    if (abs(value - expected) > tolerance) if tolerance else value != expected:
        print(f"{what} is {value}, should be {expected} +- {tolerance}")
        failed = True


def ask(base, path, query):
    with urllib.request.urlopen(f"{base}{path}?{query}") as answer:
        return json.loads(answer.read().decode("utf-8", "strict"))


def command(jespan, word, pid):
    return json.loads(subprocess.run([jespan, word, "--json", "--top", "0", pid], stdout=subprocess.PIPE, check=True).stdout)


TIMES, BOUNDS = ("busy_ns", "cpu_ns"), ("inuse_bytes", "freed_by_others_bytes")


def of_program(report):
    """Without the threads of jespan, which answer and free what the first thread allocated for them. Clocks are told to a nanosecond."""
    return {thread["id"]: thread | dict.fromkeys(TIMES) | (dict.fromkeys(BOUNDS) if thread["id"] == report["pid"] else {})
            for thread in report["threads"] if thread["context"] != "(jespan)" and thread["id"] != 0}


def ended_ns(report):
    return sum(thread[time] for thread in report["threads"] for time in TIMES if not thread["live"])


def compare(jespan, base, pid, query):
    shown, expected = ask(base, "/threads", f"limit=100000&{query}"), command(jespan, "threads", pid)
    check("pid", shown["pid"], int(pid))
    for number, thread in of_program(expected).items():
        check(f"thread {number}", of_program(shown).get(number), thread)
    check("threads", len(of_program(shown)), len(of_program(expected)))
    check("the time of ended threads", ended_ns(shown), ended_ns(expected), 2 * len(shown["threads"]))
    check("a thread's time", all(thread["busy_ns"] > 0 for thread in shown["threads"] if thread["id"] == int(pid)), True)
    check("left out", shown["left_out"], 0)
    check("not listed", shown["not_listed"], expected["not_listed"])
    ordered = [thread["alloc_bytes"] for thread in shown["threads"]]
    check("the order", ordered, sorted(ordered, reverse=True))
    ask(base, "/rss", query)  # the memory that it takes for the first answer stays for the next
    shown, expected = ask(base, "/rss", f"limit=100000&{query}"), command(jespan, "rss", pid)
    check("pid", shown["pid"], int(pid))
    rss = expected["rss_bytes"]
    check("rss", shown["rss_bytes"], rss, 0.1 * rss)
    check("the sum of the parts", sum(shown["parts"].values()), shown["rss_bytes"], 4096)
    check("parts", list(shown["parts"]), list(expected["parts"]))
    check("meanings", list(shown["meanings"]), list(shown["parts"]))
    reader = (1 << 20) * any(thread["name"] == "http" for thread in command(jespan, "threads", pid)["threads"])
    for name in ("in_use_bytes", "stacks_bytes", "files_bytes"):  # a service in the program reads with the program's memory
        check(name, shown["parts"][name], expected["parts"][name], 0.03 * rss + reader)
    in_memory = sum(row["resident_bytes"] for row in shown["contexts"])
    check("contexts have in memory what they have in use", in_memory <= shown["inuse_bytes"] + (256 << 10), True)
    held = {row["context"]: row["inuse_bytes"] for row in shown["contexts"]}
    for row in expected["contexts"]:
        if row["context"] != "(jespan)":
            check(row["context"], held.get(row["context"]), row["inuse_bytes"])


def names(base):
    answers = {path: ask(base, path, "") for path in ("/threads", "/rss")}
    names = {thread["name"] for thread in answers["/threads"]["threads"]}
    check("names of threads", {"<b>", "\"'\\", "plain"} <= names, True)
    check("a name that is no UTF-8", any(name.startswith("\ufffd\ufffd") for name in names), True)
    check("threads", len(answers["/threads"]["threads"]), 1000)
    check("threads that are left out", answers["/threads"]["left_out"] >= 1000, True)
    contexts = answers["/rss"]["contexts"]
    check("contexts", len(contexts), 1000)
    check("contexts that are left out", answers["/rss"]["left_out"] > 9000, True)
    check("the longest path", max(len(row["context"]) for row in contexts) < 1024, True)
    check("a long label", contexts[0]["context"].startswith("long {label=xxx") and contexts[0]["inuse_bytes"], 2 << 20)
    hostile = [row["inuse_bytes"] for row in contexts if row["context"] == "</script><script>alert(\"1\")</script>\ufffd?"]
    check("a hostile name", hostile, [1 << 20])
    none = ask(base, "/threads", "limit=0")
    check("no threads", none["threads"], [])
    check("all are left out", none["left_out"] >= 2000, True)


def stacks(base):
    """Calls are below the contexts, which have the same totals as without them. The program is quiet, but the service is not."""
    spans, calls = ask(base, "/spans", "limit=100000"), ask(base, "/stacks", "limit=100000")
    totals = {span["id"]: span["total"] for span in calls["spans"]}
    for span in spans["spans"]:
        if span["kind"] in ("span", "thread"):
            memory = [name for name in span["total"] if name.endswith(("_bytes", "_objects"))]
            check(f"the total of {span['name'][:20]}", [totals[span["id"]][name] for name in memory], [span["total"][name] for name in memory])
    check("what all have", sum(span["inuse_bytes"] for span in calls["spans"]), calls["all"]["inuse_bytes"])
    check("a figure below 0", [span for span in calls["spans"] if span["inuse_bytes"] >= 1 << 63], [])
    stacks = [span for span in calls["spans"] if span["kind"] == "stack"]
    check("calls", 1000 < len(stacks) <= 20000, True)
    check("names of calls", all("+0x" in call["name"] or call["name"].startswith("0x") for call in stacks), True)
    large = next(span for span in calls["spans"] if span["name"] == "long")
    check("what the span has itself", large["inuse_bytes"], 0)
    ids = {call["parent"]: call for call in stacks}
    path, at = [], large["id"]
    while at in ids:
        path, at = path + [ids[at]], ids[at]["id"]
    check("what each of its calls has", {call["total"]["inuse_bytes"] for call in path}, {2 << 20})
    check("its last call", path[-1]["name"].startswith("names+0x") and path[-1]["inuse_bytes"], 2 << 20)
    check("its file", path[-1]["target"].endswith("/names"), True)
    check("the mode", (calls["stacks"], spans["stacks"]), ("all", "all"))
    check("an answer", len(ask(base, "/stacks", "")["spans"]) <= 1300, True)


def threads(base, n, each):
    """Nothing was freed, so all is exact. Without contexts that count as one, there would be no answer."""
    answer = ask(base, "/threads", "limit=100000")
    workers = [thread for thread in answer["threads"]
               if thread["alloc_bytes"] >= each and thread["id"] != answer["pid"] and thread["context"] != "(jespan)"]
    check("workers", len(workers), n)
    check("contexts as one", answer["contexts_as_one"] > 100, True)
    for i, thread in enumerate(workers):
        expected = each + (1 << 20) * (i == 0)
        check(f"worker {i}", thread["alloc_bytes"], expected, 4096)
        check(f"worker {i} in use", thread["inuse_bytes"], [thread["alloc_bytes"] - thread["free_bytes"]] * 2)


if sys.argv[2] == "threads":
    threads(sys.argv[1], int(sys.argv[3]), int(sys.argv[4]))
elif sys.argv[2] == "names":
    names(sys.argv[1])
    stacks(sys.argv[1])
else:
    compare(*sys.argv[1:])
sys.exit(failed)
