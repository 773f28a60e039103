"""The declaration of an extension: one value, `EXTENSION`, in the module `manifest` of its folder.

A manifest imports only this module, so that all manifests are read quickly. It names objects as `module:name`; each is
imported when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Command(NamedTuple):
    """A command of the command line.

    Attributes:
        name: the name that the user types.
        help: the first sentence of the command's help, without the period.
        to: reference to the `click.Command`, as `module:name`.
        group: title under which `--help` lists it.
    """

    name: str
    help: str
    to: str
    group: str


class StepCommand(NamedTuple):
    """A command of a step of a workflow.

    Attributes:
        name: the value of the input `command`.
        run: function (`module:name`) that takes the `Caller`, the arguments as on the command line, and a function that
            installs the extras that a suite needs; returns a `run.step_report.StepReport`.
        inputs: names of the inputs that it uses, each also an option of the command line; `suite` is its argument.
            Without `suite`, the lines of `args` that are not options are its arguments.
        comment: whether its report is also a sticky comment on the pull request. If so, the inputs `comment` and
            `comment-id` and the option `--require-publish` apply.
    """

    name: str
    run: str
    inputs: tuple[str, ...]
    comment: bool = False


class Metric(NamedTuple):
    """A type of metric.

    Attributes:
        type: the value of `type` in a suite.
        to: reference to its class, as `module:name`.
        name: the value of `metric` in a suite if a type of the core has several metrics; empty otherwise.
    """

    type: str
    to: str
    name: str = ""


class Format(NamedTuple):
    """A format of `export`. It has either `write` or `render`.

    Attributes:
        name: the value of `--format`. If the extension has an option of the same name, `run` with it writes `file`.
        help: a description in a few words.
        write: function (`module:name`) that takes `ExportOptions` and the `Caller`, and writes the document.
        options: tuple (`module:name`) of `click.Option`s to add to `export`; empty if the format adds none.
        render: function (`module:name`) that takes a `Conclusion` and the path of its record, and yields the document.
        file: name of the document next to the results of a run; empty if `run` does not write it.
    """

    name: str
    help: str
    write: str = ""
    options: str = ""
    render: str = ""
    file: str = ""


class Document(NamedTuple):
    """A document whose JSON Schema `schema` prints.

    Attributes:
        name: the argument of the command.
        schema: function (`module:name`) that returns the schema.
    """

    name: str
    schema: str


class Table(NamedTuple):
    """A kind of file that holds cases as rows.

    Attributes:
        suffix: suffix of the files, such as `.parquet`.
        rows: function (`module:name`) that takes the path of a file and yields its rows as mappings. It is called in a
            process with limits.
        package: package that `rows` needs; empty if it needs none.
        extra: extra of holodeck-action that installs the package.
        sheets: whether the files have sheets. If so, `rows` also takes the name of a sheet as `sheet` (None for the
            first sheet), and yields each row that is not empty, beginning with the header, as `{"sheet": NAME, "row":
            NUMBER, "cells": {COLUMN: TEXT}, "problems": {COLUMN: SENTENCE}}`. `problems` has the cells that cannot be
            read. A column is its number, from 1, as text.
    """

    suffix: str
    rows: str
    package: str = ""
    extra: str = ""
    sheets: bool = False


class Library(NamedTuple):
    """A library of metrics that runs in its own process.

    Attributes:
        name: name of the library in metrics.
        measuring: module whose `evaluate` computes the library's metrics; only the library's process imports it.
        imports: name under which the library is imported.
        package: the library's name on the package index.
        extra: extra of this package that installs it.
    """

    name: str
    measuring: str
    imports: str
    package: str
    extra: str


class Tool(NamedTuple):
    """A type of tool of the suite's own model.

    Attributes:
        type: the value of `type` in agent.yaml.
        build: function (`module:name`) that takes a `ToolContext`, and returns a `Toolkit` of all tools of the type.
        secrets: function (`module:name`) that takes the agent's tools and the suite's `Checkout`, and returns the
            secrets in entries of this type; empty if only substituted variables can be secret.
        package: package that `build` needs; empty if it needs none.
        extra: extra of holodeck-action that installs the package.
        documents: function (`module:name`) that takes a tool and the `Suite`, and returns the names of the PDF and
            Office files that the tool reads; empty if it reads none.
    """

    type: str
    build: str
    secrets: str = ""
    package: str = ""
    extra: str = ""
    documents: str = ""


class HistoryFunctions(NamedTuple):
    """The functions for the history of runs, each as `module:name`. At most one extension has them.

    Attributes:
        beside: takes the path of a results file, and returns the `EarlierRuns` stored next to this file.
        histories: takes the value of `--history` (None if it is not given), the `Job`, the `Disk` and a function that
            receives notices, and returns an object that reads and extends histories: its `of` returns the
            `EarlierRuns` of a `Run`, its `add` takes pairs of a `Run` and its `Conclusion`.
        open: takes the path of a folder, a function that waits for a number of seconds, and the `Disk`, and returns the
            history in the folder; its `results` returns the results file of a run.
        branch: takes the `Api`, the name of a branch, a function that lists the branch, and the clock, and returns a
            `ResultsSource` for the branch.
    """

    beside: str
    histories: str
    open: str
    branch: str


class Cards(NamedTuple):
    """The functions for judge cards, each as `module:name`. At most one extension has them.

    Attributes:
        read: takes a `Suite`, and returns the `JudgeCard`s that its policy file names, by metric.
        summarise: takes a `JudgeCard`, the name of its metric, the `Configuration` of the judge in the run, and the
            `AppliedEvaluations`, and returns the `CardSummary` of the run.
    """

    read: str
    summarise: str


class Users(NamedTuple):
    """The functions for simulated users, each as `module:name`. At most one extension has them.

    Attributes:
        settings: the type of `simulate` in a case, a subclass of `suite.model.simulation.Simulation`.
        problems: takes cases and the environment in which models are resolved, and yields a `Problem` for each case
            whose model cannot be called.
        open: takes the cases, the environment, the `Wire`, the name of the agent, and the seconds that one message may
            take; returns a `run.conversations.Users`.
        estimates: takes a `Run`; returns a `run.estimates.ModelEstimate` for each model that plays a user.
    """

    settings: str
    problems: str
    open: str
    estimates: str


class PairFunctions(NamedTuple):
    """The functions that compare two answers to the same question, each as `module:name`. At most one extension has
    them.

    Attributes:
        judge: coroutine function that takes a `Run`, the `Record`s of the run and of its base (None if there is
            no base), and the `Stop` of the run, and returns the run's record with the evaluations of the metrics whose
            `OF_PAIR` is True.
        skip: function that takes a `Record` and a reason, and returns the record with the evaluations of these metrics
            skipped.
        summarise: function that takes pairs of `CaseRecord`s (base, head), the targets of base and head, the tolerated
            loss, and whether a loss can fail the run; returns a `MetricComparison` and a `Preference` by metric.
    """

    judge: str
    skip: str
    summarise: str


class Framework(NamedTuple):
    """A framework for building agents.

    Attributes:
        name: the prefix of a target, and the value of `init --framework`.
        agent: description of the object that a target names, for messages.
        packages: top-level packages that a file with such an agent imports from.
        functions: names of these packages' functions and classes that return an agent when called.
        methods: names of methods of these packages' objects; the methods return an agent.
        example: an example of MODULE:NAME for messages.
        adapter: module whose `adapter` turns an agent into a callable; only the Python of the suite's environment
            imports it. Empty if `init` writes a callable that calls the agent, and spans report its work.
        requires: packages that the adapter uses: name, module, and oldest version, which is empty if any version works.
        spans: packages that emit the framework's spans; empty if none are needed.
    """

    name: str
    agent: str
    packages: frozenset[str]
    functions: frozenset[str]
    methods: frozenset[str] = frozenset()
    example: str = "my_agent:agent"
    adapter: str = ""
    requires: tuple[tuple[str, str, str], ...] = ()
    spans: tuple[str, ...] = ()


class Observer(NamedTuple):
    """The functions that receive and read agents' spans, each as `module:name`. At most one extension has them.

    Attributes:
        reader: takes the maximum bytes of a turn and a function that redacts text, and returns a
            `targets.spans.SpanReader`.
        listener: takes a receiver and a reader, and returns a `targets.spans.Listener`.
        receiver: takes a port, or None for any free port, and returns a receiver of spans.
        recorder: collects the spans of a process of the suite's environment, which imports it.
    """

    reader: str
    listener: str
    receiver: str
    recorder: str


class Conversations(NamedTuple):
    """A kind of recorded conversations, as the target of a run: they are judged in place of the suite's cases, or
    answer these.

    Attributes:
        name: the prefix of the target: `--target NAME:PATH`.
        open: function (`module:name`) that takes the PATH, the absolute current folder, the values of the
            extension's options by setting name, and the environment variables; returns a
            `suite.cases.case_files.Conversations`, or raises a `record.agent_errors.TargetError`.
    """

    name: str
    open: str


class Target(NamedTuple):
    """A kind of target that the policy file writes as a mapping.

    Attributes:
        key: the key by which the mapping is recognized.
        settings: the type of the mapping, a subclass of `suite.model.targets.AddedTarget`, as `module:name`.
        build: function (`module:name`) that takes the target and the keyword arguments of `targets.factory.build_agent`
            except `pool` and `receivers`, and returns an `Agent`, or raises a `record.agent_errors.TargetError`.
    """

    key: str
    settings: str
    build: str


class Option(NamedTuple):
    """A setting: an input of the Action, and an option of commands.

    Attributes:
        name: name of the input under `with:`, and of the option after `--`.
        help: help text of the option.
        metavar: placeholder of the value in the help.
        allowed: the allowed values, for error messages; empty if any string is allowed.
        read: function (`module:name`) that parses the value, and raises ValueError if it is invalid; empty if the value
            is used as a string.
        many: whether the option can be given several times; the input then has one value a line.
        flag: whether the option takes no value.
        of: the commands that take the option.
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
        """Name of the setting in the code."""
        return self.name.replace("-", "_")


