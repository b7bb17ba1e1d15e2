/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cause.c - what went wrong on a communicator, and the sentence about it.  Clocks of hosts differ, so the numbers of the
 * collectives decide who is behind; the times of a rank are compared with times of the same rank only.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <coll/coll.h>
#include "explain/explain.h"
#include "lib/grow.h"

enum { CAUSE_LIST = 256, CAUSE_CYCLE_NAMED = 6 };

const char *const explain_cause_names[CAUSES] = {
	[CAUSE_DIFFERS] = "different_calls", [CAUSE_GONE] = "rank_lost",
	[CAUSE_LEFT] = "rank_left",          [CAUSE_CYCLE] = "cycle",
	[CAUSE_STOPPED] = "rank_stopped",    [CAUSE_SILENT] = "rank_silent",
	[CAUSE_BEHIND] = "rank_behind",      [CAUSE_LATE] = "rank_late",
	[CAUSE_MISSING] = "no_file",         [CAUSE_PARTNER] = "no_partner",
	[CAUSE_SENTENCE] = "failure",        [CAUSE_NONE] = "none",
};

/* ---------------------------------------------------------------------------- failures -- */

static int failure_by_text(const void *x, const void *y)
{
	const struct explain_dump *const *a = x, *const *b = y;
	const int by = strcmp((*a)->text, (*b)->text);

	return by ? by : ((*a)->rank > (*b)->rank) - ((*a)->rank < (*b)->rank);
}

/* The earliest failure first; failures without a time last. */
static int failure_by_time(const void *x, const void *y)
{
	const struct explain_failure *a = x, *b = y;

	if (!a->ms != !b->ms)
		return !a->ms - !b->ms;
	if (a->ms != b->ms)
		return a->ms < b->ms ? -1 : 1;
	return (a->ranks.span[0].first > b->ranks.span[0].first) -
	       (a->ranks.span[0].first < b->ranks.span[0].first);
}

static void failure_add(struct explain_comm *comm, const struct explain_dump *dump)
{
	struct explain_failure *f = comm->nfailures ? &comm->failure[comm->nfailures - 1] : NULL;

	if (f == NULL || strcmp(f->text, dump->text) != 0) {
		comm->failure = tool_grow(comm->failure, &comm->cap_failures, comm->nfailures + 1,
					  sizeof(*comm->failure));
		f = &comm->failure[comm->nfailures++];
		*f = (struct explain_failure){dump->written_ms, dump->code, dump->text, {0}};
	}
	if (dump->written_ms && (!f->ms || dump->written_ms < f->ms))
		f->ms = dump->written_ms;
	explain_set_add(&f->ranks, dump->rank, dump->rank);
}

static void failures_find(struct explain_comm *comm)
{
	const struct explain_dump **dump = tool_array((size_t)comm->n, sizeof(*dump));
	int n = 0;

	for (int i = 0; i < comm->n; i++)
		if (comm->rank[i].dump->code)
			dump[n++] = comm->rank[i].dump;
	qsort(dump, (size_t)n, sizeof(*dump), failure_by_text);
	for (int i = 0; i < n; i++)
		failure_add(comm, dump[i]);
	free(dump);
	if (comm->nfailures)
		qsort(comm->failure, (size_t)comm->nfailures, sizeof(*comm->failure),
		      failure_by_time);
}

/* ------------------------------------------------------- ranks that the sentences name -- */

/* Reads "5" or "5 (world rank 9)".  Returns what follows, or NULL. */
static const char *words_rank(const char *at, int32_t *rank)
{
	static const char world[] = " (world rank ";
	char *end;
	const long n = strtol(at, &end, 10);

	if (end == at || n < 0 || n > INT32_MAX)
		return NULL;
	*rank = (int32_t)n;
	if (strncmp(end, world, sizeof(world) - 1) == 0 && strchr(end, ')') != NULL)
		return strchr(end, ')') + 1;
	return end;
}

static void words_add(const struct explain_comm *comm, struct explain_set *set, int32_t rank)
{
	if (rank < comm->nranks && explain_set_has(&comm->missing, rank))
		explain_set_insert(set, rank);
}

