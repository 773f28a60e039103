"""Errors of user code as its callers see them."""

from __future__ import annotations

from typing import Any

from holodeck_action.text.plain import storable_text


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
    ) -> None:
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
