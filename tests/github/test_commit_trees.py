"""The files of a merge base: from hostile trees and for shallow clones, and gone whatever ends the run."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.commands.project import Project
from tests.github.baselines import Shop
from tests.github.fake import FakeGitHub, Token
from tests.github.life import suite
from tests.github.repositories import AGENT, baseline, by_code, commit, missing, repository, responses, run
from tests.github.test_merge_base import git


@pytest.fixture
def shop(project: Project) -> Project:
    return repository(project)


# -- clones without the files


def partial(shop: Project, how: str = "--depth=1") -> tuple[Project, str, str]:
    """A clone without the files of the merge base; and the merge base and the head."""
    by_code(shop, "wrong")
    fork = commit(shop)
    by_code(shop, "right")
    head = commit(shop, "topic")
    git(shop.folder, "checkout", "-q", "main")
    clone = shop.folder.parent / "clone"
    git(shop.folder.parent, "clone", "-q", how, "--branch", "topic", f"file://{shop.folder}", str(clone))
    return Project(clone), fork, head


@pytest.mark.full
@pytest.mark.parametrize("how", ["--depth=1", "--filter=blob:none"])
def test_a_partial_clone_gets_the_files_from_github(hub: FakeGitHub, shop: Project, how: str) -> None:
    git(shop.folder, "config", "uploadpack.allowFilter", "true")
    clone, fork, head = partial(shop, how)
    repository = hub.add_repository("octo/shop")
    hub.add_token("ghs_reader", Token("github-actions[bot]", permissions={"contents": "read"}))
    files = {name: (clone.folder / name).read_bytes() for name in ("agent.yaml", "holodeck-action.yaml")}
    repository.git.commit({**files, "agent.py": AGENT.format(words="wrong")}, sha=fork)
    repository.git.refs["refs/heads/main"] = repository.git.commit({}, fork)
    repository.git.commit({}, fork, sha=head)
    github = {"GITHUB_API_URL": hub.url, "GITHUB_REPOSITORY": "octo/shop", "GITHUB_TOKEN": "ghs_reader"}
    finished = run(clone, **github)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert responses(clone) == ({"right"}, {"wrong"})
    assert "ghs_reader" not in (clone.out / "results.json").read_text()


ATTRIBUTES = "agent.py export-subst\nhelp.py export-ignore\nended.txt text eol=crlf\n*.dat ident filter=none\n"
ASKING = """
import help
from pathlib import Path

FORMAT = "$Format:%H$"


def answer(messages):
    files = [Path(__file__).with_name(name).read_bytes().decode() for name in ("ended.txt", "a.dat")]
    return repr((WORDS, FORMAT.count("%"), help.WORDS, files))
