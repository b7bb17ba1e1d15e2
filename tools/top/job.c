/* SPDX-License-Identifier: BSD-3-Clause */
/* job.c - the jobs of this user: see job.h. */
#include <coll/coll.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "top/job.h"

/* A message lists so many jobs at most. */
enum { JOB_LISTED = 8 };

/* A program that has not polled for so long does something else. */
enum { JOB_POLL_US = 500000 };

const char *job_state_name(enum job_state state)
{
	static const char *const names[] = {"dead",  "stopped", "failed", "observer",
					    "waits", "polls",   "outside"};

	return names[state];
}

double job_seconds_since(const struct job_rank *rank, int64_t us)
{
	const int64_t since = rank->view->now_us - us;

	return us && since > 0 ? (double)since / 1e6 : 0;
}

int64_t job_since(const struct job_comm *c)
{
	if (c->comm->waiting && c->comm->since_us)
		return c->comm->since_us;
	if (c->open)
		return c->open->issued_us;
	return c->ended ? c->ended->ended_us : c->comm->made_us;
}

/* -------------------------------------------------------------------- a communicator -- */

/* Is a message outside the order not done? */
static int job_has_open_message(const struct page_comm *comm)
{
	const struct record *message;

	for (int i = 0; (message = page_message(comm, i)); i++)
		if (!message->ended_us)
			return 1;
	return 0;
}

static void job_look_at_comm(struct job_comm *c, const struct page_comm *comm, int64_t now_us)
{
	c->comm = comm;
	c->collectives = comm->collectives;
	c->open_number = page_oldest_open(comm);
	c->ended_number = page_last_ended(comm);
	c->open = page_record(comm, c->open_number);
	c->ended = page_record(comm, c->ended_number);
	c->polls = !comm->waiting && comm->polled_us && now_us - comm->polled_us < JOB_POLL_US &&
		   (c->open || job_has_open_message(comm));
	/* Until the rank has noted the wait, the slot names the ranks of the wait before. */
	if (!c->polls && (!comm->waiting || !comm->since_us))
		return;
	if (c->polls && c->open && comm->noted_us < c->open->issued_us)
		return;
	c->awaits = comm->awaited_count > 0 ? comm->awaited_count : 0;
	for (int i = 0; i < c->awaits && i < PAGE_AWAITED; i++)
		c->awaited[i] = page_world_rank(comm, comm->awaited_rank[i]);
}

static int job_is_same_comm(const struct page_comm *a, const struct page_comm *b)
{
	return a->lane == b->lane && a->nranks == b->nranks && strcmp(a->id, b->id) == 0;
}

/* A rank, and what it does on a communicator: an entry in a list of all ranks. */
struct job_view {
	struct job_rank *rank;
	struct job_comm *c;
};

/* By communicator, and then by the collectives that the rank has called. */
static int job_compare_views(const void *a, const void *b)
{
	const struct job_view *left = a, *right = b;
	const struct page_comm *l = left->c->comm, *r = right->c->comm;
	const int by_id = strcmp(l->id, r->id);

	if (by_id)
		return by_id;
	if (l->nranks != r->nranks)
		return l->nranks < r->nranks ? -1 : 1;
	if (l->lane != r->lane)
		return l->lane < r->lane ? -1 : 1;
	if (left->c->collectives != right->c->collectives)
		return left->c->collectives < right->c->collectives ? -1 : 1;
	return left->rank < right->rank ? -1 : left->rank > right->rank;
}

/* The ranks that have called fewer collectives, for a rank that waits and does not know for whom. */
static void job_add_late(struct job_comm *c, const struct job_view *view, int late)
{
	if ((!c->comm->waiting && !c->polls) || c->awaits)
		return;
	c->awaits = late;
	for (int i = 0; i < late && i < PAGE_AWAITED; i++)
		c->awaited[i] = view[i].rank->view->head.rank;
}

/* Compares the n views of one communicator, sorted by collectives. */
static void job_compare_same(const struct job_view *view, int n)
{
	const uint64_t least = view[0].c->collectives, most = view[n - 1].c->collectives;
	int late = 0;

	for (int i = 0; i < n; i++) {
		struct job_comm *c = view[i].c;

		if (view[late].c->collectives < c->collectives)
			late = i;
		c->most = most;
		c->behind = c->collectives == least && least < most;
		view[i].rank->behind |= c->behind;
		job_add_late(c, view, late);
	}
}

/* Returns 0, or -1: memory has run out. */
static int job_compare(struct job *job)
{
	struct job_view *view;
	int n = 0, end;

	for (int r = 0; r < job->ranks; r++)
		n += job->rank[r].comms;
	view = calloc((size_t)n + 1, sizeof(*view));
	if (!view)
		return -1;
	n = 0;
	for (int r = 0; r < job->ranks; r++)
		for (int i = 0; i < job->rank[r].comms; i++)
			view[n++] = (struct job_view){&job->rank[r], &job->rank[r].comm[i]};
	qsort(view, (size_t)n, sizeof(*view), job_compare_views);
	for (int i = 0; i < n; i = end) {
		end = i + 1;
		while (end < n && job_is_same_comm(view[end].c->comm, view[i].c->comm))
			end++;
		job_compare_same(view + i, end - i);
	}
	free(view);
	return 0;
}

