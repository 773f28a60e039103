"""The prompts of a promptfoo configuration, and what a case asks with one."""

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

_SYSTEM = ("system", "developer")
_FILE_NAME = re.compile(r"\S+\.(?:txt|md|j2|json|jsonl|ya?ml|csv|py|[cm]?[jt]s)")


class Prompt(Struct, frozen=True):
    """A prompt.

    Attributes:
        place: where it is written.
        label: its name; empty when it has none.
        template: its text, or the messages of a chat.
        problem: why it cannot be imported; empty when it can.
        config: settings of the model that are written with it.
        names: what providers and cases call it: its label and id in promptfoo.
    """

    place: Place
    label: str
    template: Any
    problem: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    def is_meant(self, references: Any) -> bool:
        """Tell whether a list refers to it: by a name, its part before a colon, or its start and `*`; no list does."""
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


class Asked(Struct, frozen=True):
    """What a case asks: the system message, if there is one, and the user's; `whole` is what a program gets."""

    instructions: str | None
    input: str
    whole: str


def prompts_of(source: Source, root: Mapping[str, Any]) -> list[Prompt]:
    """Return all prompts; without any, the variable `prompt` is the prompt."""
    written = root.get("prompts")
    if written is None:
        return [Prompt(place_of(source.name, root), "", "{{prompt}}")]
    place = place_of(source.name, root, "prompts")
    if isinstance(written, dict):
        # An old form: files and their labels.
        return list(_each(source, [{"id": key, "label": value} for key, value in written.items()], place))
    return list(_each(source, written if isinstance(written, list) else [written], place))


def _each(source: Source, written: Sequence[Any], whole: Place) -> Iterator[Prompt]:
    for index, item in enumerate(written):
        place = place_of(source.name, written, index) if isinstance(written, MarkedList) else whole
        label = str(item.get("label") or "") if isinstance(item, dict) else ""
        try:
            text = item.get("raw") or item.get("id") if isinstance(item, dict) else item
            named = (str(item["id"]),) if isinstance(item, dict) and item.get("id") else ()
            if not isinstance(text, str):
                raise UnfitError("a prompt is a text or names a file")
            config = plain(item.get("config")) if isinstance(item, dict) else None
            config = config if isinstance(config, dict) else {}
            for prompt in _of_text(source, text, place, label):
                yield replace(prompt, config=config, names=(*prompt.names, *named))
        except UnfitError as error:
            yield Prompt(place, label, "", str(error))


def _of_text(source: Source, text: str, place: Place, label: str) -> Iterator[Prompt]:
    named = text.removeprefix("file://")
    if not text.startswith("file://") and not _names_file(source, text):
        yield Prompt(place, label, _chat(text))
        return
    for path in source.matching(named):
        file = source.relative(path)
        if path.suffix.lower() in (".yaml", ".yml"):
            parts: list[tuple[str, Any]] = [("", plain(source.data(path)))]
        else:
            parts = [(own, _chat(text)) for own, text in _parts(path.suffix.lower(), source.text(path), file)]
        if not parts:
            raise UnfitError(f"the file {file} holds no prompt")
        for number, (own, template) in enumerate(parts, 1):
            shown = own or label or path.stem
            if not own and len(parts) > 1:
                shown = f"{shown} {number}"
            start = f"{label}: {file}" if label else file
            written = template if isinstance(template, str) else json.dumps(template)
            yield Prompt(Place(file, 1), shown, template, names=(own or f"{start}: {written}",))


def _parts(kind: str, text: str, file: str) -> list[tuple[str, str]]:
    """Return the prompts of a file with their own labels, as promptfoo finds them by its ending.

    Raises:
        UnfitError: it is code.
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


def _names_file(source: Source, text: str) -> bool:
    """Whether a prompt that does not say so is the name of a file.

    Raises:
        OutOfReachError: it is the name of a file that is not read.
    """
    if "\n" in text or len(text) >= 500 or "{{" in text:
        return False
    try:
        return bool(source.matching(text))
    except OutOfReachError:
        # `/help` is a text, `../prompts/ask.txt` is not.
        if _FILE_NAME.fullmatch(text):
            raise
        return False
    except UnfitError:
        return False


def _chat(text: str) -> Any:
    """Return the data of a prompt that is JSON; the text itself where it is none, or only after its rendering.

    Raises:
        UnfitError: it holds what JSON does not have.
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


def asked(prompt: Prompt, variables: Mapping[str, Any], options: Mapping[str, Any], templates: Templates) -> Asked:
    """Fill a prompt for a case.

    Raises:
        UnfitError: it cannot be filled, or is a conversation with answers.
    """
    if prompt.problem:
        raise UnfitError(prompt.problem)
    if "_conversation" in json.dumps(prompt.template):
        raise UnfitError("the prompt repeats earlier cases (_conversation); write one case with turns")
    start, end = str(options.get("prefix") or ""), str(options.get("suffix") or "")
    data = templates.rendered(prompt.template, variables)
    if isinstance(data, str):
        whole = f"{templates.render(start, variables)}{data}{templates.render(end, variables)}"
        data = _chat(whole)
    elif start or end:
        raise UnfitError("prefix and suffix of a chat")
    else:
        whole = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    messages = data if isinstance(data, list) and data and all(_is_message(item) for item in data) else None
    if messages is None:
        return Asked(None, whole, whole)
    system = [message["content"] for message in messages if message["role"] in _SYSTEM]
    rest = [message for message in messages if message["role"] not in _SYSTEM]
    if len(rest) != 1 or rest[0]["role"] != "user" or not all(isinstance(each["content"], str) for each in messages):
        raise UnfitError("the prompt is a conversation, or holds more than text; write a case with turns or files")
    return Asked("\n\n".join(system) or None, rest[0]["content"], whole)


def _is_message(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("role"), str) and "content" in item
