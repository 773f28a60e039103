"""Checks the requirements of suites: extras, variables, code, files and models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import BaseModel

from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.extensions.doctor.findings import Finding
from holodeck_action.extensions.doctor.installation import missing_packages
from holodeck_action.extensions.doctor.reachability import try_address
from holodeck_action.llm.providers import KeylessEnvironment, ModelConfigError, resolve_model
from holodeck_action.run.environments.extra_needs import describe_needs
from holodeck_action.run.environments.extras import needed_extras
from holodeck_action.run.environments.setup import needs_python
from holodeck_action.run.loading import LoadedSuite, SuiteContext, load_suites, with_python
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.run.preflight import REFUSED, check_targets
from holodeck_action.run.stages import stages_of
from holodeck_action.seam.extras import way_to_get
from holodeck_action.suite.applicability import judged_metrics
from holodeck_action.suite.cases.sources import POLICY_NAMES
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.providers import KEY_VARIABLES, LLMProvider
from holodeck_action.suite.model.targets import ModelTarget
from holodeck_action.suite.yaml.variables import referenced_names


def examine_suites(pattern: str, context: SuiteContext, *, online: bool) -> tuple[Sequence[LoadedSuite], list[Finding]]:
    """Return the suites that a pattern matches, and the findings; model servers are contacted only if `online`."""
    try:
        suites = load_suites((pattern,), context)
    except ConfigurationError as error:
        return (), [Finding(pattern, "suite", "problem", str(problem)) for problem in error.problems]
    return suites, [finding for loaded in suites for finding in _findings(loaded, online=online)]


def _findings(loaded: LoadedSuite, *, online: bool) -> Iterator[Finding]:
    suite, environ, place = loaded.suite, loaded.environ, loaded.place
    models = _named_models(loaded)
    try:
        (notes,) = check_targets((loaded,))
        python = with_python(loaded, suite.policy.target).interpreter
        for note in (*suite.notices, *notes):
            yield Finding(place, "suite", "problem" if note.startswith(REFUSED) else "note", note)
    except ConfigurationError as error:
        yield from (Finding(place, "suite", "problem", str(problem)) for problem in error.problems)
    else:
        under = f"runs in workers, under {python or 'the Python of the program'}; the variables it reads are unknown"
        starts = needs_python(suite, suite.policy.target)
        yield Finding(place, "code", "ok", f"Python of the suite {under}" if starts else "no Python of the suite runs")
    yield from _extras(loaded, place)
    written = [suite.file, *(name for name in POLICY_NAMES if (suite.folder / name).is_file())]
    names = {name for file in written for name in referenced_names(suite.checkout.read(file).lossy_text())}
    choices: list[tuple[str, ...]] = [(name,) for name in sorted(names)]
    choices += sorted({KEY_VARIABLES[model.provider] for model in models if model.api_key is None} - {*choices})
    texts = [f"{' or '.join(each)} {'is' if any(map(environ.get, each)) else 'is not'} set" for each in choices]
    details = {name: bool(environ.get(name)) for each in choices for name in each}
    yield Finding(place, "variables", "ok", ", ".join(texts) or "its files and models use no variables", details)
    files = dict.fromkeys([*written, *(case.mark.file for case in suite.cases)])
    attached = sum(len(turn.files) for case in suite.cases for turn in case.turns)
    text = f"{', '.join(files)}, with {count_phrase(len(suite.cases), 'case')}"
    text += f", which attach {count_phrase(attached, 'file')}" if attached else ""
    yield Finding(place, "files", "ok", text, {"files": [*files]})
    yield from _addresses(models, environ, place, online=online)


def _extras(loaded: LoadedSuite, place: str) -> Iterator[Finding]:
    suite, environ, flags = loaded.suite, loaded.environ, Flags()
    needs = needed_extras(suite, environ)
    # Without its extra, a stage is left out.
    optional = {extra for stages in stages_of([suite], flags) for extra, _ in stages.extras(suite, flags, environ)}
    lacking = {extra for extra, packages in (missing_packages() or {}).items() if packages}
    if not lacking.intersection(need.extra for need in needs):
        yield Finding(place, "extras", "ok", f"{describe_needs(needs)}; all are installed" if needs else "needs none")
    for extra in sorted(lacking.intersection(need.extra for need in needs)):
        text = f"{describe_needs(need for need in needs if need.extra == extra)}; {way_to_get(extra)}"
        yield Finding(place, "extras", "note" if extra in optional else "problem", text, {"missing": extra})


def _addresses(
    models: Sequence[LLMProvider], environ: Mapping[str, str], place: str, *, online: bool
) -> Iterator[Finding]:
    """Yield a finding for each address of models; if `online`, it states whether the address can be reached."""
    labels: dict[str, set[str]] = {}
    for model in models:
        # What else is wrong with it is among the problems of the suite.
        with suppress(ModelConfigError):
            address = resolve_model(model, KeylessEnvironment(environ)).account.base_url
            labels.setdefault(address, set()).add(f"{model.provider}/{model.name}")
    for address, named in sorted(labels.items()):
        text = f"{', '.join(sorted(named))}: "
        if not online:
            yield Finding(place, "model", "unknown", f"{text}not called; --online tries to reach it")
            continue
        reached, answer = try_address(address)
        yield Finding(place, "model", "ok" if reached else "problem", text + answer)


def _named_models(loaded: LoadedSuite) -> list[LLMProvider]:
    """Return the models that a run of the suite may call."""
    suite = loaded.suite
    values: list[Any] = [suite.policy, suite.agent.evaluations, [case.simulation for case in suite.cases]]
    values.append([spec.config for case in suite.cases for turn in case.turns for spec in turn.metrics])
    if isinstance(suite.policy.target, ModelTarget | None) or judged_metrics(suite.cases):
        values.append(suite.agent.model)
    return [model for value in values for model in _models_in(value)]


def _models_in(value: Any) -> Iterator[LLMProvider]:
    if isinstance(value, LLMProvider):
        yield value
    elif isinstance(value, BaseModel):
        yield from _models_in([getattr(value, name) for name in value.model_fields_set])
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _models_in(each)
