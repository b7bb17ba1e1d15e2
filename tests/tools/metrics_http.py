# SPDX-License-Identifier: BSD-3-Clause
"""metrics_http.py PORT CASE - for metrics.t: a client of `coll metrics --listen`.  Prints what is wrong.

  answers    each request has the answer that HTTP/1.1 asks for
  crowd      a thousand clients come and go, most of them with nothing, half a request, or a request whose answer they do not read
  stuck      more clients than the server has at a time ask, and do not read; then one that does
"""
import re
import socket
import sys

PORT = int(sys.argv[1])
CROWD, STUCK = 1000, 20


def connect(buffer=None):
    s = socket.socket()
    s.settimeout(120)
    if buffer:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    s.connect(("127.0.0.1", PORT))
    return s


def read_all(s):
    parts = []
    while part := s.recv(65536):
        parts.append(part)
    return b"".join(parts)


def answer(request):
    with connect() as s:
        s.sendall(request)
        return read_all(s)


def judge(name, request, status, pattern=b""):
    head, _, body = answer(request).partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    fields = dict(line.split(b": ", 1) for line in lines[1:])
    if not re.match(rb"HTTP/1\.1 %d [A-Z]" % status, lines[0]):
        print(f"{name}: {lines[0]!r}")
    if fields.get(b"Connection") != b"close" or b"Date" not in fields:
        print(f"{name}: {fields!r}")
    if request.startswith(b"HEAD ") != (int(fields[b"Content-Length"]) != len(body)):
        print(f"{name}: {fields[b'Content-Length']!r} bytes, got {len(body)}")
    if status == 405 and fields.get(b"Allow") != b"GET, HEAD":
        print(f"{name}: no Allow")
    if status == 200 and fields.get(b"Content-Type") != b"text/plain; version=0.0.4; charset=utf-8":
        print(f"{name}: {fields!r}")
    if not re.search(pattern, body):
        print(f"{name}: {body[:200]!r}")


def answers():
    host = b"\r\nHost: here\r\n\r\n"
    text = rb"coll_calls_total\{"
    judge("GET", b"GET /metrics HTTP/1.1" + host, 200, text)
    judge("a query", b"GET /metrics?x=1 HTTP/1.1" + host, 200, text)
    judge("a whole address", b"GET http://here/metrics HTTP/1.1" + host, 200, text)
    judge("HTTP/1.0", b"GET /metrics HTTP/1.0\r\n\r\n", 200, text)
    judge("fields", b"GET /metrics HTTP/1.1\r\nUser-Agent: x: y\r\nHOST: here\r\nAccept: */*\r\n\r\n", 200, text)
    judge("lines of LF", b"GET /metrics HTTP/1.1\nHost: here\n\n", 200, text)
    judge("HEAD", b"HEAD /metrics HTTP/1.1" + host, 200)
    for path in b"/", b"/metricsx", b"/metrics/", b"/metric", b"//metrics", b"http://here", b"*":
        judge(f"path {path}", b"GET " + path + b" HTTP/1.1" + host, 404, rb"/metrics")
    for method in b"POST", b"PUT", b"DELETE", b"get", b"OPTIONS":
        judge(f"method {method}", method + b" /metrics HTTP/1.1" + host, 405)
    judge("a body", b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123456789", 405)
    judge("no host", b"GET /metrics HTTP/1.1\r\n\r\n", 400)
    judge("two hosts", b"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400)
    for line in b"", b"GET", b"GET /metrics", b"GET  /metrics HTTP/1.1", b"\0", b"GET /metrics\0 HTTP/1.1", b"\x16\x03\x01":
        judge(f"line {line}", line + host, 400)
    for field in b"Host", b": x", b" Host: x", b"Host : x":
        judge(f"field {field}", b"GET /metrics HTTP/1.1\r\n" + field + b"\r\n\r\n", 400)
    judge("HTTP/2", b"GET /metrics HTTP/2.0" + host, 505)
    judge("a long request", b"GET /metrics HTTP/1.1\r\nHost: " + 8192 * b"x", 431)


def crowd():
    left = []
    for i in range(CROWD):
        s = connect()
        if i % 4 == 1:
            s.sendall(b"GET /metr")
        elif i % 4 == 2:
            s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        if i % 100 == 3:
            left.append(s)  # stays silent
        elif i % 4 == 3:
            try:
                s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                if not s.recv(15).startswith(b"HTTP/1.1 200"):
                    print(f"client {i} has no answer")
            except OSError as e:
                print(f"client {i}: {e}")
            s.close()
        else:
            s.close()
    judge("after the crowd", b"GET /metrics HTTP/1.0\r\n\r\n", 200, rb"coll_calls_total\{")
    for s in left:
        s.close()


def stuck():
    left = [connect(4096) for i in range(STUCK)]
    for s in left:
        s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    whole = len(answer(b"GET /metrics HTTP/1.0\r\n\r\n"))
    if whole < 300000:
        print(f"{whole} bytes fit into the buffers of the kernel")
    # The first of them made room for the one that reads.
    short = 0
    for s in left:
        try:
            short += len(read_all(s)) < whole - 10000
        except ConnectionResetError:
            short += 1
        s.close()
    if not short:
        print("no client was dropped")


{"answers": answers, "crowd": crowd, "stuck": stuck}[sys.argv[2]]()
