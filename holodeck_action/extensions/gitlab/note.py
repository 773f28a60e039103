"""The note on a merge request: created once and updated by every later run, as the comment on GitHub is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from urllib.parse import urlsplit

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.gitlab.api import TOKEN, GitLab, GitLabError, NoPlaceError, Note, Place
from holodeck_action.github.channel_options import ChannelOptions
from holodeck_action.github.channels import Channel, Failed, Outcome, Published, Skipped, same_body
from holodeck_action.github.publisher import Findings, Publication
from holodeck_action.github.sticky_comment import marker
from holodeck_action.reports.comment.changes import State, is_same_result, state_of
from holodeck_action.reports.comment.places import LinkContext
from holodeck_action.reports.comment.pull_request import render_comment, render_problem
from holodeck_action.seam.extras import way_to_get
from holodeck_action.text.lazy_patterns import lazy_pattern

# GitLab runs a line that begins with a slash as a command, such as /merge.
_COMMAND = lazy_pattern(r"(?m)^([ \t]*)/")
# Code as it is, or a reference to a merge request, an epic or a snippet, which GitHub does not know.
_CODE_OR_REFERENCE = lazy_pattern(r"(?s)(`+).*?(?<!`)\1(?!`)|<!--.*?-->|[!&$](?=\d)")


class NotePublisher:
    """Publishes a run as the note of a pipeline's merge request; see `github.publisher.Publisher`."""

    def __init__(self, options: ChannelOptions, environ: Mapping[str, str], *_: object, **__: object) -> None:
        """Store when to write the note, and the variables of the job; `GITLAB_TOKEN` has the token."""
        self._options, self._environ = options, environ

    def begin(self, commits: Sequence[str | None] | None) -> None:
        """Do nothing: a note has no run in progress."""

    def finish(self, findings: Findings) -> Publication:
        """Write the note."""
        return Publication((Channel("note", _publish(findings, self._options, self._environ)),), ())


def _publish(findings: Findings, options: ChannelOptions, environ: Mapping[str, str]) -> Outcome:
    if options.comment == "off":
        return Skipped("the option --comment is off", requested=False)
    try:
        place, token = Place.of_pipeline(environ), environ.get(TOKEN, "").strip()
        if not token:
            raise NoPlaceError(f"the variable {TOKEN} is missing", requested=True)
        with closing(GitLab(place, token)) as gitlab:
            return _write(gitlab, place, findings, options)
    except NoPlaceError as error:
        return Skipped(str(error), requested=error.requested)
    except GitLabError as error:
        return Failed(str(error))
    except ImportError:
        return Failed(f"GitLab cannot be called without the extra `github`; {way_to_get('github')}")


def _write(gitlab: GitLab, place: Place, findings: Findings, options: ChannelOptions) -> Outcome:
    request = gitlab.merge_request()
    if request.sha is not None and place.source_sha and request.sha != place.source_sha:
        return Skipped("the merge request has a newer commit; the pipeline of that commit reports it", requested=False)
    first_line = marker(options.subject or f"{place.job}/{options.comment_id}", options.kind)
    earlier = gitlab.own_note(first_line)
    if earlier is None and options.comment == "failures" and findings.exit_code == ExitCode.PASSED:
        return Skipped("nothing failed, and the note is for failures only", requested=False)
    now = state_of(findings.reports, findings.exit_code, place.source_sha, place.run, findings.problems)
    before = None if earlier is None else State.read(earlier.body)
    if earlier is not None and options.comment == "changes" and is_same_result(before, now):
        return Published("unchanged", _url(request.web_url, earlier))
    text = _make_harmless(_render(findings, options, place, first_line, now, before))
    if earlier is not None and same_body(earlier.body, text):
        return Published("unchanged", _url(request.web_url, earlier))
    written = gitlab.write(text, earlier)
    return Published("created" if earlier is None else "updated", _url(request.web_url, written))


def _url(merge_request: str, note: Note) -> str:
    return f"{merge_request}#note_{note.id}"


def _render(
    findings: Findings, options: ChannelOptions, place: Place, first_line: str, now: State, before: State | None
) -> str:
    parts = urlsplit(place.project)
    # Pages of a project's repository are below `/-/`.
    context = LinkContext(
        f"{parts.scheme}://{parts.netloc}", f"{parts.path.strip('/')}/-", now.sha, place.job_url,
        comment_id=options.subject,
    )  # fmt: skip
    if findings.problems:
        return render_problem(findings.problems, first_line, context, now, before)
    return render_comment(findings.reports, first_line, context, now, before, findings.template, findings.note)


def _make_harmless(text: str) -> str:
    """Return Markdown for GitHub in which nothing is a command or a reference that only GitLab knows."""
    escaped = _CODE_OR_REFERENCE.sub(lambda found: f"\\{found[0]}" if len(found[0]) == 1 else found[0], text)
    return _COMMAND.sub(r"\1\\/", escaped)
