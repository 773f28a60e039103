"""A committed results file that a pull request replaces: real repositories and clones."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from tests.commands.project import Finished, Project
from tests.github.events import event_environ
from tests.github.fake import FakeGitHub, Token
from tests.github.repositories import baseline, branch_here, commit, repository
from tests.github.test_merge_base import git

SAID = "replaces the results that it is compared with"
LINE = f"Unlike the base, this run {SAID} at accepted/results.json:1"
MAY = "may replace the results that it is compared with ("
FILE = "accepted/results.json"
WRONG = frozenset({2})


def answers(shop: Project, wrong: frozenset[int] = frozenset(), count: int = 4) -> None:
    shop.numbered(count, wrong)
    shop.policy(target="recorded:answers.jsonl", gates={"min_pass_rate": 0.5})


def accept(shop: Project, file: str = FILE) -> None:
    """Evaluate the checkout, and keep its results in the repository."""
    assert shop.run("run", "-o", "out").code == 0
    shop.write(file, (shop.out / "results.json").read_bytes())


def compared(shop: Project, *arguments: str, source: str = FILE, **environ: str) -> Finished:
    return shop.run("run", "-o", "out", "--baseline", f"file:{source}", *arguments, **environ)


def changes(shop: Project) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shop.verdict()["comparison"].get("terms", {"changes": []})["changes"]
    return found


def said(shop: Project) -> list[tuple[str, str]]:
    return [(change["way"], change["said"]) for change in changes(shop)]


@pytest.fixture(scope="session")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A repository on the branch `topic`, whose `main` has the results of four right answers."""
    shop = repository(Project(tmp_path_factory.mktemp("accepted")))
    answers(shop)
    accept(shop)
    commit(shop)
    branch_here(shop, "topic")
    return shop


@pytest.fixture
def shop(accepted: Project, project: Project) -> Project:
    """A copy of it."""
    return accepted.copy_to(project.folder / "shop")


def forge(shop: Project) -> str:
    """Break a case, and replace the results by those of the broken agent."""
    answers(shop, WRONG)
    accept(shop)
    return commit(shop)


def test_a_replaced_file_is_said_first_and_fails_where_that_is_wanted(shop: Project) -> None:
    forge(shop)
    warned = compared(shop)
    assert warned.code == 0, warned.stderr
    assert f"warning: {LINE}" in warned.stdout
    assert "**Unlike the base, this run** replaces the results that it is compared with at " in (
        shop.out / "report.md"
    ).read_text(encoding="utf-8")
    (change,) = changes(shop)
    assert change == {
        "way": "changed",
        "said": SAID,
        "places": [{"name": "", "source": {"file": FILE, "line": 1, "column": 1}}],
        "topic": "gates",
    }
    assert shop.run("decide", "out/results.json", "--on-loosened", "fail").code == 1
    # Two records that a person names are no pull request.
    by_hand = shop.run("compare", "accepted", "out", "--on-loosened", "fail")
    assert (by_hand.code, SAID in by_hand.stdout) == (0, False)
    ignored = compared(shop, "--on-loosened", "ignore")
    # The base was compared with nothing, which counts as `warn`.
    assert (ignored.code, f"and {SAID} at {FILE}:1" in ignored.stdout) == (0, True)
    failed = compared(shop, "--on-loosened", "fail")
    assert failed.code == 1
    assert shop.verdict()["reason"].startswith(f"the run {SAID}")
    assert shop.run("decide", "out/results.json").code == 1


def test_a_pull_request_cannot_ignore_what_the_policy_before_it_refuses(shop: Project) -> None:
    branch_here(shop, "main")
    gates = {"min_pass_rate": 0.5}
    settings = {"source": f"file:{FILE}", "on_loosened": "fail"}
    shop.policy(target="recorded:answers.jsonl", gates=gates, baseline=settings)
    commit(shop)
    branch_here(shop, "topic")
    answers(shop, WRONG)
    shop.policy(target="recorded:answers.jsonl", gates=gates, baseline={**settings, "on_loosened": "ignore"})
    # The forged results say `ignore`, too.
    assert shop.run("run", "-o", "out", "--on-missing-baseline", "warn").code in (0, 1)
    shop.write(FILE, (shop.out / "results.json").read_bytes())
    commit(shop)
    assert shop.run("run", "-o", "out").code == 1
    assert shop.verdict()["reason"].startswith("the run ")
    assert ("changed", SAID) in said(shop)
    assert shop.run("decide", "out/results.json").code == 1


