/* SPDX-License-Identifier: BSD-3-Clause */
/* page.c - the findings as a page of text.  Equal ranks are one entry, and long lists end early: --json has all. */
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <coll/coll.h>
#include "explain/explain.h"

enum {
	PAGE_TEXT = 512,
	PAGE_LIST = 256,
	PAGE_CLASSES = 16,
	PAGE_FAILURES = 8,
	PAGE_LONELY = 8,
	PAGE_SIDES = 6,
	PAGE_STAGED = 4,
	PAGE_COMMS = 8,
	PAGE_WORLD = 16
};

static void page_more(FILE *out, int all, int shown, const char *what)
{
	if (all > shown)
		fprintf(out, "    and %d more %s (--json has all)\n", all - shown, what);
}

/* Writes "3.0 s", or "3.0 to 5.2 s". */
static const char *page_seconds(int64_t least, int64_t most, char text[64])
{
	if (most - least < 100)
		snprintf(text, 64, "%.1f s", (double)most / 1000);
	else
		snprintf(text, 64, "%.1f to %.1f s", (double)least / 1000, (double)most / 1000);
	return text;
}

/* ------------------------------------------------------------------------------- ranks -- */

static void page_waits(FILE *out, const struct explain_comm *comm,
		       const struct explain_class *class)
{
	const struct explain_rank *r = class->first;
	const int one = explain_set_count(&class->ranks) == 1;
	struct explain_set awaited = {0};
	char what[PAGE_TEXT], list[PAGE_LIST], time[64];

	fprintf(out, "        wait%s in %s", one ? "s" : "",
		explain_op_text(r->waits, what, sizeof(what)));
	if (class->mixed)
		fprintf(out, " (rank %d; the others likewise with ranks of theirs)", r->rank);
	if (r->waits->collective && r->waits->tag >= 0)
		fprintf(out, ", label %" PRId64, r->waits->tag);
	if (r->waits->state == STATE_QUEUED)
		fprintf(out, ", which has not begun (its group is open, or it waits for its turn "
			     "or a stream)");
	if (class->wait_ms >= 0)
		fprintf(out, ", for %s", page_seconds(class->wait_ms, class->wait_most_ms, time));
	if (!class->mixed)
		explain_awaited(comm, r, &awaited);
	if (awaited.n)
		fprintf(out, "; needs %s", explain_set_text(&awaited, list, sizeof(list)));
	if (one && r->open > 1)
		fprintf(out, "; %d operations behind it", r->open - 1);
	fprintf(out, "\n");
	explain_set_free(&awaited);
}

static void page_class(FILE *out, const struct explain_comm *comm,
		       const struct explain_class *class)
{
	const struct explain_rank *r = class->first;
	const int one = explain_set_count(&class->ranks) == 1;
	char list[PAGE_LIST], time[64];

	fprintf(out, "    %s: ", explain_set_text(&class->ranks, list, sizeof(list)));
	if (r->counted)
		fprintf(out, "%s made %" PRIu64 " collective%s, %" PRIu64 " done",
			one ? "has" : "have", r->made, r->made == 1 ? "" : "s", r->done);
	else
		fprintf(out, "collectives not known");
	if (class->idle_ms >= 0)
		fprintf(out, "; newest call %s before the file",
			page_seconds(class->idle_ms, class->idle_most_ms, time));
	if (r->late)
		fprintf(out, ", and none for %.1f s before that", (double)r->gap_ms / 1000);
	fprintf(out, "\n");
	if (r->waits != NULL)
		page_waits(out, comm, class);
	else
		fprintf(out, "        %s in no call\n", one ? "is" : "are");
}

static void page_ranks(FILE *out, const struct explain_comm *comm)
{
	struct explain_set others = {0};
	char list[PAGE_LIST];

	fprintf(out, "  Ranks\n");
	for (int i = 0; i < comm->nclasses && i < PAGE_CLASSES; i++)
		page_class(out, comm, &comm->class[i]);
	page_more(out, comm->nclasses, PAGE_CLASSES, "kinds of ranks");
	if (comm->ended.n)
		fprintf(out, "    %s: the process had ended when its page was read\n",
			explain_set_text(&comm->ended, list, sizeof(list)));
	if (comm->stopped.n)
		fprintf(out, "    %s: stopped by a signal or a debugger\n",
			explain_set_text(&comm->stopped, list, sizeof(list)));
	if (comm->gone.n)
		fprintf(out, "    %s: no file; lost, say other ranks\n",
			explain_set_text(&comm->gone, list, sizeof(list)));
	explain_set_subtract(&comm->missing, &comm->gone, &others);
	if (others.n)
		fprintf(out, "    %s: no file\n", explain_set_text(&others, list, sizeof(list)));
	explain_set_free(&others);
}

