from typing import Any


def short(output: str, context: Any) -> bool:
    return len(output) <= int(context["config"]["most"])
