"""Reads the inputs of a step, and the options in its input `args`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from holodeck_action.run.options.action_inputs import (
    ACTION_INPUTS,
    ARGS,
    COMMAND,
    COMPARE_INPUTS,
    COMPARISON,
    INPUTS,
    POLICY,
    PUBLISH_INPUTS,
    SHARED,
    STORED_OPTIONS,
)
from holodeck_action.run.options.declarations import Input
from holodeck_action.run.options.input_kinds import FLAG
from holodeck_action.run.options.input_values import InputError, misplaced_options, option_lines, parse_values
from holodeck_action.seam import registry
from holodeck_action.text.option_lines import OptionLine, split_option_lines
from holodeck_action.text.plain import one_line
from holodeck_action.text.redaction import Redactor

_SHOWN = 100
OPTIONS = {
    "run": (*(item for item in INPUTS if not item.action), POLICY),
    "compare": (*(item for item in INPUTS if item.name in (*COMPARISON, "summary")), *COMPARE_INPUTS),
}
"""The options that the input `args` takes, by command."""
_COMMENT_OPTIONS = tuple(item for item in PUBLISH_INPUTS if item.name == "require-publish")
"""The options that `args` takes for a command of an extension whose report is a comment."""
_COMMENT_INPUTS = {"comment", "comment-id", *(item.name for item in _COMMENT_OPTIONS)}
_ALWAYS = {"github-token", "command", "args"}
_PUBLISH_SETTINGS = {*SHARED, *(item.name for item in PUBLISH_INPUTS)} | _ALWAYS
_USED = {
    "command compare": {"history", "output-dir", "fail-on", *(item.name for item in OPTIONS["compare"])} | _ALWAYS,
    "publish": _PUBLISH_SETTINGS - {"merge"},
    "merge": _PUBLISH_SETTINGS | {"output-dir", "html"} - {"publish"},
    "results": _PUBLISH_SETTINGS | STORED_OPTIONS - {"publish", "merge"},
}
"""Names of the inputs and options that a step uses, by action of the step; steps that run a suite are not included."""


class StepInputs(NamedTuple):
    """The inputs of a step.

    Attributes:
        command: `run`, `compare`, or the command of an extension.
        settings: the values of inputs and options by setting name, with the defaults of action.yml.
        records: the lines of `args` that are not options, such as the runs to compare.
        arguments: the arguments of an extension's command, as on the command line.
    """

    command: str
    settings: Mapping[str, Any]
    records: tuple[str, ...]
    arguments: tuple[str, ...] = ()


def read_step_inputs(environ: Mapping[str, str], redactor: Redactor) -> StepInputs:
    """Return the inputs of a step.

    Misspelt names are refused: the runner only warns about them, and the step could pass without the intended gate.
    Variables whose names are not similar to an input's are ignored, since the job may define its own.

    Args:
        environ: the environment variables of the step.
        redactor: masks the secrets of the job, which `args` must not hold.

    Raises:
        InputError: inputs have misspelt names or values that are not allowed, or lines of `args` cannot be used.
    """
    problems = [*misplaced_options(environ, _args_remedy), *_misspelt_inputs(environ)]
    inputs = {item: item.text_in(environ) or item.default for item in ACTION_INPUTS}
    command = inputs[COMMAND]
    reader = _OptionReader(command, redactor, problems)
    options, records = reader.read(split_option_lines(inputs[ARGS]))
    arguments = _arguments(command, inputs, reader.others, records)
    problems += _settings_without_effect(command, inputs, options)
    defaults = {item: item.default for item in (*INPUTS, *_options_of(command)) if not item.action}
    settings = parse_values(defaults, "", problems) | parse_values(inputs, "input ", problems)
    settings |= parse_values(options, "args: --", problems)
    if problems:
        raise InputError(tuple(map(redactor.text, problems)))
    return StepInputs(command, settings, records, arguments)


def _options_of(command: str) -> Sequence[Input]:
    extended = registry.steps().get(command)
    if extended is not None and extended.comment:
        return _COMMENT_OPTIONS
    return OPTIONS.get(command, ())


def _arguments(
    command: str, inputs: Mapping[Input, str], lines: Sequence[OptionLine], records: Sequence[str]
) -> tuple[str, ...]:
    """Return the arguments of an extension's command: from its inputs, and from the lines of `args`."""
    found = registry.steps().get(command)
    if found is None:
        return ()
    named = {item.name: text for item, text in inputs.items() if item.name in found.inputs and text}
    suites = named.pop("suite", "").split("\n")
    options = [part for name, text in named.items() for part in (f"--{name}", text)]
    for line in lines:
        options += [f"--{line.option}", *(() if line.value is None else (line.value,))]
    return (*options, "--", *records, *(suite.strip() for suite in suites if suite.strip()))


def _args_remedy(option: Input, text: str) -> str:
    key = f", or {option.policy_key} in holodeck-action.yaml" if option.key else ""
    return f"write {option_lines(option, text)} in args{key}"