"""


@pytest.mark.full
@pytest.mark.parametrize("how", ["--depth=1", "--single-branch"])
def test_the_files_are_those_of_a_checkout_wherever_they_come_from(hub: FakeGitHub, shop: Project, how: str) -> None:
    """Attributes that change what an archive holds do not change the base."""
    for name, content in {".gitattributes": ATTRIBUTES, "help.py": "WORDS = 'here'\n", "a.dat": "$Id$\n"}.items():
        shop.write(name, content)
    shop.write("ended.txt", "one\ntwo\n")
    by_code(shop, "old")
    shop.write("agent.py", f"WORDS = 'old'\n{ASKING}")
    fork = commit(shop)
    shop.write("agent.py", f"WORDS = 'new'\n{ASKING}")
    head = commit(shop, "topic")
    clone = Project(shop.folder.parent / "clone")
    git(shop.folder.parent, "clone", "-q", how, "--branch", "topic", f"file://{shop.folder}", str(clone.folder))
    repository = hub.add_repository("octo/shop")
    hub.add_token("ghs_reader", Token("github-actions[bot]", permissions={"contents": "read"}))
    names = git(shop.folder, "ls-tree", "--name-only", fork).split()
    stored = {name: git_bytes(shop, fork, name) for name in names}
    repository.git.commit(stored, sha=fork)
    repository.git.refs["refs/heads/main"] = fork
    repository.git.commit({"agent.py": git_bytes(shop, head, "agent.py")}, fork, sha=head)
    github = {"GITHUB_API_URL": hub.url, "GITHUB_REPOSITORY": "octo/shop", "GITHUB_TOKEN": "ghs_reader"}
    finished = run(clone, **github)
    assert finished.code in (0, 1), finished.stdout + finished.stderr
    ours, base = responses(clone)
    assert {str(text).replace("'new'", "'old'") for text in ours} == base
    # Everything else is in the checkout.
    assert sum("/git/blobs/" in call.path for call in hub.requests) == (how == "--depth=1")


def git_bytes(shop: Project, at: str, name: str) -> bytes:
    done = subprocess.run(("git", "show", f"{at}:{name}"), cwd=shop.folder, capture_output=True, check=True)
    return done.stdout


@pytest.mark.parametrize("how", ["--depth=1", "--filter=blob:none"])
def test_a_partial_clone_without_github_says_how_to_get_more(shop: Project, how: str) -> None:
    git(shop.folder, "config", "uploadpack.allowFilter", "true")
    clone, _, _ = partial(shop, how)
    assert "fetch-depth: 0" in missing(clone, run(clone))


def test_a_pull_request_in_a_shallow_checkout(hub: FakeGitHub, project: Project) -> None:
    shop = Shop(hub, project, "merge-base")
    suite(project, "refund")
    files = {name: (project.folder / name).read_bytes() for name in ("agent.yaml", "answers.jsonl")}
    main = shop.git.commit({**files, "holodeck-action.yaml": "target: recorded:answers.jsonl"}, shop.main)
    shop.git.refs["refs/heads/main"] = main
    head = shop.branch_off("shipping")
    ended = shop.pull(head)
    assert ended.code == 1
    assert (shop.base().source, shop.base().commit, shop.base().name) == ("merge-base", main, "main")
    assert "passed on `main`" in ended.summary
    assert [name in ended.summary for name in ("shipping", "refund")] == [True, True]
    # Without the permission the run is judged without a base.
    suite(project)
    ended = shop.pull(head, permissions={"actions": "read"})
    assert "contents: read" in shop.missing()
    assert ended.code == 0


# -- hostile trees


def tree_of(shop: Project, entries: list[tuple[str, str, str]]) -> str:
    """A commit on top of HEAD whose tree has further entries: mode and kind, name, object."""
    now = git(shop.folder, "ls-tree", "HEAD")
    lines = now + "\n" + "".join(f"{kind} {found}\t{name}\n" for kind, name, found in entries)
    made = subprocess.run(
        ("git", "mktree", "--missing"), cwd=shop.folder, input=lines, capture_output=True, text=True, check=True
    )
    return git(shop.folder, "commit-tree", made.stdout.strip(), "-p", "HEAD", "-m", "hostile")


def blob(shop: Project, content: str) -> str:
    shop.write("blob", content)
    found = git(shop.folder, "hash-object", "-w", "blob")
    (shop.folder / "blob").unlink()
    return found


SEEING = """
import os
from pathlib import Path

def answer(messages):
    here = Path(__file__).parent
    return " ".join(sorted(f"{path.name}{'@' * path.is_symlink()}" for path in here.iterdir()))
