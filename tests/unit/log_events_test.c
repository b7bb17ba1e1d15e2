/* SPDX-License-Identifier: BSD-3-Clause */
/* log_events_test.c - the sentences about calls, steps, copies, messages and communicators, and which levels ask for them. */
#include "observe/log_events.h"

#include <coll/introspect.h>

#include "../lib/tap.h"

static const char *text_of(const coll_observed_t *event)
{
	static char text[400];

	return log_event_text(event, text, sizeof(text)) ? text : "(none)";
}

static const coll_observed_t allreduce = {.what = COLL_OBSERVE_CALL,
					  .phase = COLL_OBSERVED_END,
					  .time_ns = 5023400,
					  .kind = COLL_KIND_ALLREDUCE,
					  .number = 7,
					  .collective = 5,
					  .dtype = COLL_FLOAT32,
					  .op = COLL_SUM,
					  .peer = -1,
					  .count = 4,
					  .bytes = 16,
					  .algorithm = "ring",
					  .issued_ns = 5000000,
					  .begin_ns = 5001000};

static void test_calls(void)
{
	coll_observed_t e = allreduce;

	is_str(text_of(&e),
	       "allreduce number 7, collective 5: 4 float32, 16 bytes, op sum, algorithm ring, "
	       "23.4 us, "
	       "success",
	       "a call has ended");
	e.code = COLL_ERR_ABORTED;
	e.lane = 1;
	e.op = 1 << 20;
	e.stream = 0xab;
	is_str(text_of(&e),
	       "allreduce number 7, collective 5, on host memory: 4 float32, 16 bytes, op own, "
	       "stream 0xab, algorithm ring, 23.4 us, the communicator was aborted",
	       "with an error, on the host lane, with an operation of the application");
	e = allreduce;
	e.phase = COLL_OBSERVED_ISSUED;
	e.algorithm = NULL;
	is_str(text_of(&e),
	       "allreduce number 7, collective 5 is issued: 4 float32, 16 bytes, op sum",
	       "a call is issued");
	e.phase = COLL_OBSERVED_BEGIN;
	e.algorithm = "ring";
	is_str(text_of(&e),
	       "allreduce number 7, collective 5 begins: 4 float32, 16 bytes, op sum, algorithm "
	       "ring",
	       "a call begins");
	e = (coll_observed_t){.what = COLL_OBSERVE_CALL,
			      .phase = COLL_OBSERVED_END,
			      .kind = COLL_KIND_BARRIER,
			      .number = 1,
			      .collective = 1,
			      .op = -1,
			      .peer = -1};
	is_str(text_of(&e), "barrier number 1, collective 1: success", "a barrier has no elements");
	e.kind = COLL_KIND_BROADCAST;
	e.dtype = COLL_INT8;
	e.peer = 3;
	has_str(text_of(&e), ": 0 int8, 0 bytes, root 3, success", "a root");
	e.kind = 0;
	e.peer = -1;
	has_str(text_of(&e), "call number 1, collective 1: success",
		"a call that lost its details");
}

static void test_messages(void)
{
	coll_observed_t e = {.what = COLL_OBSERVE_MESSAGE,
			     .phase = COLL_OBSERVED_ISSUED,
			     .kind = COLL_KIND_RECV,
			     .number = 2,
			     .dtype = COLL_INT32,
			     .op = -1,
			     .peer = -1,
			     .tag = COLL_ANY_TAG,
			     .count = 4,
			     .bytes = 16};

	is_str(text_of(&e), "irecv number 2 is issued: 4 int32, 16 bytes, peer any, tag any",
	       "a receive from any rank");
	e.phase = COLL_OBSERVED_END;
	e.peer = 1;
	e.tag = 7;
	is_str(text_of(&e), "irecv number 2: 4 int32, 16 bytes, peer 1, tag 7, success",
	       "it has received");
}

static void test_steps(void)
{
	coll_observed_t e = allreduce;

	e.what = COLL_OBSERVE_STEP;
	e.phase = COLL_OBSERVED_BEGIN;
	e.step = COLL_STEP_RECV_REDUCE;
	e.index = 3;
	e.peer = 1;
	is_str(text_of(&e),
	       "allreduce number 7, collective 5 step 3 begins: receive and reduce, 16 bytes, peer "
	       "1",
	       "a step");
	e.step = 99;
	has_str(text_of(&e), "a later kind", "a step of a later version");
	e.what = COLL_OBSERVE_COPY;
	e.phase = COLL_OBSERVED_END;
	e.step = 1;
	is_str(text_of(&e), "allreduce number 7, collective 5 ends a copy to the device: 16 bytes",
	       "a copy");
	e.what = COLL_OBSERVE_WAIT;
	is_str(text_of(&e), "(none)", "a wait has no line");
}

static void levels(const char *text, uint32_t wants)
{
	struct log_levels levels;
	char why[200];

	if (log_levels_parse(text, &levels, why, sizeof(why)))
		bail_out("%s", why);
	log_set_levels(&levels);
	is_int(log_events_wanted(), wants, "the events for log = %s", text);
}

static void test_levels(void)
{
	const uint32_t calls = COLL_OBSERVE_COMM | COLL_OBSERVE_CALL,
		       steps = COLL_OBSERVE_STEP | COLL_OBSERVE_COPY;

	levels("info", 0);
	levels("debug", calls | COLL_OBSERVE_MESSAGE);
	levels("trace", calls | steps | COLL_OBSERVE_MESSAGE);
	levels("trace,compose:warn", calls | COLL_OBSERVE_MESSAGE);
	levels("warn,compose:trace", steps);
	levels("warn,message:debug", COLL_OBSERVE_MESSAGE);
}

int main(void)
{
	test_calls();
	test_messages();
	test_steps();
	test_levels();
	return done_testing();
}
