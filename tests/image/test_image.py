"""The built image, as a workflow and as a person at a laptop use it."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from pathlib import Path

import pytest

from holodeck_action import __version__
from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.result_files import read_record
from tests.action.runner import read_log, read_pairs
from tests.action.step import action
from tests.commands.project import Project
from tests.image.conftest import IMAGE, OTHER_UID, SLIM, WORKSPACE, Engine
from tests.image.lock import PROJECT, ROOT, everything_installed, locked_packages
from tests.workers.installing import NO_INDEX, wheel

pytestmark = pytest.mark.image

HOSTILE = {"PATH": "utter-nonsense", "HOME": "/nonexistent", "PYTHONPATH": WORKSPACE, "PYTHONHOME": "/nonexistent"}
MEGABYTE = 1_000_000
LOCAL = (sys.executable, "-m", "holodeck_action.cli")


def canonical(folder: Path) -> bytes:
    """The canonical record of the run whose results are in the folder."""
    return canonical_json(read_record(folder / "results.json"))


def outside(checkout: Path, folder: Path) -> bytes:
    """The canonical record of the same suite run by this machine's own command line."""
    shutil.copytree(checkout, folder)
    assert subprocess.run([*LOCAL, "run", "-o", "out"], cwd=folder, capture_output=True, check=False).returncode == 1
    return canonical(folder / "out")


def test_it_says_its_version(engine: Engine) -> None:
    ended = engine.run("--version")

    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout == f"holodeck-action, version {__version__}\n"


def test_a_run_gives_the_record_of_the_command_line_outside(engine: Engine, checkout: Path, tmp_path: Path) -> None:
    ended = engine.run("run", "-o", "out", mounts={checkout: WORKSPACE})

    assert ended.code == 1, ended
    assert "Return of a milk jug" in ended.stdout
    assert canonical(checkout / "out") == outside(checkout, tmp_path / "outside")


