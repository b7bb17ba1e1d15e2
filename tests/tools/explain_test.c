/* SPDX-License-Identifier: BSD-3-Clause */
/* explain_test.c - what `coll explain` finds in dumps that this test writes: many ranks, missing ranks, cycles, messages. */
#include "../lib/tap.h"
#include "explain/explain.h"

#include <coll/coll.h>

enum { MANY = 1000, TEXT = 1 << 16 };

static struct explain e;
static struct explain_job job;
static char text[TEXT];
static size_t used;

TAP_FORMAT(1) static void add(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	used += (size_t)vsnprintf(text + used, sizeof(text) - used, fmt, args);
	va_end(args);
}

/* Begins the dump of a rank, whose communicator has failed at `ms` milliseconds of the day. */
static void begin(int rank, int nranks, int ms, int code, const char *sentence)
{
	used = 0;
	add("# libcoll 0.9.0: the last operations of a communicator that failed\n"
	    "# job 00000000000000aa communicator 0 rank %d ranks %d world_rank %d host h%d pid %d "
	    "backend tcp\n"
	    "# failed 1700000000.%03d code %d text %s\n"
	    "# number collective kind dtype op count bytes root_or_peer tag state issued started "
	    "ended algorithm description\n",
	    rank, nranks, rank, rank % 2, 100 + rank, ms, code, sentence);
}

/* The newest collective is issued at second `at`, those before it in the seconds before. */
static void collectives(int number, int running, int at)
{
	for (int n = 1; n <= number; n++) {
		const int s = at - number + n;

		add("%d %d allreduce float32 0 4 16 - - %s %d.000 %d.000 ", n, n,
		    running && n == number ? "running" : "done", s, s);
		if (running && n == number)
			add("-");
		else
			add("%d.001", s);
		add(" ring allreduce of 4 float32 (sum)\n");
	}
}

static void op(int number, const char *kind, int peer, int tag, const char *state)
{
	char column[16] = "-";

	if (number)
		snprintf(column, sizeof(column), "%d", number);
	add("%s - %s int32 - 4 16 %d %d %s 1699999990.000 1699999990.000 - - %s of 4 int32 %s rank "
	    "%d with tag %d\n",
	    column, kind, peer, tag, state, kind, strstr(kind, "send") ? "to" : "from", peer, tag);
}

static void end(void)
{
	explain_read(&e, "coll-aa-comm-0-rank-0-pid-1.txt", text, used);
}

static struct explain_comm *group(void)
{
	explain_group(&e, &job);
	if (job.n < 1)
		bail_out("no communicator");
	return &job.comm[0];
}

static void drop(void)
{
	explain_job_free(&job);
	explain_free(&e);
}

static void is_set(const struct explain_set *set, const char *want, const char *what)
{
	char list[256];

	is_str(explain_set_text(set, list, sizeof(list)), want, "%s", what);
}

static void test_sets(void)
{
	struct explain_set set = {0}, rest = {0}, less = {0};

	for (int r = 0; r < 128; r++)
		if (r != 42)
			explain_set_add(&set, r, r);
	is_set(&set, "ranks 0-41, 43-127", "equal ranks are summed up");
	is_int(explain_set_count(&set), 127, "their number");
	explain_set_invert(&set, 130, &rest);
	is_set(&rest, "ranks 42, 128-129", "the others");
	explain_set_subtract(&set, &rest, &less);
	is_int(explain_set_count(&less), 127, "less what is not in it");
	explain_set_insert(&set, 42);
	is_set(&set, "ranks 0-127", "a rank within");
	ok(!explain_set_has(&set, 128) && explain_set_has(&set, 42), "has");
	explain_set_free(&set);
	explain_set_free(&rest);
	explain_set_free(&less);
	for (int r = 0; r < 100; r += 2)
		explain_set_add(&set, r, r);
	has_str(explain_set_text(&set, text, sizeof(text)), ", 30 and 34 others",
		"a long list ends");
	explain_set_free(&set);
}

