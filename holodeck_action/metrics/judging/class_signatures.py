"""Reads the classes of an installed library, or of a suite, from their source, without importing them.

An import of such a library takes seconds and runs its code. Instead, `ast` finds the names that the library exports,
and the parameters and attributes of its classes.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from holodeck_action.text.foreign import ForeignError, read_file

_PLAIN: Mapping[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "dict": dict,
    "Dict": dict,
    "Any": Any,
}
_LISTS = frozenset(("List", "list", "Sequence"))
_MOST_BASES = 20
"""Maximum number of base classes and aliases that are followed."""


class UnwritableType(Enum):
    """Marks a type whose values a YAML file cannot hold, such as a model client."""

    TYPE = "unwritable"


UNWRITABLE = UnwritableType.TYPE


class Parameter(Struct, frozen=True):
    """A parameter of a constructor.

    Attributes:
        name: name of the parameter.
        type: type of the parameter as an annotation for pydantic; `UNWRITABLE` if a YAML file cannot hold its values.
        required: whether the parameter has no default.
        default: the default, if it is a plain constant; None otherwise.
    """

    name: str
    type: Any
    required: bool
    default: Any


class LibraryClass(Struct, frozen=True):
    """A class of a library, as its source defines it.

    Attributes:
        name: its name.
        module: the module that defines it, with dots.
        bases: names of all its base classes that can be found in the source, nearest first.
        parameters: the parameters of its constructor by name, without `self`; None if no constructor is found in the
            source of the class and its base classes.
        node: its definition.
        ancestors: the definitions of its base classes whose source can be read, nearest first.
    """

    name: str
    module: str
    bases: tuple[str, ...]
    parameters: Mapping[str, Parameter] | None
    node: ast.ClassDef
    ancestors: tuple[ast.ClassDef, ...] = ()

    def constant_names(self, attribute: str) -> tuple[str, ...] | None:
        """Return the names in the list that the class or a base class assigns to `attribute`, such as `("INPUT",)` for
        `[Params.INPUT]`; None if no class assigns a list."""
        for statement in (each for node in (self.node, *self.ancestors) for each in node.body):
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
                if isinstance(target, ast.Name) and target.id == attribute and isinstance(statement.value, ast.List):
                    return tuple(item.attr for item in statement.value.elts if isinstance(item, ast.Attribute))
        return None

    def class_assigns_true(self, attribute: str) -> bool:
        """Return whether the class body assigns True to `attribute`."""
        return any(
            isinstance(statement, ast.Assign)
            and isinstance(statement.value, ast.Constant)
            and statement.value.value is True
            and any(isinstance(target, ast.Name) and target.id == attribute for target in statement.targets)
            for statement in self.node.body
        )

    def method_reads(self, attribute: str) -> bool:
        """Return whether a method of the class reads an attribute with this name."""
        return any(isinstance(node, ast.Attribute) and node.attr == attribute for node in ast.walk(self.node))

    def method_assigns_true(self, attribute: str) -> bool:
        """Return whether a method of the class assigns True to `self.ATTRIBUTE`."""
        return any(
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and node.value.value is True
            and any(isinstance(target, ast.Attribute) and target.attr == attribute for target in node.targets)
            for node in ast.walk(self.node)
        )

    def own_calls(self, method: str, prefix: str) -> list[str]:
        """Return the names of the methods that `method` calls on `self`, if they begin with `prefix`."""
        return [
            call.func.attr
            for function in self.method_definitions(method)
            for call in ast.walk(function)
            if isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id == "self"
            and call.func.attr.startswith(prefix)
        ]

    def method_definitions(self, name: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Yield the definitions of a method; overloads come before the method itself."""
        for statement in self.node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and statement.name == name:
                yield statement


Module = tuple[ast.Module, bool]
"""The syntax tree of a module, and whether the module is a package."""