/* A communicator made from another numbers its ranks anew. */
static void page_world(FILE *out, const struct explain_comm *comm)
{
	int other = 0, shown = 0;

	for (int i = 0; i < comm->n; i++)
		other |= comm->rank[i].dump->world_rank != comm->rank[i].rank;
	if (!other)
		return;
	fprintf(out, "  World ranks:");
	for (; shown < comm->n && shown < PAGE_WORLD; shown++)
		fprintf(out, "%s rank %d is %d", shown ? "," : "", comm->rank[shown].rank,
			comm->rank[shown].dump->world_rank);
	fprintf(out, "%s\n", shown < comm->n ? ", ..." : "");
}

/* -------------------------------------------------------------------------- differences -- */

static void page_side(FILE *out, const struct explain_side *side)
{
	const struct explain_op *op = side->op;
	char list[PAGE_LIST];

	fprintf(out, "    %s: %s; kind %s, type %s",
		explain_set_text(&side->ranks, list, sizeof(list)), op->what, op->kind,
		op->dtype[0] ? op->dtype : "none");
	if (op->redop >= 0)
		fprintf(out, ", op %s",
			op->redop <= INT32_MAX ? coll_op_name((coll_op_t)op->redop) : "unknown");
	fprintf(out, ", count %" PRIu64, op->count);
	if (op->peer >= 0)
		fprintf(out, ", root %d", op->peer);
	if (op->algorithm[0])
		fprintf(out, ", algorithm %s", op->algorithm);
	if (op->tag >= 0)
		fprintf(out, ", label %" PRId64, op->tag);
	fprintf(out, "\n");
}

static void page_differences(FILE *out, const struct explain_comm *comm)
{
	char list[PAGE_LIST];

	if (comm->differs) {
		fprintf(out, "  First call that differs: collective number %" PRIu64 "\n",
			comm->differs);
		for (int i = 0; i < comm->nsides && i < PAGE_SIDES; i++)
			page_side(out, &comm->side[i]);
		page_more(out, comm->nsides, PAGE_SIDES, "calls");
	}
	if (comm->label_differs && (!comm->differs || comm->label_differs < comm->differs)) {
		fprintf(out, "  Labels differ at collective number %" PRIu64 ", %s\n",
			comm->label_differs, comm->label[0].op->what);
		for (int i = 0; i < comm->nlabels && i < PAGE_SIDES; i++)
			fprintf(out, "    %s: %" PRId64 "\n",
				explain_set_text(&comm->label[i].ranks, list, sizeof(list)),
				comm->label[i].op->tag < 0 ? 0 : comm->label[i].op->tag);
		page_more(out, comm->nlabels, PAGE_SIDES, "labels");
	}
}

/* ------------------------------------------------------------------ messages and failures -- */

static void page_messages(FILE *out, const struct explain_comm *comm)
{
	if (comm->ncycle) {
		fprintf(out, "  Ranks that wait for each other:");
		for (int i = 0; i < comm->ncycle && i < PAGE_CLASSES; i++)
			fprintf(out, " %d for", comm->cycle[i]);
		fprintf(out, " %s%d\n", comm->ncycle > PAGE_CLASSES ? "... for " : "",
			comm->cycle[0]);
	}
	if (comm->nlonely)
		fprintf(out, "  Messages without a partner\n");
	for (int i = 0; i < comm->nlonely && i < PAGE_LONELY; i++) {
		const struct explain_lonely *l = &comm->lonely[i];

		fprintf(out, "    rank %d: %s, %" PRIu64 " bytes: %s %d\n", l->rank, l->op->what,
			l->op->bytes,
			l->why == PARTNER_MISSING ? "no such call is in the file of rank"
						  : "there is no file of rank",
			l->op->peer);
	}
	page_more(out, comm->nlonely, PAGE_LONELY, "messages");
}