def test_a_file_that_is_as_it_was_changes_nothing(shop: Project) -> None:
    answers(shop, WRONG)
    commit(shop)
    broken = compared(shop, "--on-loosened", "fail", "--on-case-regression", "fail")
    assert broken.code == 1
    assert said(shop) == []
    assert '"replaced"' not in (shop.out / "results.json").read_text(encoding="utf-8")
    (gate,) = (gate for gate in shop.verdict()["gates"] if gate["name"] == "baseline.on_loosened")
    assert gate["state"] == "passed"
    assert compared(shop, source="accepted").code == 1
    assert said(shop) == []


def test_a_first_file_replaces_nothing(shop: Project) -> None:
    accept(shop, "first.json")
    commit(shop)
    assert compared(shop, "--on-loosened", "fail", source="first.json").code == 0
    assert said(shop) == []


def test_the_default_branch_may_replace_its_results(shop: Project, tmp_path: Path) -> None:
    branch_here(shop, "main")
    before = git(shop.folder, "rev-parse", "HEAD")
    answers(shop, WRONG)
    accept(shop)
    assert compared(shop, "--on-loosened", "fail").code == 0
    after = commit(shop)
    push = event_environ(
        "push", tmp_path, overrides={"before": before, "after": after}, GITHUB_REF="refs/heads/main", GITHUB_SHA=after
    )
    assert compared(shop, "--on-loosened", "fail", **push).code == 0
    assert said(shop) == []
    # Without the history it is no other.
    for branch in ("main", "topic"):
        git(shop.folder, "branch", "-m", branch, f"old-{branch}")
    night = event_environ("schedule", tmp_path, GITHUB_REF="refs/heads/main", GITHUB_SHA=after)
    assert compared(shop, "--on-loosened", "fail", **night).code == 0
    assert said(shop) == []


def test_a_run_by_hand_on_the_default_branch_may_check_out_a_pull_request(shop: Project, tmp_path: Path) -> None:
    main = git(shop.folder, "rev-parse", "HEAD")
    forge(shop)
    environ = event_environ("workflow_dispatch", tmp_path, GITHUB_REF="refs/heads/main", GITHUB_SHA=main)
    assert compared(shop, "--on-loosened", "fail", **environ).code == 1
    assert said(shop) == [("changed", SAID)]


def test_outside_of_a_repository_there_is_no_file_of_before(project: Project, shop: Project) -> None:
    plain = Project(project.folder / "plain")
    plain.folder.mkdir()
    answers(plain)
    accept(plain)
    assert compared(plain, "--on-loosened", "fail").code == 0
    # Nor if the file is not in the repository of the suite.
    assert compared(shop, "--on-loosened", "fail", source="../plain/accepted").code == 0
    assert said(shop) == []


def test_the_merge_commit_of_a_pull_request_is_compared_with_the_head_of_its_base(
    shop: Project, tmp_path: Path
) -> None:
    answers(shop, WRONG)
    commit(shop)
    git(shop.folder, "checkout", "-q", "main")
    # What main has accepted meanwhile is no change of the pull request.
    answers(shop, count=5)
    accept(shop)
    git(shop.folder, "add", FILE)
    git(shop.folder, "commit", "-q", "-m", "accepted")
    git(shop.folder, "checkout", "-q", ".")
    git(shop.folder, "checkout", "-q", "-b", "merged")
    git(shop.folder, "merge", "-q", "--no-ff", "-m", "merge", "topic")
    merged = git(shop.folder, "rev-parse", "HEAD")
    base = {"pull_request.base.sha": git(shop.folder, "rev-parse", "main")}
    environ = event_environ("pull_request", tmp_path, overrides=base, GITHUB_SHA=merged)
    finished = compared(shop, "--on-case-regression", "ignore", **environ)
    assert finished.code == 0, finished.stderr
    assert [change for change in said(shop) if SAID in change[1]] == []
    git(shop.folder, "checkout", "-q", "topic")
    forge(shop)
    git(shop.folder, "checkout", "-q", "merged")
    git(shop.folder, "merge", "-q", "--no-ff", "-s", "ours", "-m", "merge", "topic")
    git(shop.folder, "checkout", "-q", "topic", "--", ".")
    git(shop.folder, "commit", "-q", "--amend", "-m", "merge")
    finished = compared(shop, "--on-case-regression", "ignore", **environ)
    assert finished.code == 0, finished.stderr
    assert ("changed", SAID) in said(shop)


