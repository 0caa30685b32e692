# SPDX-License-Identifier: BSD-2-Clause
"""Pages in headless Chromium, driven through chromedriver, for tests: what they show, say and ask for.

Nothing but Python's own library. Text in pictures is read by tesseract.
"""
import base64
import contextlib
import difflib
import functools
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

PATIENCE_S = 600
START_TRIES = 5

CHROMIUM_ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--enable-unsafe-swiftshader",  # WebGL without a GPU
    "--force-device-scale-factor=2", "--hide-scrollbars",  # letters that tesseract can read
    "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nothing leaves this machine
)


class Failed(Exception):
    """What a page should have shown, and did not."""


def check(condition, message):
    if not condition:
        raise Failed(message)


def equal(what, actual, expected):
    check(actual == expected, f"{what}\n  is:        {actual!r}\n  should be: {expected!r}")


def wait_for(what, answer, patience_s=PATIENCE_S):
    """Asks until the answer is true, and returns it."""
    end = time.monotonic() + patience_s
    while not (value := answer()):
        check(time.monotonic() < end, f"not within {patience_s} s: {what}")
        time.sleep(0.05)
    return value


class Browser:
    """A Chromium with an empty profile. Both end with the `with` block."""

    def __init__(self, width=800, height=600):
        self.size = f"{width},{height}"

    def __enter__(self):
        self.home = tempfile.mkdtemp(prefix="browser.")
        self.group = None
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._start_driver()
        try:
            self._start_session()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Failed, OSError):
            self._ask("DELETE", "")
        if self.group:
            with contextlib.suppress(ProcessLookupError):  # whatever of it is still there
                os.killpg(self.group, signal.SIGKILL)
        self.driver.kill()
        self.driver.communicate()
        shutil.rmtree(self.home, ignore_errors=True)

    def _start_driver(self):
        """It takes a free port, and ends if another process takes that one at the same moment. So it is tried again."""
        env = {**os.environ, "HOME": self.home, "TMPDIR": self.home, "LC_ALL": "C.UTF-8"}
        said = ""
        for _ in range(START_TRIES):
            self.driver = subprocess.Popen(["chromedriver", "--port=0"], env=env, stdin=subprocess.DEVNULL,
                                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for line in self.driver.stdout:
                said += line
                if found := re.search(r"started successfully on port (\d+)", line):
                    self.address = f"http://127.0.0.1:{found[1]}/session"
                    return
            self.driver.communicate()
        raise Failed(f"chromedriver does not start:\n{said}")

    def _start_session(self):
        answer = self._ask("POST", "", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": [*CHROMIUM_ARGUMENTS, f"--window-size={self.size}",
                                            f"--user-data-dir={self.home}/profile"]},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "unhandledPromptBehavior": "ignore"}}})
        self.address += "/" + answer["sessionId"]
        self.group = answer["capabilities"]["goog:processID"]

    def _ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with self.opener.open(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise Failed(f"{path}: {value['error']}: {value['message']}") from None

    def open(self, url):
        self._ask("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """What a piece of JavaScript returns."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": arguments})

    def text(self):
        """What the page shows as text."""
        return self.run("return document.body.innerText")

    def _element(self, selector):
        found = self._ask("POST", "/element", {"using": "css selector", "value": selector})
        return "/element/" + next(iter(found.values()))

    def click(self, selector):
        self._ask("POST", self._element(selector) + "/click", {})

    def type(self, selector, text):
        self._ask("POST", self._element(selector) + "/value", {"text": text})

    def devtools(self, command, **parameters):
        """A command of the DevTools protocol."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def has_dialog(self):
        try:
            self._ask("GET", "/alert/text")
            return True
        except Failed as failed:
            if "no such alert" in str(failed):
                return False
            raise

    def check_no_errors(self):
        """Since the last call the console had no error; an exception would be one."""
        log = self._ask("POST", "/se/log", {"type": "browser"})
        equal("errors", [entry["message"] for entry in log if entry["level"] == "SEVERE"], [])

    def check_requests(self, origin):
        """Since the last call pages asked for something, and for nothing elsewhere; Chromium's own pages do not count."""
        log = self._ask("POST", "/se/log", {"type": "performance"})
        events = (json.loads(entry["message"])["message"] for entry in log)
        urls = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
        urls = [url for url in urls if not url.startswith(("chrome:", "data:"))]
        check(urls, f"nothing is asked of {origin}")
        equal("asked elsewhere", [url for url in urls if not url.startswith(origin)], [])

    def read(self, path):
        """Takes a screenshot, and returns the text that can be read in it."""
        with open(path, "wb") as file:
            file.write(base64.b64decode(self._ask("GET", "/screenshot")))
        return subprocess.run(["tesseract", path, "-", "--psm", "11"], check=True, text=True, encoding="utf-8",
                              env={**os.environ, "OMP_THREAD_LIMIT": "1"},
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout

    def check_picture(self, path, words, patience_s=PATIENCE_S):
        """The page is seen to show each of the words: by what looks at a screenshot, not at elements."""
        end = time.monotonic() + patience_s
        while True:
            seen = self.read(path)
            missing = [word for word in words if not can_be_read(word, seen)]
            if not missing:
                return
            check(time.monotonic() < end, f"{os.path.basename(path)} does not show {missing}; it shows: {seen.split()}")


def can_be_read(word, seen):
    """Whether a word is in a text that was read in a picture, where one letter in five may have been read wrong."""
    return word in seen or difflib.get_close_matches(word, seen.split(), 1, 0.8)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def serve(directory):
    """The address at which a directory's files are served from now on."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=directory))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def run_test(test):
    """Runs a test; also a SIGTERM leaves no browser behind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        test(*sys.argv[1:])
    except Failed as failed:
        sys.exit(f"{os.path.basename(sys.argv[0])}: failed: {failed}")
