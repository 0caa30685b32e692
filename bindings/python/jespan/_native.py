# SPDX-License-Identifier: BSD-2-Clause
"""libjespan's functions, by ctypes, and which span each thread has entered.

A thread has entered one span at most: the innermost. jespan knows those above it, since a span is opened below another.
"""
import contextvars
import ctypes
import errno
import threading

MAX_SITES = 4096  # names beyond share one
CURRENT = 0


class _Arena(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint32), ("numa_node", ctypes.c_int32), ("dirty_decay_ms", ctypes.c_int64),
                ("muzzy_decay_ms", ctypes.c_int64), ("limit_bytes", ctypes.c_uint64), ("by_label", ctypes.c_char_p)]


class _Site(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("target", ctypes.c_char_p), ("file", ctypes.c_char_p),
                ("line", ctypes.c_uint32), ("arena", _Arena)]


class _Label(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p), ("integer", ctypes.c_int64), ("type", ctypes.c_uint32)]


def _load():
    library = ctypes.CDLL(None)
    try:
        library.jespan_open.restype = ctypes.c_void_p
        library.jespan_open.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t]
        for name in ("jespan_enter", "jespan_exit", "jespan_close"):
            getattr(library, name).argtypes = [ctypes.c_void_p]
        library.jespan_publish_trace.argtypes = [ctypes.c_char_p]
    except AttributeError:  # the process has another malloc
        return None
    return library


_library = _load()
_publishes = _library is not None and _library.jespan_publish_trace(None) != errno.ENOTSUP
_sites = {}
_thread = threading.local()

# The span of this thread or task: one of a program's own, or the one of OpenTelemetry's current context
current = contextvars.ContextVar("jespan_span", default=None)


def is_available():
    """Whether the process has jespan as its malloc."""
    return _library is not None


def _bytes(text):
    return str(text).encode("utf-8", "replace").replace(b"\0", b"")


def _site(name, file, line):
    key = (name, file, line)
    site = _sites.get(key)
    if site is None:
        if len(_sites) >= MAX_SITES:
            key, name, file, line = None, "(other)", None, 0
        site = _sites.setdefault(key, _Site(_bytes(name) or b"(unnamed)", b"python", _bytes(file) if file else None, line))
    return site


def _label(key, value):
    if isinstance(value, int) and not isinstance(value, bool) and -2**63 <= value < 2**63:
        return _Label(_bytes(key), None, value, 1)
    return _Label(_bytes(key), _bytes(value), 0, 0)


class Span:
    """An open span of jespan's. `trace` is a struct jespan_traceparent, or None: the span belongs to no trace."""

    __slots__ = ("handle", "trace")

    def __init__(self, handle, trace):
        self.handle = handle
        self.trace = trace

    def close(self):
        handle, self.handle = self.handle, None
        if handle:
            _library.jespan_close(handle)
            if getattr(_thread, "handle", None) == handle:
                _leave()
                _publish(None)


def reset(token, span):
    """Makes `span`, which was set with that token, no longer the current one. In another context than that in which it was set, as
    behind the `yield` of a generator, it may not be the current one at all."""
    try:
        current.reset(token)
    except (ValueError, RuntimeError):
        if span is not None and current.get() is span:
            current.set(None if token.old_value is contextvars.Token.MISSING else token.old_value)


def _publish(span):
    """Tells profilers of other processes which trace the calling thread works for, if otel_context is on."""
    if _publishes:
        _library.jespan_publish_trace(span.trace if span else None)


def open_span(name, labels, parent, file=None, line=0, trace=None):
    """Opens a span below `parent`, which is a Span or None. Without a trace, it has that of its parent. Returns None if there is no
    jespan, or no memory."""
    if _library is None:
        return None
    made = [_label(key, value) for key, value in labels.items()]
    before = _enter(parent)
    handle = _library.jespan_open(ctypes.addressof(_site(name, file, line)), CURRENT, (_Label * len(made))(*made) if made else None,
                                  len(made))
    _enter(before)
    return Span(handle, trace or (parent.trace if parent else None)) if handle else None


def follow(span):
    """Makes a span the one that the calling thread has entered; None: none. Returns the one before."""
    before = _enter(span)
    if _publishes and before is not span:
        _publish(_thread.span)
    return before


def _enter(span):
    """The same, and the thread's trace stays as it was published."""
    before = getattr(_thread, "span", None)
    if before is span or _library is None:
        return before
    _leave()
    handle = span.handle if span is not None else None
    if handle and _library.jespan_enter(handle) == 0:
        _thread.span, _thread.handle = span, handle
    return before


def _leave():
    """Leaves what the calling thread has entered. Another thread may have closed it: the handle is valid until it is left."""
    handle = getattr(_thread, "handle", None)
    _thread.span = _thread.handle = None
    if handle:
        _library.jespan_exit(handle)
