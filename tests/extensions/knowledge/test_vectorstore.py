"""Vector stores behind `run`: real files, a model server on loopback that calls the search, and what is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.record.record import Record, RetrievedChunk, TurnRecord
from tests.commands.project import Finished, Project
from tests.llm.models import KEY, Answer, FakeModels, Fault, Request, ToolCall
from tests.targets.documents import made

FAQ = [
    {"id": "reset", "question": "How do I reset my password?", "answer": "Follow the link.", "category": "account"},
    {"id": "cards", "question": "Which cards do you accept?", "answer": "Visa and Mastercard.", "category": "billing"},
    {"id": "hours", "question": "When are you open?", "answer": "From nine to five.", "category": "shop"},
]


RECORDS = {"vector_field": "question", "id_field": "id"}


def openai(models: FakeModels, **more: Any) -> dict[str, Any]:
    return {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url, **more}


def store(**more: Any) -> dict[str, Any]:
    return {"type": "vectorstore", "name": "faq", "description": "Answers", "source": "faq.json", **more}


def records(**more: Any) -> dict[str, Any]:
    return store(vector_field=["question", "answer"], id_field="id", **more)


def searching(query: str = "reset password", name: str = "faq_search") -> Callable[[Request], Answer]:
    """Search once for each question, then answer with what the search says."""

    def rule(request: Request) -> Answer:
        if request.operation == "embeddings":
            return Answer()
        if request.results:
            return Answer(request.results[0])
        return Answer(tools=(ToolCall(name, {"query": query}),))

    return rule


def asking(project: Project, models: FakeModels, *tools: dict[str, Any], **top: Any) -> None:
    """Write a suite with tools, and by default one case: it fails when the search is not called."""
    given = {"model": openai(models), "tools": list(tools), **top}
    names = given.pop("names", ["one"])
    cases = [{"name": n, "input": f"{n}?", "ground_truth": "?", "expected_tools": ["faq_search"]} for n in names]
    project.suite(cases, [{"type": "standard", "metric": "meteor"}], **given)


def write_faq(project: Project, faq: Any = FAQ, name: str = "faq.json") -> None:
    project.write(name, json.dumps(faq))


def turn_of(record: Record) -> TurnRecord:
    return record.cases[0].trials[0].turns[0]


def error_of(record: Record) -> ErrorInfo:
    trial = record.cases[0].trials[0]
    error = trial.error or trial.turns[0].error
    assert error is not None
    return error


def passed(project: Project, *arguments: str, **environ: str) -> TurnRecord:
    finished, record = project.evaluate(*arguments, **{"OPENAI_API_KEY": KEY, **environ})
    assert finished.code == 0, finished.stdout + finished.stderr
    return turn_of(record)


def refused(project: Project, models: FakeModels) -> str:
    finished = project.run("run", OPENAI_API_KEY=KEY)
    assert finished.code == 2, finished.stdout + finished.stderr
    assert models.requests == []
    return finished.stderr


def chunks(turn: TurnRecord) -> tuple[RetrievedChunk, ...]:
    assert turn.retrieved_chunks is not None
    return turn.retrieved_chunks


def embedded(models: FakeModels) -> list[str]:
    return [text for request in models.requests if request.operation == "embeddings" for text in request.inputs]


def hidden(project: Project, *finished: Finished) -> None:
    for each in finished:
        assert KEY not in each.stdout + each.stderr
    found = [path for path in project.folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert found == []


# -- what the model sees, and what is recorded


@pytest.mark.proves("VectorstoreTool: type source vector_field")
def test_a_search_is_called_and_recorded_with_its_chunks(project: Project, models: FakeModels) -> None:
    write_faq(project)
    asking(project, models, records(top_k=2))
    models.answer(searching())
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    first, last = (request for request in models.requests if request.operation == "chat")
    assert [*first.tools] == ["faq_search"]
    assert first.body["tools"][0]["function"]["description"] == "Search faq: Answers"
    assert first.tools["faq_search"]["required"] == ["query"]
    assert last.results[0].startswith("Found 2 results:\n\n[1] reset (score 0."), last.results
    assert "How do I reset my password?\nFollow the link.\ncategory: account" in last.results[0]
    turn = turn_of(record)
    (called,) = turn.tool_invocations or ()
    assert (called.name, called.args, called.error) == ("faq_search", {"query": "reset password"}, None)
    assert [hit["id"] for hit in called.result] == [chunk.id for chunk in chunks(turn)]
    assert called.result[0]["metadata"] == {"category": "account"}
    assert called.bytes == len(json.dumps(called.result, ensure_ascii=False).encode())
    best = chunks(turn)[0]
    assert (best.id, best.text) == (
        "reset",
        "How do I reset my password?\nFollow the link.\ncategory: account",
    )
    assert best.score is not None
    assert 0.1 < best.score < 1.0
    assert turn.retrieval_context == tuple(chunk.text for chunk in chunks(turn))
    # The metadata is shown, not embedded.
    assert embedded(models)[0] == "How do I reset my password?\nFollow the link."
    hidden(project, finished)


def test_the_same_run_can_be_replayed_without_server_and_key(project: Project) -> None:
    with FakeModels(keys=[KEY]) as models:
        write_faq(project)
        project.write("guide.md", "# Shop\n\n" + "We open at nine. " * 300)
        guide = store(name="guide", source="guide.md", chunk_size=40, chunk_overlap=5)
        asking(project, models, records(), guide, names=["a", "b", "c", "d"])
        models.answer(searching())
        recorded = project.run("run", "-o", "first", "--record", "tape", "--repeat", "2", OPENAI_API_KEY=KEY)
        assert recorded.code == 0, recorded.stdout + recorded.stderr
    hidden(project, recorded)
    replayed = project.run("run", "-o", "second", "--replay", "tape", "--repeat", "2", OPENAI_API_KEY="")
    assert replayed.code == 0, replayed.stdout + replayed.stderr
    first, second = (
        project.run("report", f"{folder}/results.json", "--canonical", "--format", "json").stdout
        for folder in ("first", "second")
    )
    # The digest is that of the whole record, chunks and scores included.
    assert '"record_digest"' in first
    assert first == second
    # A changed document is another request.
    write_faq(project, [*FAQ, {"id": "new", "question": "New?", "answer": "Yes."}])
    changed, record = project.evaluate("--replay", "tape", "--repeat", "2")
    assert changed.code == 3
    error = error_of(record)
    assert error.code == "tool_unavailable"
    assert "no recorded answer for this call" in error.message


def test_documents_are_embedded_once_for_all_conversations(project: Project, models: FakeModels) -> None:
    write_faq(project)
    asking(project, models, records(), names=["a", "b", "c", "d", "e"])
    models.answer(searching())
    passed(project, "--repeat", "2")
    found = embedded(models)
    assert found.count("Which cards do you accept?\nVisa and Mastercard.") == 1
    # The query of all ten conversations: asked at the same time it is sent once, and afterwards remembered.
    assert found.count("reset password") == 1


def test_the_tokens_of_a_query_count_for_its_turn(project: Project, models: FakeModels) -> None:
    write_faq(project)
    asking(project, models, records())

    def rule(request: Request) -> Answer:
        return Answer(prompt_tokens=1000) if request.inputs == ("reset password",) else searching()(request)

    models.answer(rule)
    usage = passed(project).usage
    assert usage is not None
    assert usage.prompt_tokens is not None
    assert usage.prompt_tokens >= 1000


def test_retrieval_metrics_score_what_was_found(project: Project, models: FakeModels) -> None:
    write_faq(project)
    asking(project, models, records(top_k=2))
    models.answer(searching())
    truth = {"retrieval": {"ground_truth_chunk_ids": ["reset"]}}
    project.policy(
        cases={"one": truth}, metrics=[{"type": "retrieval", "metric": "mrr_at_k", "k": 2, "threshold": 1.0}]
    )
    (score,) = [found for found in passed(project).evaluations if found.criteria.metric == "mrr_at_k"]
    assert score.score == 1.0


# -- settings


@pytest.mark.proves("VectorstoreTool: top_k min_similarity_score")
def test_top_k_and_min_similarity_score_bound_what_is_found(project: Project, models: FakeModels) -> None:
    write_faq(project)
    asking(project, models, records())
    models.answer(searching())
    assert len(chunks(passed(project))) == 3
    asking(project, models, records(top_k=1))
    assert len(chunks(passed(project))) == 1
    asking(project, models, records(min_similarity_score=0.2))
    assert [chunk.id for chunk in chunks(passed(project))] == ["reset"]


TOPIC = {"type": "hierarchical_document", "description": "More", "contextual_embeddings": False}


@pytest.mark.parametrize(
    ("first", "second", "ids"),
    [
        # Other files of the same name, in two folders and in two kinds of tools.
        ({"source": "a"}, {"source": "b"}, ("faq:faq.md#1", "more:faq.md#1")),
        ({"source": "a/faq.md"}, {**TOPIC, "source": "b"}, ("faq:faq.md#1", "more:faq.md#reset")),
        # The same file is the same chunks, unless it is cut otherwise.
        ({"source": "a"}, {"source": "a/faq.md"}, ("faq.md#1", "faq.md#1")),
        ({"source": "a"}, {"source": "a", "chunk_size": 64}, ("faq:faq.md#1", "more:faq.md#1")),
        # Other names, and other folders below one source, are told apart already.
        ({"source": "a"}, {"source": "b/other.md"}, ("faq.md#1", "other.md#1")),
        ({"source": "."}, {"source": "b/other.md"}, ("a/faq.md#1", "other.md#1")),
        # Records of two files; two views of the records of one.
        ({**RECORDS, "source": "one.json"}, {**RECORDS, "source": "two.json"}, ("faq:reset", "more:reset")),
        ({**RECORDS, "source": "one.json"}, {**RECORDS, "source": "one.json"}, ("reset", "reset")),
        ({**RECORDS, "source": "one.json"}, {**RECORDS, "source": "three.json"}, ("reset", "erase")),
    ],
)
def test_chunks_of_two_tools_have_different_ids(
    project: Project, models: FakeModels, first: dict[str, Any], second: dict[str, Any], ids: tuple[str, str]
) -> None:
    project.write("a/faq.md", "# Reset\n\nHow to reset a password.")
    project.write("b/faq.md", "# Reset\n\nHow to reset a clock.")
    project.write("b/other.md", "# Reset\n\nHow to reset a fuse.")
    for name, ident in (("one", "reset"), ("two", "reset"), ("three", "erase")):
        project.write(f"{name}.json", json.dumps([{"id": ident, "question": f"reset {name}"}]))

    def rule(request: Request) -> Answer:
        if request.operation == "embeddings":
            return Answer()
        calls = (ToolCall(f"{name}_search", {"query": "reset a password"}) for name in ("faq", "more"))
        return Answer("done") if request.results else Answer(tools=tuple(calls))

    models.answer(rule)
    tools = (store(**first, top_k=1), store(**{"name": "more", "top_k": 1, **second}))
    asking(project, models, *tools)
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code != 2, finished.stderr
    assert tuple(chunk.id for chunk in chunks(turn_of(record))) == ids


def test_nothing_near_enough_is_an_empty_list_and_a_sentence(project: Project, models: FakeModels) -> None:
    write_faq(project)
    asking(project, models, records(min_similarity_score=0.999))
    models.answer(searching())
    turn = passed(project)
    assert chunks(turn) == ()
    assert turn.retrieval_context == ()
    assert turn.response is not None
    assert turn.response.startswith("No results found")
    (called,) = turn.tool_invocations or ()
    assert called.result == []


@pytest.mark.proves("VectorstoreTool: chunk_size chunk_overlap")
def test_texts_are_cut_into_chunks(project: Project, models: FakeModels) -> None:
    project.write("guide.md", "\n\n".join(f"Rule {n} says that {n} plums are enough for everybody." for n in range(9)))
    asking(project, models, store(name="faq", source="guide.md", chunk_size=24, chunk_overlap=0, top_k=100))
    models.answer(searching("plums"))
    found = sorted(chunks(passed(project)), key=lambda chunk: int(chunk.id.partition("#")[2]))
    assert [chunk.id for chunk in found] == [f"guide.md#{n}" for n in range(1, len(found) + 1)]
    assert len(found) > 2
    assert all((chunk.text or "").startswith("Rule") for chunk in found)
    asking(project, models, store(name="faq", source="guide.md", chunk_size=24, chunk_overlap=12, top_k=100))
    assert len(chunks(passed(project))) > len(found)
    asking(project, models, store(name="faq", source="guide.md"))
    assert len(chunks(passed(project))) == 1


def test_a_folder_of_files_of_many_kinds(project: Project, models: FakeModels) -> None:
    project.write("docs/a.txt", "plums are blue")
    project.write("docs/sub/b.md", "pears are green")
    project.write("docs/c.html", "<html><script>no()</script><h1>Kiwi</h1><p>kiwis are <b>brown</b></p></html>")
    project.write("docs/.hidden.txt", "secret apples")
    project.write("docs/picture.png", b"\x89PNG\xff")
    asking(project, models, store(source="docs"))
    models.answer(searching("plums are blue"))
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    found = {chunk.id: chunk.text for chunk in chunks(turn_of(record))}
    assert found == {
        "a.txt#1": "plums are blue",
        "sub/b.md#1": "pears are green",
        "c.html#1": "# Kiwi\n\nkiwis are brown",
    }
    assert chunks(turn_of(record))[0].score == 1.0
    assert "tools.faq: not searched: picture.png" in finished.stdout + finished.stderr


@pytest.mark.proves("VectorstoreTool: meta_fields record_path record_prefix meta_prefix id_field")
def test_fields_of_records(project: Project, models: FakeModels) -> None:
    shops = {"name": "North", "stock": {"items": [{"sku": 7, "text": {"long": "blue plums"}, "size": "xl"}]}}
    project.write("faq.json", json.dumps({"shops": [shops]}))
    fields = {"vector_field": "text.long", "id_field": "sku", "record_path": "shops.stock.items"}
    asking(project, models, store(**fields, meta_fields=["size", "name"], record_prefix="item.", meta_prefix="shop."))
    models.answer(searching())
    (found,) = chunks(passed(project))
    assert (found.id, found.text) == ("7", "blue plums\nitem.size: xl\nshop.name: North")


@pytest.mark.proves("VectorstoreTool: field_separator delimiter")
def test_the_separator_and_the_delimiter_are_used(project: Project, models: FakeModels) -> None:
    project.write("faq.csv", "id|question|answer|note\n1|Why, though?|Because; so.|kept\n")
    fields = {"source": "faq.csv", "vector_field": ["question", "answer"], "id_field": "id"}
    asking(project, models, store(**fields, field_separator=" = ", delimiter="|", meta_fields=["note"]))
    models.answer(searching())
    (found,) = chunks(passed(project))
    assert (found.id, found.text) == ("1", "Why, though? = Because; so.\nnote: kept")
    asking(project, models, store(**fields, delimiter=";"))
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 3
    error = error_of(record)
    assert "faq.csv: line 2 has 2 cells, the first line 1" in error.message


# -- the embedding model


@pytest.mark.proves("AgentConfig: embedding_provider", "VectorstoreTool: embedding_model embedding_dimensions")
def test_who_embeds(project: Project, models: FakeModels) -> None:
    write_faq(project)
    models.answer(searching())
    asked: list[tuple[str, str, Any]] = []

    def note(**top: Any) -> None:
        before = len(models.requests)
        asking(project, models, *top.pop("tools", [records()]), **top)
        passed(project)
        request = next(found for found in models.requests[before:] if found.operation == "embeddings")
        asked.append((request.provider, request.model, request.body.get("dimensions")))

    note()
    note(tools=[records(embedding_model="text-embedding-3-large", embedding_dimensions=32)])
    local = {"provider": "ollama", "name": "mxbai-embed-large", "endpoint": models.ollama_url}
    note(embedding_provider=local)
    note(embedding_provider=local, tools=[records(embedding_model="nomic-embed-text:latest")])
    note(tools=[records(embedding_model="text-embedding-ada-002")])
    assert asked == [
        ("openai", "text-embedding-3-small", None),
        ("openai", "text-embedding-3-large", 32),
        ("ollama", "mxbai-embed-large", None),
        ("ollama", "nomic-embed-text:latest", None),
        ("openai", "text-embedding-ada-002", None),
    ]


def test_tools_of_one_suite_share_one_embedding_model(project: Project, models: FakeModels) -> None:
    write_faq(project)
    asking(project, models, records(embedding_model="a"), records(name="other", embedding_model="b"))
    told = refused(project, models)
    assert "agent.yaml:" in told
    assert 'tools.other.embedding_model: "b" differs from "a" of tools.faq' in told


@pytest.mark.parametrize("when", ["documents", "query"])
def test_an_embedding_that_fails_is_an_error_and_no_low_score(project: Project, models: FakeModels, when: str) -> None:
    write_faq(project)
    asking(project, models, records())
    models.answer(searching())
    is_query = when == "query"
    models.fail(
        Fault(
            error="quota",
            times=None,
            about=lambda request: request.operation == "embeddings" and (len(request.inputs) == 1) is is_query,
        )
    )
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 3, finished.stdout + finished.stderr
    error = error_of(record)
    assert error.code == ("quota" if is_query else "tool_unavailable")
    assert "the account of OpenAI model text-embedding-3-small has no quota or credit left" in error.message
    hidden(project, finished)


def test_a_query_that_cannot_be_searched_for_is_the_models_to_see(project: Project, models: FakeModels) -> None:
    write_faq(project)
    asking(project, models, records())
    models.answer(searching("   "))
    turn = passed(project)
    (called,) = turn.tool_invocations or ()
    assert called.error == "the query is blank"
    assert turn.response == "Error: the query is blank"
    assert chunks(turn) == ()


def test_a_query_that_the_embedding_model_refuses_is_the_models_to_see(project: Project, models: FakeModels) -> None:
    write_faq(project)
    asking(project, models, records())
    models.answer(searching())
    models.fail(
        Fault("context_length", about=lambda request: request.operation == "embeddings" and len(request.inputs) == 1)
    )
    turn = passed(project)
    (called,) = turn.tool_invocations or ()
    assert "is longer than OpenAI model text-embedding-3-small accepts" in (called.error or "")
    assert turn.response == "Error: the query cannot be searched for; shorten it"


# -- what is wrong is told before anything is asked


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        (store(source="absent.md"), 'tools.faq.source: "absent.md" does not exist'),
        (store(source="empty"), 'tools.faq.source: the folder "empty" holds no file that can be read'),
        (store(source="s3://bucket/faq.json"), 'tools.faq.source: "s3://bucket/faq.json" is remote'),
        (store(source="https://u:pw@x.example/faq?t=1"), '"https://x.example/faq" is remote'),
        (store(source="guide.md", vector_field="a", id_field="b"), '"guide.md" holds no records'),
        (store(chunk_size=10, chunk_overlap=10), "tools.faq.chunk_overlap: 10 is not less than chunk_size (10)"),
        (store(chunk_overlap=512), "tools.faq.chunk_overlap: 512 is not less than chunk_size (512)"),
        (records(delimiter="||"), "tools.faq.delimiter: must be one character"),
        (records(name="n" * 60), "is longer than 64 characters"),
        (records(embedding_model="text-embedding-ada-002", embedding_dimensions=256), "embedding_dimensions is 256"),
    ],
)
def test_what_cannot_work_is_refused(project: Project, models: FakeModels, tool: dict[str, Any], told: str) -> None:
    write_faq(project)
    project.write("guide.md", "text")
    project.write("empty/picture.png", b"\x89")
    asking(project, models, tool)
    assert told in refused(project, models)


def test_a_name_that_another_tool_has_is_refused(project: Project, models: FakeModels) -> None:
    write_faq(project)
    project.write("shop.py", "def faq_search(query: str) -> str:\n    return query\n")
    other = {"type": "function", "name": "faq_search", "description": "d", "file": "shop.py", "function": "faq_search"}
    asking(project, models, records(), other)
    assert 'tools.faq.name: the model calls it "faq_search"' in refused(project, models)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{", "it is not JSON"),
        (b"\xff\xfe", "it is not UTF-8 text (line 1)"),
        (b"[]", "holds no text"),
        (json.dumps([FAQ[0], FAQ[0]]).encode(), 'two records have the id "reset"'),
        (json.dumps([FAQ[0], {"id": 1}]).encode(), 'record 2 has no field "question" (vector_field) (it has id)'),
    ],
)
def test_a_broken_source_ends_every_case_in_error(
    project: Project, models: FakeModels, content: bytes, told: str
) -> None:
    project.write("faq.json", content)
    asking(project, models, records())
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 3, finished.stdout + finished.stderr
    error = error_of(record)
    assert error.code == "tool_unavailable"
    assert error.message.startswith("tools.faq.source: ")
    assert told in error.message
    assert models.requests == []


# -- notices


@pytest.mark.proves("VectorstoreTool: database", "Database: provider")
@pytest.mark.parametrize(
    ("database", "told"),
    [
        ("chromadb", 'the database "chromadb" is not used'),
        ({"provider": "qdrant", "connection_string": "http://u:planted-pw@q"}, "the database qdrant is not used"),
        ({"provider": "in-memory"}, None),
    ],
)
def test_a_database_is_named_and_not_used(
    project: Project, models: FakeModels, database: Any, told: str | None
) -> None:
    write_faq(project)
    asking(project, models, records(database=database))
    models.answer(searching())
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert len(chunks(turn_of(record))) == 3
    output = finished.stdout + finished.stderr
    assert "planted-pw" not in output
    assert (told in output) if told else ("is not used" not in output)


def test_settings_without_effect_are_named(project: Project, models: FakeModels) -> None:
    write_faq(project)
    asking(project, models, records(chunk_size=100), store(name="text", record_path="a", delimiter=";"))
    models.answer(searching())
    finished, _ = project.evaluate(OPENAI_API_KEY=KEY)
    output = " ".join((finished.stdout + finished.stderr).split())
    assert "tools.faq: chunk_size is not used with vector_field: a record is one chunk" in output
    assert "tools.text: record_path, delimiter are not used without vector_field" in output


@pytest.mark.full
def test_documents_are_searched_in_a_folder(project: Project, models: FakeModels) -> None:
    project.write("docs/plums.docx", made.word("Plums", "Plums are blue."))
    project.write("docs/pears.pdf", made.pdf(["Pears are green."]))
    asking(project, models, store(source="docs"))
    models.answer(searching("pears are green."))
    first, second = chunks(passed(project))
    assert (first.id, second.id) == ("pears.pdf#1", "plums.docx#1")
    assert "Pears are green." in (first.text or "")
    assert "Plums are blue." in (second.text or "")


@pytest.mark.full
def test_a_document_that_cannot_be_read_names_the_file(project: Project, models: FakeModels) -> None:
    project.write("docs/broken.pdf", b"%PDF-1.7 no")
    asking(project, models, store(source="docs"))
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 3, finished.stdout + finished.stderr
    error = error_of(record)
    assert error.code == "tool_unavailable"
    assert error.message.startswith("tools.faq.source: broken.pdf: cannot be read: ")
    assert models.requests == []