def _misspelt_inputs(environ: Mapping[str, str]) -> Iterator[str]:
    from difflib import get_close_matches

    known = {item.name: item for item in (*ACTION_INPUTS, *OPTIONS["run"])}
    given = {variable for variable in environ if variable.startswith("INPUT_")}
    for variable in sorted(given - {item.variable for item in known.values()}):
        name = variable.removeprefix("INPUT_").lower()
        for close in get_close_matches(name.replace("_", "-"), known, n=1, cutoff=0.8):
            item = known[close]
            meant = close if item.action else f"{option_lines(item, environ[variable])} in args"
            yield f"input {name}: there is no such input; did you mean {meant}?"


def _settings_without_effect(command: str, inputs: Mapping[Input, str], options: Mapping[Input, str]) -> Iterator[str]:
    """Yield an error sentence for each setting that has no effect because the step runs nothing."""
    named = {item.name: text for item, text in (*inputs.items(), *options.items())}
    extended = registry.steps().get(command)
    instead = f"command {command}" if extended is not None or command == "compare" else None
    instead = instead or next((name for name in _USED if named.get(name)), None)
    if instead is None:
        if POLICY in options:
            yield "args: --policy: a run reads the policy file of its suite; give --policy only with --results"
        return
    if extended is None:
        used = _USED[instead]
    else:
        used = {*extended.inputs, "fail-on", *(_COMMENT_INPUTS if extended.comment else ()), *_ALWAYS}
    runs = "which runs nothing" if extended is None else "which does not use it"
    given = [f"input {item.name}" for item, text in inputs.items() if item.name not in used and text != item.default]
    given += [f"args: --{item.name}" for item in options if item.name not in used]
    for name in given:
        yield f"{name}: cannot be combined with {instead}, {runs}; leave out one of them"


class _OptionReader:
    """Reads the lines of `args` for a command, and adds sentences about errors to `problems`."""

    def __init__(self, command: str, redactor: Redactor, problems: list[str]) -> None:
        self._command, self._redactor, self._problems = command, redactor, problems
        self._options = {item.name: item for item in _options_of(command)}
        extended = registry.steps().get(command)
        self._passes_on = extended is not None
        self._takes_records = command == "compare" or (extended is not None and "suite" not in extended.inputs)
        self.others: list[OptionLine] = []
        """The lines with options of an extension's command, which reads them itself."""

    def read(self, lines: Sequence[OptionLine]) -> tuple[dict[Input, str], tuple[str, ...]]:
        """Return the text of each option, and the lines that name records."""
        texts: dict[Input, str] = {}
        records: list[str] = []
        # Without a command there is no list of options, and the command itself is refused.
        for line in lines if self._command in OPTIONS or self._passes_on else ():
            masked = self._redactor.text(line.text)
            if masked != line.text:
                self._refuse(masked, "holds a secret; the step takes secrets as variables, under env")
            elif self._takes_records and not line.text.startswith("--"):
                records.append(line.text)
            elif not line.option:
                self._refuse(line.text, "each line is one option, such as --min-pass-rate 0.9")
            elif self._passes_on and line.option not in self._options:
                self.others.append(line)
            else:
                self._add(line, texts)
        return texts, tuple(records)

    def _add(self, line: OptionLine, texts: dict[Input, str]) -> None:
        item, on = self._find(line.option)
        if item is None:
            self._refuse_name(line)
        elif item.kind is FLAG and line.value is not None:
            self._refuse(f"--{line.option}", f"takes no value; write only --{line.option}")
        elif item.kind is not FLAG and not line.value:
            self._refuse(f"--{line.option}", f"needs a value (allowed: {item.kind.allowed})")
        elif item in texts and not item.kind.many:
            self._refuse(f"--{line.option}", "is given twice; leave out one of them")
        else:
            text = line.value or ("true" if on else "false")
            texts[item] = f"{texts[item]}\n{text}" if item in texts else text

    def _find(self, name: str) -> tuple[Input | None, bool]:
        """Return the option that `NAME` or `no-NAME` sets (None if unknown), and a flag's value: False for `no-`."""
        item = self._options.get(name)
        if item is None and name.startswith("no-"):
            opposite = self._options.get(name.removeprefix("no-"))
            item = opposite if opposite is not None and opposite.default == "true" else None
            return item, False
        return item, True

    def _refuse_name(self, line: OptionLine) -> None:
        name = line.option
        inputs = {item.name: item for item in ACTION_INPUTS if item not in (COMMAND, ARGS)}
        inputs |= {f"no-{item.name}": item for item in inputs.values() if item.default == "true"}
        if name in inputs:
            text = str(name == inputs[name].name).lower() if inputs[name].kind is FLAG else line.value or "…"
            self._refuse(f"--{name}", f"is an input; set `{inputs[name].name}: {one_line(text, _SHOWN)}` under `with`")
            return
        if any(name == item.name for item in OPTIONS["run"]):
            self._refuse(f"--{name}", f"cannot be combined with command {self._command}; leave out one of them")
            return
        from difflib import get_close_matches

        close = get_close_matches(name, self._options, n=1, cutoff=0.8)
        self._refuse(f"--{name}", "there is no such option" + (f"; did you mean --{close[0]}?" if close else ""))

    def _refuse(self, option: str, reason: str) -> None:
        self._problems.append(f"args: {one_line(option, _SHOWN)}: {reason}")
