"""`schema`: prints JSON Schemas of the documents that the program reads and writes."""

from __future__ import annotations

import json

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.reports.result_schema import result_schema
from holodeck_action.run.caller import Caller
from holodeck_action.run.metrics import installed_metrics
from holodeck_action.seam import registry
from holodeck_action.suite.suite_schemas import suite_schema
from holodeck_action.targets.reply import reply_schema
from holodeck_action.targets.request import request_schema

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TARGET_SCHEMAS = {"reply": reply_schema, "request": request_schema}


def print_schema(document: str, caller: Caller) -> int:
    """Write the JSON Schema of a document, by its name on the command line, to standard output."""
    if document in _TARGET_SCHEMAS:
        made = {"$schema": _DIALECT, **_TARGET_SCHEMAS[document](), "title": document}
    elif document in ("agent", "policy"):
        made = suite_schema(document, installed_metrics())
    elif document in registry.documents():
        made = registry.resolve(registry.documents()[document].schema)()
    else:
        made = result_schema(document)
    caller.stdout.write(f"{json.dumps(made, indent=2, ensure_ascii=False)}\n")
    return ExitCode.PASSED