/* ----------------------------------------------------------------------------- a rank -- */

/* How well the communicator shows what the rank does. */
static int64_t job_weight(const struct job_comm *c)
{
	const int64_t since = job_since(c);

	if (c->comm->failed)
		return INT64_MAX;
	return c->comm->waiting || c->polls ? INT64_MAX / 2 - since : since;
}

static enum job_state job_state_of(const struct job_rank *rank)
{
	int waits = 0, polls = 0, failed = 0;

	for (int i = 0; i < rank->comms; i++) {
		waits |= rank->comm[i].comm->waiting != 0;
		polls |= rank->comm[i].polls;
		failed |= rank->comm[i].comm->failed != 0;
	}
	if (rank->view->life == PAGE_GONE)
		return JOB_DEAD;
	if (page_state_is_stopped(rank->view->state))
		return JOB_STOPPED;
	if (failed)
		return JOB_FAILED;
	if (page_observer(rank->view))
		return JOB_OBSERVER;
	return waits ? JOB_WAITS : polls ? JOB_POLLS : JOB_OUTSIDE;
}

static void job_look_at_rank(struct job_rank *rank, const struct page_view *view)
{
	rank->view = view;
	rank->comms = view->comms;
	rank->calls_per_s = rank->bytes_per_s = -1;
	for (int i = 0; i < view->comms; i++)
		job_look_at_comm(&rank->comm[i], view->comm[i], view->now_us);
	for (int i = 0; i < rank->comms; i++)
		if (!rank->shown || job_weight(&rank->comm[i]) > job_weight(rank->shown))
			rank->shown = &rank->comm[i];
	rank->state = job_state_of(rank);
}

/* ----------------------------------------------------------------------------- rates -- */

/* The bytes of the operations after `before`: operations that the log does not have count as the mean of the others. */
static double job_bytes_after(const struct page_comm *comm, uint64_t before)
{
	const uint64_t first = page_record_before(comm);
	const uint64_t from = before > first ? before : first;
	const struct record *op;
	double bytes = 0, known = 0;

	for (uint64_t n = from + 1; (op = page_record(comm, n)); n++, known++)
		bytes += (double)op->count * (double)coll_dtype_size(signature_dtype(op->meta));
	return known > 0 ? bytes / known * (double)(comm->issued - before) : 0;
}

static const struct page_comm *job_earlier(const struct page_view *before,
					   const struct page_comm *comm)
{
	for (int i = 0; i < before->comms; i++)
		if (job_is_same_comm(before->comm[i], comm) &&
		    before->comm[i]->made_us == comm->made_us &&
		    before->comm[i]->issued <= comm->issued)
			return before->comm[i];
	return NULL;
}

static void job_rate(struct job_rank *rank, const struct page_view *before)
{
	const double s = (double)(rank->view->now_us - before->now_us) / 1e6;
	double calls = 0, bytes = 0;

	if (s <= 0)
		return;
	for (int i = 0; i < rank->comms; i++) {
		const struct page_comm *comm = rank->comm[i].comm;
		const struct page_comm *earlier = job_earlier(before, comm);
		const uint64_t from = earlier ? earlier->issued : 0;

		calls += (double)(comm->issued - from);
		bytes += job_bytes_after(comm, from);
	}
	rank->calls_per_s = calls / s;
	rank->bytes_per_s = bytes / s;
}

/* --------------------------------------------------------------------------- all jobs -- */

/* Returns 0, or -1: memory has run out. */
static int job_fill(struct job *job, const struct jobs *before)
{
	for (int r = 0; r < job->ranks; r++) {
		struct job_rank *rank = &job->rank[r];
		const struct page_view *earlier =
			before ? page_list_find(&before->pages, rank->view) : NULL;

		job->lives |= rank->view->life != PAGE_GONE;
		if (earlier)
			job_rate(rank, earlier);
	}
	return job_compare(job);
}

/* The pages of the first `count` jobs are sorted by job. */
static int jobs_group(struct jobs *jobs)
{
	const struct page_list *pages = &jobs->pages;
	struct job *job = NULL;

	jobs->job = calloc((size_t)pages->count + 1, sizeof(*jobs->job));
	for (int i = 0; jobs->job && i < pages->count; i++) {
		if (!job || job->id != pages->view[i]->head.job) {
			job = &jobs->job[jobs->count++];
			job->id = pages->view[i]->head.job;
			job->fetch = jobs->fetch.nhosts ? &jobs->fetch : NULL;
			job->rank = calloc((size_t)(pages->count - i), sizeof(*job->rank));
			if (!job->rank)
				return -1;
		}
		job_look_at_rank(&job->rank[job->ranks++], pages->view[i]);
	}
	return jobs->job ? 0 : -1;
}

