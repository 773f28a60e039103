"""Every pattern of ours takes linear time on long lines of hexadecimal digits, digits, quotes, blanks and letters."""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import regex

import holodeck_action
from holodeck_action.text.lazy_patterns import lazy_pattern

ROOT = Path(holodeck_action.__file__).parent
LENGTH = 1 << 16
TEXTS = ("0a1b9f3c", "0123456789", '"', "'", " ", "\t", "\n", "-", "abcXyz", "abc ")
BOUND = 500
"""Units that a pattern may cost on `LENGTH` characters. The linear ones cost up to 170, a quadratic one over 10,000."""
AT_ONCE = ("match", "fullmatch")
ENGINES = {"re": re, "regex": regex}
LAZY: Any = type(lazy_pattern("a"))
FLAGS_AT = {"compile": 1, "split": 3, "sub": 4, "subn": 4}

# The names in patterns that functions build, by file and function. None: the pattern is a user's, which is only
# compiled, or runs with a time limit.
SAMPLES: Mapping[tuple[str, str], Mapping[str, Any] | None] = {
    ("extensions/history/data_branch.py", "_suite_entries"): {"commit": "0a1b", "key": "a/b"},
    ("extensions/importers/checks.py", "regex"): None,
    ("extensions/importers/checks.py", "full_match"): None,
    ("extensions/importers/deepeval/metrics.py", "_convert_pattern"): None,
    ("extensions/importers/promptfoo/patterns.py", "_translate"): None,
    ("extensions/importers/promptfoo/patterns.py", "_parse_class_escape"): {"kind": "x"},
    ("extensions/importers/promptfoo/rows.py", "_match_type"): {"kind": "equals"},
    ("extensions/knowledge/definitions.py", "__init__"): {"forms": ["ab", "0a"]},
    ("extensions/preference/summary.py", "maker_of"): {"start": "gpt"},
    ("extensions/simulation/message_problems.py", "message_problem"): {"names": "agent|bot"},
    ("extensions/tracing/otel.py", "_compile"): None,
    # The price list's, for names of models.
    ("llm/prices.py", "match"): None,
    ("llm/refused_settings.py", "_required_change"): {"level": "low"},
    ("metrics/tools/matchers.py", "_compile_pattern"): None,
    ("suite/checkout.py", "__init__"): {"part": "*a*.py"},
    ("suite/json_schemas.py", "_search"): None,
    ("suite/model/patterns.py", "pattern_problem"): None,
    ("targets/templates/jsonpaths.py", "compare"): None,
    # Each is a value of the module that declares it.
    ("text/lazy_patterns.py", "__getattr__"): None,
    ("text/redaction.py", "_any_pattern"): {"groups": ["a(?:bc0|Xyz)", "0(?:1234567)"]},
}


class Use(NamedTuple):
    """A pattern, and the names of the methods that are called with it."""

    place: str
    pattern: Any
    methods: frozenset[str]


