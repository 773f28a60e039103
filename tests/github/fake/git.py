"""A repository's Git objects: a small real commit graph with real names of its objects, and branches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.github.fake.records import Ledger

FILE, EXECUTABLE, LINK, FOLDER = "100644", "100755", "120000", "040000"
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a name in a tree stands for."""

    mode: str
    sha: str


Tree = Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit; `number` counts them, so that a later one has the larger."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    message: str
    date: str
    number: int


class GitStore:
    """Objects and references of a repository; names of references begin with `refs/`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.blobs: dict[str, bytes] = {}
        self.trees: dict[str, Tree] = {}
        self.commits: dict[str, Commit] = {}
        self.refs: dict[str, str] = {}
        self.write_tree({})

    def write_blob(self, content: bytes) -> str:
        """Keep a file, and return its name."""
        sha = _name("blob", content)
        self.blobs[sha] = content
        return sha

    def write_tree(self, entries: Tree) -> str:
        """Keep a folder, and return its name."""
        ordered = sorted(entries.items(), key=lambda item: item[0] + ("/" if item[1].mode == FOLDER else ""))
        content = b"".join(
            f"{entry.mode.lstrip('0')} {name}".encode() + b"\0" + bytes.fromhex(entry.sha) for name, entry in ordered
        )
        sha = _name("tree", content)
        self.trees[sha] = dict(ordered)
        return sha

    def write_commit(self, tree: str, parents: Sequence[str], message: str, sha: str | None = None) -> str:
        """Keep a commit, and return its name; a test may choose it."""
        date, number = self._ledger.now(), len(self.commits)
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents), f"author a {date}", "", message]
        sha = sha or _name("commit", "\n".join(lines).encode())
        self.commits[sha] = Commit(sha, tree, tuple(parents), message, date, number)
        return sha

    def changed(self, base: str, changes: Mapping[str, Entry | None]) -> str:
        """Return the tree with paths set, or removed where they are None; folders that become empty are gone."""
        entries = dict(self.trees[base])
        below: dict[str, dict[str, Entry | None]] = {}
        for path, entry in changes.items():
            first, _, rest = path.partition("/")
            if rest:
                below.setdefault(first, {})[rest] = entry
            elif entry is None:
                del entries[first]
            else:
                entries[first] = entry
        for name, inner in below.items():
            old = entries.get(name)
            sha = self.changed(old.sha if old is not None and old.mode == FOLDER else EMPTY_TREE, inner)
            entries.pop(name, None)
            if sha != EMPTY_TREE:
                entries[name] = Entry(FOLDER, sha)
        return self.write_tree(entries)

    def commit(
        self, files: Mapping[str, str | bytes | None] | None = None, *parents: str, sha: str | None = None
    ) -> str:
        """Commit changes to the first parent's files.

        Args:
            files: content by path; None deletes the file.
            parents: names of commits.
            sha: the name it is to have; None for its real one.
        """
        changes: dict[str, Entry | None] = {}
        for path, content in (files or {}).items():
            data = content.encode() if isinstance(content, str) else content
            changes[path] = None if data is None else Entry(FILE, self.write_blob(data))
        base = self.commits[parents[0]].tree if parents else EMPTY_TREE
        return self.write_commit(self.changed(base, changes), parents, f"commit {len(self.commits)}", sha)

    def resolve(self, text: str) -> str | None:
        """Return the commit that a hash, a branch or a reference names."""
        if text in self.commits:
            return text
        return self.refs.get(f"refs/heads/{text}") or self.refs.get(f"refs/{text}") or self.refs.get(text)

    def ancestors(self, sha: str) -> list[Commit]:
        """Return a commit and all before it, the newest first."""
        found: set[str] = set()
        waiting = [sha]
        while waiting:
            name = waiting.pop()
            # A shallow import does not have all parents.
            if name not in found and name in self.commits:
                found.add(name)
                waiting += self.commits[name].parents
        return sorted((self.commits[name] for name in found), key=lambda commit: -commit.number)

    def merge_base(self, one: str, other: str) -> str | None:
        """Return the best common ancestor of two commits; None where they share no history."""
        theirs = {commit.sha for commit in self.ancestors(other)}
        return next((commit.sha for commit in self.ancestors(one) if commit.sha in theirs), None)

    def files(self, tree: str, folder: str = "") -> Iterator[tuple[str, Entry]]:
        """Yield every file below a tree with its path."""
        for name, entry in self.trees[tree].items():
            if entry.mode == FOLDER:
                yield from self.files(entry.sha, f"{folder}{name}/")
            else:
                yield folder + name, entry

    def deep(self, tree: str, folder: str = "") -> Iterator[tuple[str, Entry]]:
        """Yield everything below a tree with its path, folders too."""
        for name, entry in self.trees[tree].items():
            yield folder + name, entry
            if entry.mode == FOLDER:
                yield from self.deep(entry.sha, f"{folder}{name}/")

    def read(self, ref: str, path: str) -> bytes | None:
        """Return a file of a commit; None where it has none."""
        commit = self.resolve(ref)
        entries = {} if commit is None else dict(self.files(self.commits[commit].tree))
        return self.blobs[entries[path].sha] if path in entries else None


def _name(kind: str, content: bytes) -> str:
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()
