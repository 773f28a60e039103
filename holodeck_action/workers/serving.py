"""Answers the calls of the run inside a worker process, on Python 3.9 or newer.

Messages (see `frames`) use a separate connection, so that printed output cannot break the protocol. A request is `{id,
op, reference, max_bytes, …}`. An answer is `{id, value}` or `{id, error}`, with `files` if files of the checkout have
been imported since the last answer, with `used` if the request has `watch`, the root of the checkout, and files below
it have been used (see `FileWatch`), and with `spans` (see `Recorder.end`) if spans are collected. The operations (`op`)
are `check` (imports a callable), `grade` and `source` for graders, `ask` for targets, `rows` for cases, `extend` for
extensions, and `describe` and `tool` for function tools. Requests for function tools have `file` and `function`; their
`reference` is only a name for messages. A call of `extend` may send questions, `{id, ask, question}`,
each of which the run answers with `{ask, answer}`.
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

from holodeck_action.workers.code_errors import CallError, UserFolders, file_of_module
from holodeck_action.workers.frames import CONNECTION_LOST, HEADER, pack, unpack
from holodeck_action.workers.json_values import PlainConverter
from holodeck_action.workers.streamed_reply import collect_reply, is_streamed

if TYPE_CHECKING:
    from holodeck_action.workers.event_loop import PersistentEventLoop
    from holodeck_action.workers.watching import FileWatch


_FILES_PER_ANSWER = 200
"""Maximum number of imported files in one answer, so that the answer does not exceed its size limit."""


def serve(connection: int, folder: str) -> None:
    """Answer calls of user code until the connection ends.

    Args:
        connection: file descriptor of the connection to the run.
        folder: absolute path of the suite's folder, first on the module path; the working folder is second. Their
            folders `src` are last, so that they hide nothing that is installed.
    """
    import holodeck_action.compat  # noqa: F401

    current = os.getcwd()
    folders = dict.fromkeys((folder, current))
    sys.path = [*folders, *sys.path, *(os.path.join(each, "src") for each in folders)]
    Server(connection, folder, current).serve()


class Server:
    """Answers calls inside the worker process, one after the other."""

    def __init__(self, connection: int, folder: str, current: str) -> None:
        self._connection = connection
        self._folder = folder
        self._user_folders = UserFolders(folder, current)
        self._process = os.getpid()
        self._callables: dict[str, Callable[..., Any]] = {}
        self._takes_request: dict[str, bool] = {}
        self._loop: PersistentEventLoop | None = None
        self._recorder: Any = None
        self._watch: FileWatch | None = None
        self._span_context: Callable[[], AbstractContextManager[None]] = nullcontext
        self._modules = set(sys.modules)
        self._unreported: list[str] = []

    def serve(self) -> None:
        """Answer calls until the connection ends."""
        while (request := self._read_message()) is not None:
            if "watch" in request and self._watch is None:
                # Before the first import of the suite's code. Targets do not need it.
                from holodeck_action.workers.watching import FileWatch

                self._watch = FileWatch(request["watch"])
            reply = self._answer(request)
            if os.getpid() != self._process:
                # User code has forked: only the worker itself answers, not the child.
                os._exit(0)
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):
                    stream.flush()
            files = self._new_files()
            if self._recorder is not None and request["op"] == "ask":
                reply["spans"] = self._recorder.end()
            if self._watch is not None:
                reply["used"] = self._watch.new_files()
            self._write(pack({"id": request["id"], **reply, **({"files": files} if files else {})}))
        if self._loop is not None:
            self._loop.close()

    def _new_files(self) -> list[str]:
        """Return the files of the checkout that were imported since the last call of this method, up to a limit.

        Files beyond the limit are returned by later calls.
        """
        if len(sys.modules) != len(self._modules):
            for name in [each for each in list(sys.modules) if each not in self._modules]:
                self._modules.add(name)
                file = file_of_module(sys.modules.get(name))
                if isinstance(file, str) and self._user_folders.relative_path(file) is not None:
                    self._unreported.append(file)
        reported, self._unreported = self._unreported[:_FILES_PER_ANSWER], self._unreported[_FILES_PER_ANSWER:]
        return reported

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"value": self._perform(request)}
        except CallError as failure:
            return {"error": failure.as_data()}
        except BaseException as error:  # noqa: BLE001 - user code raises what it likes
            return {"error": self._user_folders.call_error_for(error).as_data()}

    def _perform(self, request: dict[str, Any]) -> Any:
        function = self._find_callable(request)
        max_bytes = request["max_bytes"]
        op = request["op"]
        if op == "grade":
            # Imported late: Python targets do not need it.
            from holodeck_action.workers.grading import grade

            return grade(lambda context: self._await_result(function(context)), request["context"], max_bytes)
        if op == "source":
            from holodeck_action.workers.grading import source_digest

            return source_digest(request["reference"], function, self._user_folders)
        if op == "extend":
            from holodeck_action.seam import registry
            from holodeck_action.workers.questions import Questions

            questions = Questions(
                lambda message: self._write(pack({"id": request["id"], **message})), self._read_message
            )
            done = registry.resolve(request["by"])(function, request["payload"], questions.ask, self._await_result)
            return PlainConverter(max_bytes).convert(done, "the result")
        if op == "ask":
            turn_request = request["request"]
            more = (turn_request,) if self._takes_request[request["reference"]] else ()
            with self._collect_spans(turn_request):
                begun = time.monotonic()
                reply = self._await_result(function(turn_request["messages"], *more))
                if is_streamed(reply):
                    reply = collect_reply(reply, self._await_result, begun, max_bytes)
                return PlainConverter(max_bytes).convert(reply, "the reply")
        if op in ("describe", "tool") or "file" in request:
            # For a check, importing is all: so the time of the import does not count as the tool's.
            from holodeck_action.workers import tool_functions

            if op == "describe":
                return tool_functions.describe(function)
            if op == "tool":
                return tool_functions.bounded_result(
                    self._await_result(tool_functions.call_by_name(function, request["args"])), max_bytes
                )
        if op == "rows":
            from holodeck_action.workers.row_writer import write_rows

            values = self._await_result(function(**request["args"]))
            return write_rows(values, self._await_result, request["rows"], max_bytes)
        return None

    def _collect_spans(self, request: dict[str, Any]) -> AbstractContextManager[None]:
        """Return a context manager in which the spans of a turn are collected, if the run wants spans."""
        if self._recorder is not None:
            self._recorder.begin()
            self._span_context = partial(self._recorder.inside, request["traceparent"])
        return self._span_context()

    def _find_callable(self, request: dict[str, Any]) -> Callable[..., Any]:
        reference = request["reference"]
        if reference not in self._callables:
            if "file" in request:
                found = load_callable_from_file(request["file"], request["function"], self._folder, self._user_folders)
            else:
                found = load_callable(reference, self._user_folders, self._await_result)
            if request.get("spans") and self._recorder is None:
                # After the import, so that the project's own OpenTelemetry setup comes first.
                from holodeck_action.seam import registry

                observer = registry.observer()
                assert observer is not None
                self._recorder = registry.resolve(observer.recorder)()
            self._callables[reference] = found
            # Computed for "check", which does not count against the time limit of a turn.
            self._takes_request[reference] = request["op"] == "check" and needs_second_argument(found)
        return self._callables[reference]

    def _await_result(self, value: Any) -> Any:
        """Return the result of an awaitable; any other value unchanged."""
        if not hasattr(type(value), "__await__"):
            return value
        if self._loop is None:
            # Imported late: sync code does not need asyncio.
            from holodeck_action.workers.event_loop import PersistentEventLoop

            self._loop = PersistentEventLoop()
        return self._loop.run(value, self._span_context)

    def _read_message(self) -> Any:
        """Return the next message; None if the connection has ended."""
        header = self._read(HEADER)
        return unpack(self._read(int.from_bytes(header, "big"))) if header else None

    def _read(self, size: int) -> bytes:
        """Read exactly `size` bytes; return empty bytes if the connection has ended."""
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

    def _transfer(self, operation: Callable[[int, Any], Any], value: Any) -> Any:
        try:
            return operation(self._connection, value)
        except ConnectionError:
            os._exit(0)
        except OSError:
            os._exit(CONNECTION_LOST)


def load_callable(reference: str, user_folders: UserFolders, wait_for: Callable[[Any], Any]) -> Callable[..., Any]:
    """Import what `reference` names; return it if it is a callable, or a callable that runs it if it is an agent.

    Args:
        reference: `module:callable` or `framework:module:agent`.
        user_folders: the folders of user code, for names of files in messages.
        wait_for: returns the result of an awaitable; any other value unchanged.

    Raises:
        CallError: the module does not exist (code `missing_module`), importing it fails (`import_failed`), it lacks the
            attribute (`missing_attribute`), or the attribute cannot be called (`not_callable`).
    """
    *framework, module_name, attribute = reference.split(":")
    if framework:
        from holodeck_action.workers.agent_adapters import check_packages

        check_packages(framework[0])
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise CallError(
                "missing_module",
                f"there is no module {error.name} in the suite's folder, the current directory or the installed "
                "packages",
            ) from None
        from holodeck_action.workers.agent_adapters import REMEDY

        failure = _import_error(module_name, error, user_folders)
        failure.suffix += f"; {REMEDY}"
        raise failure from None
    except BaseException as error:  # noqa: BLE001 - importing runs user code, which may even try to exit
        raise _import_error(module_name, error, user_folders) from None
    shown = f"the module {module_name}"
    if framework:
        found = _attribute_of(module, attribute, shown)
        return _adapt_agent(framework[0], found, f"{attribute} in {shown}", user_folders, wait_for)
    return _callable_of(module, attribute, shown)


def _adapt_agent(
    framework: str, attribute: object, reference: str, user_folders: UserFolders, wait_for: Callable[[Any], Any]
) -> Callable[..., Any]:
    from holodeck_action.workers.agent_adapters import adapt, agent_factory

    agent = attribute
    if (factory := agent_factory(framework, attribute, reference)) is not None:
        try:
            agent = wait_for(factory())
        except BaseException as error:  # noqa: BLE001 - it is the suite's code
            raise user_folders.call_error_for(error, f"{reference} raised", "import_failed") from None
        reference = f"the result of {reference}"
    try:
        return adapt(framework, agent, reference)
    except CallError:
        raise
    except BaseException as error:  # noqa: BLE001 - importing a framework runs its code
        raise _import_error(framework, error, user_folders) from None


def load_callable_from_file(file: str, function: str, folder: str, user_folders: UserFolders) -> Callable[..., Any]:
    """Load a file as a module, once per process, and return a callable in it.

    If the file is importable by name, it is imported under this name, so that other modules that import it share its
    state.

    Args:
        file: path of the file, relative to the suite's folder.
        function: name of the callable.
        folder: absolute path of the suite's folder.
        user_folders: the folders of user code, for names of files in messages.

    Raises:
        CallError: see `load_callable`.
    """
    path = os.path.normpath(os.path.join(folder, file))
    if not os.path.isfile(path):
        raise CallError("missing_module", "the file does not exist (allowed: a path relative to agent.yaml)")
    try:
        module = _module_of_file(path, folder)
    except BaseException as error:  # noqa: BLE001 - importing runs user code, which may even try to exit
        raise _import_error(file, error, user_folders) from None
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
    # Dataclasses and pickle look up a class's module in `sys.modules`.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _attribute_of(module: ModuleType, attribute: str, reference: str) -> Any:
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise CallError(
            "missing_attribute", f"{reference} has no {attribute}{_suggestion(attribute, module)}"
        ) from None


def _callable_of(module: ModuleType, attribute: str, reference: str) -> Callable[..., Any]:
    found = _attribute_of(module, attribute, reference)
    if not callable(found):
        raise CallError("not_callable", f"{attribute} in {reference} is of type {type(found).__name__}, not callable")
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


def _import_error(name: str, error: BaseException, user_folders: UserFolders) -> CallError:
    return user_folders.call_error_for(error, f"importing {name} raised", "import_failed")


def _suggestion(attribute: str, module: object) -> str:
    import difflib

    names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    close = difflib.get_close_matches(attribute, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""
