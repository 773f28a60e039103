"""An agent whose replies say its answer alone: what it did, its spans tell, in one convention or the other."""

from __future__ import annotations

AGENT = '''
import json
from opentelemetry import trace

PLACES = {"A-17": "Leeds", "B-4": "York"}


def work(name, **attributes):
    given = {key.replace("__", "."): value for key, value in attributes.items()}
    return trace.get_tracer("shop").start_as_current_span(name, attributes=given)


def chat(prompt, completion, cached, finish):
    usage = {"gen_ai__usage__input_tokens": prompt, "gen_ai__usage__output_tokens": completion}
    with work("chat gpt-4o-mini", gen_ai__operation__name="chat", gen_ai__provider__name="openai", **usage,
              gen_ai__usage__cache_read__input_tokens=cached, gen_ai__usage__reasoning__output_tokens=1,
              gen_ai__request__model="gpt-4o", gen_ai__response__model="gpt-4o-mini",
              gen_ai__response__finish_reasons=[finish]):
        pass


def tool(name, order):
    with work("execute_tool " + name, gen_ai__operation__name="execute_tool", gen_ai__tool__name=name,
              gen_ai__tool__call__arguments=json.dumps({"id": order})) as span:
        span.set_attribute("gen_ai.tool.call.result", json.dumps({"place": PLACES[order]}))


def genai(request):
    """OpenTelemetry's conventions, with an agent whose span repeats what its models took."""
    order = request["input"].split()[-1]
    with work("invoke_agent clerk", gen_ai__operation__name="invoke_agent", gen_ai__provider__name="openai",
              gen_ai__request__model="gpt-4o-mini", gen_ai__usage__input_tokens=30, gen_ai__usage__output_tokens=10):
        chat(10, 5, 0, "tool_calls")
        with work("POST"):
            tool("find_order", order)
        try:
            tool("find_parcel", "C-9")
        except KeyError:
            pass
        documents = [{"id": "p-1", "content": "Orders leave at nine.", "score": 0.5}]
        with work("retrieval", gen_ai__operation__name="retrieval", gen_ai__retrieval__documents=json.dumps(documents)):
            pass
        chat(20, 5, 4, "stop")
    return "In " + PLACES[order]


def openinference(request):
    """OpenInference's conventions, with a second library that tells of the same model calls."""
    order = request["input"].split()[-1]
    place = PLACES[order]
    with work("clerk", openinference__span__kind="AGENT"):
        for prompt, cached, call in ((10, 0, True), (20, 4, False)):
            asked = {"llm__model_name": "gpt-4o-mini", "llm__provider": "openai", "llm__token_count__prompt": prompt,
                     "llm__token_count__completion": 5, "llm__token_count__prompt_details__cache_read": cached,
                     "llm__token_count__completion_details__reasoning": 1}
            if call:
                requested = "llm__output_messages__0__message__tool_calls__0__tool_call__"
                asked[requested + "id"] = "call-1"
                asked[requested + "function__name"] = "find_order"
                asked[requested + "function__arguments"] = json.dumps({"id": order})
            outer = trace.get_tracer("framework").start_span("ChatOpenAI")
            with work("ChatCompletion", openinference__span__kind="LLM", **asked):
                pass
            outer.set_attributes({key.replace("__", "."): value for key, value in asked.items()})
            outer.set_attribute("openinference.span.kind", "LLM")
            outer.end()
            if call:
                with work("tools", openinference__span__kind="TOOL", tool__name="find_order", tool__id="call-1",
                          input__value=order, output__mime_type="application/json",
                          output__value=json.dumps({"place": place})):
                    pass
                try:
                    with work("find_parcel", openinference__span__kind="TOOL", tool__name="find_parcel",
                              input__value="{'id': 'C-9'}"):
                        PLACES["C-9"]
                except KeyError:
                    pass
                for kind, place_of, score in (("RETRIEVER", "retrieval__documents", 7.0),
                                              ("RERANKER", "reranker__output_documents", 0.5)):
                    document = place_of + "__0__document__"
                    with work("retrieve", openinference__span__kind=kind, **{document + "id": "p-1",
                              document + "content": "Orders leave at nine.", document + "score": score}):
                        pass
    return "In " + place


def said(request):
    """The same, said by the reply itself."""
    order = request["input"].split()[-1]
    return {
        "response": "In " + PLACES[order],
        "tool_invocations": [{"name": "find_order", "args": {"id": order}, "result": {"place": PLACES[order]}},
                             {"name": "find_parcel", "args": {"id": "C-9"}, "error": "KeyError: 'C-9'"}],
        "retrieved_chunks": [{"id": "p-1", "text": "Orders leave at nine.", "score": 0.5}],
        "model": "openai/gpt-4o-mini",
        "usage": {"prompt_tokens": 30, "completion_tokens": 10, "cached_tokens": 4, "reasoning_tokens": 2},
    }


def silent(request):
    """A reply without spans."""
    return "In " + PLACES[request["input"].split()[-1]]


WAYS = {"genai": genai, "openinference": openinference, "said": said, "silent": silent}
'''

PROGRAM = """
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import traced


def exporting():
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def commanded(way):
    exporting()
    for line in sys.stdin:
        print(json.dumps(traced.WAYS[way](json.loads(line))), flush=True)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        way, known_by = self.path.strip("/").split("/")
        context, more = None, {"gen_ai__conversation__id": request["session"]}
        if known_by == "trace":
            context, more = TraceContextTextMapPropagator().extract(dict(self.headers)), {}
        with trace.get_tracer("web").start_as_current_span("POST /", context=context):
            with traced.work("serve", openinference__span__kind="CHAIN", **more):
                reply = traced.WAYS[way](request)
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


def served():
    exporting()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
"""
