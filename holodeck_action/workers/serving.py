"""Answering calls inside the worker process.

Framed JSON on a connection of its own, so that nothing user code prints can break the protocol. Every message in is
`{id, op, reference, max_bytes, …}`, every message out `{id, value}` or `{id, error}`, with `files`, those of the
checkout that have been imported, where there are new ones.
Operations: `check`, `grade`, `ask` for graders and targets; `describe`, `prepare`, `tool` for functions of a model.
A callable of a file comes with `file` and `function`; its reference is then only how messages name it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holodeck_action.workers.failures import CallError, Places
from holodeck_action.workers.frames import CONNECTION_LOST, HEADER, pack, unpack
from holodeck_action.workers.loading import load, load_from_file
from holodeck_action.workers.plain import Plain

if TYPE_CHECKING:
    import asyncio


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
        self._runner: asyncio.Runner | None = None
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
            self._write(pack({"id": request["id"], **reply, **({"files": files} if files else {})}))
        if self._runner is not None:
            self._runner.close()

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
        match request["op"]:
            case "grade":
                # Graders import it anyway; Python targets need not pay for it.
                from holodeck_action.workers.grading import grade

                return grade(lambda context: self._settle(function(context)), request["context"], max_bytes)
            case "ask":
                return Plain(max_bytes).convert(self._settle(function(request["messages"])), "the reply")
            case "describe":
                from holodeck_action.workers.signatures import described

                return described(function)
            case "prepare":
                # Its import is no working time of the tool.
                import holodeck_action.workers.tooling  # noqa: F401

                return None
            case "tool":
                from holodeck_action.workers import tooling

                return tooling.result(self._settle(tooling.call(function, request["args"])), max_bytes)
            case _:
                return None

    def _find(self, request: dict[str, Any]) -> Callable[..., Any]:
        reference = request["reference"]
        if reference not in self._callables:
            if "file" in request:
                found = load_from_file(request["file"], request["function"], self._folder, self._places)
            else:
                found = load(reference, self._places)
            self._callables[reference] = found
        return self._callables[reference]

    def _settle(self, value: Any) -> Any:
        """Return the value, or what it comes to when it is awaitable.

        All calls share one event loop, so that clients which user code keeps between calls stay usable.
        """
        if not hasattr(type(value), "__await__"):
            return value
        import asyncio

        if self._runner is None:
            self._runner = asyncio.Runner()

        async def wait() -> Any:
            return await value

        return self._runner.run(wait())

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
