/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event_outcome_test.c - the result of an event whose communicator has failed or was destroyed: success
 * for operations that were complete before, and the error for those that were dropped.
 */
#include "../lib/ranks.h"

static void make(coll_comm_t *comms)
{
	const char *options[] = {"backend=simulated", "destroy_timeout=0", "timeout=2s", NULL};
	coll_config_t config;

	coll_config_init(&config, sizeof(config));
	config.options = options;
	if (coll_comm_init_all(comms, 2, NULL, &config))
		bail_out("no communicator: %s", coll_get_last_error(NULL));
}

static float issued_in[4] = {1, 2, 3, 4}, issued_out[2][4];

static void issue(coll_comm_t comm, int rank)
{
	if (coll_allreduce(issued_in, issued_out[rank], 4, COLL_FLOAT32, COLL_SUM, comm, NULL))
		bail_out("allreduce: %s", coll_get_last_error(NULL));
}

static coll_event_t record(coll_comm_t comm)
{
	coll_event_t event = NULL;

	if (coll_event_create(comm, &event) || coll_event_record(event, comm))
		bail_out("event: %s", coll_get_last_error(NULL));
	return event;
}

static void gives(coll_result_t got, coll_result_t code, const char *words, const char *what)
{
	const char *text = coll_get_last_error(NULL);

	is_int(got, code, what);
	if (code)
		ok(strstr(text, words) != NULL, "%s: %s", what, text);
}

static void test_destroyed(void)
{
	const char *words = "destroyed its communicator";
	coll_comm_t c[2];
	coll_event_t done, dropped;

	make(c);
	issue(c[0], 0);
	issue(c[1], 1);
	is_int(coll_sync(c[0]) | coll_sync(c[1]), COLL_SUCCESS, "a first operation is complete");
	done = record(c[0]);
	issue(c[0], 0);
	dropped = record(c[0]);
	is_int(coll_event_query(done), COLL_SUCCESS, "its event too");
	is_int(coll_event_query(dropped), COLL_IN_PROGRESS, "the event of a second is not");
	coll_comm_destroy(c[0]);
	gives(coll_event_query(done), COLL_SUCCESS, "", "after destroy: the first event");
	gives(coll_event_synchronize(done), COLL_SUCCESS, "", "and a wait for it");
	gives(coll_event_query(dropped), COLL_ERR_ABORTED, words, "the second event");
	gives(coll_event_synchronize(dropped), COLL_ERR_ABORTED, words, "and a wait for it");
	coll_event_destroy(done);
	coll_event_destroy(dropped);
	coll_comm_destroy(c[1]);
}

static void test_aborted(void)
{
	coll_comm_t c[2];
	coll_event_t done, dropped, late;

	make(c);
	issue(c[0], 0);
	issue(c[1], 1);
	coll_sync(c[0]);
	done = record(c[0]);
	issue(c[0], 0);
	dropped = record(c[0]);
	if (coll_event_create(c[0], &late))
		bail_out("event: %s", coll_get_last_error(NULL));
	coll_comm_abort(c[0]);
	gives(coll_event_record(late, c[0]), COLL_ERR_ABORTED, "aborted",
	      "record on a failed communicator");
	gives(coll_comm_wait_event(c[0], done), COLL_ERR_ABORTED, "aborted",
	      "comm_wait_event on a failed communicator");
	gives(coll_stream_wait_event(c[0], NULL, done), COLL_ERR_ABORTED, "aborted",
	      "stream_wait_event on a failed communicator");
	gives(coll_event_record_on_stream(done, c[0], NULL), COLL_ERR_ABORTED, "aborted",
	      "record_on_stream on a failed communicator");
	for (int destroyed = 0; destroyed < 2; destroyed++) {
		const char *when = destroyed ? "after destroy" : "after abort";

		diag("%s", when);
		gives(coll_event_query(done), COLL_SUCCESS, "", "the event of complete work");
		gives(coll_event_synchronize(done), COLL_SUCCESS, "", "and a wait for it");
		gives(coll_event_query(dropped), COLL_ERR_ABORTED, "aborted",
		      "the event of work under way");
		gives(coll_event_synchronize(dropped), COLL_ERR_ABORTED, "aborted",
		      "and a wait for it");
		gives(coll_event_query(late), COLL_ERR_ABORTED, "aborted",
		      "the event recorded after the abort");
		if (!destroyed)
			coll_comm_destroy(c[0]);
	}
	coll_event_destroy(done);
	coll_event_destroy(dropped);
	coll_event_destroy(late);
	coll_comm_destroy(c[1]);
}

/* Two communicators wait for events of c, which is destroyed meanwhile. */
static void test_waiting(void)
{
	coll_comm_t c[2], d[2], e[2];
	coll_event_t done, dropped;

	make(c);
	make(d);
	make(e);
	issue(c[0], 0);
	issue(c[1], 1);
	coll_sync(c[0]);
	done = record(c[0]);
	issue(c[0], 0);
	dropped = record(c[0]);
	is_int(coll_comm_wait_event(d[0], dropped), COLL_SUCCESS, "d waits for dropped work");
	is_int(coll_comm_wait_event(e[0], done), COLL_SUCCESS, "e waits for complete work");
	for (int r = 0; r < 2; r++) {
		issue(d[r], r);
		issue(e[r], r);
	}
	coll_comm_destroy(c[0]);
	gives(coll_sync(d[0]), COLL_ERR_ABORTED, "waits for an event of a communicator that failed",
	      "d fails too");
	is_int(coll_sync(e[0]), COLL_SUCCESS, "e does not");
	gives(coll_comm_wait_event(e[1], dropped), COLL_SUCCESS, "", "a wait that begins later");
	gives(coll_sync(e[1]), COLL_ERR_ABORTED, "destroyed its communicator", "fails");
	coll_event_destroy(done);
	coll_event_destroy(dropped);
	coll_comm_destroy(c[1]);
	for (int r = 0; r < 2; r++) {
		coll_comm_destroy(d[r]);
		coll_comm_destroy(e[r]);
	}
}

int main(void)
{
	setenv("COLL_LOG", "error", 1);
	test_destroyed();
	test_aborted();
	test_waiting();
	return done_testing();
}