class Key(NamedTuple):
    """A section of HoloDeck's agent.yaml that an extension reads; without the extension, the section is ignored.

    Attributes:
        name: the key at the top level of agent.yaml.
        to: reference to the type of its value, as `module:name`.
        secrets: function (`module:name`) that returns the secrets in a value of that type; empty if only substituted
            variables can be secret.
    """

    name: str
    to: str
    secrets: str = ""


class Extension(NamedTuple):
    """An extension and its contributions to the core.

    Attributes:
        name: name of the extension's folder.
        help: purpose of the extension, in one sentence.
        needs: names of the extensions that this extension imports.
        commands: commands of the command line.
        steps: commands of a step of a workflow.
        metrics: types of metrics.
        libraries: libraries of metrics.
        tools: types of tools.
        past: functions for the history of runs; None if it has none.
        cards: functions for judge cards; None if it has none.
        users: functions for simulated users; None if it has none.
        pairs: functions that compare two answers; None if it has none.
        frameworks: frameworks whose agents can be targets.
        observer: functions for agents' spans; None if it has none.
        conversations: kinds of recorded conversations.
        targets: kinds of targets that the policy file writes as mappings.
        tables: kinds of files with cases.
        formats: formats of `export`.
        services: services besides GitHub on which `publish` publishes: for each name, a class (`module:name`) that is
            used as `github.publisher.Publisher` is, and made by the arguments of `github.opening.open_publisher`.
        documents: documents of `schema`.
        options: options of commands.
        keys: sections of agent.yaml that the extension reads.
        results: function (`module:name`) that takes the paths of results files and a `run.ui.Ui`, and decides the files
            that other programs wrote; returns the `Conclusion`, the `RelatedFiles`, and a function that keeps the
            conclusion in the history; None if the files are results of this program. At most one extension has it.
        stages: the extension's stages in a run, a subclass of `run.stages.Stages`, as `module:name`. Only runs that use
            one of the extension's options or keys import this class.
        names: import names that other products document, such as HoloDeck's. For each module and name, the object of
            this package (`module:name`) that implements it.
    """

    name: str
    help: str
    needs: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    steps: tuple[StepCommand, ...] = ()
    metrics: tuple[Metric, ...] = ()
    libraries: tuple[Library, ...] = ()
    tools: tuple[Tool, ...] = ()
    past: HistoryFunctions | None = None
    cards: Cards | None = None
    users: Users | None = None
    pairs: PairFunctions | None = None
    frameworks: tuple[Framework, ...] = ()
    observer: Observer | None = None
    conversations: tuple[Conversations, ...] = ()
    targets: tuple[Target, ...] = ()
    tables: tuple[Table, ...] = ()
    formats: tuple[Format, ...] = ()
    services: Mapping[str, str] = {}
    documents: tuple[Document, ...] = ()
    options: tuple[Option, ...] = ()
    keys: tuple[Key, ...] = ()
    results: str = ""
    stages: str = ""
    names: Mapping[str, Mapping[str, str]] = {}
