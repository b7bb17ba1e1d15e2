# SPDX-License-Identifier: BSD-3-Clause
"""otlp.py FILE... - holds each line to the fields of OTLP's TracesData in JSON; a file has the spans of a rank."""
import json
import re
import sys
import time

VALUES = {"stringValue": str, "intValue": str}
SPAN = {"traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "attributes", "status"}


def attributes(given):
    found = {}
    for item in given:
        assert set(item) == {"key", "value"}, item
        (kind, value), = item["value"].items()
        assert isinstance(value, VALUES[kind]), item
        assert item["key"] not in found, item
        found[item["key"]] = int(value) if kind == "intValue" else value
    return found


def span(line):
    data = json.loads(line)
    assert set(data) == {"resourceSpans"}, data
    resource, = data["resourceSpans"]
    assert set(resource) == {"resource", "scopeSpans"}, resource
    scope, = resource["scopeSpans"]
    assert set(scope) == {"scope", "spans"} and scope["scope"]["name"] == "libcoll", scope
    one, = scope["spans"]
    assert set(one) <= SPAN and SPAN - set(one) <= {"status"}, one
    assert re.fullmatch("[0-9a-f]{32}", one["traceId"]) and re.fullmatch("[0-9a-f]{16}", one["spanId"]), one
    assert int(one["spanId"], 16) and int(one["traceId"], 16) and one["kind"] == 1, one
    start, end = int(one["startTimeUnixNano"]), int(one["endTimeUnixNano"])
    assert start <= end and abs(time.time() - end / 1e9) < 3600, one
    return attributes(resource["resource"]["attributes"]), one, attributes(one["attributes"])


def main(files):
    traces = []
    for rank, name in enumerate(files):
        spans = [span(line) for line in open(name, encoding="utf-8")]
        assert spans, name
        ids = [one["spanId"] for _, one, _ in spans]
        assert len(ids) == len(set(ids)), name
        of, one, said = next(x for x in spans if x[1]["name"] == "allreduce")
        assert of["service.name"] == "libcoll" and of["coll.world_rank"] == rank and of["coll.backend"] == "tcp", of
        assert (said["coll.rank"], said["coll.nranks"], said["coll.bytes"], said["coll.count"]) == (rank, 2, 4, 1), said
        assert said["coll.dtype"] == "int32" and said["coll.op"] == "sum" and said["coll.algorithm"], said
        traces.append(one["traceId"])
    assert len(set(traces)) == 1, traces


main(sys.argv[1:])