/* Takes the ranks of a list as "rank 1, 4 (world rank 9)". */
static void words_list(struct explain_comm *comm, const char *at)
{
	int32_t rank;

	if (strncmp(at, "rank ", 5) != 0)
		return;
	at += 5;
	while ((at = words_rank(at, &rank)) != NULL) {
		words_add(comm, &comm->silent, rank);
		if (strncmp(at, ", ", 2) != 0)
			break;
		at += 2;
	}
}

/* Does a sentence go on with ": its process 4711 is stopped" before the sentence about the next rank? */
static int words_is_stopped(const char *behind)
{
	const char *process = strstr(behind, ": its process "), *next = strstr(behind, "; ");
	const char *stopped = process ? strstr(process, " is stopped") : NULL;

	return stopped != NULL && (next == NULL || stopped < next);
}

static void words_read(struct explain_comm *comm, const char *text)
{
	static const char unheard[] = "not heard from: ";
	int32_t rank;

	if (strstr(text, "in its parent") != NULL)
		return; /* the ranks of another communicator */
	for (const char *at = text; (at = strstr(at, unheard)) != NULL; at++)
		words_list(comm, at + sizeof(unheard) - 1);
	for (const char *at = text; (at = strstr(at, "rank ")) != NULL; at++) {
		const char *behind = words_rank(at + 5, &rank);

		if (behind == NULL || (at - text >= 7 && strncmp(at - 7, "(world ", 7) == 0))
			continue;
		if (strncmp(behind, " was lost", 9) == 0)
			words_add(comm, &comm->gone, rank);
		else if (strncmp(behind, " destroyed its communicator", 27) == 0 ||
			 strncmp(behind, " has destroyed its communicator", 31) == 0)
			words_add(comm, &comm->left, rank);
		else if (strncmp(behind, " does not answer", 16) == 0)
			words_add(comm, words_is_stopped(behind) ? &comm->stopped : &comm->silent,
				  rank);
	}
}

/* ------------------------------------------------------------------------------ behind -- */

static void behind_find(struct explain_comm *comm)
{
	int any = 0;

	for (int i = 0; i < comm->n; i++) {
		const struct explain_rank *r = &comm->rank[i];

		if (!r->counted)
			continue;
		if (!any || r->made < comm->least)
			comm->least = r->made;
		if (!any || r->made > comm->most)
			comm->most = r->made;
		any = 1;
	}
	for (int i = 0; i < comm->n && comm->least < comm->most; i++)
		if (comm->rank[i].counted && comm->rank[i].made == comm->least)
			explain_set_add(&comm->behind, comm->rank[i].rank, comm->rank[i].rank);
}

/*
 * Ranks that came late have made as many calls as the others when their files are written.  What a rank did by its own clock
 * tells: it was long outside of the library before its newest call, in which it has waited for a short time.
 */
enum { LATE_MS = 100, LATE_TIMES = 4 };

static void late_find(struct explain_comm *comm)
{
	int64_t longest = -1;

	for (int i = 0; i < comm->n; i++) {
		const int64_t waited = explain_waited(&comm->rank[i]);

		if (comm->rank[i].waits != NULL && comm->most &&
		    comm->rank[i].waits->collective == comm->most && waited > longest)
			longest = waited;
	}
	for (int i = 0; i < comm->n && longest >= LATE_MS; i++) {
		struct explain_rank *r = &comm->rank[i];
		const int64_t waited = explain_waited(r);

		if (r->waits == NULL || r->waits->collective != comm->most || waited < 0)
			continue;
		r->late = LATE_TIMES * waited < longest && 2 * r->gap_ms > longest;
		if (r->late)
			explain_set_add(&comm->late, r->rank, r->rank);
	}
}

void explain_awaited(const struct explain_comm *comm, const struct explain_rank *rank,
		     struct explain_set *out)
{
	const struct explain_op *op = rank->waits;

	if (op == NULL)
		return;
	if (!op->is_collective) {
		if (op->peer >= 0)
			explain_set_add(out, op->peer, op->peer);
		return;
	}
	for (int i = 0; i < comm->missing.n; i++)
		explain_set_add(out, comm->missing.span[i].first, comm->missing.span[i].last);
	if (!op->collective)
		return;
	for (int i = 0; i < comm->n; i++)
		if (comm->rank[i].counted && comm->rank[i].made < op->collective)
			explain_set_insert(out, comm->rank[i].rank);
}

