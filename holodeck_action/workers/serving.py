"""Answers calls inside the worker process, on Python 3.9 or newer.

Messages are framed JSON on a separate connection, so that printed output cannot break the protocol. A request is `{id,
op, reference, max_bytes, …}`, an answer `{id, value}` or `{id, error}`, with `files` if files of the checkout have been
imported since the last answer, and with `spans` (see `Recorder.end`) if they are collected. Operations: `check`,
`grade`, `source`, `ask` for graders and targets; `rows` for cases; `describe`, `prepare`, `tool` for functions of a
model. A request for a callable in a file has `file` and `function`; `reference` is then only a name for messages.
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

from holodeck_action.workers.code_errors import CallError, UserFolders
from holodeck_action.workers.frames import CONNECTION_LOST, HEADER, pack, unpack
from holodeck_action.workers.json_values import PlainConverter
from holodeck_action.workers.pieces import collect_reply, is_streamed

if TYPE_CHECKING:
    from holodeck_action.workers.event_loop import LastingLoop


_FILES_PER_ANSWER = 200
"""Maximum number of imported files in one answer, so that they fit beside its content."""


def _file_of(module: object) -> object:
    """Return the `__file__` of an entry in `sys.modules`, which may be any object of user code, even None."""
    try:
        # Not `getattr`: a module that loads lazily would load now.
        return object.__getattribute__(module, "__dict__").get("__file__")
    except Exception:  # noqa: BLE001 - it is the suite's code
        return None


def serve(connection: int, folder: str) -> None:
    """Answer calls of user code, which can import its own modules and the documented import names."""
    import holodeck_action.compat  # noqa: F401

    current = os.getcwd()
    sys.path[:0] = dict.fromkeys((folder, current))
    Server(connection, folder, current).serve()


class Server:
    """Answers calls inside the worker process, one after the other."""

    def __init__(self, connection: int, folder: str, current: str) -> None:
        self._connection = connection
        self._folder = folder
        self._places = UserFolders(folder, current)
        self._process = os.getpid()
        self._callables: dict[str, Callable[..., Any]] = {}
        self._with_request: dict[str, bool] = {}
        self._loop: LastingLoop | None = None
        self._recorder: Any = None
        self._inside: Callable[[], AbstractContextManager[None]] = nullcontext
        self._modules = set(sys.modules)
        self._unreported: list[str] = []

    def serve(self) -> None:
        """Answer calls until the connection ends."""
        while header := self._read(HEADER):
            request = unpack(self._read(int.from_bytes(header, "big")))
            reply = self._answer(request)
            if os.getpid() != self._process:
                # A forked child of user code returned here: only the worker itself answers.
                os._exit(0)
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):
                    stream.flush()
            files = self._new_files()
            if self._recorder is not None and request["op"] == "ask":
                reply["spans"] = self._recorder.end()
            self._write(pack({"id": request["id"], **reply, **({"files": files} if files else {})}))
        if self._loop is not None:
            self._loop.close()

    def _new_files(self) -> list[str]:
        """Return files of the checkout imported since the last call; files beyond a limit are left for later calls."""
        if len(sys.modules) != len(self._modules):
            for name, module in list(sys.modules.items()):
                if name not in self._modules:
                    self._modules.add(name)
                    file = _file_of(module)
                    if isinstance(file, str) and self._places.relative_path(file) is not None:
                        self._unreported.append(file)
        reported, self._unreported = self._unreported[:_FILES_PER_ANSWER], self._unreported[_FILES_PER_ANSWER:]
        return reported

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"value": self._perform(request)}
        except CallError as failure:
            return {"error": failure.as_data()}
        except BaseException as error:  # noqa: BLE001 - user code raises what it likes
            return {"error": self._places.failure_of(error).as_data()}

    def _perform(self, request: dict[str, Any]) -> Any:
        function = self._find(request)
        max_bytes = request["max_bytes"]
        op = request["op"]
        if op == "grade":
            # Imported late: Python targets do not need it.
            from holodeck_action.workers.grading import grade

            return grade(lambda context: self._await_result(function(context)), request["context"], max_bytes)
        if op == "source":
            from holodeck_action.workers.grading import source_digest

            return source_digest(request["reference"], function, self._places)
        if op == "ask":
            asked = request["request"]
            more = (asked,) if self._with_request[request["reference"]] else ()
            with self._collect_spans(asked):
                begun = time.monotonic()
                reply = self._await_result(function(asked["messages"], *more))
                if is_streamed(reply):
                    reply = collect_reply(reply, self._await_result, begun, max_bytes)
                return PlainConverter(max_bytes).convert(reply, "the reply")
        if op in ("describe", "prepare", "tool"):
            # "prepare" only imports, so that the import does not count as the tool's time.
            from holodeck_action.workers import tool_functions

            if op == "describe":
                return tool_functions.describe(function)
            if op == "tool":
                return tool_functions.bounded_result(
                    self._await_result(tool_functions.call(function, request["args"])), max_bytes
                )
        if op == "rows":
            from holodeck_action.workers.rows import write_rows

            values = self._await_result(function(**request["args"]))
            return write_rows(values, self._await_result, request["rows"], max_bytes)
        return None

    def _collect_spans(self, asked: dict[str, Any]) -> AbstractContextManager[None]:
        """Begin to collect the spans of a turn, if requested; spans created inside the context belong to its trace."""
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
                found = load(reference, self._places, self._await_result)
            if request.get("spans") and self._recorder is None:
                # After the import, so that the project's own setup comes first.
                from holodeck_action.seam import registry

                observer = registry.observer()
                assert observer is not None
                self._recorder = registry.resolve(observer.recorder)()
            self._callables[reference] = found
            # Done in "check", when no deadline of a turn runs.
            self._with_request[reference] = request["op"] == "check" and needs_second_argument(found)
        return self._callables[reference]

    def _await_result(self, value: Any) -> Any:
        """Return a value, or the result of awaiting it.

        All calls share one event loop, so that network clients kept by user code stay usable.
        """
        if not hasattr(type(value), "__await__"):
            return value
        if self._loop is None:
            # Imported late: sync code does not need asyncio.
            from holodeck_action.workers.event_loop import LastingLoop

            self._loop = LastingLoop()
        return self._loop.run(value, self._inside)

    def _read(self, size: int) -> bytes:
        """Return exactly `size` bytes; empty if the connection has ended."""
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


def load(reference: str, places: UserFolders, wait_for: Callable[[Any], Any]) -> Callable[..., Any]:
    """Import `module:callable` and return the callable, or adapt the agent of `framework:module:agent` to a callable.

    Args:
        reference: what to import.
        places: the folders of user code, for names of files in messages.
        wait_for: returns a value, or the result of awaiting it.

    Raises:
        CallError: the module does not exist (code `missing_module`), importing it fails (`import_failed`), it lacks the
            attribute (`missing_attribute`), or the attribute cannot be called (`not_callable`).
    """
    *framework, module_name, attribute = reference.split(":")
    if framework:
        from holodeck_action.workers.adapting import check_packages

        check_packages(framework[0])
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise CallError(
                "missing_module",
                f"there is no module {error.name} in the suite's folder, the current directory or what is installed",
            ) from None
        raise _import_error(module_name, error, places) from None
    except BaseException as error:  # noqa: BLE001 - importing runs user code, which may even try to exit
        raise _import_error(module_name, error, places) from None
    shown = f"the module {module_name}"
    if framework:
        found = _attribute_of(module, attribute, shown)
        return _adapt_agent(framework[0], found, f"{attribute} in {shown}", places, wait_for)
    return _callable_of(module, attribute, shown)


def _adapt_agent(
    framework: str, found: object, shown: str, places: UserFolders, wait_for: Callable[[Any], Any]
) -> Callable[..., Any]:
    from holodeck_action.workers.adapting import adapt, factory_of

    agent = found
    if (factory := factory_of(framework, found, shown)) is not None:
        try:
            agent = wait_for(factory())
        except BaseException as error:  # noqa: BLE001 - it is the suite's code
            raise places.failure_of(error, f"{shown} raised", "import_failed") from None
        shown = f"the result of {shown}"
    try:
        return adapt(framework, agent, shown)
    except CallError:
        raise
    except BaseException as error:  # noqa: BLE001 - importing a framework runs its code
        raise _import_error(framework, error, places) from None


def load_from_file(file: str, function: str, folder: str, places: UserFolders) -> Callable[..., Any]:
    """Run a file as a module, once per process, and return a callable in it.

    A file that can be imported by name is imported, so that it shares state with other modules that import it.

    Args:
        file: path of the file, relative to the suite's folder.
        function: name of the callable.
        folder: absolute path of the suite's folder.
        places: the folders of user code, for names of files in messages.

    Raises:
        CallError: see `load`.
    """
    path = os.path.normpath(os.path.join(folder, file))
    if not os.path.isfile(path):
        raise CallError("missing_module", "the file does not exist (allowed: a path relative to agent.yaml)")
    try:
        module = _module_of_file(path, folder)
    except BaseException as error:  # noqa: BLE001 - importing runs user code, which may even try to exit
        raise _import_error(file, error, places) from None
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
        raise CallError("missing_attribute", f"{shown} has no {attribute}{_suggestion(attribute, module)}") from None


def _callable_of(module: ModuleType, attribute: str, shown: str) -> Callable[..., Any]:
    found = _attribute_of(module, attribute, shown)
    if not callable(found):
        raise CallError("not_callable", f"{attribute} in {shown} is of type {type(found).__name__}, not callable")
    return found  # type: ignore[no-any-return]  # a callable of any kind


def needs_second_argument(function: Callable[..., Any]) -> bool:
    """Return whether a callable requires a second positional argument; False if its signature cannot be read."""
    import inspect

    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return len(places) > 1 and places[1].default is inspect.Parameter.empty


def _import_error(name: str, error: BaseException, places: UserFolders) -> CallError:
    return places.failure_of(error, f"importing {name} raised", "import_failed")


def _suggestion(attribute: str, module: object) -> str:
    import difflib

    names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    close = difflib.get_close_matches(attribute, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""
