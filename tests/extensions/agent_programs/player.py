"""Plays a recorded stream of a coding-agent program: `player.py PROGRAM STREAMS`, with the prompt on its input.

The last `SCN=name` of the prompt names the recording. Like the real program did, it writes notes.txt where the
recording writes it, keeps a session file, and ends with the recorded exit code.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

program, streams = sys.argv[1], Path(sys.argv[2])
prompt = sys.stdin.read()
name = re.findall(r"SCN=(\w+)", prompt)[-1]
lines = (streams / f"{program}-{name}.jsonl").read_text(encoding="utf-8").replace("/W/ws", os.getcwd())
if '"hello from the fake' in lines or '"notes.txt"' in lines or "/notes.txt" in lines:
    Path("notes.txt").write_text("hello from the fake\n", encoding="utf-8")
used = streams / f"{program}-{name}.session"
if used.exists():
    place = Path(os.environ.get("GEMINI_TELEMETRY_OUTFILE", ""))
    if program == "copilot":
        last = json.loads(lines.splitlines()[-1])
        place = Path(os.environ["COPILOT_HOME"], "session-state", last["sessionId"], "events.jsonl")
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(place, "a", encoding="utf-8") as file:
        file.write(used.read_text(encoding="utf-8"))
sys.stdout.write(lines)
sys.exit(json.loads((streams / "exit-codes.json").read_text(encoding="utf-8"))[f"{program}-{name}"])