def test_reports_of_a_record_are_those_of_the_command_line_outside(
    engine: Engine, checkout: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "outside"
    outside(checkout, folder)
    for kind in ("markdown", "html", "junit", "json", "csv"):
        command = ("report", "out/results.json", "--canonical", "--format", kind)
        here = subprocess.run([*LOCAL, *command], cwd=folder, capture_output=True, check=True, encoding="utf-8")
        ended = engine.run(*command, mounts={folder: WORKSPACE})

        assert ended.code == 0, ended
        assert ended.stdout == here.stdout
        assert "milk jug" in ended.stdout


def test_it_needs_no_home_no_path_no_network_and_no_file_system_but_the_checkout(
    engine: Engine, checkout: Path, tmp_path: Path
) -> None:
    for shadowing in ("click.py", "json.py", "sitecustomize.py"):
        (checkout / shadowing).write_text("raise SystemExit('code of the checkout ran')\n", encoding="utf-8")

    ended = engine.run(
        "run", "-o", "out", environ=HOSTILE, mounts={checkout: WORKSPACE}, options=("--read-only", "--tmpfs=/tmp")
    )

    assert ended.code == 1, ended
    assert "code of the checkout ran" not in ended.stdout + ended.stderr
    assert canonical(checkout / "out") == outside(checkout, tmp_path / "outside")


def test_as_the_owner_of_the_checkout_it_leaves_only_files_of_the_owner(engine: Engine, checkout: Path) -> None:
    before = set(checkout.rglob("*"))
    ended = engine.run("run", "-o", "out", mounts={checkout: WORKSPACE}, options=(f"--user={OTHER_UID}:{OTHER_UID}",))

    assert ended.code == 1, ended
    new = set(checkout.rglob("*")) - before
    assert checkout / "out" / "results.json" in new
    assert {path.relative_to(checkout).parts[0] for path in new} == {"out"}
    assert {path.stat().st_uid for path in new} == {OTHER_UID}


def test_as_a_step_it_gives_outputs_a_summary_and_the_same_record(
    engine: Engine, checkout: Path, tmp_path: Path
) -> None:
    home, commands = tmp_path / "home", tmp_path / "file_commands"
    home.mkdir()
    commands.mkdir()
    for name in ("set_output", "step_summary"):
        (commands / name).touch()
    inputs = {f"INPUT_{name.upper()}": what.get("default", "") for name, what in action()["inputs"].items()}
    environ = {
        "GITHUB_ACTIONS": "true",
        "CI": "true",
        "HOME": "/github/home",
        "GITHUB_WORKSPACE": WORKSPACE,
        "GITHUB_OUTPUT": "/github/file_commands/set_output",
        "GITHUB_STEP_SUMMARY": "/github/file_commands/step_summary",
        **inputs,
        "INPUT_GITHUB-TOKEN": "ghs_token-of-the-job",
    }
    mounts = {checkout: WORKSPACE, home: "/github/home", commands: "/github/file_commands"}

    ended = engine.run(environ=environ, mounts=mounts, options=(f"--workdir={WORKSPACE}",))

    assert ended.code == 1, ended
    outputs = dict(read_pairs((commands / "set_output").read_text(encoding="utf-8")))
    assert (outputs["verdict"], outputs["exit-code"], outputs["results-path"]) == (
        "failed",
        "1",
        "holodeck-results/results.json",
    )
    assert "Return of a milk jug" in (commands / "step_summary").read_text(encoding="utf-8")
    # Nothing is published without an event: the log has the annotations, and at last why the step fails.
    *marks, last = [command for command in read_log(ended.stdout.encode()).commands if command.name == "error"]
    assert [mark.properties["file"] for mark in marks] == ["cases.yaml"] * 6
    assert last.properties == {"title": "holodeck-action"}
    assert canonical(checkout / "holodeck-results") == outside(checkout, tmp_path / "outside")
    assert list(home.iterdir()) == []


def test_a_command_of_a_suite_finds_node_and_uv_on_any_path(engine: Engine, checkout: Path) -> None:
    script = """
        set -e
        for tool in node npx uvx git python; do "$tool" --version >&2; done
        read -r request
        echo '{"response": "found"}'
    """
    suite = {
        "name": "tools",
        "model": {"provider": "openai", "name": "gpt-4o"},
        "instructions": {"inline": "Answer."},
        "evaluations": {"metrics": [{"type": "standard", "metric": "equality"}]},
        "test_cases": [{"name": "tools", "input": "are they there?", "ground_truth": "found"}],
    }
    (checkout / "tools.yaml").write_text(json.dumps(suite), encoding="utf-8")
    (checkout / "holodeck-action.yaml").unlink()
    (checkout / "answer.sh").write_text(script, encoding="utf-8")

    ended = engine.run(
        *("run", "tools.yaml", "--target", "command:/bin/sh answer.sh"),
        environ={"PATH": "utter-nonsense", "HOME": "/nonexistent"},
        mounts={checkout: WORKSPACE},
    )

    assert ended.code == 0, ended


@pytest.mark.parametrize("user", ["0:0", f"{OTHER_UID}:{OTHER_UID}"])
def test_mcp_servers_start_from_packages_for_any_user(engine: Engine, tmp_path: Path, user: str) -> None:
    served = {
        "package/package.json": b'{"name": "served", "version": "1.0.0", "bin": {"served": "served.js"}}',
        "package/served.js": b'#!/usr/bin/env node\nconsole.log("served by node", process.versions.node)',
    }
    packages = tmp_path / "packages"
    packages.mkdir()
    with tarfile.open(packages / "served.tgz", "w:gz") as package:
        for name, content in served.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            package.addfile(entry, io.BytesIO(content))
    about = "served-1.0.dist-info"
    with zipfile.ZipFile(packages / "served-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("served.py", "def main():\n    print('served by Python')\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: served\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/entry_points.txt", "[console_scripts]\nserved = served:main\n")
        wheel.writestr(f"{about}/RECORD", "")

    printed = engine.shell(
        "npx --yes --offline --package=/packages/served.tgz served\n"
        "uvx --offline --from /packages/served-1.0-py3-none-any.whl served",
        options=(f"--user={user}", "--read-only", "--tmpfs=/tmp:exec"),
        environ={"HOME": "/nonexistent"},
        mounts={packages: "/packages"},
    ).splitlines()

    assert printed[0].startswith("served by node 24.")
    assert printed[1:] == ["served by Python"]


def test_git_reads_a_checkout_of_any_user(engine: Engine, checkout: Path) -> None:
    assert engine.shell("git log --format=%s", mounts={checkout: WORKSPACE}) == "suite\n"


def test_every_extra_works(engine: Engine) -> None:
    script = """
        import importlib, os, openpyxl
        os.environ.update(DEEPEVAL_TELEMETRY_OPT_OUT="1", DEEPEVAL_DISABLE_DOTENV="1")
        for name in ("mcp.client.session", "deepeval.metrics", "github",
                     "azure.ai.evaluation", "pyarrow.parquet", "nltk", "rouge_score.rouge_scorer", "sacrebleu"):
            importlib.import_module(name)
        book = openpyxl.Workbook()
        book.active.append(["kettle", 42])
        book.save("/tmp/book.xlsx")
        from markitdown import MarkItDown
        print(MarkItDown().convert("/tmp/book.xlsx").text_content)
    """
    program = "\n".join(line.removeprefix(" " * 8) for line in script.splitlines())
    ended = engine.run("-Ic", program, options=("--entrypoint=/opt/holodeck-action/bin/python", "--workdir=/tmp"))

    assert ended.code == 0, ended
    assert "| kettle | 42 |" in ended.stdout


def test_it_has_what_the_lock_says_and_nothing_else(engine: Engine) -> None:
    program = "from importlib.metadata import distributions as d; print(*{f'{x.name}=={x.version}' for x in d()})"
    printed = engine.run("-Ic", program, options=("--entrypoint=/opt/holodeck-action/bin/python",)).stdout
    found = (item.split("==") for item in printed.split())
    versions = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}
    packages, allowed = locked_packages(), everything_installed()

    assert versions.pop(PROJECT) == __version__
    assert set(versions) <= allowed
    assert versions == {name: packages[name]["version"] for name in versions}
    assert {"deepeval", "azure-ai-evaluation", "markitdown", "mcp", "distributed", "pyarrow"} <= set(versions)


def test_it_has_the_licences_of_what_is_in_it(engine: Engine) -> None:
    node = "/usr/local/share/doc/node/LICENSE.gz"
    listed = "/opt/holodeck-action/lib/python3*/site-packages/holodeck_action-*.dist-info/licenses/THIRD_PARTY.md"
    ended = engine.run(
        "-c", f"ls {node} /usr/local/lib/node_modules/npm/LICENSE {listed}", options=("--entrypoint=/bin/sh",)
    )
    assert ended.code == 0, ended
    assert len(ended.stdout.split()) == 3


def test_it_has_no_tests_and_caches(engine: Engine, slim: Engine) -> None:
    for image in (engine, slim):
        printed = image.shell(
            """
            cd /opt/holodeck-action/lib/python3*/site-packages
            find . -type d -name tests
            cd /
            find root var/lib/apt/lists var/cache/apt tmp -type f \\( -size +100k -o -name '*.whl' -o -name '*.deb' \\)
            """
        )

        assert printed == ""


def test_it_has_the_bytecode_of_all_that_is_imported(engine: Engine, checkout: Path) -> None:
    program = """
        import importlib, os, sys
        os.environ.update(DEEPEVAL_TELEMETRY_OPT_OUT="1", DEEPEVAL_DISABLE_DOTENV="1")
        from pathlib import Path
        from holodeck_action.cli import main
        for arguments in (["run", "-o", "out"], ["report", "out/results.json"], ["run", "--help"]):
            main(arguments, dict(os.environ), Path.cwd(), sys.stdin, sys.stdout, sys.stdout)
        libraries = "azure.ai.evaluation deepeval.metrics distributed github markitdown mcp.client.stdio"
        for name in (*libraries.split(), "pyarrow.parquet", "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"):
            importlib.import_module(name)
        files = {getattr(module, "__cached__", None) for module in [*sys.modules.values()]} - {None}
        print(*sorted(file for file in files if file.startswith("/") and not os.path.exists(file)), file=sys.stderr)
    """
    ended = engine.run(
        *("-Ic", textwrap.dedent(program)),
        options=("--entrypoint=/opt/holodeck-action/bin/python",),
        mounts={checkout: WORKSPACE},
    )

    assert (ended.code, ended.stderr.strip()) == (0, "")


@pytest.mark.parametrize(("name", "megabytes"), [(IMAGE, 800), (SLIM, 310)])
def test_it_is_small_labelled_and_holds_no_secret(engine: Engine, name: str, megabytes: int) -> None:
    [image] = json.loads(engine.call("image", "inspect", name).stdout)
    config = image["Config"]

    assert image["Size"] <= megabytes * MEGABYTE
    assert config["WorkingDir"] == WORKSPACE
    assert config.get("User", "") in ("", "0", "root")
    assert config["Entrypoint"][0] == "/opt/holodeck-action/bin/python"
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert config["Labels"]["org.opencontainers.image.base.name"].startswith("python:3.")
    assert not [item for item in config["Env"] if "TOKEN" in item or "KEY=" in item or "SECRET" in item]


def test_the_documentation_names_its_largest_parts(engine: Engine) -> None:
    program = (ROOT / "scripts" / "image_parts.py").read_text(encoding="utf-8")
    ended = engine.run("-Ic", program, options=("--entrypoint=/opt/holodeck-action/bin/python",))
    page = (ROOT / "docs" / "image.md").read_text(encoding="utf-8").partition("<!-- parts:")[2]
    measured, listed = (
        {name: int(size) for name, size in re.findall(r"^\| ([^|]+) \| (\d+) \|", text, re.M)}
        for text in (ended.stdout, page)
    )

    assert listed.keys() == measured.keys()
    # The base is not always the same.
    wrong = {name: size for name, size in measured.items() if abs(size - listed[name]) > max(2, 0.15 * size)}
    assert wrong == {}


AGENT = "import goods\n\ndef answer(messages):\n    return goods.WORDS\n"


@pytest.fixture
def with_packages(tmp_path: Path) -> Path:
    """A checkout whose agent needs a package, which is in the checkout, too."""
    folder = tmp_path / "with-packages"
    folder.mkdir()
    project = Project(folder)
    project.suite([{"name": "a", "input": "?", "ground_truth": "installed"}])
    project.policy(target="python:own:answer", environment={"requirements": "requirements.txt"})
    project.write("own.py", AGENT)
    project.write("requirements.txt", f"{NO_INDEX}goods\n")
    wheel(folder / "wheels", "goods", "1.0", "WORDS = 'installed'\n")
    return folder


def test_packages_of_a_suite_are_installed_once(engine: Engine, with_packages: Path, tmp_path: Path) -> None:
    """A folder that is mounted keeps them from one container to the next."""
    kept = tmp_path / "kept"
    kept.mkdir()
    mounts = {with_packages: WORKSPACE, kept: "/packages"}
    for installs in (True, False):
        ended = engine.run("run", mounts=mounts, environ={"XDG_CACHE_HOME": "/packages"})
        assert ended.code == 0, ended
        assert ("note: installing requirements.txt in /packages" in ended.stderr) == installs


def test_packages_of_a_suite_in_a_workflow(engine: Engine, with_packages: Path, tmp_path: Path) -> None:
    """The runner's home folder, which a job may cache, keeps them for the steps that follow."""
    home = tmp_path / "home"
    home.mkdir()
    environ = {"HOME": "/github/home", "GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": WORKSPACE}
    environ |= {"INPUT_COMMENT": "off", "INPUT_CHECK": "false", "INPUT_ARGS": "--no-summary"}
    for installs in (True, False):
        ended = engine.run(mounts={with_packages: WORKSPACE, home: "/github/home"}, environ=environ)
        assert ended.code == 0, ended
        assert ("note: installing requirements.txt in /github/home/.cache/" in ended.stdout) == installs
