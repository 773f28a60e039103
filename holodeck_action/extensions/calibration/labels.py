"""Reads human labels from CSV. Any doubtful value is an error, because a misread label would falsify the agreement."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.csv_cells import unguard_cell
from holodeck_action.text.foreign import read_file
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import cut

_PASS = frozenset(("pass", "passed", "yes", "true", "1"))
_FAIL = frozenset(("fail", "failed", "no", "false", "0"))
_ALIASES = {"actual_output": "response", "expected_output": "ground_truth"}
_PLACE_COLUMNS = ("case", "turn", "trial", "suite", "metric")
_TEXT_COLUMNS = ("input", "response", "other_response", "ground_truth")
_LIST_COLUMNS = ("context", "retrieval_context")
_PAIR_LABELS = {"win": 1.0, "tie": 0.5, "loss": 0.0}
_NOT_OF_PAIRS = ("case", "turn", "trial", "context", "retrieval_context")
"""Columns that must be empty in a label that compares two answers."""
_LABEL_COLUMN = lazy_pattern(r"label(_[2-9])?")
_REMARK_COLUMN = lazy_pattern(r"(?:annotator|comment)((?:_[2-9])?)")
_NO_LABEL = "no row with a label; write a line of column names and one line for each answer"
_MOST_PROBLEMS = 20
_LONGEST_FIELD = 16_000_000
_MOST_BYTES = 256_000_000


class LabelError(ConfigurationError):
    """Labels cannot be used; `lines` lists the reasons, each a sentence with line and column in the label file."""

    def __init__(self, problems: Sequence[str]) -> None:
        lines = list(problems[:_MOST_PROBLEMS])
        if len(problems) > len(lines):
            lines.append(f"{len(problems) - len(lines)} more problems of this kind")
        super().__init__(lines)


class LabelledAnswer(Struct, frozen=True):
    """One row: an answer and its human labels.

    Attributes:
        line: first line of the row in the file, 1-based.
        labels: one label per person: 1.0 for pass and 0.0 for fail, or a score 0..1; None if this person gave no label.
            The first label is never None. If the row compares two answers: 1.0 if `response` is better, 0.0 if
                `other_response` is better, 0.5 for a tie.
        annotators: the name of each of these persons; None if the row does not name the person.
        comments: the comment of each of these persons; None if there is no comment.
        case: id or name of the answer's case; None if the row contains input and answer.
        turn: index of the turn, from 0; None if not given.
        trial: index of the trial, from 0; None if not given.
        suite: name of the suite; None if not given.
        metric: name of the metric that the labels are about; empty if the row applies to all metrics of the answer that
            no other row names; None if the file has no such column.
        input: the input of the turn; None to use the input of the case.
        response: the answer; None to use the answer in the record.
        other_response: the answer that `response` is compared with; None if the label is about a single answer.
        ground_truth: the expected answer; None if not given.
        context: texts of the turn's files; None if not given.
        retrieval_context: retrieved texts; None if not given.
    """

    line: int
    labels: tuple[float | None, ...]
    annotators: tuple[str | None, ...]
    comments: tuple[str | None, ...]
    case: str | None = None
    turn: int | None = None
    trial: int | None = None
    suite: str | None = None
    metric: str | None = None
    input: str | None = None
    response: str | None = None
    other_response: str | None = None
    ground_truth: str | None = None
    context: tuple[str, ...] | None = None
    retrieval_context: tuple[str, ...] | None = None

    @property
    def of_pair(self) -> bool:
        """Whether the label compares two answers."""
        return self.other_response is not None

    @property
    def place(self) -> tuple[object, ...]:
        """A key that is equal for labels of the same answer, or of the same two answers in any order."""
        if self.other_response is None:
            return self.case, self.turn, self.trial
        return self.input, frozenset((self.response, self.other_response))


class Labels(Struct, frozen=True):
    """A file of labels.

    `file` is the file's name as given, `digest` the SHA-256 of its bytes; `are_scores` is true if the labels of single
    answers are scores, not verdicts; `unlabelled` is the number of rows with a comment and no label; `rows` does not
    contain these rows.
    """

    file: str
    digest: str
    are_scores: bool
    rows: tuple[LabelledAnswer, ...]
    unlabelled: int


def read_labels(path: Path, file: str) -> Labels:
    """Read a file of labels.

    The columns are `label`, `annotator` and `comment`, the same with `_2` to `_9` for further humans, and columns that
    identify the answer: `case`, `turn`, `trial`, `suite` and `metric`, or `input`, `response` (or `actual_output`),
    `ground_truth` (or `expected_output`), and `context` and `retrieval_context` as JSON lists of texts. Labels are
    pass/fail, yes/no, true/false or 1/0; if any label is another number, all labels are scores from 0 to 1. With
    `other_response`, a label compares two answers and is win, tie or loss. A leading apostrophe, which keeps
    spreadsheets from changing a text, is removed from names, comments, and the texts of two compared answers.

    Args:
        path: path of the file: UTF-8, comma-separated, with a header line.
        file: name of the file in messages.

    Raises:
        LabelError: the file cannot be used; the error lists the problems of all rows.
    """
    try:
        content = read_file(path, _MOST_BYTES)
        text = content.parse(lambda data: data.decode("utf-8-sig"), UnicodeDecodeError)
    except OSError as error:
        raise LabelError([f"{file}: cannot be read: {error.strerror}; give a CSV file of labels"]) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise LabelError([f"{file}:{line}: not UTF-8 text; save the file as UTF-8"]) from error
    columns, written = _parse_csv(text, file)
    rows = [(line, row) for line, row in written if not _is_note(row)]
    if not rows:
        raise LabelError([f"{file}: {_NO_LABEL}"])
    problems: list[str] = []
    single = [(line, row) for line, row in rows if not _compares(row)]
    texts = [(line, row[name].strip()) for line, row in single for name in _label_columns(columns) if row[name].strip()]
    are_scores = any(_is_number(label) and label not in ("0", "1") for _, label in texts)
    answers = [_Row(file, line, row, problems).answer(columns, are_scores) for line, row in rows]
    if not problems:
        problems += _find_duplicates(answers, file)
    if problems:
        raise LabelError(problems)
    return Labels(file, content.digest(), are_scores, tuple(answers), len(written) - len(rows))


def labels_of_metric(labels: Labels, metric: str, suite: str, *, compares_pairs: bool) -> Labels:
    """Return the labels for a suite's metric: rows that name it, and rows that apply to all metrics of an answer.

    Args:
        labels: all labels.
        metric: name of the metric.
        suite: name of the suite.
        compares_pairs: whether the metric compares two answers; if so, only labels that compare two answers apply.

    Raises:
        LabelError: the metric has no labels.
    """
    ours = [row for row in labels.rows if row.suite in (None, suite) and row.of_pair == compares_pairs]
    named = {row.place for row in ours if row.metric == metric}
    rows = tuple(row for row in ours if row.metric in (None, metric) or (not row.metric and row.place not in named))
    if not rows:
        other = any(row.of_pair != compares_pairs for row in labels.rows)
        needed = "compares two answers" if compares_pairs else "is about one answer"
        why = f"; {metric!r} needs labels of which each {needed}" if other else ""
        raise LabelError([f"{labels.file}: no label is about the metric {metric!r} of suite {cut(suite, 80)!r}{why}"])
    return replace(labels, rows=rows)


def sole_metric(labels: Labels) -> str | None:
    """Return the name of the metric if all labels name the same one; None if they name no metric or several."""
    named = {row.metric for row in labels.rows if row.metric}
    return named.pop() if len(named) == 1 else None


def _parse_csv(text: str, file: str) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Return the names of the columns, and each row with the number of its first line."""
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[tuple[int, dict[str, str]]] = []
    columns: list[str] = []
    problems: list[str] = []
    before = 0
    try:
        for fields in reader:
            line, before = before + 1, reader.line_num
            if not any(field.strip() for field in fields):
                continue
            if not columns:
                columns = _column_names(fields, f"{file}:{line}")
            elif len(fields) != len(columns):
                problems.append(
                    f"{file}:{line}: {len(fields)} fields, but {len(columns)} columns; put texts with commas in quotes"
                )
            else:
                rows.append((line, dict(zip(columns, fields, strict=True))))
    except csv.Error as error:
        raise LabelError([f"{file}:{reader.line_num}: not CSV: {error}"]) from error
    if problems:
        raise LabelError(problems)
    if not rows:
        raise LabelError([f"{file}: {_NO_LABEL}"])
    return columns, rows


