"""A service that sends the run's receiver whatever comes into its mind, and tells in its answer what came of it."""

from __future__ import annotations

SENDER = r'''
import gzip
import json
import os
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(os.environ["SPANS_PORT"])
HOST = f"127.0.0.1:{PORT}"
JSON, PROTOBUF = "application/json", "application/x-protobuf"


def sent(data, wait=60.0, half=False):
    """Send bytes on a connection of their own; return all that comes until it is closed, or `open` behind it."""
    with socket.create_connection(("127.0.0.1", PORT)) as connection:
        connection.settimeout(wait)
        received = b""
        try:
            connection.sendall(data)
            if half:
                connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                received += part
        except TimeoutError:
            return received.decode("latin-1") + " open"
        except ConnectionError:
            return received.decode("latin-1") + " reset"
        return received.decode("latin-1")


def head(size, kind=JSON, host=HOST, version="1.1", method="POST", path="/v1/traces", **more):
    lines = [f"{method} {path} HTTP/{version}", f"host: {host}", f"content-type: {kind}"]
    lines += [] if size is None else [f"content-length: {size}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in more.items()]
    return "\r\n".join([*(line for line in lines if line != "host: "), "", ""]).encode()


def posted(body, kind=JSON, **more):
    return sent(head(len(body), kind, connection="close", **more) + body)


def status(answer):
    return answer.split(" ")[1] if " " in answer else answer


def span(trace, number, name="execute_tool", parent="", **attributes):
    now = time.time_ns()
    told = {"gen_ai.operation.name": name, "gen_ai.tool.name": "find_order", **attributes}
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": str(now),
        "endTimeUnixNano": str(now + 1),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in told.items()],
    }


def export(*spans):
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "x"}, "spans": spans}]}]}).encode()


def nested(good, depth):
    value = '{"arrayValue":{"values":[' * depth + "{}" + "]}}" * depth
    marked = export({**good, "attributes": [{"key": "a", "value": "deep"}]})
    return marked.replace(b'"deep"', value.encode())


def shapes(trace, session):
    good = span(trace, 1)
    outer = lambda spans: {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    wrong = [
        1, [], None, "x", [1],
        {"resourceSpans": 1}, {"resourceSpans": [1]}, {"resourceSpans": {"a": 1}}, {"resourceSpans": ["x"]},
        {"resourceSpans": [[]]}, {"resourceSpans": [{"scopeSpans": 1}]}, {"resourceSpans": [{"scopeSpans": [1]}]},
        {"resourceSpans": [{"scopeSpans": [None]}]}, {"resourceSpans": [{"scopeSpans": [{"spans": 1}]}]},
        {"resourceSpans": [{"scopeSpans": [{"scope": 1, "spans": [good]}]}]},
        {"resourceSpans": [{"scopeSpans": [{"scope": {"name": 1}, "spans": [good]}]}]},
        outer([1]), outer([None]), outer(["x"]), outer([[]]),
        outer([{**good, "attributes": 1}]), outer([{**good, "attributes": [1]}]),
        outer([{**good, "attributes": [{"key": 1}]}]), outer([{**good, "attributes": [{"key": "a", "value": 1}]}]),
        outer([{**good, "attributes": [{"key": "a", "value": {"arrayValue": [1]}}]}]),
        outer([{**good, "attributes": [{"key": "a", "value": {"kvlistValue": {"values": [7]}}}]}]),
        outer([{**good, "events": [1]}]), outer([{**good, "events": [{"name": 1}]}]),
        outer([{**good, "status": 1}]), outer([{**good, "name": 1}]), outer([{**good, "traceId": 1}]),
        outer([{**good, "startTimeUnixNano": []}]),
    ]
    bodies = [json.dumps(each).encode() for each in wrong]
    bodies += [
        b"", b"{", b"\xff", b"[" * 500_000, b'{"resourceSpans":' * 100_000, b'{"resourceSpans": NaN}',
        nested(good, 100_000),
    ]
    binary = [
        b"\xff\xff", b"\x0a", b"\x0a\x05ab", b"\x0a\x02\x12\x05", b"\x08\x01", b"\x0b\x0c", b"\x00", b"\x0f",
        b"\x0a" + b"\xff" * 9 + b"\x01", b"\x0a\x03\x12\x01\x10", b"\x0a\x04\x12\x02\x10\x01",
        # A span whose name is no text, and one whose attribute is a number.
        b"\x0a\x07\x12\x05\x12\x03\x2a\x01\xff", b"\x0a\x06\x12\x04\x12\x02\x48\x01",
    ]
    answers = [posted(body) for body in bodies] + [posted(body, PROTOBUF) for body in binary]
    told = {f"{body[:60]}": answer for body, answer in zip(bodies + binary, answers)}
    lines = [answer.split("\r\n\r\n", 1)[-1].split("\n") for answer in answers]
    return {
        "taken": [body for body, answer in told.items() if status(answer) != "400"],
        "without a line": [line for line in lines if len(line) != 2 or line[1] or not 20 < len(line[0]) < 400],
        # Single spans that cannot be read do not refuse the others.
        "good": status(posted(export(good, {**good, "spanId": None}, {**good, "endTimeUnixNano": "soon"}))),
        "nested": status(posted(nested({**good, "spanId": "b" * 16}, 60))),
    }


def lengths(number, *texts):
    data = b"".join(texts)
    size, prefix = len(data), b""
    while size > 127:
        prefix += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + prefix + bytes([size]) + data


def binary_span(trace, number, attributes):
    pair = lambda key, value: lengths(9, lengths(1, key.encode()), lengths(2, lengths(1, value.encode())))
    now = struct.pack("<Q", time.time_ns())
    told = b"".join(pair(key, value) for key, value in attributes.items())
    name = lengths(5, b"execute_tool")
    identity = lengths(1, bytes.fromhex(trace)), lengths(2, number.to_bytes(8, "big"))
    return lengths(2, *identity, name, b"\x39" + now, b"\x41" + now, told)


class Probe:
    """Asks the receiver for nothing again and again; the longest wait is how long its loop was busy."""

    def __enter__(self):
        self.longest, self.begun, self.ended = 0.0, time.perf_counter(), False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    @property
    def held(self):
        """Whether the loop was busy most of the time, and for far longer than when there is nothing to do."""
        return self.longest > max(self.took / 2, 200 * USUAL)

    def run(self):
        with socket.create_connection(("127.0.0.1", PORT)) as connection:
            while not self.ended:
                begun = time.perf_counter()
                connection.sendall(head(0, path="/nothing"))
                try:
                    while b"\r\n\r\n" not in connection.recv(65536):
                        pass
                except ConnectionError:
                    pass
                connection.close()
                self.longest = max(self.longest, time.perf_counter() - begun)
                connection = socket.create_connection(("127.0.0.1", PORT))

    def __exit__(self, *_):
        self.took = time.perf_counter() - self.begun
        self.ended = True
        self.thread.join()


USUAL = 0.0


def measure_usual_wait():
    global USUAL
    with Probe() as probe:
        for _ in range(20):
            posted(b"")
    USUAL = probe.longest


def large(trace, session):
    told = {f"gen_ai.k{n}": "v" * 60 for n in range(15)}
    other, wanted = "ab" * 16, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find_order"}
    spans, size = [binary_span(trace, 1, wanted)], 0
    while size < 15_900_000:
        spans.append(binary_span(other, len(spans) + 2, told))
        size += len(spans[-1])
    requests = {"protobuf": (lengths(1, lengths(2, *spans)), PROTOBUF)}
    many = [span(other, n, **told) for n in range(2, 9_000)]
    requests["json"] = export(span(trace, 1), *many)[:15_999_999], JSON
    while len(requests["json"][0]) >= 15_999_999:
        many = many[: -500]
        requests["json"] = export(span(trace, 1), *many), JSON
    # What takes most time for its size: many values, empty ones, what nobody reads.
    pairs = b'{"key":"a","value":{"arrayValue":{"values":[{}' + b",{}" * 5_300_000 + b"]}}}"
    for name, inner in {
        "what nobody reads": b'{"x":[' + b"1," * 7_900_000 + b"1]}",
        "empty resources": b"{}" + b",{}" * 5_300_000,
        "no resources": b"1" + b",1" * 7_900_000,
        "empty values": b'{"scopeSpans":[{"spans":[{"name":"x","attributes":[' + pairs + b"]}]}]}",
    }.items():
        requests[name] = b'{"resourceSpans":[' + inner + b"]}", JSON
    requests["empty resources in protobuf"] = b"\x0a\x00" * 7_900_000, PROTOBUF
    requests["empty spans in protobuf"] = lengths(1, lengths(2, b"\x12\x00" * 7_900_000)), PROTOBUF
    requests["empty attributes in protobuf"] = lengths(1, lengths(2, lengths(2, b"\x4a\x00" * 7_900_000))), PROTOBUF
    found = {}
    measure_usual_wait()
    for name, (body, kind) in requests.items():
        with Probe() as probe:
            answer = posted(body, kind)
        found[name] = [status(answer), probe.held]
    return found


PROBES = []


def many(trace, session):
    """Send in a first turn as many spans as one may have, and tell in a second whether reading them held others up."""
    if PROBES:
        probe = PROBES.pop()
        probe.__exit__()
        return probe.held
    measure_usual_wait()
    spans = [span(trace, n, parent=f"{n - 1:016x}" if n % 2 else "") for n in range(1, 9_500)]
    answer = posted(export(*spans))
    PROBES.append(Probe().__enter__())
    return status(answer)


def hosts(trace, session):
    own = [f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}"]
    others = ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}",
              f"127.0.0.1.evil.example:{PORT}", f"user@127.0.0.1:{PORT}"]
    body = export(span(trace, 1))
    return {
        "own": [status(posted(body, host=host)) for host in own],
        "others": [status(posted(body, host=host)) for host in others],
        "none": status(posted(body, host="", version="1.0")),
        "in the address": status(posted(body, path=f"http://evil.example:{PORT}/v1/traces")),
    }


def end_of(connection, wait):
    """What a connection that the receiver ends had for an answer; None if it has not ended in time."""
    connection.settimeout(wait)
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
        return status(received.decode("latin-1"))
    except (TimeoutError, BlockingIOError):
        return None
    except ConnectionError:
        return "reset"


def idle(trace, session):
    body, held = export(span(trace, 1)), []
    starts = b"", b"POST /v1/traces HTTP/1.1\r\nhost", head(1000) + b"{"
    for number in range(300):
        held.append(socket.create_connection(("127.0.0.1", PORT)))
        held[-1].sendall(starts[number % 3])
    answer = posted(body)
    # Those that have begun a request are given up within seconds; others may wait, as clients keep connections.
    begun_ones = [each for number, each in enumerate(held) if number % 3]
    return {
        "status": status(answer),
        "before they are given up": None in [end_of(each, 0) for each in begun_ones],
        "given up": None not in [end_of(each, 60) for each in begun_ones],
    }


def bodies(trace, session):
    body, large, held = export(span(trace, 1)), bytes(15_000_000), []
    for number in range(20):
        held.append(socket.create_connection(("127.0.0.1", PORT)))
        # All but the last byte.
        held[-1].sendall(head(len(large) + 1) + large)
    answers = [status(posted(body)) for _ in range(3)]
    # At most four are held, and given up later; the others are closed without an answer.
    closed = [end for each in held if (end := end_of(each, 60)) in ("", "reset")]
    return {"statuses": answers, "most are closed": len(closed) > 10}


def strays(trace, session):
    mine = os.urandom(16).hex()
    statuses = {status(posted(export(span(mine, 1, parent=f"{9:016x}"))))}
    for batch in range(25):
        noise = [span(os.urandom(16).hex(), 1000 + 100 * batch + n) for n in range(100)]
        statuses.add(status(posted(export(*noise))))
    # What no agent did takes no room from what agents did.
    for batch in range(100):
        noise = [span(os.urandom(16).hex(), 5000 + 500 * batch + n, "GET /") for n in range(500)]
        for each in noise:
            each["attributes"] = []
        statuses.add(status(posted(export(*noise))))
    root = span(mine, 9, "invoke_agent", **{"gen_ai.conversation.id": session})
    statuses.add(status(posted(export(root))))
    return sorted(statuses)


def connections(trace, session):
    body = export(span(trace, 1))
    chunk = lambda data: f"{len(data):x}\r\n".encode() + data + b"\r\n"
    chunked = head(None, transfer_encoding="chunked", connection="close")
    zipped = gzip.compress(body)
    single = b"".join(chunk(body[n:n + 1]) for n in range(len(body)))
    found = {
        "chunks of one byte": status(sent(chunked + single + chunk(b""))),
        "a broken chunk": status(sent(chunked + b"zz\r\n")),
        "a bomb": status(posted(gzip.compress(bytes(200_000_000)), content_encoding="gzip")),
        "a bomb of bombs": status(posted(gzip.compress(gzip.compress(bytes(20_000_000))), content_encoding="gzip")),
        "gzip": status(posted(zipped, content_encoding="gzip")),
        "gzip that breaks off": status(posted(zipped[:-9], content_encoding="gzip")),
        "gzip that goes on": status(posted(zipped + b"more", content_encoding="gzip")),
        "no gzip": status(posted(body, content_encoding="gzip")),
        "another coding": status(posted(body, content_encoding="br")),
        "HTTP/1.0": status(sent(head(len(body), version="1.0") + body)),
        "half closed": status(sent(head(len(body)) + body, half=True)),
        "breaks off in the body": status(sent(head(len(body)) + body[:20], half=True)),
        "breaks off in the head": sent(b"POST /v1/tr", half=True)[:12],
        "nothing": sent(b"", half=True),
        "no HTTP": status(sent(b"\x16\x03\x01 hello\r\n\r\n")),
        "a large head": status(sent(head(0, x="y" * 100_000))),
        "a large body": status(posted(bytes(17_000_000))),
        "a large body in chunks": status(sent(chunked + chunk(bytes(17_000_000)) + chunk(b""))),
        "two lengths": status(sent(head(len(body), **{"content_length": 3}) + body)),
        "get": status(sent(head(0, method="GET", connection="close"))),
    }
    both = sent(head(len(body)) + body + head(len(body), connection="close") + body)
    found["two at once"] = both.count("HTTP/1.1 200")
    with socket.create_connection(("127.0.0.1", PORT)) as connection:
        # Answers that nobody reads.
        connection.settimeout(60)
        many = head(0) * 1_000
        measure_usual_wait()
        with Probe() as probe:
            try:
                for _ in range(200):
                    connection.sendall(many)
            except OSError:
                found["unread answers"] = "closed"
        found["others wait"] = probe.held
    # Gone before the answer.
    for _ in range(20):
        connection = socket.create_connection(("127.0.0.1", PORT))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(head(len(body)) + body)
        connection.close()
    found["after all of it"] = status(posted(body))
    return found


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        way = globals()[self.path.strip("/")]
        data = json.dumps({"response": json.dumps(way(request["traceparent"].split("-")[1], request["session"]))})
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data.encode())

    def log_message(self, *args):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
'''