const char *explain_op_text(const struct explain_op *op, char *text, size_t size)
{
	size_t at = 0;

	if (op->collective)
		at = (size_t)snprintf(text, size, "collective number %llu, ",
				      (unsigned long long)op->collective);
	at += (size_t)snprintf(text + at, size - at, "%s", op->what[0] ? op->what : op->kind);
	if (op->algorithm[0] && at < size)
		snprintf(text + at, size - at, " by %s", op->algorithm);
	return text;
}

/* ----------------------------------------------------------------------------- verdict -- */

__attribute__((format(printf, 2, 3))) static void say(struct explain_comm *comm, const char *fmt,
						      ...)
{
	const size_t at = strlen(comm->verdict);
	va_list args;

	va_start(args, fmt);
	vsnprintf(comm->verdict + at, sizeof(comm->verdict) - at, fmt, args);
	va_end(args);
}

static const char *say_s(const struct explain_set *set)
{
	return explain_set_count(set) == 1 ? "s" : "";
}

static const char *say_have(const struct explain_set *set)
{
	return explain_set_count(set) == 1 ? "has" : "have";
}

/* Adds "; ranks 0, 2-3 wait in collective number 6, ...": the ranks that wait in the newest collective. */
static void say_waiting(struct explain_comm *comm)
{
	struct explain_set waiting = {0};
	const struct explain_op *op = NULL;
	char list[CAUSE_LIST], what[CAUSE_LIST];

	for (int i = 0; i < comm->n; i++) {
		const struct explain_op *waits = comm->rank[i].waits;

		if (waits != NULL && (op == NULL || waits->collective > op->collective))
			op = waits;
	}
	for (int i = 0; i < comm->n && op; i++) {
		const struct explain_op *waits = comm->rank[i].waits;

		if (waits != NULL && waits->collective == op->collective &&
		    (op->collective || waits == op))
			explain_set_add(&waiting, comm->rank[i].rank, comm->rank[i].rank);
	}
	if (waiting.n)
		say(comm, "; %s wait%s in %s", explain_set_text(&waiting, list, sizeof(list)),
		    say_s(&waiting), explain_op_text(op, what, sizeof(what)));
	explain_set_free(&waiting);
}

static void say_differs(struct explain_comm *comm)
{
	const struct explain_side *rare = &comm->side[0], *usual = &comm->side[comm->nsides - 1];
	const char *one = rare->op->what, *other = usual->op->what;
	char list[CAUSE_LIST];

	say(comm, "%s called %s", explain_set_text(&rare->ranks, list, sizeof(list)), one);
	if (strcmp(one, other) == 0 && rare->op->algorithm != usual->op->algorithm)
		say(comm, " by algorithm %s", rare->op->algorithm);
	say(comm, " as collective number %llu, but ", (unsigned long long)comm->differs);
	say(comm, "%s called %s", explain_set_text(&usual->ranks, list, sizeof(list)), other);
	if (strcmp(one, other) == 0 && rare->op->algorithm != usual->op->algorithm)
		say(comm, " by algorithm %s", usual->op->algorithm);
	if (comm->nsides > 2)
		say(comm, " (there are %d different calls)", comm->nsides);
}

static void say_gone(struct explain_comm *comm)
{
	const struct explain_set *lost = comm->ended.n ? &comm->ended : &comm->gone;
	char list[CAUSE_LIST];

	say(comm, "%s %s lost: %s", explain_set_text(lost, list, sizeof(list)),
	    explain_set_count(lost) == 1 ? "was" : "were",
	    comm->ended.n ? "the process had ended when its page was read"
			  : "other ranks say so, and there is no file");
	say_waiting(comm);
}

static void say_left(struct explain_comm *comm)
{
	char list[CAUSE_LIST];

	say(comm, "%s destroyed %s communicator: other ranks say so, and there is no file",
	    explain_set_text(&comm->left, list, sizeof(list)),
	    explain_set_count(&comm->left) == 1 ? "its" : "their");
	say_waiting(comm);
}

