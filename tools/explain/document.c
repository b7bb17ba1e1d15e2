/* SPDX-License-Identifier: BSD-3-Clause */
/* document.c - the findings as a JSON document.  Sets of ranks are lists of [first, last]. */
#include <inttypes.h>
#include <coll/coll.h>
#include "explain/explain.h"
#include "lib/json.h"

static void document_ranks(struct json *json, const char *key, const struct explain_set *set)
{
	json_array(json, key);
	for (int i = 0; i < set->n; i++) {
		json_array(json, NULL);
		json_int(json, NULL, set->span[i].first);
		json_int(json, NULL, set->span[i].last);
		json_array_end(json);
	}
	json_array_end(json);
}

/* A time that is not known is null. */
static void document_ms(struct json *json, const char *key, int64_t ms)
{
	if (ms >= 0)
		json_int(json, key, ms);
	else
		json_null(json, key);
}

static void document_count(struct json *json, const char *key, uint64_t n)
{
	json_int(json, key, n > INT64_MAX ? INT64_MAX : (int64_t)n);
}

static void document_op(struct json *json, const char *key, const struct explain_op *op)
{
	if (op == NULL) {
		json_null(json, key);
		return;
	}
	json_object(json, key);
	document_count(json, "number", op->number);
	document_count(json, "collective", op->collective);
	json_string(json, "kind", op->kind);
	json_string(json, "type", op->dtype[0] ? op->dtype : NULL);
	json_string(json, "op",
		    op->redop >= 0 && op->redop <= INT32_MAX ? coll_op_name((coll_op_t)op->redop)
							     : NULL);
	document_count(json, "count", op->count);
	document_count(json, "bytes", op->bytes);
	if (op->peer == EXPLAIN_NO_PEER)
		json_null(json, "root_or_peer");
	else
		json_int(json, "root_or_peer", op->peer);
	if (op->tag == EXPLAIN_NONE)
		json_null(json, "tag");
	else
		json_int(json, "tag", op->tag);
	json_string(json, "algorithm", op->algorithm[0] ? op->algorithm : NULL);
	json_string(json, "state", explain_state_names[op->state]);
	json_string(json, "description", op->what);
	json_object_end(json);
}

static void document_class(struct json *json, const struct explain_comm *comm,
			   const struct explain_class *class)
{
	const struct explain_rank *r = class->first;
	struct explain_set awaited = {0};

	json_object(json, NULL);
	document_ranks(json, "ranks", &class->ranks);
	if (r->counted) {
		document_count(json, "made", r->made);
		document_count(json, "done", r->done);
	} else {
		json_null(json, "made");
		json_null(json, "done");
	}
	document_ms(json, "idle_ms", class->idle_ms);
	document_ms(json, "idle_most_ms", class->idle_most_ms);
	document_ms(json, "wait_ms", class->wait_ms);
	document_ms(json, "wait_most_ms", class->wait_most_ms);
	document_ms(json, "gap_ms", r->gap_ms);
	json_int(json, "open", r->open);
	document_op(json, "waits", r->waits);
	json_bool(json, "mixed", class->mixed);
	if (!class->mixed)
		explain_awaited(comm, r, &awaited);
	document_ranks(json, "for", &awaited);
	explain_set_free(&awaited);
	json_object_end(json);
}

/* The number of the first collective that differs, or null, and the calls under that number. */
static void document_sides(struct json *json, const char *key, const char *calls, uint64_t number,
			   const struct explain_side *side, int n)
{
	if (number)
		document_count(json, key, number);
	else
		json_null(json, key);
	json_array(json, calls);
	for (int i = 0; i < n; i++) {
		json_object(json, NULL);
		document_ranks(json, "ranks", &side[i].ranks);
		document_op(json, "call", side[i].op);
		json_object_end(json);
	}
	json_array_end(json);
}

