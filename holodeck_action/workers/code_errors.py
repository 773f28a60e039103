"""Errors of user code: `CallError` inside the worker process, and `UserCodeError` in the process of the run."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

from holodeck_action.text.plain import MARGIN, line_or_length, replace_surrogates

MAX_EXCEPTION_CHARS = 2000
"""Maximum characters of an exception's text in messages."""
MAX_SENT_CHARS = MAX_EXCEPTION_CHARS + MARGIN
"""Maximum characters of an exception's text that a worker sends to the run.

The run cuts the text to `MAX_EXCEPTION_CHARS` after it has masked secrets. The margin ensures that no secret is cut
before."""
_LONGEST_LINE = 200
_MAX_FRAMES = 30
_INSTALLED = ("site-packages", "dist-packages")
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_LASTING = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
"""System errors that a retry does not fix."""


class UserCodeError(Exception):
    """A call of user code gave no usable result. The texts of this error contain no secrets.

    Attributes:
        message: one sentence, beginning with the callable's reference.
        code: `missing_module`, `import_failed`, `missing_attribute`, `not_callable` (it cannot be called at all);
            `raised`, `exited`, `unsupported_type`, `not_json`, `too_large` (it ran); `timeout`, `crashed`,
            `too_much_output`, `bad_answer` (its process was killed); `cannot_start`, `closed` (it did not run).
        type: class of the exception that user code raised; empty if it raised none.
        text: text of that exception, on one line; empty if it raised none.
        traceback: stack frames in the user's files, innermost last.
        output: last part of the text printed during the call.
        transient: whether a retry may help: user code had a connection error or a timeout.
        spans: the call's spans (see `Recorder.end`); None if no spans were collected.
    """

    def __init__(
        self,
        message: str,
        code: str,
        *,
        type: str = "",
        text: str = "",
        traceback: tuple[str, ...] = (),
        output: str = "",
        transient: bool = False,
        spans: Any = None,
    ) -> None:
        self.spans = spans
        self.message = replace_surrogates(message)
        super().__init__(self.message)
        self.code = replace_surrogates(code)
        self.type = replace_surrogates(type)
        self.text = replace_surrogates(text)
        self.traceback = tuple(map(replace_surrogates, traceback))
        self.output = output
        self.transient = transient

    @property
    def context(self) -> dict[str, Any]:
        """The details `type`, `traceback` and `output` as JSON values, without those that are empty."""
        facts = {"type": self.type, "traceback": list(self.traceback), "output": self.output}
        return {name: fact for name, fact in facts.items() if fact}


class CallError(Exception):
    """A call gave no usable result; raised inside the worker process.

    Attributes:
        code: stable snake_case code.
        message: description of the error, without the name of the callable.
        exception_text: text of the exception, which follows the message; empty if there is no text.
        suffix: text that follows `exception_text`.
        type: class of the exception that user code raised; empty if it raised none.
        frames: stack frames in the user's files, innermost last, such as `graders/money.py:12 in check: return 1 / 0`.
        transient: whether a retry may help: user code had a connection error or a timeout.
    """

    def __init__(
        self,
        code: str,
        message: str,
        exception_text: str = "",
        suffix: str = "",
        *,
        type: str = "",
        frames: tuple[str, ...] = (),
        transient: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.exception_text = exception_text[:MAX_SENT_CHARS]
        self.suffix = suffix
        self.type = type
        self.frames = frames
        self.transient = transient

    def as_data(self) -> dict[str, Any]:
        """Return the error as JSON values, to send to the run's process."""
        return {
            "code": self.code,
            "message": self.message,
            "exception_text": self.exception_text,
            "suffix": self.suffix,
            "type": self.type,
            "traceback": list(self.frames),
            "transient": self.transient,
        }


class UserFolders:
    """The folders of user code. Paths in messages are relative to them, so that messages are equal on every machine."""

    def __init__(self, *folders: str) -> None:
        self._prefixes = tuple(dict.fromkeys(folder.rstrip(os.sep) + os.sep for folder in folders))

    def relative_path(self, file: str) -> str | None:
        """Return a file's path relative to its folder of user code; None if the file is not user code.

        Files of the standard library, of installed packages and of this package are not user code.
        """
        if file.startswith((_STANDARD_LIBRARY, _OURS)) or any(part in _INSTALLED for part in file.split(os.sep)):
            return None
        for prefix in self._prefixes:
            if file.startswith(prefix):
                return file[len(prefix) :].replace(os.sep, "/")
        return None

    def call_error_for(self, error: BaseException, action: str = "it raised", code: str = "raised") -> CallError:
        """Return the `CallError` for an exception that user code raised.

        Args:
            error: the exception.
            action: start of the message, before the type of the exception.
            code: code of the `CallError`, unless user code called `sys.exit`.
        """
        words = after = ""
        if isinstance(error, SystemExit):
            what, words, after = "it called sys.exit(", "" if error.code is None else repr(error.code), ")"
            code = "exited"
        else:
            what, words = f"{action} {type(error).__name__}", _text_of(error)
            what += ": " if words.strip() else ""
        frames = self._frames(error.__traceback__)
        place = self._syntax_error_position(error)
        if place is None and frames:
            place = frames[-1].split(" ", 1)[0]
        return CallError(
            code,
            what,
            words,
            f"{after} ({place})" if place else after,
            type=type(error).__name__,
            frames=frames,
            transient=isinstance(error, OSError) and not isinstance(error, _LASTING),
        )

    def _syntax_error_position(self, error: BaseException) -> str | None:
        if isinstance(error, SyntaxError) and error.filename is not None:
            shown = self.relative_path(error.filename)
            return f"{shown}:{error.lineno}" if shown else None
        return None

    def _frames(self, traceback: TracebackType | None) -> tuple[str, ...]:
        # Imported late: only failures need it.
        import linecache

        frames: list[str] = []
        while traceback is not None:
            code = traceback.tb_frame.f_code
            shown = self.relative_path(code.co_filename)
            if shown is not None:
                line = line_or_length(linecache.getline(code.co_filename, traceback.tb_lineno).strip(), _LONGEST_LINE)
                frames.append(f"{shown}:{traceback.tb_lineno} in {code.co_name}" + (f": {line}" if line else ""))
                del frames[:-_MAX_FRAMES]
            traceback = traceback.tb_next
        return tuple(frames)


def _text_of(error: BaseException) -> str:
    try:
        if isinstance(error, SyntaxError):
            return str(error.msg)
        return str(error)
    except Exception as trouble:  # noqa: BLE001 - an exception whose text cannot be made still has its type
        return f"(no text: converting it to text raised {type(trouble).__name__})"


def file_of_module(module: object) -> object:
    """Return the `__file__` of a value in `sys.modules`, which user code may have set to any object."""
    try:
        # Not `getattr`: a module that loads lazily would load now.
        return object.__getattribute__(module, "__dict__").get("__file__")
    except Exception:  # noqa: BLE001 - it is the suite's code
        return None