def _column_names(fields: Sequence[str], place: str) -> list[str]:
    names = [_ALIASES.get(name, name) for name in (field.strip().lower() for field in fields)]
    known = (*_PLACE_COLUMNS, *_TEXT_COLUMNS, *_LIST_COLUMNS)
    problems = [
        f"{place}: column {at} has the unknown name {name!r} (allowed: {', '.join(known)}, label, "
        "annotator, comment; for further humans label_2 to label_9, annotator_2, comment_2 and so on)"
        for at, name in enumerate(names, start=1)
        if name not in known and not _LABEL_COLUMN.fullmatch(name) and not _REMARK_COLUMN.fullmatch(name)
    ]
    problems += [f"{place}: the column `{name}` occurs twice" for name in dict.fromkeys(names) if names.count(name) > 1]
    if "label" not in names:
        problems.append(f"{place}: the column `label` is missing")
    problems += [
        f"{place}: the column `{name}` requires the column `label{remark[1]}`"
        for name in names
        if (remark := _REMARK_COLUMN.fullmatch(name)) and remark[1] and f"label{remark[1]}" not in names
    ]
    if "case" not in names and not {"input", "response"} <= set(names):
        problems.append(
            f"{place}: nothing identifies the answers: add the column `case`, or the columns `input` and `response`"
        )
    if "other_response" in names and not {"input", "response"} <= set(names):
        problems.append(f"{place}: the column `other_response` requires the columns `input` and `response`")
    problems += [
        f"{place}: the column `{name}` requires the column `case`"
        for name in _PLACE_COLUMNS[1:]
        if _lacks_case_column(name, names)
    ]
    if problems:
        raise LabelError(problems)
    return names


