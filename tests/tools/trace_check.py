# SPDX-License-Identifier: BSD-3-Clause
"""trace_check.py - for trace.t: are files what their formats ask for, and what do they say?

  events FILE...            the Trace Event Format, "Trace Event Format" of the Chromium project; --open: things may be under way
  rows FILE                 the names of the rows
  together FILE SHARE       on each rank calls are under way while no thread waits, for this share of their time, and bytes move then
  goal FILE                 the grammar of LogGOPSim's txt2bin; each message has both ends, and the schedule runs to its end
  chakra FILE               nodes of et_def.proto in protobuf's JSON form
  shift FILE SECONDS OUT    the timeline as on a host whose clock is ahead
  get FILE KEY...           a value of a JSON document
"""
import json
import re
import sys
from collections import Counter, defaultdict, deque


def fail(text):
    sys.exit("trace_check: " + text)


def need(condition, text, *what):
    if not condition:
        fail(text % what if what else text)


# ---- events ----

def check_event(e, last, rows, flows):
    need(e.get("ph") in ("B", "E", "M", "i", "s", "f"), "phase %s", e.get("ph"))
    need(isinstance(e["pid"], int) and isinstance(e["tid"], int), "pid and tid of %s", e)
    if e["ph"] == "M":
        need(e["name"] and "args" in e, "metadata %s", e)
        return
    key, ts = (e["pid"], e["tid"]), e["ts"]
    need(isinstance(ts, (int, float)) and ts > 0, "ts of %s", e)
    need(ts >= last[key], "time falls on row %s: %s after %s", key, ts, last[key])
    last[key] = ts
    if e["ph"] == "B":
        need(rows.get(key) is None, "two things on row %s: %s", key, e)
        need(e["name"] and e["cat"], "name of %s", e)
        rows[key] = e
    elif e["ph"] == "E":
        need(rows.get(key) is not None, "an end without begin: %s", e)
        rows[key] = None
    elif e["ph"] == "i":
        need(e["s"] in ("g", "p", "t") and e["name"], "instant %s", e)
    else:
        need(rows.get(key) is not None, "an arrow without a slice: %s", e)
        need(e["name"] and e["cat"] and isinstance(e["id"], str), "arrow %s", e)
        need(e["ph"] == "s" or e["bp"] == "e", "an arrow to the next slice: %s", e)
        flows[e["id"]][e["ph"]] += 1


def events(paths, may_be_open):
    for path in paths:
        last, rows, flows = defaultdict(float), {}, defaultdict(Counter)
        with open(path) as f:
            document = json.load(f)
        for e in document:
            check_event(e, last, rows, flows)
        left = [e for e in rows.values() if e is not None]
        need(may_be_open or not left, "%s: not ended: %s", path, left[:1])
        for flow, ends in flows.items():
            need(may_be_open or ends == Counter("sf"), "arrow %s has %s", flow, dict(ends))
        named = {(e["pid"], e["tid"]) for e in document if e.get("name") == "thread_name"}
        need(set(rows) <= named, "%s: rows without a name: %s", path, set(rows) - named)
        pids = {e["pid"] for e in document}
        named = {e["pid"] for e in document if e["ph"] == "M" and e["name"] == "process_name"}
        need(pids == named, "%s: processes %s, named %s", path, pids, named)


def rows(path):
    with open(path) as f:
        for e in json.load(f):
            if e["ph"] == "M" and e["name"] in ("thread_name", "process_name"):
                print(e["args"]["name"])


def together(path, share):
    is_open, row, busy, free, moved = defaultdict(Counter), {}, Counter(), Counter(), Counter()
    last = {}
    with open(path) as f:
        document = [e for e in json.load(f) if e["ph"] in "BE"]
    for e in sorted(document, key=lambda e: e["ts"]):
        rank, key = e["pid"], (e["pid"], e["tid"])
        if is_open[rank]["call"]:
            busy[rank] += e["ts"] - last[rank]
            free[rank] += 0 if is_open[rank]["wait"] else e["ts"] - last[rank]
        last[rank] = e["ts"]
        if e["ph"] == "B":
            row[key] = e
            is_open[rank][e["cat"]] += 1
            continue
        begin = row.pop(key)
        is_open[rank][begin["cat"]] -= 1
        moved[rank] += begin["cat"] == "step" and begin["args"]["bytes"] > 0 and not is_open[rank]["wait"]
    need(busy, "no calls")
    for rank in busy:
        need(free[rank] >= share * busy[rank] and moved[rank], "rank %d: in %.0f of %.0f us of its calls no thread waited, "
             "and %d steps ended then", rank, free[rank], busy[rank], moved[rank])


# ---- GOAL ----

LABEL = r"[a-zA-Z][a-zA-Z0-9_]*"
MOVE = re.compile(r"(%s): (send|recv) (\d+)b (to|from) (\d+|-1) tag (\d+)$" % LABEL)
CALC = re.compile(r"(%s): calc (\d+)$" % LABEL)
REQUIRES = re.compile(r"(%s) requires (%s)$" % (LABEL, LABEL))