/* A page for many ranks is as long as for few. */
static void test_many(void)
{
	const struct explain_comm *comm;
	char *page = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&page, &size);

	for (int r = 0; r < MANY; r++) {
		char own[64];

		if (r == 500)
			continue;
		snprintf(own, sizeof(own), "rank %d: timed out", r);
		begin(r, MANY, r % 900, COLL_ERR_TIMEOUT, own);
		collectives(r == 42 ? 5 : 6, r != 42, 1699999999);
		end();
	}
	comm = group();
	is_int(comm->n, MANY - 1, "files of 999 ranks");
	is_set(&comm->missing, "rank 500", "the rank without a file");
	is_set(&comm->behind, "rank 42", "the rank that is behind");
	is_int((int64_t)comm->least, 5, "how far it is");
	is_int((int64_t)comm->most, 6, "and the others");
	is_int(comm->cause, CAUSE_BEHIND, "it is the cause");
	has_str(comm->verdict,
		"rank 42 has made 5 collectives, others 6, and made no call for 1.0 s; ranks 0-41, "
		"43-499, 501-999 wait in collective number 6, allreduce of 4 float32 (sum) by ring",
		"the verdict");
	is_int(comm->nclasses, 2, "two kinds of ranks");
	is_int(comm->nfailures, MANY - 1, "each rank has a sentence of its own");
	ok(comm->failure[0].ms == 1700000000000 && comm->failure[MANY - 2].ms == 1700000000899,
	   "in the order of time");
	explain_print(&e, &job, out);
	fclose(out);
	ok(size < 4000, "the page has %zu bytes", size);
	has_str(page, "and 991 more failures", "and says what it leaves out");
	has_str(page, "clocks of several hosts, which may differ", "and how sure the times are");
	free(page);
	drop();
}

static void test_missing_and_named(void)
{
	const struct explain_comm *comm;

	begin(0, 8, 0, COLL_ERR_TIMEOUT,
	      "rank 0: allreduce timed out; not heard from: rank 3, 5 (world rank 9), 6; still "
	      "needs "
	      "data from: rank 3");
	collectives(6, 1, 1699999999);
	end();
	comm = group();
	is_int(comm->cause, CAUSE_SILENT, "ranks that do not answer");
	is_set(&comm->silent, "ranks 3, 5-6", "all that the sentence names");
	is_set(&comm->missing, "ranks 1-7", "of those without a file");
	drop();

	begin(0, 4, 5, COLL_ERR_PEER_LOST, "rank 2 (world rank 7) was lost: connection closed");
	collectives(6, 1, 1699999999);
	end();
	begin(1, 4, 9, COLL_ERR_REMOTE, "rank 2 (world rank 7) was lost: connection closed");
	collectives(6, 1, 1699999999);
	end();
	comm = group();
	is_int(comm->cause, CAUSE_GONE, "a rank that was lost");
	is_set(&comm->gone, "rank 2", "not its number in the world");
	is_int(comm->nfailures, 1, "one sentence");
	is_set(&comm->failure[0].ranks, "ranks 0-1", "of two ranks");
	drop();
}