"""


def test_links_out_of_the_tree_and_submodules_are_not_there(shop: Project) -> None:
    by_code(shop, "right")
    commit(shop)
    shop.write("agent.py", SEEING)
    commit(shop)
    passwords = shop.folder.parent / "passwords"
    passwords.write_text("secret")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    hostile = tree_of(
        shop,
        [
            ("120000 blob", "absolute", blob(shop, str(passwords))),
            ("120000 blob", "above", blob(shop, "../../../../../etc/passwd")),
            ("120000 blob", "fine", blob(shop, "agent.py")),
            ("160000 commit", "module", "1" * 40),
            ("100644 blob", "large.pdf", blob(shop, pointer)),
        ],
    )
    git(shop.folder, "update-ref", "refs/heads/main", hostile)
    git(shop.folder, "checkout", "-q", "-f", "-b", "topic", "main")
    by_code(shop, "right")
    commit(shop)
    ran = run(shop)
    assert ran.code in (0, 1), ran.stdout + ran.stderr
    (seen,) = responses(shop)[1]
    assert seen is not None
    names = [name for name in seen.split() if not name.startswith("__")]
    assert sorted(names) == sorted(
        [".gitignore", "agent.py", "agent.yaml", "fine@", "holodeck-action.yaml", "large.pdf", "module"]
    )
    found = baseline(shop).base
    assert found is not None
    assert found.notices == (
        f"1 submodule(s) of commit {hostile[:12]}, such as 'module', are empty folders in the base",
        f"1 file(s) of commit {hostile[:12]} are in Git LFS, such as 'large.pdf': the base gets the pointers "
        "instead of the files",
    )


@pytest.mark.parametrize("name", [".git", ".GIT"])
def test_a_tree_with_data_of_git_is_not_used(shop: Project, name: str) -> None:
    by_code(shop, "right")
    commit(shop)
    head = git(shop.folder, "rev-parse", "HEAD")
    hostile = tree_of(shop, [("100644 blob", name, blob(shop, "gitdir: /elsewhere"))])
    topic = git(shop.folder, "commit-tree", f"{head}^{{tree}}", "-p", hostile, "-m", "topic")
    git(shop.folder, "update-ref", "refs/heads/main", hostile)
    git(shop.folder, "update-ref", "refs/heads/topic", topic)
    git(shop.folder, "symbolic-ref", "HEAD", "refs/heads/topic")
    assert hostile[:12] in missing(shop, run(shop))


def test_no_program_of_the_repository_runs(shop: Project) -> None:
    ran = shop.folder.parent / "ran"
    program = shop.write("program.sh", f"#!/bin/sh\necho ran >> {ran}\ncat\n")
    program.chmod(0o755)
    by_code(shop, "wrong")
    shop.write(".gitattributes", "*.py filter=own\n")
    commit(shop)
    by_code(shop, "right")
    commit(shop, "topic")
    for key in ("filter.own.smudge", "filter.own.clean", "core.fsmonitor", "core.sshCommand"):
        git(shop.folder, "config", key, str(program))
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        shutil.copy(program, shop.folder / ".git" / "hooks" / hook)
    ran.unlink(missing_ok=True)
    finished = run(shop)
    assert responses(shop) == ({"right"}, {"wrong"}), finished.stderr
    assert not ran.exists()


# -- nothing stays


def left(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def waits(shop: Project, where: str) -> None:
    """A base that hangs while it is imported, or while it answers."""
    by_code(shop, "right")
    line = "open(os.environ['BEGUN'], 'w').close(); time.sleep(600)"
    imported, asked = (line, "pass") if where == "import" else ("pass", line)
    shop.write("agent.py", f"import os, time\n{imported}\n\n\ndef answer(messages):\n    {asked}\n")
    commit(shop)
    by_code(shop, "right")
    commit(shop, "topic")


@pytest.mark.full
@pytest.mark.races
@pytest.mark.parametrize("where", ["import", "answer"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_no_files(shop: Project, where: str, number: signal.Signals) -> None:
    waits(shop, where)
    begun, temporary = shop.folder.parent / "begun", shop.folder.parent / "temporary"
    temporary.mkdir()
    environ = {"BEGUN": str(begun), "TMPDIR": str(temporary)}
    with shop.start("run", "-o", "out", "--baseline", "merge-base", **environ) as process:
        shop.wait_until(begun.exists)
        assert any(name.startswith("holodeck-base-") for name in left(temporary))
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 4, stderr
    assert "Traceback" not in stderr
    assert [name for name in left(temporary) if name.startswith("holodeck-base-")] == []


@pytest.mark.full
def test_a_run_that_ends_leaves_no_files(shop: Project) -> None:
    by_code(shop, "wrong")
    commit(shop)
    by_code(shop, "right")
    commit(shop, "topic")
    temporary = shop.folder.parent / "temporary"
    temporary.mkdir()
    finished = shop.run_process("run", "-o", "out", "--baseline", "merge-base", TMPDIR=str(temporary))
    assert finished.code == 0, finished.stderr
    assert left(temporary) == []