def _lacks_case_column(name: str, names: Sequence[str]) -> bool:
    if name in ("suite", "metric") and "other_response" in names:
        return False
    return name in names and "case" not in names


def _label_columns(columns: Sequence[str]) -> list[str]:
    """Return the names of the label columns, starting with `label`."""
    return sorted(name for name in columns if _LABEL_COLUMN.fullmatch(name))


def _compares(row: Mapping[str, str]) -> bool:
    """Return whether a row compares two answers; either answer may be empty."""
    labels = {text.strip().lower() for name, text in row.items() if _LABEL_COLUMN.fullmatch(name)}
    return "other_response" in row and (bool(row["other_response"]) or not labels.isdisjoint(_PAIR_LABELS))


def _is_note(row: Mapping[str, str]) -> bool:
    """Return whether a row has a comment but no label."""
    labelled = any(text.strip() for name, text in row.items() if _LABEL_COLUMN.fullmatch(name))
    return not labelled and any(row[name].strip() for name in row if name.startswith("comment"))


class _Row(Struct, frozen=True):
    """A row to parse; descriptions of its defects are appended to `problems`."""

    file: str
    line: int
    fields: Mapping[str, str]
    problems: list[str]

    def answer(self, columns: Sequence[str], are_scores: bool) -> LabelledAnswer:
        names = _label_columns(columns)
        of_pair = _compares(self.fields)
        labels = tuple(self._pair_label(name) if of_pair else self._label(name, are_scores) for name in names)
        case = self._text("case")
        found = LabelledAnswer(
            line=self.line,
            labels=labels,
            annotators=tuple(self._name(name.replace("label", "annotator")) for name in names),
            comments=tuple(self._name(name.replace("label", "comment")) for name in names),
            case=None if case is None else self._name("case"),
            turn=self._index("turn"),
            trial=self._index("trial"),
            suite=self._name("suite"),
            metric=(self._name("metric") or "") if "metric" in columns else None,
            input=self._text("input"),
            # An answer may be empty. If the row names a case, the answer is in the record.
            response=self.fields.get("response") if case is None else self._text("response"),
            ground_truth=self._text("ground_truth"),
            context=self._list("context"),
            retrieval_context=self._list("retrieval_context"),
        )
        if of_pair:
            return self._check_pair(found)
        if case is None:
            if found.input is None or found.response is None:
                missing = "case" if "case" in columns else "input"
                self._add_problem(
                    missing, "the field is empty: name a case here, or fill the columns `input` and `response`"
                )
            if found.turn is not None or found.trial is not None:
                self._add_problem("turn" if found.turn is not None else "trial", "requires a case in the column `case`")
        return found

    def _check_pair(self, row: LabelledAnswer) -> LabelledAnswer:
        """Check a row that compares two answers; return it without the apostrophes that the viewer put before texts."""
        for column in _NOT_OF_PAIRS:
            if self._text(column) is not None:
                self._add_problem(column, "must be empty: a label of two answers is found by their texts")
        if row.input is None:
            self._add_problem("input", "the field is empty; give the question of both answers")
        texts = {name: unguard_cell(self.fields[name]) for name in ("input", "response", "other_response")}
        if texts["response"] == texts["other_response"]:
            self._add_problem("other_response", "both answers are the same, which is always a tie; leave out the row")
        truth = None if row.ground_truth is None else unguard_cell(row.ground_truth)
        return replace(row, **texts, ground_truth=truth)

    def _add_problem(self, column: str, message: str) -> None:
        self.problems.append(f"{self.file}:{self.line}: column `{column}`: {message}")

    def _text(self, column: str) -> str | None:
        text = self.fields.get(column)
        return text if text is not None and text.strip() else None

    def _name(self, column: str) -> str | None:
        cell = self._text(column) or ""
        name = unguard_cell(cell)
        # Names that people typed may have white space around them.
        return (unguard_cell(cell.strip()) if name == cell else name) or None

    def _label(self, column: str, are_scores: bool) -> float | None:
        text = self.fields[column].strip()
        if not text:
            if column == "label":
                self._add_problem(column, "the field is empty; label the answer, or leave out its row")
            return None
        if _is_number(text):
            value = float(text)
            if 0 <= value <= 1:
                return value
            self._add_problem(column, f"{cut(text, 40)!r} is not a score from 0 to 1")
        elif are_scores:
            self._add_problem(column, f"{cut(text, 40)!r} is not a number, but other labels in the file are scores")
        elif text.lower() in _PASS:
            return 1.0
        elif text.lower() in _FAIL:
            return 0.0
        else:
            self._add_problem(
                column, f"{cut(text, 40)!r} is not a label: write pass or fail, yes or no, 1 or 0, or a score 0..1"
            )
        return None

    def _pair_label(self, column: str) -> float | None:
        text = self.fields[column].strip()
        if not text and column != "label":
            return None
        label = _PAIR_LABELS.get(text.lower())
        if label is None:
            self._add_problem(
                column,
                f"{cut(text, 40)!r} is not a label of two answers: write win if response is the better one, loss if "
                "other_response is, or tie",
            )
        return label

    def _index(self, column: str) -> int | None:
        text = self.fields.get(column, "").strip()
        if not text:
            return None
        if text.isascii() and text.isdigit() and len(text) < 7:
            return int(text)
        self._add_problem(column, f"{cut(text, 40)!r} is not an index: write 0, 1, 2 and so on")
        return None

    def _list(self, column: str) -> tuple[str, ...] | None:
        text = self._text(column)
        if text is None:
            return None
        try:
            found = parse_json(text)
        except ValueError:
            found = None
        if isinstance(found, list) and all(isinstance(item, str) for item in found):
            return tuple(found)
        self._add_problem(column, 'write a JSON list of texts, such as ["first text", "second text"]')
        return None


def _is_number(text: str) -> bool:
    try:
        return text.isascii() and "_" not in text and math.isfinite(float(text))
    except ValueError:
        return False


def _find_duplicates(answers: Sequence[LabelledAnswer], file: str) -> list[str]:
    """Return an error message for each row that labels the same answer as an earlier row."""
    first: dict[object, int] = {}
    problems = []
    for row in answers:
        texts = (row.input, row.response, row.ground_truth, row.context, row.retrieval_context)
        about = (row.suite, row.metric)
        what, key = "answer", (*about, *texts) if row.case is None else (*about, *row.place, row.response)
        if row.of_pair:
            what, key = "pair", (*about, *row.place)
        if key in first:
            problems.append(f"{file}:{row.line}: repeats the {what} of line {first[key]}; give one row for each {what}")
        first.setdefault(key, row.line)
    return problems
