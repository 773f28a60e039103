"""What an extension declares: one value, `EXTENSION`, in the module `manifest` of its folder.

Everything here is plain text. A manifest imports this module alone, so that reading all of them costs next to nothing;
what a name stands for is imported when it is used.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """A command of the command line.

    Attributes:
        name: as it is typed.
        help: the first sentence of its help, without the period.
        to: the `click.Command`, as `module:name`.
        group: title under which `--help` lists it.
    """

    name: str
    help: str
    to: str
    group: str


class Metric(NamedTuple):
    """A type of metric.

    Attributes:
        type: as a suite writes it.
        to: its class, as `module:name`.
        name: as a suite writes it in `metric`, for one of several of a type of the core; empty for a type of its own.
    """

    type: str
    to: str
    name: str = ""


class Format(NamedTuple):
    """A format of `export`.

    Attributes:
        name: as `--format` takes it.
        help: what it is, a few words.
        write: takes `Exporting` and the `Caller`, and writes; as `module:name`.
        options: the `click.Option`s that it adds to `export`, as `module:name` of a tuple; empty for none.
    """

    name: str
    help: str
    write: str
    options: str = ""


class Document(NamedTuple):
    """A document whose JSON Schema `schema` prints.

    Attributes:
        name: as the command takes it.
        schema: returns the schema, as `module:name`.
    """

    name: str
    schema: str


class Table(NamedTuple):
    """A kind of file that holds cases as rows.

    Attributes:
        suffix: of its files, such as `.parquet`.
        rows: yields the rows of the file at a path, as mappings; a process with limits calls it. As `module:name`.
        package: that it needs.
        extra: of holodeck-action that installs the package.
    """

    suffix: str
    rows: str
    package: str
    extra: str


class Library(NamedTuple):
    """A library of metrics that runs in a process of its own.

    Attributes:
        name: as metrics name it.
        measuring: the module whose `evaluate` measures with it; that process alone imports it.
        imports: the module of the library itself.
        package: its name on the package index.
        extra: of this package, that brings it.
    """

    name: str
    measuring: str
    imports: str
    package: str
    extra: str


class Tool(NamedTuple):
    """A type of the tools of the suite's own model.

    Attributes:
        type: as agent.yaml writes it.
        build: makes a `Toolkit` of all tools of the type from `ToolSurroundings`, as `module:name`.
        secrets: finds the secrets that its entries hold, from the agent's tools and the suite's `Checkout`; empty where
            they hold none but substituted variables.
    """

    type: str
    build: str
    secrets: str = ""


class Past(NamedTuple):
    """How runs are kept over time; at most one extension says so. Each is `module:name`.

    Attributes:
        beside: returns the `EarlierRuns` that are kept beside results, from the path of these.
        histories: makes what reads and adds to the histories of a run, from what `--history` names (None: nothing), the
            `Job`, the `Disk` and what takes notes; its `of` returns the `EarlierRuns` of a `Prepared` suite, its `add`
            takes pairs of a `Prepared` suite and its `Conclusion`.
        open: opens the history in a folder, from its path, what pauses for seconds, and the `Disk`; its `results`
            returns the results file of a run.
        branch: returns the results on a branch as `ArtifactResults` does, from `Api`, name, what lists the branch, and
            the time.
    """

    beside: str
    histories: str
    open: str
    branch: str


class Option(NamedTuple):
    """A setting: an input of the Action, and an option of commands.

    Attributes:
        name: as it is written under `with:`, and behind `--`.
        help: of the option.
        metavar: what stands for the value in the help.
        allowed: what can be given, for error messages; empty for any text.
        read: makes a value of a text, and raises ValueError where it cannot, as `module:name`; empty for the text.
        many: it can be given several times; the input has one value a line.
        flag: it has no value.
        of: the commands that take it.
    """

    name: str
    help: str
    metavar: str = ""
    allowed: str = ""
    read: str = ""
    many: bool = False
    flag: bool = False
    of: tuple[str, ...] = ("run",)

    @property
    def setting(self) -> str:
        """What it sets."""
        return self.name.replace("-", "_")


class Key(NamedTuple):
    """A section of HoloDeck's format that an extension reads; without the extension it is not used.

    Attributes:
        name: of the key at the top level of agent.yaml.
        to: its type, as `module:name`.
        secrets: finds the secrets that a value of that type holds, as `module:name`; empty where it holds none but
            substituted variables.
    """

    name: str
    to: str
    secrets: str = ""


class Extension(NamedTuple):
    """What an extension is, and what it adds.

    Attributes:
        name: that of its folder.
        help: what it is for, one sentence.
        needs: extensions that it imports.
        commands: that it adds.
        metrics: that it adds.
        libraries: of metrics that it adds.
        tools: whose types it adds.
        past: how runs are kept over time.
        tables: kinds of files of cases that it adds.
        formats: of `export` that it adds.
        documents: that it adds.
        options: that it adds.
        keys: of agent.yaml that it reads.
        stages: what it does in a run, a subclass of `run.stages.Stages`, as `module:name`. It is imported by runs that
            give one of its options or keys alone.
    """

    name: str
    help: str
    needs: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    metrics: tuple[Metric, ...] = ()
    libraries: tuple[Library, ...] = ()
    tools: tuple[Tool, ...] = ()
    past: Past | None = None
    tables: tuple[Table, ...] = ()
    formats: tuple[Format, ...] = ()
    documents: tuple[Document, ...] = ()
    options: tuple[Option, ...] = ()
    keys: tuple[Key, ...] = ()
    stages: str = ""