static void test_differs(void)
{
	const struct explain_comm *comm;

	for (int r = 0; r < 5; r++) {
		begin(r, 5, 0, COLL_ERR_MISMATCH, "they differ");
		collectives(3, 0, 1699999990);
		add("4 4 %s float32 0 %d %d - %s running 1699999995.000 1699999995.000 - ring %s "
		    "of "
		    "%d float32 (sum)\n",
		    "allreduce", r == 3 ? 8 : 4, r == 3 ? 32 : 16, r == 3 ? "7" : "-", "allreduce",
		    r == 3 ? 8 : 4);
		end();
	}
	comm = group();
	is_int(comm->cause, CAUSE_DIFFERS, "a call that differs");
	is_int((int64_t)comm->differs, 4, "its number");
	is_int(comm->nsides, 2, "two sides");
	is_set(&comm->side[0].ranks, "rank 3", "the rare one first");
	is_int((int64_t)comm->side[0].op->count, 8, "with its count");
	is_set(&comm->side[1].ranks, "ranks 0-2, 4", "the others");
	has_str(comm->verdict,
		"rank 3 called allreduce of 8 float32 (sum) as collective number 4, but ranks 0-2, "
		"4 called allreduce of 4 float32 (sum)",
		"the verdict");
	is_int((int64_t)comm->label_differs, 4, "labels that differ");
	drop();

	for (int r = 0; r < 2; r++) {
		begin(r, 2, 0, COLL_ERR_MISMATCH, "they differ");
		add("1 1 allgatherv %s - %d %d - - running 1699999995.000 1699999995.000 - ring "
		    "allgatherv of %s\n",
		    r ? "int8" : "-", r * 4, r * 4, r ? "int8" : "no elements");
		end();
	}
	comm = group();
	is_int((int64_t)comm->differs, 0, "counts of its own do not differ");
	drop();

	for (int r = 0; r < 2; r++) {
		begin(r, 2, 0, COLL_ERR_MISMATCH, "they differ");
		add("1 1 barrier - - 0 0 - - running 1699999995.000 1699999995.000 - %s barrier\n",
		    r ? "linear" : "dissemination");
		end();
	}
	comm = group();
	has_str(comm->verdict,
		"rank 1 called barrier by algorithm linear as collective number 1, "
		"but rank 0 called barrier by algorithm dissemination",
		"algorithms that differ");
	drop();
}

static void test_messages(void)
{
	const struct explain_comm *comm;

	/* Ranks 0 to 2 receive from the next one; rank 3 is in a collective. */
	for (int r = 0; r < 4; r++) {
		begin(r, 4, 0, COLL_ERR_TIMEOUT, "timed out");
		if (r < 3)
			op(1, "recv", (r + 1) % 3, 7, "running");
		else
			collectives(1, 1, 1699999990);
		end();
	}
	comm = group();
	is_int(comm->cause, CAUSE_CYCLE, "a cycle");
	is_int(comm->ncycle, 3, "of three ranks");
	ok(comm->cycle[1] == (comm->cycle[0] + 1) % 3 && comm->cycle[2] == (comm->cycle[0] + 2) % 3,
	   "each waits for the next");
	has_str(comm->verdict,
		"ranks 0-2 wait for each other: rank 0 in recv of 4 int32 from rank 1",
		"the verdict");
	is_int(comm->nlonely, 3, "three messages without a partner");
	drop();

	/* Rank 0 receives from rank 1, which is in a collective that rank 0 has not called. */
	for (int r = 0; r < 2; r++) {
		begin(r, 2, 0, COLL_ERR_TIMEOUT, "timed out");
		if (r)
			collectives(1, 1, 1699999990);
		else
			op(1, "recv", 1, 7, "running");
		end();
	}
	comm = group();
	is_int(comm->ncycle, 2, "a cycle through a collective");
	drop();

	/* The second receive of rank 0 has no send; the sends of rank 1 meet the first and that of another tag. */
	for (int r = 0; r < 2; r++) {
		begin(r, 3, 0, COLL_ERR_TIMEOUT, "timed out");
		op(0, r ? "isend" : "irecv", !r, 5, "running");
		op(0, r ? "isend" : "irecv", !r, r ? 6 : 5, "running");
		if (!r)
			op(0, "isend", 2, 9, "running");
		end();
	}
	comm = group();
	is_int(comm->ncycle, 0, "no cycle");
	is_int(comm->nlonely, 3, "messages without a partner");
	ok(comm->lonely[0].rank == 0 && comm->lonely[0].op->tag == 5 &&
		   comm->lonely[0].why == PARTNER_MISSING,
	   "the second receive");
	ok(comm->lonely[1].op->tag == 9 && comm->lonely[1].why == PARTNER_NO_FILE,
	   "a send to a rank without a file");
	ok(comm->lonely[2].rank == 1 && comm->lonely[2].op->tag == 6, "a send with another tag");
	drop();
}

