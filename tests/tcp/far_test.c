/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * far_test.c - the option tcp.non_temporal: its values, and what a reader of the tcp plugin tells its writer of the distance of
 * their processors.
 *
 * The test includes the plugin's file, with a clock of its own.
 */
#include "../lib/tap.h"

#include "tcp_ring.h"

#include <string.h>

static int64_t clock_step; /* what a read of the test's clock takes */
static int64_t line_step;  /* what the line takes that is stored to between two reads */
static int64_t clock_value;
static const char *option;
static char told[300];
static int ntold;

static int64_t test_clock(void)
{
	clock_value += clock_step + line_step;
	return clock_value;
}
#define clock_now_ns test_clock
#include "../../plugins/tcp/tcp_far.c"

static const char *option_string(const coll_host_t *host, const char *key)
{
	(void)host;
	return strcmp(key, "non_temporal") ? NULL : option;
}

static void host_log(const coll_host_t *host, int32_t level, const char *text)
{
	(void)host;
	(void)level;
	snprintf(told, sizeof(told), "%s", text);
	ntold++;
}

static const coll_host_t host = {
	.size = sizeof(host), .nranks = 2, .option_string = option_string, .log = host_log};
static struct tcp tcp;
static struct tcp_conn conn;
static struct tcp_ring_control control;
static coll_error_t err;

static int32_t begin(const char *value, int turns, int64_t step)
{
	option = value;
	clock_step = step;
	line_step = 0;
	told[0] = '\0';
	ntold = 0;
	tcp = (struct tcp){.host = &host, .nranks = 2, .turns = turns};
	memset((void *)&control, 0, sizeof(control));
	conn = (struct tcp_conn){.peer = 1, .in = {.control = &control}};
	memset(&err, 0, sizeof(err));
	return tcp_far_read(&tcp, &err);
}

enum { CLOCK = 20, NEAR = 40, FAR = 150 };

static void test_values(void)
{
	ok(!begin("yes", 0, CLOCK) && tcp.past == TCP_PAST_ALWAYS, "yes: past the caches");
	ok(!begin("no", 0, CLOCK) && tcp.past == TCP_PAST_NEVER, "no: never");
	ok(!begin("auto", 0, CLOCK) && tcp.past == TCP_PAST_AUTO && tcp.learns,
	   "auto: as the reader says");
	is_int(tcp.clock_ns, CLOCK, "a rank knows what its clock takes");
	ok(!begin("", 0, CLOCK) && tcp.past == TCP_PAST_AUTO, "nothing is auto");
	ok(!begin(NULL, 0, CLOCK) && tcp.past == TCP_PAST_AUTO, "unset, too");
	ok(!begin("no", 0, CLOCK) && tcp.learns,
	   "a rank that is told no learns, for the option of its writer");
	ok(!begin("auto", 1, CLOCK) && !tcp.learns, "ranks that share processors do not learn");
	ok(!begin("auto", 0, 1000) && !tcp.learns, "nor do ranks with a slow clock");
	is_int(begin("perhaps", 0, CLOCK), COLL_ERR_CONFIG, "another value is an error");
	ok(!strcmp(err.text, "option tcp.non_temporal is 'perhaps', but must be auto, yes or no"),
	   "which says the values: %s", err.text);
}

/* Tells so many positions, each of which takes a line `ns`; returns the flag that the writer reads. */
static int tell(int times, int64_t ns)
{
	line_step = ns;
	for (int i = 0; i < times; i++) {
		conn.in.own += 100;
		tcp_far_tell(&tcp, &conn);
		if (control.taken != conn.in.own)
			bail_out("the position is not told");
	}
	return control.far;
}

static void test_learning(void)
{
	begin("auto", 0, CLOCK);
	ok(!tell(100, NEAR), "a near writer: its messages stay in the caches");
	ok(!tell(2, FAR), "two long stores may be an accident");
	ok(tell(1, FAR), "the third is none");
	ok(ntold == 1 && strstr(told, "150 ns") && strstr(told, "rank 1") &&
		   strstr(told, "go past"),
	   "the log says so: %s", told);
	ok(tell(100, FAR) && tell(2, NEAR) && tell(100, FAR),
	   "two short stores may be an accident, too");
	ok(!tell(3, NEAR), "the third is none: the process has moved");
	ok(ntold == 2 && strstr(told, "stay in"), "the log says so, too: %s", told);
	for (int i = 0; i < 50; i++)
		if (tell(1, FAR) || tell(1, NEAR))
			break;
	ok(!control.far && ntold == 2, "as many long stores as short ones change nothing");
	ok(!tell(100, TCP_FAR_NS - 1) && tell(3, TCP_FAR_NS), "far begins at %d ns", TCP_FAR_NS);
}

int main(void)
{
	test_values();
	test_learning();
	return done_testing();
}