def read_goal(path):
    ops, rank, ranks = {}, None, None
    for line in open(path):
        line = line.strip()
        if not line:
            continue
        if ranks is None:
            ranks = int(re.match(r"num_ranks (\d+)$", line).group(1))
        elif rank is None:
            rank = int(re.match(r"rank (\d+) {$", line).group(1))
        elif line == "}":
            rank = None
        elif MOVE.match(line):
            label, what, size, word, peer, tag = MOVE.match(line).groups()
            need((what == "send") == (word == "to"), line)
            need(int(peer) < ranks and int(tag) < 2**32 - 1, line)
            ops[rank, label] = [what, int(size), int(peer), int(tag), []]
        elif CALC.match(line):
            ops[rank, CALC.match(line).group(1)] = ["calc", int(CALC.match(line).group(2)), 0, 0, []]
        else:
            m = REQUIRES.match(line)
            need(m, "line '%s'", line)
            need((rank, m.group(2)) in ops, "'%s' before its label", line)
            ops[rank, m.group(1)][4].append((rank, m.group(2)))
    need(rank is None, "a block does not end")
    return ranks, ops


def goal(path):
    ranks, ops = read_goal(path)
    waiting, done = {k: len(v[4]) for k, v in ops.items()}, set()
    after, sent, awaited = defaultdict(list), defaultdict(deque), defaultdict(deque)
    for k, v in ops.items():
        for other in v[4]:
            after[other].append(k)
    ready = deque(k for k in ops if not waiting[k])

    def finish(k):
        done.add(k)
        for other in after[k]:
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)

    while ready:
        k = ready.popleft()
        what, size, peer, tag, _ = ops[k]
        if what == "calc":
            finish(k)
        elif what == "send":
            finish(k)
            message = (k[0], peer, tag, size)
            if awaited[message]:
                finish(awaited[message].popleft())
            else:
                sent[message].append(k)
        elif sent[(peer, k[0], tag, size)]:
            sent[(peer, k[0], tag, size)].popleft()
            finish(k)
        else:
            awaited[(peer, k[0], tag, size)].append(k)
    need(len(done) == len(ops), "%d of %d operations cannot run", len(ops) - len(done), len(ops))
    need(not any(sent.values()), "messages that nobody receives")
    print(ranks, "ranks,", Counter(v[0] for v in ops.values()).most_common())


# ---- Chakra ----

TYPES = {"COMP_NODE", "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE"}
VALUES = {"int64Val": str, "int32Val": int, "boolVal": bool, "stringVal": str}


def chakra(path):
    text, at, documents = open(path).read(), 0, []
    while at < len(text.rstrip()):
        document, at = json.JSONDecoder().raw_decode(text, at)
        documents.append(document)
        while at < len(text) and text[at].isspace():
            at += 1
    need(documents[0] == {"version": "0.0.4"}, "metadata %s", documents[0])
    seen, kinds = set(), Counter()
    for node in documents[1:]:
        need(set(node) <= {"id", "name", "type", "dataDeps", "startTimeMicros", "durationMicros", "attr"}, "%s", node)
        need(node["type"] in TYPES and int(node["id"]) not in seen, "%s", node)
        need(all(int(d) in seen for d in node.get("dataDeps", [])), "dependency of %s", node)
        need(int(node["durationMicros"]) >= 0, "%s", node)
        seen.add(int(node["id"]))
        attr = {}
        for a in node["attr"]:
            (kind, value), = [(k, v) for k, v in a.items() if k != "name"]
            need(isinstance(value, VALUES[kind]), "%s", a)
            attr[a["name"]] = value
        if node["type"] == "COMM_COLL_NODE":
            need(0 <= int(attr["comm_type"]) <= 9 and int(attr["comm_size"]) >= 0, "%s", attr)
        elif node["type"] != "COMP_NODE":
            need({"comm_src", "comm_dst", "comm_tag", "comm_size"} <= set(attr), "%s", attr)
        need("is_cpu_op" in attr, "%s", attr)
        kinds[node["type"], node["name"]] += 1
    print(sorted(kinds.items()))


# ---- others ----

def shift(path, seconds, out):
    with open(path) as f:
        document = json.load(f)
    for e in document:
        if "ts" in e:
            e["ts"] += seconds * 1e6
        if "issued" in e.get("args", {}):
            e["args"]["issued"] += seconds * 1e6
        if e.get("name") == "coll_clock":
            e["args"].update(clock="another boot", host="other",
                             monotonic_ns=e["args"]["monotonic_ns"] + int(seconds * 1e9))
    with open(out, "w") as f:
        f.write("[" + ",\n".join(json.dumps(e, separators=(",", ":")) for e in document) + "]")


def get(path, keys):
    with open(path) as f:
        value = json.load(f)
    for key in keys:
        value = value[int(key)] if isinstance(value, list) else value[key]
    print(value)


what, rest = sys.argv[1], sys.argv[2:]
if what == "events":
    events([p for p in rest if p != "--open"], "--open" in rest)
elif what == "together":
    together(rest[0], float(rest[1]))
elif what == "shift":
    shift(rest[0], float(rest[1]), rest[2])
elif what == "get":
    get(rest[0], rest[1:])
else:
    {"rows": rows, "goal": goal, "chakra": chakra}[what](rest[0])