/* The dump of the peer of `peer`, with messages of different tags. */
static char *text_of_messages(const char *kind, int peer, int n)
{
	size_t size = 0;
	char *all = NULL;
	FILE *out = open_memstream(&all, &size);

	begin(!peer, 2, 0, COLL_ERR_TIMEOUT, "timed out");
	for (int i = 0; i < n; i++) {
		op(0, kind, peer, i, "running");
		if (i % 100 == 99 || i == n - 1) {
			fwrite(text, 1, used, out);
			used = 0;
		}
	}
	fclose(out);
	return all;
}

/* As many messages as a file may have, each of which is compared with all others no more than with a few. */
static void test_many_messages(void)
{
	char *own = text_of_messages("irecv", 1, 40000),
	     *other = text_of_messages("isend", 0, 39999);
	const struct explain_comm *comm;

	alarm(120);
	explain_read(&e, "coll-aa-comm-0-rank-0-pid-1.txt", own, strlen(own));
	explain_read(&e, "coll-aa-comm-0-rank-1-pid-1.txt", other, strlen(other));
	comm = group();
	is_int(comm->nlonely, 1, "one of 40000 messages has no partner");
	ok(comm->lonely[0].op->tag == 39999, "the last");
	alarm(0);
	free(own);
	free(other);
	drop();
}

static void test_malformed(void)
{
	begin(0, 2, 0, 8, "timed out");
	add("1 1 allreduce float32 0 4 16 - - runing 1.000 1.000 - ring allreduce\n"
	    "2 2 allreduce float32 0 99999999999999999999 16 - - done 1.000 1.000 1.001 ring x\n"
	    "3 3 allreduce\n"
	    "4 4 allreduce float32 0 4 16 - - done 1.000 1.5 1.001 ring x\n"
	    "5 5 allreduce float32 0 4 16 - - done 1.000 1.000 1.001 ring \x1b[31mred\n"
	    "7 7 allreduce float32 0 4 16 - - done 4611686018427387.000 1.000 1.001 ring x\n"
	    "8 8 allreduce float32 0 4 16 - - done 1.000 1.000 1.001 ring \xc2\x9bm \x9bm "
	    "\xc3\x9b\n"
	    "6 6 allreduce float32 0 4");
	end();
	begin(7, 2, 0, 8, "timed out");
	end();
	group();
	is_int(e.ndumps, 1, "one dump");
	is_int(e.dump[0].nops, 2, "with two good lines");
	is_str(e.dump[0].op[0].what, "?[31mred", "without control characters");
	is_str(e.dump[0].op[1].what, "??m ?m \xc3\x9b",
	       "also those beyond ASCII, in UTF-8 and alone");
	is_int((int64_t)e.notes, 7, "a note for each fault");
	has_str(e.note[0], ":5: column state is 'runing', expected queued, running", "a state");
	has_str(e.note[1], ":6: column count is '99999999999999999999'", "a number");
	has_str(e.note[2], ":7: the line ends before its column dtype", "a short line");
	has_str(e.note[3], ":8: column started is '1.5', expected a time", "a time");
	has_str(e.note[4], ":10: column issued is '4611686018427387.000'", "a time far away");
	has_str(e.note[5], ":12: the file is cut in this line", "a line without end");
	has_str(e.note[6], ":2: the head does not say", "a head");
	drop();
}

/* Begins the file of a rank that `coll dump` has read; process: a line about its process, or "". */
static void begin_read(int rank, int nranks, const char *process)
{
	begin(rank, nranks, 0, 0, "");
	used = (size_t)(strstr(text, "# failed") - text);
	add("# read 1700000000.500\n%s"
	    "# number collective kind dtype op count bytes root_or_peer tag state issued started "
	    "ended description\n",
	    process);
}

