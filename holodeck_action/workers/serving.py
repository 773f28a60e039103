"""Answering calls inside the worker process, which may run any Python from 3.9 on.

Framed JSON on a connection of its own, so that nothing user code prints can break the protocol. Every message in is
`{id, op, reference, max_bytes, …}`, every message out `{id, value}` or `{id, error}`, with `files`, those of the
checkout that have been imported, where there are new ones, and with `spans` (see `Recorder.end`) where they are wanted.
Operations: `check`, `grade`, `source`, `ask` for graders and targets; `rows` for cases; `describe`, `prepare`, `tool`
for functions of a model.
A callable of a file comes with `file` and `function`; its reference is then only how messages name it.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from holodeck_action.workers.code_errors import CallError, Places
from holodeck_action.workers.frames import CONNECTION_LOST, HEADER, pack, unpack
from holodeck_action.workers.json_values import Plain
from holodeck_action.workers.pieces import in_pieces, whole_reply

if TYPE_CHECKING:
    from holodeck_action.extensions.frameworks.instrumentation import Recorder
    from holodeck_action.workers.event_loop import LastingLoop


_FILES_SAID = 200
"""Imported files that one answer names: few enough to fit beside its content."""


def _file_of(module: object) -> object:
    """Return the `__file__` of what stands among the modules: anything may, None too, and answer as it likes."""
    try:
        # Not `getattr`: a module that loads lazily would load now.
        return object.__getattribute__(module, "__dict__").get("__file__")
    except Exception:  # noqa: BLE001 - it is the suite's code
        return None


def serve(connection: int, folder: str) -> None:
    """Answer calls of user code, which finds its own modules and the documented import names."""
    import holodeck_action.compat  # noqa: F401

    current = os.getcwd()
    sys.path[:0] = dict.fromkeys((folder, current))
    Server(connection, folder, current).serve()


class Server:
    """Answers one call after the other."""

    def __init__(self, connection: int, folder: str, current: str) -> None:
        self._connection = connection
        self._folder = folder
        self._places = Places(folder, current)
        self._process = os.getpid()
        self._callables: dict[str, Callable[..., Any]] = {}
        self._with_request: dict[str, bool] = {}
        self._loop: LastingLoop | None = None
        self._recorder: Recorder | None = None
        self._inside: Callable[[], AbstractContextManager[None]] = nullcontext
        self._modules = set(sys.modules)
        self._unsaid: list[str] = []

    def serve(self) -> None:
        """Answer until the connection ends."""
        while header := self._read(HEADER):
            request = unpack(self._read(int.from_bytes(header, "big")))
            reply = self._answer(request)
            if os.getpid() != self._process:
                # User code forked and let its child return: only the worker itself answers.
                os._exit(0)
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):
                    stream.flush()
            files = self._imported()
            if self._recorder is not None and request["op"] == "ask":
                reply["spans"] = self._recorder.end()
            self._write(pack({"id": request["id"], **reply, **({"files": files} if files else {})}))
        if self._loop is not None:
            self._loop.close()

    def _imported(self) -> list[str]:
        """Return files of the checkout that were imported since this was asked before; what is too much comes later."""
        if len(sys.modules) != len(self._modules):
            for name, module in list(sys.modules.items()):
                if name not in self._modules:
                    self._modules.add(name)
                    file = _file_of(module)
                    if isinstance(file, str) and self._places.shown(file) is not None:
                        self._unsaid.append(file)
        said, self._unsaid = self._unsaid[:_FILES_SAID], self._unsaid[_FILES_SAID:]
        return said

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"value": self._perform(request)}
        except CallError as failure:
            return {"error": failure.as_data()}
        except BaseException as error:  # noqa: BLE001 - user code raises what it likes
            return {"error": self._places.raised(error).as_data()}

    def _perform(self, request: dict[str, Any]) -> Any:
        function = self._find(request)
        max_bytes = request["max_bytes"]
        op = request["op"]
        if op == "grade":
            # Graders import it anyway; Python targets need not pay for it.
            from holodeck_action.workers.grading import grade

            return grade(lambda context: self._settle(function(context)), request["context"], max_bytes)
        if op == "source":
            from holodeck_action.workers.grading import source_digest

            return source_digest(request["reference"], function, self._places)
        if op == "ask":
            asked = request["request"]
            more = (asked,) if self._with_request[request["reference"]] else ()
            with self._traced(asked):
                begun = time.monotonic()
                reply = self._settle(function(asked["messages"], *more))
                if in_pieces(reply):
                    reply = whole_reply(reply, self._settle, begun, max_bytes)
                return Plain(max_bytes).convert(reply, "the reply")
        if op in ("describe", "prepare", "tool"):
            # For "prepare" that is all: its import is no working time of the tool.
            from holodeck_action.workers import tool_functions

            if op == "describe":
                return tool_functions.described(function)
            if op == "tool":
                return tool_functions.result(self._settle(tool_functions.call(function, request["args"])), max_bytes)
        if op == "rows":
            from holodeck_action.workers.rows import write_rows

            values = self._settle(function(**request["args"]))
            return write_rows(values, self._settle, request["rows"], max_bytes)
        return None

    def _traced(self, asked: dict[str, Any]) -> AbstractContextManager[None]:
        """Begin to collect the spans of a turn, if they are wanted; they belong to its trace inside of the context."""
        if self._recorder is not None:
            self._recorder.begin()
            self._inside = partial(self._recorder.inside, asked["traceparent"])
        return self._inside()

    def _find(self, request: dict[str, Any]) -> Callable[..., Any]:
        reference = request["reference"]
        if reference not in self._callables:
            if "file" in request:
                found = load_from_file(request["file"], request["function"], self._folder, self._places)
            else:
                found = load(reference, self._places)
            if request.get("spans") and self._recorder is None:
                # Behind the import, so that what the project sets up itself comes first.
                from holodeck_action.extensions.frameworks.instrumentation import Recorder

                self._recorder = Recorder()
            self._callables[reference] = found
            # While no clock of a turn runs.
            self._with_request[reference] = request["op"] == "check" and _needs_second(found)
        return self._callables[reference]

    def _settle(self, value: Any) -> Any:
        """Return the value, or what it comes to when it is awaitable.

        All calls share one event loop, so that clients which user code keeps between calls stay usable.
        """
        if not hasattr(type(value), "__await__"):
            return value
        if self._loop is None:
            # Only what is awaited pays for asyncio.
            from holodeck_action.workers.event_loop import LastingLoop

            self._loop = LastingLoop()
        return self._loop.result(value, self._inside)

    def _read(self, size: int) -> bytes:
        """Return exactly `size` bytes; none when the connection has ended."""
        parts = []
        while size:
            part = self._transfer(os.read, min(size, 1 << 20))
            if not part:
                return b""
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._transfer(os.write, view) :]

    def _transfer(self, operation: Callable[[int, Any], Any], what: Any) -> Any:
        try:
            return operation(self._connection, what)
        except ConnectionError:
            os._exit(0)
        except OSError:
            os._exit(CONNECTION_LOST)


def load(reference: str, places: Places) -> Callable[..., Any]:
    """Import a module and return its callable; with a framework before it, that of the framework's agent there.

    Raises:
        CallError: there is no such module (code `missing_module`), importing it fails (`import_failed`), it lacks the
            attribute (`missing_attribute`), or that cannot be called (`not_callable`).
    """
    *framework, module_name, attribute = reference.split(":")
    if framework:
        from holodeck_action.extensions.frameworks.adapters.replies import check_packages

        check_packages(framework[0])
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise CallError(
                "missing_module",
                f"there is no module {error.name} in the suite's folder, the current directory or what is installed",
            ) from None
        raise _import_failed(module_name, error, places) from None
    except BaseException as error:  # noqa: BLE001 - importing runs user code, which may even try to exit
        raise _import_failed(module_name, error, places) from None
    shown = f"the module {module_name}"
    if framework:
        return _agent_of(framework[0], _attribute_of(module, attribute, shown), f"{attribute} in {shown}", places)
    return _callable_of(module, attribute, shown)


def _agent_of(framework: str, agent: object, shown: str, places: Places) -> Callable[..., Any]:
    from holodeck_action.extensions.frameworks.adapters.replies import adapted

    try:
        return adapted(framework, agent, shown)
    except CallError:
        raise
    except BaseException as error:  # noqa: BLE001 - importing a framework runs its code
        raise _import_failed(framework, error, places) from None


def load_from_file(file: str, function: str, folder: str, places: Places) -> Callable[..., Any]:
    """Run a file as a module, once per process, and return its callable.

    A file that the module path finds under its own name is imported under it, so that other modules which import it
    share its state.

    Args:
        file: path relative to the suite's folder.
        function: name of the callable.
        folder: the suite's folder, absolute.
        places: how files are shown.

    Raises:
        CallError: as `load`.
    """
    path = os.path.normpath(os.path.join(folder, file))
    if not os.path.isfile(path):
        raise CallError("missing_module", "the file does not exist (allowed: a path relative to agent.yaml)")
    try:
        module = _module_of_file(path, folder)
    except BaseException as error:  # noqa: BLE001 - importing runs user code, which may even try to exit
        raise _import_failed(file, error, places) from None
    return _callable_of(module, function, file)


def _module_of_file(path: str, folder: str) -> ModuleType:
    from importlib.machinery import SourceFileLoader
    from importlib.util import find_spec, module_from_spec, spec_from_loader

    parts = os.path.relpath(path, folder).removesuffix(".py").split(os.sep)
    if path.endswith(".py") and all(part.isidentifier() for part in parts):
        name = ".".join(parts)
        try:
            spec = find_spec(name)
        except (ImportError, ValueError):  # a parent that is no package, a module without a spec
            spec = None
        if spec is not None and spec.origin is not None and os.path.realpath(spec.origin) == os.path.realpath(path):
            return importlib.import_module(name)
    name = f"holodeck_action_file:{path}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_loader(name, SourceFileLoader(name, path))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Dataclasses and pickles look their module up.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _attribute_of(module: ModuleType, attribute: str, shown: str) -> Any:
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise CallError("missing_attribute", f"{shown} has no {attribute}{_similar(attribute, module)}") from None


def _callable_of(module: ModuleType, attribute: str, shown: str) -> Callable[..., Any]:
    found = _attribute_of(module, attribute, shown)
    if not callable(found):
        raise CallError("not_callable", f"{attribute} in {shown} is of type {type(found).__name__}, not callable")
    return found  # type: ignore[no-any-return]  # a callable of any kind


def _needs_second(function: Callable[..., Any]) -> bool:
    """Tell whether a callable must be given a second argument; one that cannot be looked into is not given one."""
    import inspect

    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return len(places) > 1 and places[1].default is inspect.Parameter.empty


def _import_failed(name: str, error: BaseException, places: Places) -> CallError:
    return places.raised(error, f"importing {name} raised", "import_failed")


def _similar(attribute: str, module: object) -> str:
    import difflib

    names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    close = difflib.get_close_matches(attribute, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""
