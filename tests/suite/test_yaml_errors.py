"""What is wrong with a text that is no YAML, in words that say what to change, at the place to change."""

from __future__ import annotations

import re

from tests.commands.project import Project

COLON = "the value holds a colon: put the value in quotes"
NO_KEY = "this line is not a key: write it as `key: value`"
TAB = "a tab cannot indent YAML: use spaces"
DASH = "an item of a list needs a space after its dash"
INDENT = "the indentation of this line matches no line above it: indent it like the lines that it belongs to"
DIRECTIVE = "a line that starts with % is a directive of YAML: remove it, or put the text in quotes"
QUOTED_ALREADY = "text follows the closing quote: write"
BRACKETS = "the text ends inside brackets: close [ with ], and { with }"

# Text, place and sentence; what is wrong is wrong for libyaml, whose phrase tells an author little.
BROKEN = [
    ("a: b: c\n", "1:5", COLON),
    ("cases:\n- input: What is this: a test\n", "2:22", COLON),
    ("a: see: http://x\n", "1:7", COLON),
    ("a: b:\n", "1:5", COLON),
    ("a: 1\n  b: 2\n", "2:3", "this key is indented below line 1, which has a value already: indent it like that line"),
    ("hello\na: 1\n", "1:1", NO_KEY),
    ('"a\nb": 1\n', "2:1", "a key must be on one line"),
    (f"{'k' * 1025}: 1\n", "1:1026", "a key is longer than 1,024 characters: shorten it"),
    ("name: a\nmodel\n  provider: x\n", "2:1", NO_KEY),
    ("name: a\nmodel\n", "2:1", NO_KEY),
    ("-a\nb: 1\n", "1:1", DASH),
    ("-a: 1\n- b: 1\n", "1:1", DASH),
    ("a:\n\tb: 1\n", "2:1", TAB),
    ("a:\n  - b\n\t- c\n", "3:1", TAB),
    ("a: |\n\ttext\n", "2:1", TAB),
    ("a: @b\n", "1:4", "a value cannot start with @: put it in quotes"),
    ("a: `b`\n", "1:4", "a value cannot start with `: put it in quotes"),
    ("a: %b\n", "1:4", "a value cannot start with %: put it in quotes"),
    ("a: ,b\n", "1:4", "a value cannot start with ,: put it in quotes"),
    ("a: **bold**\n", "1:4", "a value cannot start with *: put it in quotes"),
    ("a: & b\n", "1:4", "a value cannot start with &: put it in quotes"),
    ("a: !foo!bar 1\n", "1:4", "a value cannot start with !: put it in quotes"),
    ("a: !<x 1\n", "1:4", "a value cannot start with !: put it in quotes"),
    (
        "a: >=3\n",
        "1:4",
        "a value cannot start with >, unless its text begins on the next line: put it in quotes",
    ),
    (
        "a: {{ name }}\n",
        "1:5",
        "a: a mapping or list cannot be a key (allowed: text): put a value that",
    ),
    ("a:\n  - b\n - c\n", "3:2", INDENT),
    ("a:\n    b: 1\n  c: 2\n", "3:3", INDENT),
    ("b: 1\n- a\n", "2:1", "found an item of a list instead of a key: indent it below its key"),
    (
        "- a\nb: 1\n",
        "2:1",
        "found a key instead of an item of the list: start the line",
    ),
    ("a: 1\n\ufeffb: 1\n", "2:2", "unexpected byte order mark inside the file: delete it"),
    ('a: "b\nc: 1\n', "1:4", 'the quotation that begins here is not closed: add " at its end'),
    ("a: 'b\nc: 1\n", "1:4", "the quotation that begins here is not closed: add ' at its end"),
    ("a: 'it's fine'\n", "1:8", f"{QUOTED_ALREADY} '' for ' inside single quotes, or use double quotes"),
    ('a: "b" c\n', "1:8", f'{QUOTED_ALREADY} \\" for " inside double quotes, or use single quotes'),
    ("a: [x] y\n", "1:8", "text follows the closing ]: put the whole value in quotes"),
    ("a: &x &y 1\n", "1:7", "text follows the end of a value: put the whole value in quotes"),
    ('a: "b\n---\nc"\n', "2:1", "--- is inside a quotation: close the quotation before it, or indent the line"),
    ("a: [1, 2\nb: 1\n", "1:4", "the list that begins here is not closed: add ], or put the value in quotes"),
    ("a: {b: 1", "1:4", "the mapping that begins here is not closed: add }, or put the value in quotes"),
    ("a: [1}\n", "1:6", "} cannot close [: write ]"),
    ('a: ["b" "c"]\n', "1:9", "a comma or ] is missing here, or the value needs quotes"),
    ("a: [1,,2]\n", "1:7", "an item is missing before this sign, or the value needs quotes"),
    ("{", "2:1", BRACKETS),
    (
        'a: "\\d+"\n',
        "1:5",
        "\\d is not an escape in double quotes: write \\\\d for a backslash, or use single quotes",
    ),
    (
        'a: "C:\\users"\n',
        "1:7",
        "\\u needs 4 hexadecimal digits: write \\\\u for a backslash, or use single quotes",
    ),
    ('a: "\\U00110000"\n', "1:7", "the escape names no character: write \\\\ for a backslash, or use single quotes"),
    ("a: 1\n---\nb: 2\n", "2:1", "starts a second document (allowed: one, without a second ---)"),
    ("a: 1\n...\nb: 2\n", "3:1", "text follows the end of the document, which ... marks: remove the line with ..."),
    (
        "%YAML 2.0\n---\na: 1\n",
        "1:1",
        "the directive %YAML names an unsupported version (allowed: 1.1 and 1.2)",
    ),
    ("%YAML x\n---\na: 1\n", "1:1", DIRECTIVE),
    ("%FOO\na: 1\n", "1:1", DIRECTIVE),
    (
        "%TAG ! x\na: 1\n",
        "2:1",
        "--- is missing below a directive, which starts with %: add it",
    ),
    ("a: \x07\n", "1:4", "it holds a control character: delete it"),
    ("b: |0\n x\n", "1:5", "the digit after | or > is the indentation of the text, from 1 to 9"),
    (
        "a: - b\n",
        "1:4",
        "a list cannot begin on the line of its key: begin it on the next line, or put the value in quotes",
    ),
    ("a: *b\n", "1:4", "a: the alias *b is not defined above"),
]


def test_every_kind_of_broken_file_is_told_in_words_with_the_way_out(project: Project) -> None:
    for number, (text, _, _) in enumerate(BROKEN):
        project.write(f"{number:03}/agent.yaml", text)
    finished = project.run("validate", "*/agent.yaml")
    assert (finished.code, finished.stdout) == (2, "")
    said = re.findall(
        r"^error: (\d+)/agent\.yaml:([\d:]+): (?:is not valid YAML: )?(.*)$", finished.stderr, re.MULTILINE
    )
    told = {int(number): (place, sentence) for number, place, sentence in said}
    for number, (text, place, sentence) in enumerate(BROKEN):
        found = told[number]
        assert (found[0], found[1].startswith(sentence)) == (place, True), (text, found)
    # No phrase of the parser is left.
    assert not re.search(r"did not find|found undefined|while (?:scanning|parsing)|in this context", finished.stderr)