def cpu_s(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def held_patterns(value: object, depth: int = 4) -> Iterator[Any]:
    """Yield the patterns in a module's value, also in its tables and as owner of a method."""
    if isinstance(value, (re.Pattern, regex.Pattern)):
        yield value
    elif isinstance(value, LAZY):
        yield re.compile(value.pattern, value.flags)
    elif depth and isinstance(value, Mapping):
        for item in value.values():
            yield from held_patterns(item, depth - 1)
    elif depth and isinstance(value, (tuple, list)):
        for item in value:
            yield from held_patterns(item, depth - 1)
    elif isinstance(owner := getattr(value, "__self__", None), (re.Pattern, regex.Pattern)):
        yield owner
    elif isinstance(owner, LAZY):
        yield re.compile(owner.pattern, owner.flags)


def functions_by_call(tree: ast.Module) -> dict[ast.Call, ast.FunctionDef | ast.AsyncFunctionDef | None]:
    """Return the innermost function of each call; None for the module and its classes."""
    found: dict[ast.Call, ast.FunctionDef | ast.AsyncFunctionDef | None] = {}
    found |= {node: None for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found |= {call: node for call in ast.walk(node) if isinstance(call, ast.Call)}
    return found


def called_methods(tree: ast.AST) -> dict[str, set[str]]:
    """Return the methods of patterns that code names, by the last name of their owner."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and hasattr(re.Pattern, node.attr):
            owner = ast.unparse(node.value).rpartition(".")[2]
            found.setdefault(owner, set()).add(node.attr)
    return found


def evaluate(node: ast.expr, names: Mapping[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "pattern", "eval"), {**names})


def names_in(function: ast.AST | None, names: dict[str, Any]) -> dict[str, Any]:
    """Return the names of a module with those that a function gives to constant texts."""
    for node in ast.walk(function) if function is not None else ():
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Constant, ast.JoinedStr, ast.Tuple)):
            with suppress(NameError):
                value = evaluate(node.value, names)
                targets = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
                values = value if isinstance(node.targets[0], ast.Tuple) else (value,)
                names |= {ast.unparse(target): item for target, item in zip(targets, values, strict=True)}
    return names


def built_patterns(file: str, tree: ast.Module, module: ModuleType) -> Iterator[Use]:
    """Yield the patterns in calls of `re` and `regex`, in functions, too."""
    for call, function in functions_by_call(tree).items():
        match call.func:
            case ast.Attribute(value=ast.Name(id=engine), attr=method) if engine in ENGINES and method != "escape":
                pass
            case _:
                continue
        flags = [word.value for word in call.keywords if word.arg == "flags"]
        flags += call.args[FLAGS_AT.get(method, 2) :][:1]
        sample = (file, function.name) if function is not None else None
        try:
            names = names_in(function, {**vars(module), **(SAMPLES.get(sample) or {} if sample else {})})
            given = [evaluate(node, names) for node in (call.args[0], *flags)]
        except NameError:
            # A table at the top of a module is in its values, and a user's pattern is not ours.
            if sample and SAMPLES.get(sample, {}) is not None:
                pytest.fail(f"{file}:{call.lineno} builds a pattern: add a sample of its names to SAMPLES, {sample}")
            continue
        around = next(node for node in tree.body if node.lineno <= call.lineno <= (node.end_lineno or 0))
        methods = {method} if method != "compile" else set().union(*called_methods(around).values())
        yield Use(f"{file}:{call.lineno}", ENGINES[engine].compile(*given), frozenset(methods - {"compile"}))


def own_patterns() -> Iterator[Use]:
    import holodeck_action.compat  # noqa: F401 - the checks of imported suites need its names

    trees = {path: ast.parse(path.read_bytes()) for path in sorted(ROOT.rglob("*.py"))}
    for path, tree in trees.items():
        file = path.relative_to(ROOT).as_posix()
        if not any(isinstance(node, ast.Name) and node.id in {*ENGINES, "lazy_pattern"} for node in ast.walk(tree)):
            continue
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        module = importlib.import_module(".".join(part for part in parts if part != "__init__"))
        methods = called_methods(tree)
        named = {
            pattern: frozenset(methods.get(name, ()))
            for name, value in vars(module).items()
            for pattern in held_patterns(value)
        }
        for name, value in vars(module).items():
            yield from (Use(f"{file}: {name}", pattern, named[pattern]) for pattern in held_patterns(value))
        for use in built_patterns(file, tree, module):
            # Patterns with the same text and flags are equal.
            yield use._replace(methods=use.methods | named.get(use.pattern, frozenset()))


def apply(use: Use, text: str) -> None:
    """Call the methods of a pattern; all if it is unknown which ones are used."""
    given: Any = text if isinstance(use.pattern.pattern, str) else text.encode()
    for method in use.methods or (*AT_ONCE, "finditer"):
        if method in AT_ONCE:
            getattr(use.pattern, method)(given)
        else:
            for _ in use.pattern.finditer(given):
                pass


def cost(use: Use, text: str, unit: float) -> float:
    """Return the units of CPU for a long text, as soon as they are above the bound."""
    size, units = 1 << 10, 0.0
    while size <= LENGTH and units <= BOUND:
        line = (text * size)[:size]
        units = cpu_s(lambda line=line: apply(use, line)) / unit  # type: ignore[misc]
        size *= 4
    return units


@pytest.mark.full
def test_every_pattern_of_ours_is_linear() -> None:
    linear = re.compile("(?:a|b)*c")
    unit = min(cpu_s(lambda: linear.match("ab" * (LENGTH // 2))) for _ in range(9))
    uses = {(use.pattern, use.methods): use for use in own_patterns()}.values()
    assert len(uses) > 300
    # A single measurement may be disturbed, three are not.
    slow = [
        f"{use.place} on {text!r}: {use.pattern.pattern!r}"
        for use in sorted(uses, key=lambda use: use.place)
        for text in TEXTS
        if all(cost(use, text, unit) > BOUND for _ in range(3))
    ]
    assert not slow, "\n".join(slow)
    quadratic = Use("", re.compile("[a-z0-9]+:"), frozenset({"finditer"}))
    assert cost(quadratic, TEXTS[0], unit) > BOUND