static void say_cycle(struct explain_comm *comm)
{
	struct explain_set ranks = {0};
	char list[CAUSE_LIST], what[CAUSE_LIST];

	for (int i = 0; i < comm->ncycle; i++)
		explain_set_insert(&ranks, comm->cycle[i]);
	say(comm, "%s wait for each other", explain_set_text(&ranks, list, sizeof(list)));
	explain_set_free(&ranks);
	for (int i = 0; i < comm->ncycle && i < CAUSE_CYCLE_NAMED; i++) {
		const struct explain_rank *r = explain_rank_at(comm, comm->cycle[i]);

		say(comm, "%s rank %d in %s", i ? "," : ":", r->rank,
		    explain_op_text(r->waits, what, sizeof(what)));
	}
	if (comm->ncycle > CAUSE_CYCLE_NAMED)
		say(comm, ", and so on");
}

static void say_stopped(struct explain_comm *comm)
{
	char list[CAUSE_LIST];

	say(comm, "%s %s stopped by a signal or a debugger",
	    explain_set_text(&comm->stopped, list, sizeof(list)),
	    explain_set_count(&comm->stopped) == 1 ? "is" : "are");
	say_waiting(comm);
}

static void say_silent(struct explain_comm *comm)
{
	char list[CAUSE_LIST];

	say(comm,
	    "%s %s no file and did not answer: stopped, ended, or busy outside of the library",
	    explain_set_text(&comm->silent, list, sizeof(list)), say_have(&comm->silent));
	say_waiting(comm);
}

static void say_missing(struct explain_comm *comm)
{
	char list[CAUSE_LIST];

	say(comm,
	    "%s %s no file here: no call was made, or the rank was ended, or its file is "
	    "elsewhere",
	    explain_set_text(&comm->missing, list, sizeof(list)), say_have(&comm->missing));
	say_waiting(comm);
}

static void say_behind(struct explain_comm *comm)
{
	const struct explain_class *class = comm->class;
	char list[CAUSE_LIST], what[CAUSE_LIST];

	while (class->first->made != comm->least || !class->first->counted)
		class ++;
	say(comm, "%s %s made %llu collective%s, others %llu",
	    explain_set_text(&comm->behind, list, sizeof(list)), say_have(&comm->behind),
	    (unsigned long long)comm->least, comm->least == 1 ? "" : "s",
	    (unsigned long long)comm->most);
	if (class->first->waits != NULL)
		say(comm, ", and wait%s in %s", say_s(&comm->behind),
		    explain_op_text(class->first->waits, what, sizeof(what)));
	else if (class->idle_ms >= 0)
		say(comm, ", and made no call for %.1f s", (double)class->idle_ms / 1000);
	say_waiting(comm);
}

static void say_late(struct explain_comm *comm)
{
	struct explain_set others = {0};
	const struct explain_class *class = comm->class;
	char list[CAUSE_LIST], what[CAUSE_LIST];
	int64_t waited = 0, gap = 0;

	while (!class->first->late)
		class ++;
	for (int i = 0; i < comm->n; i++) {
		const struct explain_rank *r = &comm->rank[i];

		if (r->late && r->gap_ms > gap)
			gap = r->gap_ms;
		if (r->late || explain_waited(r) < 0)
			continue;
		explain_set_add(&others, r->rank, r->rank);
		if (explain_waited(r) > waited)
			waited = explain_waited(r);
	}
	say(comm, "%s came late: made no call for %.1f s before %s",
	    explain_set_text(&comm->late, list, sizeof(list)), (double)gap / 1000,
	    explain_op_text(class->first->waits, what, sizeof(what)));
	say(comm, ", in which %s waited for %.1f s", explain_set_text(&others, list, sizeof(list)),
	    (double)waited / 1000);
	explain_set_free(&others);
}

static void say_partner(struct explain_comm *comm)
{
	const struct explain_lonely *l = &comm->lonely[0];

	say(comm, "rank %d waits in %s, but rank %d has made no call for it", l->rank, l->op->what,
	    l->op->peer);
	if (comm->nlonely > 1)
		say(comm, " (there are %d such messages)", comm->nlonely);
}