int jobs_read(const char *command, struct source *source, struct jobs *jobs,
	      const struct jobs *before)
{
	int lacks_memory;

	*jobs = (struct jobs){0};
	if (source_read(command, source, &jobs->pages, &jobs->fetch))
		return 1;
	lacks_memory = jobs_group(jobs);
	for (int i = 0; !lacks_memory && i < jobs->count; i++)
		lacks_memory = job_fill(&jobs->job[i], before);
	if (lacks_memory) {
		fprintf(stderr, "coll %s: no memory for the jobs\n", command);
		jobs_free(jobs);
		return 1;
	}
	if (jobs->pages.bad && !before)
		fprintf(stderr,
			"coll %s: passes over %d file%s that %s no page of this version: %s\n",
			command, jobs->pages.bad, jobs->pages.bad > 1 ? "s" : "",
			jobs->pages.bad > 1 ? "are" : "is", jobs->pages.why);
	return 0;
}

void jobs_free(struct jobs *jobs)
{
	for (int i = 0; jobs->job && i < jobs->count; i++)
		free(jobs->job[i].rank);
	free(jobs->job);
	page_list_free(&jobs->pages);
	fetch_free(&jobs->fetch);
	*jobs = (struct jobs){0};
}

void jobs_clean(const struct jobs *jobs)
{
	for (int i = 0; i < jobs->count; i++)
		for (int r = 0;
		     !jobs->job[i].lives && !jobs->job[i].fetch && r < jobs->job[i].ranks; r++)
			page_view_remove(jobs->job[i].rank[r].view);
}

/* ------------------------------------------------------------------------- its hosts -- */

int job_describe_missing(const struct job *job, int host, char *text, size_t size)
{
	const struct fetch_host *of = &job->fetch->host[host];
	char more[32] = "";

	if (!of->code)
		return 0;
	if (of->ranks > 1)
		snprintf(more, sizeof(more), " and %d more", of->ranks - 1);
	snprintf(text, size, "%s, rank %d%s: %s", of->name, of->rank, more, of->why);
	return 1;
}

int job_warn_missing(const char *command, const struct job *job)
{
	char text[FETCH_WHY + 160];
	int missing = 0;

	for (int h = 0; job->fetch && h < job->fetch->nhosts; h++) {
		if (!job_describe_missing(job, h, text, sizeof(text)))
			continue;
		fprintf(stderr, "coll %s: %s\n", command, text);
		missing = 1;
	}
	return missing;
}

const char *job_look_at(const struct job *job)
{
	for (int r = 0; r < job->ranks; r++)
		if (job->rank[r].view->head.look_at[0])
			return job->rank[r].view->head.look_at;
	return NULL;
}

/* ------------------------------------------------------------------------- one job -- */

static int job_matches(const struct job *job, const char *name)
{
	char text[32];

	snprintf(text, sizeof(text), "%016" PRIx64, job->id);
	return name ? name[0] && strncmp(text, name, strlen(name)) == 0 : job->lives;
}

static void jobs_list(const struct jobs *jobs, const char *name)
{
	int n = 0;

	for (int i = 0; i < jobs->count; i++) {
		const struct job *job = &jobs->job[i];

		if (!job_matches(job, name) || n++ >= JOB_LISTED)
			continue;
		fprintf(stderr, "%s %016" PRIx64 " (%s, %d of %d ranks)", n > 1 ? "," : "", job->id,
			job->rank[0].view->head.program, job->ranks,
			job->rank[0].view->head.nranks);
	}
	fprintf(stderr, "%s", n > JOB_LISTED ? " ..." : "");
}

const struct job *jobs_find(const char *command, const struct jobs *jobs, const char *name)
{
	const struct job *found = NULL;
	int n = 0;

	for (int i = 0; i < jobs->count; i++)
		if (job_matches(&jobs->job[i], name)) {
			found = &jobs->job[i];
			n++;
		}
	if (n == 1)
		return found;
	if (n > 1) {
		fprintf(stderr, "coll %s: %d jobs fit, name one of them:", command, n);
		jobs_list(jobs, name);
	} else if (name) {
		fprintf(stderr, "coll %s: no job whose number begins with '%s' has a page here;%s",
			command, name, jobs->count ? " there are:" : " there is no other");
		jobs_list(jobs, NULL);
	} else {
		fprintf(stderr,
			"coll %s: no job of this user runs on this host, or none has pages: its "
			"ranks run with the option page = no, as another user, or in another "
			"container",
			command);
	}
	fprintf(stderr, "\n");
	return NULL;
}
