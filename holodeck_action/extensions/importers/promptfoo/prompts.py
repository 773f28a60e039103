"""Reads the prompts of a promptfoo configuration and renders them for cases."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from holodeck_action.extensions.importers.promptfoo.templates import Templates
from holodeck_action.extensions.importers.source import (
    OutOfReachError,
    Place,
    Source,
    UnfitError,
    json_problem,
    place_of,
    plain,
)
from holodeck_action.suite.yaml.document import MarkedList
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.lazy_patterns import lazy_pattern

HISTORY = "_conversation"
"""The variable with the earlier cases of a conversation."""
_EARLIER = {"prompt": "earlier question", "input": "earlier question", "output": "earlier answer"}
_SYSTEM = ("system", "developer")
_FILE_NAME = lazy_pattern(r"\S+\.(?:txt|md|j2|json|jsonl|ya?ml|csv|py|[cm]?[jt]s)")


class Prompt(Struct, frozen=True):
    """A prompt of the configuration.

    Attributes:
        place: position of the prompt in the file.
        label: label of the prompt; empty if it has no label.
        template: the template: a text, or the messages of a chat.
        problem: reason why the prompt cannot be imported; empty if there is none.
        config: model settings that the prompt defines.
        names: names by which providers and cases refer to the prompt: its label and its id in promptfoo.
    """

    place: Place
    label: str
    template: Any
    problem: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    @property
    def repeats_cases(self) -> bool:
        """Whether the prompt contains the earlier cases of a conversation."""
        return HISTORY in json.dumps(self.template)

    def matches(self, references: Any) -> bool:
        """Return whether a list of references selects the prompt; True if `references` is not a list.

        A reference is a name, the part of a name before a colon, or a prefix followed by `*`.
        """
        if not isinstance(references, list | tuple):
            return True
        names = {name for name in (self.label, *self.names) if name}
        return any(
            name == reference
            or name.startswith(f"{reference}:")
            or (reference.endswith("*") and name.startswith(reference[:-1]))
            for reference in map(str, references)
            for name in names
        )


class FilledPrompt(Struct, frozen=True):
    """A prompt rendered for a case.

    Attributes:
        instructions: the system message; None if there is no system message.
        input: the user message.
        whole: the whole prompt, for a target that is a program.
    """

    instructions: str | None
    input: str
    whole: str


def prompts_of(source: Source, configuration: Mapping[str, Any]) -> list[Prompt]:
    """Return the prompts of the configuration; without prompts, one prompt that consists of the variable `prompt`."""
    written = configuration.get("prompts")
    if written is None:
        return [Prompt(place_of(source.name, configuration), "", "{{prompt}}")]
    place = place_of(source.name, configuration, "prompts")
    if isinstance(written, dict):
        # An old form: a mapping of files to labels.
        return list(_read_prompts(source, [{"id": key, "label": value} for key, value in written.items()], place))
    return list(_read_prompts(source, written if isinstance(written, list) else [written], place))


def _read_prompts(source: Source, entries: Sequence[Any], entry_place: Place) -> Iterator[Prompt]:
    for index, item in enumerate(entries):
        place = place_of(source.name, entries, index) if isinstance(entries, MarkedList) else entry_place
        label = str(item.get("label") or "") if isinstance(item, dict) else ""
        try:
            text = item.get("raw") or item.get("id") if isinstance(item, dict) else item
            named = (str(item["id"]),) if isinstance(item, dict) and item.get("id") else ()
            if not isinstance(text, str):
                raise UnfitError("a prompt must be a text or the name of a file")
            config = plain(item.get("config")) if isinstance(item, dict) else None
            config = config if isinstance(config, dict) else {}
            for prompt in _prompts_of_text(source, text, place, label):
                yield replace(prompt, config=config, names=(*prompt.names, *named))
        except UnfitError as error:
            yield Prompt(place, label, "", str(error))


def _prompts_of_text(source: Source, text: str, place: Place, label: str) -> Iterator[Prompt]:
    named = text.removeprefix("file://")
    if not text.startswith("file://") and not _is_file_name(source, text):
        yield Prompt(place, label, _chat_or_text(text))
        return
    for path in source.files_matching(named):
        file = source.relative(path)
        if path.suffix.lower() in (".yaml", ".yml"):
            parts: list[tuple[str, Any]] = [("", plain(source.data(path)))]
        else:
            parts = [
                (own, _chat_or_text(text)) for own, text in _split_file(path.suffix.lower(), source.text(path), file)
            ]
        if not parts:
            raise UnfitError(f"the file {file} contains no prompt")
        for number, (own, template) in enumerate(parts, 1):
            shown = own or label or path.stem
            if not own and len(parts) > 1:
                shown = f"{shown} {number}"
            start = f"{label}: {file}" if label else file
            written = template if isinstance(template, str) else json.dumps(template)
            yield Prompt(Place(file, 1), shown, template, names=(own or f"{start}: {written}",))


def _split_file(kind: str, text: str, file: str) -> list[tuple[str, str]]:
    """Return the label and text of each prompt in a file, split by promptfoo's rules for the file's suffix.

    Raises:
        UnfitError: the file contains code, or is invalid CSV.
    """
    lines = re.split("\r?\n", text)
    if kind == ".txt":
        found = [""]
        for line in lines:
            if line.strip() == "---":
                found.append("")
            else:
                found[-1] += f"{line}\n"
        return [("", part.strip()) for part in found if part.strip()]
    if kind == ".jsonl":
        return [("", line) for line in lines if line]
    if kind == ".csv" and "," not in text:
        rows = [line for line in lines if line.strip()]
        return [("", row) for row in rows[rows[:1] == ["prompt"] :]]
    if kind == ".csv":
        try:
            table = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
        except csv.Error as error:
            raise UnfitError(f"the file {file} is not CSV: {error}") from None
        return [((row.get("label") or "").strip(), row["prompt"].strip()) for row in table if row.get("prompt")]
    if kind in (".md", ".j2", ".json", ""):
        return [("", text.strip())]
    raise UnfitError(f"the prompt {file} is code, which is not run; write its text here")


def _is_file_name(source: Source, text: str) -> bool:
    """Return whether a prompt without `file://` is the name of a file.

    Raises:
        OutOfReachError: the prompt is the name of a file that must not be read.
    """
    if "\n" in text or len(text) >= 500 or "{{" in text:
        return False
    try:
        return bool(source.files_matching(text))
    except OutOfReachError:
        # `/help` is a prompt, `../prompts/ask.txt` is a file.
        if _FILE_NAME.fullmatch(text):
            raise
        return False
    except UnfitError:
        return False


def _chat_or_text(text: str) -> Any:
    """Parse a prompt that is JSON, such as a chat; return any other text unchanged.

    Raises:
        UnfitError: the data cannot be written as JSON.
    """
    if text.lstrip().startswith(("[", "{")) and not text.lstrip().startswith("{{"):
        try:
            data = parse_json(text)
        except ValueError:
            return text
        problem = json_problem(data)
        if problem:
            raise UnfitError(f"the prompt {problem}")
        return data
    return text


def fill_prompt(
    prompt: Prompt, variables: Mapping[str, Any], options: Mapping[str, Any], templates: Templates
) -> FilledPrompt:
    """Render a prompt for a case.

    Raises:
        UnfitError: the prompt cannot be rendered, or contains more than a system message and a user message.
    """
    if prompt.problem:
        raise UnfitError(prompt.problem)
    if not prompt.repeats_cases:
        return _fill_prompt(*_render(prompt, variables, options, templates))
    if options.get("disableConversationVar"):
        raise UnfitError("the case does not see the earlier ones (disableConversationVar), which a turn does")
    filled = _fill_prompt(*_render(prompt, {**variables, HISTORY: []}, options, templates))
    _, messages = _render(prompt, {**variables, HISTORY: [_EARLIER]}, options, templates)
    said = [(each["role"], each["content"]) for each in messages or () if each["role"] not in _SYSTEM]
    if said != [("user", _EARLIER["input"]), ("assistant", _EARLIER["output"]), ("user", filled.input)]:
        raise UnfitError(
            "the prompt does not repeat earlier cases (_conversation) as messages; write a case with turns"
        )
    return filled


def _render(
    prompt: Prompt, variables: Mapping[str, Any], options: Mapping[str, Any], templates: Templates
) -> tuple[str, list[dict[str, Any]] | None]:
    """Return a prompt as a text, and the list of its messages; the list is None if the prompt is not a chat."""
    start, end = str(options.get("prefix") or ""), str(options.get("suffix") or "")
    data = templates.render_value(prompt.template, variables)
    if isinstance(data, str):
        whole = f"{templates.render(start, variables)}{data}{templates.render(end, variables)}"
        data = _chat_or_text(whole)
    elif start or end:
        raise UnfitError("its prefix and suffix cannot be added to a chat")
    else:
        whole = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    messages = data if isinstance(data, list) and data and all(_is_message(item) for item in data) else None
    return whole, messages


def _fill_prompt(text: str, messages: list[dict[str, Any]] | None) -> FilledPrompt:
    if messages is None:
        return FilledPrompt(None, text, text)
    system = [message["content"] for message in messages if message["role"] in _SYSTEM]
    rest = [message for message in messages if message["role"] not in _SYSTEM]
    if len(rest) != 1 or rest[0]["role"] != "user" or not all(isinstance(each["content"], str) for each in messages):
        raise UnfitError("the prompt is a conversation, or holds more than text; write a case with turns or files")
    return FilledPrompt("\n\n".join(system) or None, rest[0]["content"], text)


def _is_message(message: Any) -> bool:
    return isinstance(message, dict) and isinstance(message.get("role"), str) and "content" in message