static void say_sentence(struct explain_comm *comm)
{
	char list[CAUSE_LIST];

	say(comm, "%s say%s: %s", explain_set_text(&comm->failure[0].ranks, list, sizeof(list)),
	    say_s(&comm->failure[0].ranks), comm->failure[0].text);
}

static void say_none(struct explain_comm *comm)
{
	if (comm->least < comm->most) {
		say(comm, "the ranks were at work: they had made %llu to %llu collectives",
		    (unsigned long long)comm->least, (unsigned long long)comm->most);
		return;
	}
	say(comm, "no rank is behind or gone, and no call differs");
	if (comm->most)
		say(comm, ": %s %llu collective%s", comm->n == 1 ? "it has made" : "all have made",
		    (unsigned long long)comm->most, comm->most == 1 ? "" : "s");
	say_waiting(comm);
}

/* ------------------------------------------------------------------------------- cause -- */

/* Ranks that are behind and wait for nothing have themselves to make the next call. */
static int cause_behind_is_free(const struct explain_comm *comm)
{
	for (int i = 0; i < comm->nclasses; i++) {
		const struct explain_rank *r = comm->class[i].first;

		if (r->counted && r->made == comm->least && r->waits == NULL)
			return comm->behind.n > 0;
	}
	return 0;
}

/*
 * Files of a communicator that has not failed are read one after another while the ranks go on, so ranks that still make calls
 * are not behind.
 */
enum { CAUSE_IDLE_MS = 1000 };

static int cause_is_running(const struct explain_comm *comm)
{
	for (int i = 0; i < comm->nclasses && !comm->failed; i++)
		if (comm->class[i].idle_ms < 0 || comm->class[i].idle_most_ms > CAUSE_IDLE_MS)
			return 0;
	return !comm->failed;
}

static enum explain_cause cause_find(const struct explain_comm *comm)
{
	if (comm->differs)
		return CAUSE_DIFFERS;
	if (cause_is_running(comm) && !comm->ended.n && !comm->stopped.n)
		return CAUSE_NONE;
	if (comm->gone.n || comm->ended.n)
		return CAUSE_GONE;
	if (comm->nfailures && comm->failure[0].code == COLL_ERR_MISMATCH)
		return CAUSE_SENTENCE;
	if (comm->left.n)
		return CAUSE_LEFT;
	if (comm->ncycle)
		return CAUSE_CYCLE;
	if (comm->stopped.n)
		return CAUSE_STOPPED;
	if (comm->silent.n)
		return CAUSE_SILENT;
	if (cause_behind_is_free(comm))
		return CAUSE_BEHIND;
	if (comm->late.n)
		return CAUSE_LATE;
	for (int i = 0; i < comm->nlonely; i++)
		if (comm->lonely[i].why == PARTNER_MISSING)
			return CAUSE_PARTNER;
	if (comm->missing.n)
		return CAUSE_MISSING;
	if (comm->behind.n)
		return CAUSE_BEHIND;
	return comm->nfailures ? CAUSE_SENTENCE : CAUSE_NONE;
}

void explain_find_causes(struct explain_comm *comm)
{
	static void (*const sayer[CAUSES])(struct explain_comm *) = {
		[CAUSE_DIFFERS] = say_differs,   [CAUSE_GONE] = say_gone,
		[CAUSE_LEFT] = say_left,         [CAUSE_CYCLE] = say_cycle,
		[CAUSE_STOPPED] = say_stopped,   [CAUSE_SILENT] = say_silent,
		[CAUSE_BEHIND] = say_behind,     [CAUSE_LATE] = say_late,
		[CAUSE_MISSING] = say_missing,   [CAUSE_PARTNER] = say_partner,
		[CAUSE_SENTENCE] = say_sentence, [CAUSE_NONE] = say_none,
	};

	failures_find(comm);
	for (int i = 0; i < comm->nfailures; i++)
		words_read(comm, comm->failure[i].text);
	behind_find(comm);
	late_find(comm);
	explain_find_differences(comm);
	explain_find_classes(comm);
	explain_find_lonely(comm);
	explain_find_cycle(comm);
	comm->cause = cause_find(comm);
	sayer[comm->cause](comm);
}