class ClassSource(Struct, frozen=True):
    """The source of classes.

    Attributes:
        package: the package with the names that `exports` returns, with dots.
        find_module: returns a module by its name with dots; None if its source cannot be read.
        unannotated: the type of parameters without annotation and default.
    """

    package: str
    find_module: Callable[[str], Module | None]
    unannotated: Any = UNWRITABLE

    def exports(self) -> Mapping[str, str]:
        """Return the names that the package imports into its `__init__`, each with the module that defines it."""
        return {name: module for name, (module, _) in self._imports(self.package).items()}

    def class_names(self, module: str) -> tuple[str, ...]:
        """Return the names of the classes that a module defines."""
        found = self.find_module(module)
        return () if found is None else tuple(each.name for each in found[0].body if isinstance(each, ast.ClassDef))

    def read_class(self, name: str, module: str) -> LibraryClass | None:
        """Return a class of a module; None if its source defines no such class."""
        found = self._find(module, name)
        if found is None or not isinstance(found[1], ast.ClassDef):
            return None
        bases, ancestors = self._bases(*found)  # type: ignore[arg-type]
        parameters: dict[str, Parameter] | None = None
        for home, node in ((found[0], found[1]), *ancestors):
            init = next((each for each in node.body if getattr(each, "name", None) == "__init__"), None)
            if isinstance(init, ast.FunctionDef):
                parameters = {each.name: each for each in self._parameters(home, init.args)} | (parameters or {})
                if init.args.kwarg is None:
                    break
        return LibraryClass(
            name=name,
            module=found[0],
            bases=tuple(bases),
            parameters=parameters,
            node=found[1],
            ancestors=tuple(node for _, node in ancestors),
        )

    def _bases(self, module: str, node: ast.ClassDef) -> tuple[list[str], list[tuple[str, ast.ClassDef]]]:
        """Return the names of all base classes, nearest first, and (module, definition) of each base class whose source
        can be read."""
        left = [(module, base) for base in node.bases]
        names, ancestors = [], []
        for home, base in islice(left, _MOST_BASES):
            base = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(base, ast.Attribute):
                names.append(base.attr)
            if isinstance(base, ast.Name):
                names.append(base.id)
                found = self._find(home, base.id)
                if found is not None and isinstance(found[1], ast.ClassDef):
                    ancestors.append((found[0], found[1]))
                    # The list grows while it is read.
                    left += [(found[0], each) for each in found[1].bases]
        return names, ancestors

    def _parameters(self, module: str, arguments: ast.arguments) -> Iterator[Parameter]:
        positional = [*arguments.posonlyargs, *arguments.args][1:]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
        defaults += arguments.defaults[-len(positional) :] if positional else []
        listed = [
            *zip(positional, defaults, strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        for argument, default in listed:
            value = default.value if isinstance(default, ast.Constant) else None
            kind = self.unannotated if argument.annotation is None else self._type(module, argument.annotation)
            if argument.annotation is None and isinstance(value, str | int | float):
                kind = type(value)
            if kind is not UNWRITABLE and isinstance(default, ast.Constant) and value is None:
                kind = kind | None
            yield Parameter(argument.arg, kind, default is None, value)

    def _type(self, module: str, node: ast.expr, depth: int = 0) -> Any:
        """Return the type for an annotation; `UNWRITABLE` if YAML cannot hold values of this type."""
        if isinstance(node, ast.Constant):
            return None if node.value is None else UNWRITABLE
        if isinstance(node, ast.Name):
            return _PLAIN.get(node.id) or self._named_type(module, node.id, depth)
        if isinstance(node, ast.BinOp):
            return _union([self._type(module, part, depth) for part in (node.left, node.right)])
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
            return UNWRITABLE
        inner = [*node.slice.elts] if isinstance(node.slice, ast.Tuple) else [node.slice]
        match node.value.id:
            case "Optional":
                return _union([self._type(module, inner[0], depth), None])
            case "Union":
                return _union([self._type(module, part, depth) for part in inner])
            case "Literal":
                return _literal(part.value for part in inner if isinstance(part, ast.Constant))
            case "Dict" | "dict":
                return dict
            case kind if kind in _LISTS:
                item = self._type(module, inner[0], depth)
                return UNWRITABLE if item is UNWRITABLE else list[item]  # type: ignore[valid-type]
        return UNWRITABLE

    def _named_type(self, module: str, name: str, depth: int) -> Any:
        """Return the type for a name that the library defines: an enum, a model with fields, or an alias."""
        found = self._find(module, name) if depth < _MOST_BASES else None
        if found is None:
            return UNWRITABLE
        home, node = found
        if isinstance(node, ast.Assign):
            return self._type(home, node.value, depth + 1)
        if not isinstance(node, ast.ClassDef):
            return UNWRITABLE
        bases, _ = self._bases(home, node)
        if "Enum" in bases:
            values = (each.value for each in node.body if isinstance(each, ast.Assign))
            return _literal(value.value for value in values if isinstance(value, ast.Constant))
        return dict if "BaseModel" in bases else UNWRITABLE

    def _find(self, module: str, name: str) -> tuple[str, ast.stmt] | None:
        """Return the module and the statement that define a name, which may be imported from another module."""
        for _ in range(_MOST_BASES):
            found = self.find_module(module)
            for statement in () if found is None else found[0].body:
                if isinstance(statement, ast.ClassDef) and statement.name == name:
                    return module, statement
                if isinstance(statement, ast.Assign) and any(
                    isinstance(target, ast.Name) and target.id == name for target in statement.targets
                ):
                    return module, statement
            imported = self._imports(module).get(name)
            if imported is None:
                return None
            module, name = imported
        return None

    def _imports(self, module: str) -> dict[str, tuple[str, str]]:
        """Return, for each name that a module imports, the module that it comes from and its name there."""
        found: dict[str, tuple[str, str]] = {}
        tree, is_package = self.find_module(module) or (ast.Module([], []), False)
        for statement in tree.body:
            if isinstance(statement, ast.ImportFrom):
                parts = module.split(".")
                up = statement.level - is_package
                base = parts[: len(parts) - up] if statement.level else []
                home = ".".join([*base, *(statement.module.split(".") if statement.module else [])])
                found.update((alias.asname or alias.name, (home, alias.name)) for alias in statement.names)
        return found


def module_files(module: str) -> tuple[str, str]:
    """Return the paths that a module's file may have, relative to the folder of its top package."""
    path = module.replace(".", "/")
    return f"{path}/__init__.py", f"{path}.py"


@cache
def library_source(package: str) -> ClassSource | None:
    """Return the source of an installed package, without importing anything; None if it is not installed."""
    top, *rest = package.split(".")
    # A spec of a package inside another would import the outer one, and so run the library's code.
    spec = importlib.util.find_spec(top)
    for place in (None if spec is None else spec.submodule_search_locations) or ():
        if Path(place, *rest, "__init__.py").is_file():
            return ClassSource(package, partial(_installed_module, Path(place)))
    return None


@cache
def _installed_module(folder: Path, module: str) -> Module | None:
    """Return a module of the package in `folder`; None if it is not a module of this package."""
    if module.split(".")[0] != folder.name:
        return None
    for file in module_files(module):
        if (path := folder.parent / file).is_file():
            return _tree(path), path.name == "__init__.py"
    return None


@cache
def _tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file; an empty one if it cannot be read as Python."""
    try:
        return read_file(path).parse(ast.parse)
    except (OSError, ForeignError):
        return ast.Module([], [])


def _union(kinds: list[Any]) -> Any:
    kept = [kind for kind in kinds if kind is not UNWRITABLE]
    if not [kind for kind in kept if kind is not None]:
        return UNWRITABLE
    # A text beside a model client names a client, which the judge replaces.
    if UNWRITABLE in kinds and kept in ([str], [str, None]):
        return UNWRITABLE
    found = kept[0]
    for kind in kept[1:]:
        found = found | kind
    return found


def _literal(values: Iterator[Any]) -> Any:
    listed = tuple(value for value in values if isinstance(value, str | int | bool))
    return Literal[listed] if listed else UNWRITABLE
