"""Errors of user code: as its callers see them, and inside its process as data with the user's own frames."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

from holodeck_action.text.plain import MARGIN, storable_text, whole

LONGEST_WORDS = 2000
"""Characters of what an exception says that are shown."""
SENT_WORDS = LONGEST_WORDS + MARGIN
"""Characters of it that the process sends: the secrets that are to be removed are not known there."""
_LONGEST_LINE = 200
_MAX_FRAMES = 30
_INSTALLED = ("site-packages", "dist-packages")
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_LASTING = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
"""System errors that trying again does not help."""


class UserCodeError(Exception):
    """A call of user code that gave no usable result; its texts can be stored, whatever the code raised.

    Attributes:
        message: one sentence, beginning with the callable's reference.
        code: `missing_module`, `import_failed`, `missing_attribute`, `not_callable` (it cannot be called at all);
            `raised`, `exited`, `unsupported_type`, `not_json`, `too_large` (it ran); `timeout`, `crashed`,
            `too_much_output`, `bad_answer` (its process was ended); `cannot_start`, `closed` (it did not run).
        type: class of the exception that user code raised; empty when it raised none.
        text: what that exception says, on one line; empty when it raised none.
        traceback: the user's own frames, innermost last.
        output: end of what was printed during the call.
        transient: whether trying again may help: user code met connection trouble or a timeout.
        spans: what is said of the spans of the call (see `Recorder.end`); None where nothing is.
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
        self.message = storable_text(message)
        super().__init__(self.message)
        self.code = storable_text(code)
        self.type = storable_text(type)
        self.text = storable_text(text)
        self.traceback = tuple(map(storable_text, traceback))
        self.output = output
        self.transient = transient

    @property
    def context(self) -> dict[str, Any]:
        """Further facts as JSON values: `type`, `traceback` and `output`, as far as there are any."""
        facts = {"type": self.type, "traceback": list(self.traceback), "output": self.output}
        return {name: fact for name, fact in facts.items() if fact}


class CallError(Exception):
    """A call that gave no usable result.

    Attributes:
        code: stable snake_case code.
        message: what happened, without the name of the callable.
        words: what the exception says, and goes on from the message; empty when there is none.
        after: what goes on from the words.
        type: class of the exception that user code raised; empty when it raised none.
        frames: the user's own frames, innermost last: `graders/money.py:12 in check: return 1 / 0`.
        transient: whether trying again may help: user code met connection trouble or a timeout.
    """

    def __init__(
        self,
        code: str,
        message: str,
        words: str = "",
        after: str = "",
        *,
        type: str = "",
        frames: tuple[str, ...] = (),
        transient: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.words = words[:SENT_WORDS]
        self.after = after
        self.type = type
        self.frames = frames
        self.transient = transient

    def as_data(self) -> dict[str, Any]:
        """Return the failure as JSON values."""
        return {
            "code": self.code,
            "message": self.message,
            "words": self.words,
            "after": self.after,
            "type": self.type,
            "traceback": list(self.frames),
            "transient": self.transient,
        }


class Places:
    """The folders of user code, relative to which its files are shown: messages are the same on every machine."""

    def __init__(self, *folders: str) -> None:
        self._prefixes = tuple(dict.fromkeys(folder.rstrip(os.sep) + os.sep for folder in folders))

    def shown(self, file: str) -> str | None:
        """Return a file's path below the user's folders; None for files that are not the user's."""
        if file.startswith((_STANDARD_LIBRARY, _OURS)) or any(part in _INSTALLED for part in file.split(os.sep)):
            return None
        for prefix in self._prefixes:
            if file.startswith(prefix):
                return file[len(prefix) :].replace(os.sep, "/")
        return None

    def raised(self, error: BaseException, action: str = "it raised", code: str = "raised") -> CallError:
        """Return the failure for an exception of user code."""
        words = after = ""
        if isinstance(error, SystemExit):
            what, words, after = "it called sys.exit(", "" if error.code is None else repr(error.code), ")"
            code = "exited"
        else:
            what, words = f"{action} {type(error).__name__}", _text_of(error)
            what += ": " if words.strip() else ""
        frames = self._frames(error.__traceback__)
        place = self._place_of_syntax_error(error)
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

    def _place_of_syntax_error(self, error: BaseException) -> str | None:
        if isinstance(error, SyntaxError) and error.filename is not None:
            shown = self.shown(error.filename)
            return f"{shown}:{error.lineno}" if shown else None
        return None

    def _frames(self, traceback: TracebackType | None) -> tuple[str, ...]:
        # Only a failure pays for the import.
        import linecache

        frames: list[str] = []
        while traceback is not None:
            code = traceback.tb_frame.f_code
            shown = self.shown(code.co_filename)
            if shown is not None:
                line = whole(linecache.getline(code.co_filename, traceback.tb_lineno).strip(), _LONGEST_LINE)
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
        return f"(its text cannot be made: {type(trouble).__name__})"
