"""A server on its standard streams without the SDK, which misbehaves as it is told: `rude.py MANNER…`.

Its tools are `act`, which answers with its arguments as JSON, and what a manner adds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MANNERS = sys.argv[1:]
ANYTHING: dict[str, Any] = {"type": "object"}


def tools() -> list[dict[str, Any]]:
    found = [{"name": "act", "inputSchema": ANYTHING}]
    if "bad-schema" in MANNERS:
        found.append({"name": "bad", "inputSchema": {"type": "object", "properties": {"a": {"type": "no such type"}}}})
    if "odd-names" in MANNERS:
        names = ["shop.find order", "shop_find_order", "x" * 80, "x" * 81, ""]
        found += [{"name": name, "inputSchema": ANYTHING} for name in names]
    if "no-tools" in MANNERS:
        found = []
    return found


def leave_traces() -> None:
    """Write down who is running: this process, and a child in a session of its own."""
    child = subprocess.Popen(
        [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    partial = Path("pids.part")
    partial.write_text(json.dumps([os.getpid(), child.pid]))
    partial.rename("pids.json")


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii="latin" not in MANNERS) + "\n")
    sys.stdout.flush()


def result_of(params: dict[str, Any]) -> dict[str, Any]:
    arguments = params.get("arguments") or {}
    text = json.dumps({"tool": params["name"], **arguments}, ensure_ascii=False)
    if "environment" in MANNERS:
        return {"content": [{"type": "text", "text": json.dumps(dict(os.environ))}]}
    if "failing" in MANNERS:
        return {"content": [{"type": "text", "text": arguments["say"]}], "isError": True}
    if "nan" in MANNERS:
        return {"content": [], "structuredContent": {"score": float("nan")}}
    if "deep" in MANNERS:
        return {"content": [{"type": "text", "text": "[" * 100_000}]}
    return {"content": [{"type": "text", "text": text}]}


def answer_stateless(request: dict[str, Any], unknown: int) -> None:
    """Answer as a server of the specification 2026-07-28 alone, which has no handshake and keeps no session.

    Args:
        unknown: the code with which it refuses a handshake.
    """
    method, params = request["method"], request.get("params") or {}
    stated = params.get("_meta", {})
    if method == "initialize":
        send({"id": request["id"], "error": {"code": unknown, "message": "no handshake here"}})
    elif stated.get("io.modelcontextprotocol/protocolVersion") != "2026-07-28" or (
        "io.modelcontextprotocol/clientCapabilities" not in stated
    ):
        send({"id": request["id"], "error": {"code": -32602, "message": "each request must name its version"}})
    elif method == "server/discover":
        found = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        send({"id": request["id"], "result": {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **found}})
    elif method == "tools/list":
        listed = {"tools": tools(), "ttlMs": 0, "cacheScope": "private"}
        send({"id": request["id"], "result": {"resultType": "complete", **listed}})
    elif method == "tools/call":
        send({"id": request["id"], "result": {"resultType": "complete", **result_of(params)}})


def main() -> None:
    if "latin" in MANNERS:
        sys.stdin.reconfigure(encoding="latin-1")  # type: ignore[union-attr]
        sys.stdout.reconfigure(encoding="latin-1")  # type: ignore[union-attr]
    if "stubborn" in MANNERS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        leave_traces()
    if "exits" in MANNERS:
        print(f"cannot start with {os.environ.get('SHOP_TOKEN')}", file=sys.stderr, flush=True)
        raise SystemExit(7)
    with Path("starts").open("a") as file:
        file.write("x")
    for line in sys.stdin:
        request = json.loads(line)
        method, number = request["method"], request.get("id")
        with Path("methods").open("a") as file:
            file.write(f"{method}\n")
        if stateless := [code for code in ("-32601", "-32602") if code in MANNERS]:
            answer_stateless(request, int(stateless[0]))
        elif method == "server/discover" and "silent" not in MANNERS:
            send({"id": number, "error": {"code": -32601, "message": "Method not found"}})
        elif method == "initialize":
            if "silent" in MANNERS:
                print("Server listening", flush=True)
                print("waiting for a database", file=sys.stderr, flush=True)
                continue
            if "chatty" in MANNERS:
                print('Welcome!\n\x00\x01{"jsonrpc": [}\n[[[', flush=True)
                os.write(1, b"\xff\xfe\n\n")
            version = "1999-01-01" if "ancient" in MANNERS else request["params"]["protocolVersion"]
            info = {"name": "rude", "version": "1"}
            send(
                {
                    "id": number,
                    "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info},
                }
            )
        elif method == "tools/list":
            cursor = {"nextCursor": "more"} if "endless" in MANNERS else {}
            send({"id": number, "result": {"tools": tools(), **cursor}})
        elif method == "tools/call":
            Path("called").touch()
            arguments = request["params"].get("arguments") or {}
            if "hangs" in MANNERS and arguments.get("hang", True):
                continue
            if "dies" in MANNERS and arguments.get("die", True):
                os._exit(9)
            if "refuses" in MANNERS:
                send({"id": number, "error": {"code": -32602, "message": "no such tool\x1b[31m here"}})
                continue
            if "nonsense" in MANNERS:
                send({"id": number, "result": {"content": "none"}})
                continue
            if "floods" in MANNERS:
                chunk = "x" * 1_000_000
                while True:
                    sys.stdout.write(chunk)
            send({"id": number, "result": result_of(request["params"])})
    while "stubborn" in MANNERS:
        time.sleep(1)


main()