static void document_messages(struct json *json, const struct explain_comm *comm)
{
	json_array(json, "cycle");
	for (int i = 0; i < comm->ncycle; i++)
		json_int(json, NULL, comm->cycle[i]);
	json_array_end(json);
	json_array(json, "without_partner");
	for (int i = 0; i < comm->nlonely; i++) {
		json_object(json, NULL);
		json_int(json, "rank", comm->lonely[i].rank);
		json_bool(json, "peer_has_file", comm->lonely[i].why == PARTNER_MISSING);
		document_op(json, "message", comm->lonely[i].op);
		json_object_end(json);
	}
	json_array_end(json);
}

static void document_failures(struct json *json, const struct explain_comm *comm)
{
	json_array(json, "failures");
	for (int i = 0; i < comm->nfailures; i++) {
		json_object(json, NULL);
		document_ms(json, "time_ms", comm->failure[i].ms ? comm->failure[i].ms : -1);
		json_int(json, "code", comm->failure[i].code);
		json_string(json, "text", comm->failure[i].text);
		document_ranks(json, "ranks", &comm->failure[i].ranks);
		json_object_end(json);
	}
	json_array_end(json);
	json_array(json, "staged");
	for (int i = 0; i < comm->n; i++) {
		if (!comm->rank[i].dump->staged[0])
			continue;
		json_object(json, NULL);
		json_int(json, "rank", comm->rank[i].rank);
		json_string(json, "operations", comm->rank[i].dump->staged);
		json_object_end(json);
	}
	json_array_end(json);
}

static void document_file(struct json *json, const struct explain_dump *dump)
{
	json_object(json, NULL);
	json_int(json, "rank", dump->rank);
	json_int(json, "world_rank", dump->world_rank);
	json_string(json, "host", dump->host);
	json_int(json, "pid", dump->pid);
	json_string(json, "file", dump->file);
	json_object_end(json);
}

static void document_comm(struct json *json, const struct explain_comm *comm)
{
	char job[32];

	snprintf(job, sizeof(job), "%016" PRIx64, comm->head->job);
	json_object(json, NULL);
	json_string(json, "job", job);
	json_string(json, "communicator", comm->head->comm);
	json_int(json, "files_number", comm->head->again + 1);
	json_string(json, "backend", comm->head->backend);
	json_int(json, "nranks", comm->nranks);
	json_int(json, "hosts", comm->hosts);
	json_bool(json, "failed", comm->failed);
	json_string(json, "cause", explain_cause_names[comm->cause]);
	json_string(json, "verdict", comm->verdict);
	json_array(json, "files");
	for (int i = 0; i < comm->n; i++)
		document_file(json, comm->rank[i].dump);
	json_array_end(json);
	document_ranks(json, "no_file", &comm->missing);
	document_ranks(json, "lost", &comm->gone);
	document_ranks(json, "left", &comm->left);
	document_ranks(json, "ended", &comm->ended);
	document_ranks(json, "stopped", &comm->stopped);
	document_ranks(json, "silent", &comm->silent);
	document_ranks(json, "behind", &comm->behind);
	document_ranks(json, "late", &comm->late);
	json_array(json, "ranks");
	for (int i = 0; i < comm->nclasses; i++)
		document_class(json, comm, &comm->class[i]);
	json_array_end(json);
	document_sides(json, "differs", "differing_calls", comm->differs, comm->side, comm->nsides);
	document_sides(json, "labels_differ", "differing_labels", comm->label_differs, comm->label,
		       comm->nlabels);
	document_messages(json, comm);
	document_failures(json, comm);
	json_object_end(json);
}

void explain_print_json(const struct explain *e, const struct explain_job *job, FILE *out)
{
	struct json json = {.out = out};

	json_object(&json, NULL);
	json_string(&json, "version", coll_version_string());
	json_string(&json, "cause", job->n ? explain_cause_names[job->comm[0].cause] : NULL);
	json_string(&json, "verdict", job->n ? job->comm[0].verdict : NULL);
	json_array(&json, "communicators");
	for (int i = 0; i < job->n; i++)
		document_comm(&json, &job->comm[i]);
	json_array_end(&json);
	json_array(&json, "notes");
	for (int i = 0; i < e->nnotes; i++)
		json_string(&json, NULL, e->note[i]);
	json_array_end(&json);
	document_count(&json, "notes_left_out", e->notes - (uint64_t)e->nnotes);
	json_object_end(&json);
}