/* Files that were read while the job ran. */
static void test_running(void)
{
	const struct explain_comm *comm;

	for (int idle = 0; idle < 2; idle++) {
		for (int r = 0; r < 3; r++) {
			begin_read(r, 3, "");
			add("%d %d barrier - - 0 0 - - %s %d.900 %d.900 - barrier\n", 8 - (r == 1),
			    8 - (r == 1), r == 1 ? "done" : "running",
			    idle ? 1699999990 : 1699999999, idle ? 1699999990 : 1699999999);
			end();
		}
		comm = group();
		is_int((int64_t)e.notes, 0, "no fault in the files");
		is_int(comm->cause, idle ? CAUSE_BEHIND : CAUSE_NONE, "%s",
		       idle ? "a rank that makes no call is behind"
			    : "a rank that makes calls is not");
		has_str(comm->verdict,
			idle ? "rank 1 has made 7 collectives, others 8, and made no call for 9.6 s"
			     : "the ranks were at work: they had made 7 to 8 collectives",
			"the verdict");
		drop();
	}
}

/* Processes that do not run: `coll dump` says so, or another rank. */
static void test_processes(void)
{
	static const char *const lines[] = {"# process stopped\n", "# process ended\n"};
	const struct explain_comm *comm;

	for (int ended = 0; ended < 2; ended++) {
		for (int r = 0; r < 3; r++) {
			begin_read(r, 3, r == 1 ? lines[ended] : "");
			collectives(6 - (r == 1), r != 1, 1700000000);
			end();
		}
		comm = group();
		is_int(comm->cause, ended ? CAUSE_GONE : CAUSE_STOPPED, "the cause: %s",
		       lines[ended]);
		has_str(comm->verdict,
			ended ? "rank 1 was lost: the process had ended when its page was read; "
				"ranks "
				"0, 2 wait in"
			      : "rank 1 is stopped by a signal or a debugger; ranks 0, 2 wait in",
			"the verdict");
		is_set(ended ? &comm->ended : &comm->stopped, "rank 1", "the rank");
		drop();
	}

	begin(0, 4, 0, COLL_ERR_TIMEOUT,
	      "rank 0: allreduce timed out; not heard from: rank 1, 2; still needs data from: rank "
	      "1; "
	      "rank 1 does not answer, and was never heard from; rank 2 does not answer, and was "
	      "last "
	      "heard from in barrier as collective number 5: its process 4711 is stopped; rank 3 "
	      "waits "
	      "in barrier as collective number 6");
	collectives(6, 1, 1699999999);
	end();
	comm = group();
	is_int(comm->cause, CAUSE_STOPPED, "a rank that another one says is stopped");
	is_set(&comm->stopped, "rank 2", "it and no other");
	drop();
}

/* A rank's second file of the same id belongs to a second communicator. */
static void test_again(void)
{
	for (int r = 0; r < 2; r++)
		for (int k = 0; k < 2; k++) {
			begin(r, 2, 100 * k, 8, "timed out");
			collectives(3 + k, 1, 1699999990);
			end();
		}
	group();
	is_int(job.n, 2, "two communicators of one id");
	ok(job.comm[0].n == 2 && job.comm[1].n == 2, "each with both ranks");
	ok(job.comm[0].most == 3 && job.comm[1].most == 4, "the older files first");
	is_int((int64_t)e.notes, 0, "no note");
	drop();

	/* The first file of rank 1 is not there. */
	for (int r = 0; r < 2; r++)
		for (int k = r; k < 2; k++) {
			begin(r, 2, 100 * k, 8, "timed out");
			collectives(3 + k, 1, 1699999990);
			end();
		}
	group();
	is_int((int64_t)e.notes, 1, "one note if a file is missing");
	has_str(e.note[0], "rank 0 has 2 files of this id, rank 1 has 1", "it names the ranks");
	drop();
}

int main(void)
{
	test_sets();
	test_many();
	test_missing_and_named();
	test_differs();
	test_messages();
	test_many_messages();
	test_malformed();
	test_running();
	test_processes();
	test_again();
	return done_testing();
}