static void page_time(FILE *out, int64_t ms)
{
	const time_t s = (time_t)(ms / 1000);
	struct tm tm;
	char text[64] = "";

	if (gmtime_r(&s, &tm) != NULL)
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	fprintf(out, "%s.%03d UTC", text, (int)(ms % 1000));
}

static void page_failures(FILE *out, const struct explain_comm *comm)
{
	const int64_t first = comm->nfailures ? comm->failure[0].ms : 0;
	char list[PAGE_LIST];

	if (!comm->nfailures)
		return;
	fprintf(out, "  Failures, the earliest first%s",
		comm->hosts > 1 ? " (by the clocks of several hosts, which may differ)" : "");
	if (first) {
		fprintf(out, "; the first at ");
		page_time(out, first);
	}
	fprintf(out, "\n");
	for (int i = 0; i < comm->nfailures && i < PAGE_FAILURES; i++) {
		const struct explain_failure *f = &comm->failure[i];

		fprintf(out, "    ");
		if (f->ms && first)
			fprintf(out, "+%.3f s ", (double)(f->ms - first) / 1000);
		fprintf(out, "%s, error %d: %s\n", explain_set_text(&f->ranks, list, sizeof(list)),
			f->code, f->text);
	}
	page_more(out, comm->nfailures, PAGE_FAILURES, "failures");
}

static void page_staged(FILE *out, const struct explain_comm *comm)
{
	int shown = 0, all = 0;

	for (int i = 0; i < comm->n; i++) {
		const struct explain_dump *dump = comm->rank[i].dump;

		if (!dump->staged[0])
			continue;
		if (!all++)
			fprintf(out, "  Copied through host memory\n");
		if (all > PAGE_STAGED)
			continue;
		shown++;
		fprintf(out, "    rank %d: %s\n", dump->rank, dump->staged);
	}
	page_more(out, all, shown, "ranks");
}

/* -------------------------------------------------------------------------------- page -- */

static void page_comm(FILE *out, const struct explain_comm *comm, int only)
{
	fprintf(out, "\nCommunicator %s of job %016" PRIx64 ", %d rank%s, backend %s",
		comm->head->comm, comm->head->job, comm->nranks, comm->nranks == 1 ? "" : "s",
		comm->head->backend[0] ? comm->head->backend : "unknown");
	if (comm->hosts > 1)
		fprintf(out, ", %d hosts", comm->hosts);
	if (comm->head->again)
		fprintf(out, ", files number %d of this id", comm->head->again + 1);
	fprintf(out, "\n");
	if (!only)
		fprintf(out, "  %s\n", comm->verdict);
	page_ranks(out, comm);
	page_world(out, comm);
	page_differences(out, comm);
	page_messages(out, comm);
	page_failures(out, comm);
	page_staged(out, comm);
}

static int page_jobs(const struct explain_job *job)
{
	int jobs = 0;

	for (int i = 0; i < job->n; i++) {
		int k = 0;

		while (job->comm[k].head->job != job->comm[i].head->job)
			k++;
		jobs += k == i;
	}
	return jobs;
}

static void page_notes(const struct explain *e, FILE *out)
{
	if (!e->notes)
		return;
	fprintf(out, "\nFiles\n");
	for (int i = 0; i < e->nnotes; i++)
		fprintf(out, "  %s\n", e->note[i]);
	if (e->notes > (uint64_t)e->nnotes)
		fprintf(out, "  and %" PRIu64 " more such lines\n", e->notes - (uint64_t)e->nnotes);
}

void explain_print(const struct explain *e, const struct explain_job *job, FILE *out)
{
	const int jobs = page_jobs(job);

	if (job->n)
		fprintf(out, "%s\n", job->comm[0].verdict);
	if (job->n > 1)
		fprintf(out,
			"(of communicator %s over %s; there are %d, where calls over "
			"another backend count as one of their own%s)\n",
			job->comm[0].head->comm, job->comm[0].head->backend, job->n,
			jobs > 1 ? "; they are of several jobs" : "");
	for (int i = 0; i < job->n && i < PAGE_COMMS; i++)
		page_comm(out, &job->comm[i], job->n == 1);
	page_more(out, job->n, PAGE_COMMS, "communicators");
	page_notes(e, out);
}