def test_blessed_results_are_noted_once(shop: Project) -> None:
    answers(shop, count=20)
    shop.write("other.jsonl", (shop.folder / "answers.jsonl").read_text().replace('"response": "1', '"response": "no'))
    blessed = shop.run("run", "--against-target", "recorded:other.jsonl", "--bless", FILE)
    assert "blessed: accepted/results.json has the results of this run now" in blessed.stdout, blessed.stderr
    commit(shop)
    noted = compared(shop)
    assert (noted.code, f"warning: {LINE}" in noted.stdout) == (0, True)
    git(shop.folder, "checkout", "-q", "main")
    git(shop.folder, "merge", "-q", "--ff-only", "topic")
    git(shop.folder, "checkout", "-q", "-b", "next")
    shop.write("readme", "")
    commit(shop)
    assert LINE not in compared(shop).stdout


@pytest.mark.parametrize("renamed", [True, False])
def test_a_policy_that_names_another_file_replaces_it(shop: Project, renamed: bool) -> None:
    branch_here(shop, "main")
    policy: dict[str, Any] = {"target": "recorded:answers.jsonl", "gates": {"min_pass_rate": 0.5}}
    shop.policy(**policy, baseline={"source": "file:accepted"})
    commit(shop)
    branch_here(shop, "topic")
    if renamed:
        git(shop.folder, "mv", FILE, "new.json")
    else:
        forge(shop)
        git(shop.folder, "mv", FILE, "new.json")
    shop.policy(**policy, baseline={"source": "file:new.json"})
    commit(shop)
    assert shop.run("run", "-o", "out", "--on-loosened", "fail").code == (0 if renamed else 1)
    assert said(shop) == ([] if renamed else [("changed", SAID)])


@pytest.mark.parametrize("folder", [False, True])
def test_a_link_to_other_results_replaces_them(shop: Project, folder: bool) -> None:
    answers(shop, WRONG)
    accept(shop, "other/results.json")
    (shop.folder / FILE).unlink()
    if folder:
        (shop.folder / "accepted").rmdir()
        (shop.folder / "accepted").symlink_to("other")
    else:
        (shop.folder / FILE).symlink_to("../other/results.json")
    commit(shop)
    assert compared(shop, "--on-loosened", "fail").code == 1
    assert said(shop) == [("changed", SAID)]
    # A link of the base leads to the file that it names there.
    branch_here(shop, "main")
    branch_here(shop, "topic")
    shop.write("readme", "")
    commit(shop)
    assert compared(shop, "--on-loosened", "fail").code == 0
    answers(shop)
    accept(shop, "other/results.json")
    commit(shop)
    assert compared(shop, "--on-loosened", "fail").code == 1


def test_links_out_of_the_repository_are_not_followed(shop: Project) -> None:
    branch_here(shop, "main")
    outside = shop.folder.parent / "outside.json"
    outside.write_bytes((shop.folder / FILE).read_bytes())
    (shop.folder / FILE).unlink()
    (shop.folder / FILE).symlink_to(outside)
    commit(shop)
    branch_here(shop, "topic")
    shop.write("readme", "")
    commit(shop)
    assert compared(shop, "--on-loosened", "fail").code == 0
    assert said(shop) == []
    (shop.folder / FILE).unlink()
    forge(shop)
    assert compared(shop, "--on-loosened", "fail").code == 1


