/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ceilings_test.c - the most handles of a process and the most communicators on one set of connections:
 * the last one is made, the next one is an error that names the ceiling, and room that is freed is used.  A handle
 * that has ended stays invalid, however often its place is used again.
 */
#include "base/handle.h"
#include "comm/comm.h"
#include "../lib/tap.h"

static void *handles[HANDLE_MOST];

/* Makes handles until there are no more; returns their number. */
static int fill(void)
{
	int n = 0;

	while (n < HANDLE_MOST && (handles[n] = handle_new(HANDLE_REQUEST, &handles[n])))
		n++;
	return n;
}

static void retire(void *handle)
{
	if (handle_pin(HANDLE_REQUEST, handle))
		handle_end(handle, "a handle");
}

/* comm: keeps one handle. */
static void test_handles(coll_comm_t comm)
{
	coll_request_t request = NULL;
	coll_event_t event = NULL;
	void *again;
	int n;

	is_int(coll_barrier(comm), COLL_SUCCESS, "an operation for a request");
	n = fill();
	is_int(n, HANDLE_MOST - 1, "as many handles as coll.h says, with the communicator's");
	ok(!handle_new(HANDLE_REQUEST, &n), "and no more");
	is_int(coll_event_create(comm, &event), COLL_ERR_NO_MEMORY, "an event has no handle then");
	has_str(coll_get_last_error(NULL), "no handle for an event: the process has 1048576",
		"an event's error names the ceiling");
	is_int(coll_get_request(comm, &request), COLL_ERR_NO_MEMORY, "nor has a request");
	has_str(coll_get_last_error(NULL), "no handle for a request", "a request's error");
	retire(handles[--n]);
	again = handle_new(HANDLE_REQUEST, &n);
	ok(again && again != handles[n], "the place of a handle that ended takes a new one");
	retire(again);
	while (n)
		retire(handles[--n]);
	is_int(handle_none("a request"), COLL_ERR_NO_MEMORY,
	       "below the ceiling there is no memory");
	is_str(coll_get_last_error(NULL), "no memory for a request",
	       "and the error says only this");
}

/* The generations of a place are told apart by more than 16 bits. */
static void test_ended(void)
{
	enum { TIMES = 70000 };
	void *ended = handle_new(HANDLE_REQUEST, &handles[0]), *again;
	int same_place = 0, valid = 0;

	retire(ended);
	for (int i = 0; i < TIMES; i++) {
		again = handle_new(HANDLE_REQUEST, &handles[1]);
		same_place += (uint32_t)(uintptr_t)again == (uint32_t)(uintptr_t)ended;
		valid += handle_pin(HANDLE_REQUEST, ended) != NULL;
		retire(again);
	}
	is_int(same_place, TIMES, "the place of an ended handle is used again");
	is_int(valid, 0, "the ended handle stays invalid");
}

static void test_context_ids(void)
{
	static const struct {
		int nranks;
		uint32_t most;
	} cases[] = {{1, 1u << 26}, {2, 1u << 25},    {3, 1u << 24},    {4, 1u << 24},
		     {5, 1u << 23}, {1000, 1u << 16}, {1024, 1u << 16}, {1025, 1u << 15}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct context context = {.nranks = cases[i].nranks, .rank = cases[i].nranks - 1};
		uint32_t last, past;

		context.next_context_id = cases[i].most - 1;
		last = comm_draw_context_id(&context);
		past = comm_draw_context_id(&context);
		ok(last < 1u << TAG_CONTEXT_BITS && past == UINT32_MAX,
		   "%d ranks: each draws %u communicators", cases[i].nranks, cases[i].most);
	}
}

/* Sets the number of communicators that the rank has drawn. */
static void set_drawn(coll_comm_t handle, uint32_t n)
{
	struct lane *lane = comm_enter(handle, "set_drawn");

	lane->context->next_context_id = n;
	comm_leave(lane);
}

static void test_communicators(coll_comm_t comm)
{
	coll_comm_t last = NULL, past = NULL;

	set_drawn(comm, (1u << 26) - 1);
	is_int(coll_comm_dup(comm, &last), COLL_SUCCESS, "the last communicator is made");
	is_int(coll_comm_dup(comm, &past), COLL_ERR_UNSUPPORTED, "the next is refused");
	has_str(coll_get_last_error(NULL),
		"a rank has made 67108864 communicators on the connections",
		"the error names the ceiling");
	is_int(coll_barrier(comm), COLL_SUCCESS, "the parent stays usable");
	is_int(coll_comm_destroy(last), COLL_SUCCESS, "and the last can be destroyed");
}

int main(void)
{
	coll_comm_t comm;

	setenv("COLL_BACKEND", "simulated", 1);
	test_context_ids();
	if (coll_comm_init_all(&comm, 1, NULL, NULL))
		bail_out("%s", coll_get_last_error(NULL));
	test_communicators(comm);
	test_ended();
	test_handles(comm);
	is_int(coll_comm_destroy(comm), COLL_SUCCESS, "destroy");
	return done_testing();
}
