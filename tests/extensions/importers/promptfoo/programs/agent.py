import json
import sys
from typing import Any


def call_api(prompt: str, options: Any, context: Any) -> dict[str, Any]:
    output = f'{context["vars"]["customer"]} asked "{prompt}" in {options["config"].get("word", "Leeds")}'
    return {"output": output, "tokenUsage": {"total": 5, "prompt": 3, "completion": 2}}


if __name__ == "__main__":
    print(call_api(sys.argv[1], *map(json.loads, sys.argv[2:4]))["output"])