def test_a_pointer_of_git_lfs_has_the_digest_of_the_file(shop: Project) -> None:
    branch_here(shop, "main")
    content = (shop.folder / FILE).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    shop.write(FILE, f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n")
    commit(shop)
    branch_here(shop, "topic")
    shop.write("readme", "")
    commit(shop)
    # What Git LFS does when it checks the file out.
    shop.write(FILE, content)
    assert compared(shop, "--on-loosened", "fail").code == 0
    answers(shop, WRONG)
    accept(shop)
    assert compared(shop, "--on-loosened", "fail").code == 1


def test_a_submodule_is_not_looked_into(shop: Project) -> None:
    branch_here(shop, "main")
    inner = shop.folder / "accepted"
    git(inner, "init", "-q", "-b", "main")
    git(inner, "add", "-A")
    git(inner, "commit", "-q", "-m", "results")
    git(shop.folder, "rm", "-q", "--cached", FILE)
    commit(shop)
    branch_here(shop, "topic")
    shop.write("readme", "")
    commit(shop)
    assert compared(shop, "--on-loosened", "fail").code == 3
    assert said(shop) == [("unknown", f"{MAY}accepted is a submodule, whose files are not compared)")]


# -- clones without the files


def partial(shop: Project, how: str) -> Project:
    """A clone without the files of the merge base."""
    git(shop.folder, "config", "uploadpack.allowFilter", "true")
    git(shop.folder, "checkout", "-q", "main")
    clone = shop.folder.parent / "clone"
    git(shop.folder.parent, "clone", "-q", how, "--branch", "topic", f"file://{shop.folder}", str(clone))
    return Project(clone)


def test_in_a_shallow_clone_it_is_unknown(shop: Project, tmp_path: Path) -> None:
    head = forge(shop)
    clone = partial(shop, "--depth=1")
    base = {"pull_request.base.sha": git(shop.folder, "rev-parse", "main")}
    environ = event_environ("pull_request", tmp_path, overrides=base, GITHUB_SHA=head)
    warned = compared(clone, **environ)
    assert warned.code == 0, warned.stderr
    assert f"warning: Unlike the base, this run {MAY}the checkout does not have the merge base" in warned.stdout
    ((way, text),) = said(clone)
    assert (way, "fetch-depth: 0" in text) == ("unknown", True)
    assert compared(clone, "--on-loosened", "fail", **environ).code == 3
    git(clone.folder, "fetch", "-q", "--unshallow", "origin", "+refs/heads/*:refs/remotes/origin/*")
    assert compared(clone, "--on-loosened", "fail", **environ).code == 1


@pytest.mark.parametrize("how", ["--depth=1", "--filter=tree:0", "--filter=blob:none"])
@pytest.mark.parametrize("forged", [True, False])
def test_github_has_what_the_clone_lacks(hub: FakeGitHub, shop: Project, how: str, forged: bool) -> None:
    fork, content = git(shop.folder, "rev-parse", "HEAD"), (shop.folder / FILE).read_bytes()
    answers(shop, WRONG)
    head = forge(shop) if forged else commit(shop)
    clone = partial(shop, how)
    hub.add_token("ghs_reader", Token("github-actions[bot]", permissions={"contents": "read"}))
    store = hub.add_repository("octo/shop").git
    store.commit({FILE: content}, sha=fork)
    store.refs["refs/heads/main"] = fork
    store.commit({}, fork, sha=head)
    github = {"GITHUB_API_URL": hub.url, "GITHUB_REPOSITORY": "octo/shop", "GITHUB_TOKEN": "ghs_reader"}
    finished = compared(clone, "--on-case-regression", "ignore", **github)
    assert finished.code == 0, finished.stderr
    assert [change for change in said(clone) if "replace" in change[1]] == ([("changed", SAID)] if forged else [])
    base = baseline(clone).base
    assert base is not None
    assert (base.replaced is not None) == forged
    hub.add_token("ghs_reader", Token("github-actions[bot]", permissions={}))
    refused = compared(clone, "--on-case-regression", "ignore", **github)
    assert refused.code == 0, refused.stderr
    remedy = {"--depth=1": "add contents: read to the permissions: of the job", "--filter=tree:0": "fetch-depth: 0"}
    if how in remedy:
        assert any(way == "unknown" and remedy[how] in text for way, text in said(clone)), said(clone)


def test_nothing_runs_git_without_a_file(shop: Project) -> None:
    folder = shop.folder.parent / "programs"
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\ntouch {folder}/ran\nexit 1\n")
    (folder / "git").chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    assert shop.run("run", "-o", "out", PATH=path).code == 0
    assert not (folder / "ran").exists()
    compared(shop, PATH=path)
    assert (folder / "ran").exists()
