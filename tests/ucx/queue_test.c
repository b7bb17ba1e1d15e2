/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue_test.c - what the ucx plugin does, without UCX, to a receive queue in shared memory in which a slot is claimed
 * and not filled.  The queue is mapped twice in this process, as it is where ranks are threads; one of the mappings
 * goes away while the plugin waits.
 */
#include "../lib/tap.h"
#include "ucx.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { RANKS = 3, THREAD = 1, WRITER = 2 };
/* UCX's layout: see ucx_gap.c. */
enum { SIZE = 12288, SLOTS = 64, SLOTS_AT = 192, SLOT_SIZE = 128, SOCKET_AT = 8, PID_AT = 136 };
enum { SEGMENT_SIZE_AT = 12, ID_AT = 1, ACTIVE_MESSAGE = 23, INLINE = 2 };

static uint8_t shares[RANKS] = {COLL_SHARES_PIDS | COLL_SHARES_PROCESS,
				COLL_SHARES_PIDS | COLL_SHARES_PROCESS, COLL_SHARES_PIDS};
static struct ucx_peer peers[RANKS];
static _Atomic uint64_t calls_of_writer;
static int left_out; /* log lines that say that slots were left out */
static uint8_t *first,
	*second; /* two mappings of the queue; the first one is at the lower address */

static void host_log(const coll_host_t *host, int32_t level, const char *text)
{
	(void)host;
	(void)level;
	left_out += strstr(text, "left out") != NULL;
	diag("%s", text);
}

int ucx_may_share_memory(const struct ucx *u, uint32_t rank)
{
	(void)u;
	(void)rank;
	return 1;
}

/* A socket to which UCX would send signals, and the epoll descriptor that watches it. */
static int watch_socket(struct sockaddr_un *name, socklen_t *length)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0),
	    epoll_fd = epoll_create1(EPOLL_CLOEXEC);

	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	*length = sizeof(*name);
	if (fd < 0 || bind(fd, (struct sockaddr *)name, sizeof(sa_family_t)) ||
	    getsockname(fd, (struct sockaddr *)name, length) ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return -1;
	return epoll_fd;
}

static int make_queue(const struct sockaddr_un *name, socklen_t length)
{
	char path[64];
	uint8_t *a, *b;
	pid_t pid = getpid();
	int fd;

	snprintf(path, sizeof(path), "/ucx_shm_posix_test_%d", (int)pid);
	fd = shm_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, SIZE))
		return 0;
	a = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	b = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	shm_unlink(path);
	close(fd);
	if (a == MAP_FAILED || b == MAP_FAILED)
		return 0;
	first = a < b ? a : b;
	second = a < b ? b : a;
	memcpy(a + SOCKET_AT, &length, sizeof(length));
	memcpy(a + SOCKET_AT + sizeof(length), name, sizeof(*name));
	memcpy(a + PID_AT, &pid, sizeof(pid));
	for (int i = 0; i < SLOTS; i++) {
		a[SLOTS_AT + i * SLOT_SIZE] = 1;
		a[SLOTS_AT + i * SLOT_SIZE + SEGMENT_SIZE_AT] = 1;
	}
	return 1;
}

static uint8_t *slot(int number)
{
	return second + SLOTS_AT + number * SLOT_SIZE;
}

static void claim(uint64_t number)
{
	memcpy(second, &number, sizeof(number));
}

int main(void)
{
	static coll_host_t host = {
		.size = sizeof(host), .nranks = RANKS, .shares = shares, .log = host_log};
	struct ucx u = {.host = &host, .nranks = RANKS, .peer = peers, .calls = 1000};
	struct sockaddr_un name;
	socklen_t length;

	u.efd = watch_socket(&name, &length);
	if (u.efd < 0 || !make_queue(&name, length)) {
		skip(1, "no socket or no shared memory");
		return done_testing();
	}
	for (uint32_t r = 0; r < RANKS; r++)
		peers[r].rank = r;
	peers[THREAD].bye_received = 1;
	peers[WRITER].calls_of_ucx = &calls_of_writer;
	ok(!ucx_gap_hides_frames(&u), "no rank has died: no frame is hidden");

	calls_of_writer = 1;
	claim(2);
	slot(0)[0] = INLINE;
	ucx_gap_expect(&u);
	ok(ucx_gap_hides_frames(&u), "a rank has died: its frames may be hidden");
	ucx_gap_advance(&u);
	is_int(u.gap, UCX_GAP_OPEN, "a living rank may just be filling the slot");
	ok(ucx_gap_hides_frames(&u), "its slot may hide frames of the rank that has died");
	u.gap_deadline = 1;
	ok(!ucx_gap_hides_frames(&u), "... but not for ever");
	is_int(slot(1)[0], 1, "its slot is not touched");

	munmap(first, SIZE);
	calls_of_writer = 2;
	ucx_gap_advance(&u);
	is_int(u.gap, UCX_GAP_NONE, "the living rank was outside UCX: the gap is closed");
	is_int(slot(1)[0], INLINE, "the slot is filled, though one mapping of the queue has gone");
	is_int(slot(1)[ID_AT], ACTIVE_MESSAGE, "... with a frame");
	is_int(slot(2)[0], 1, "the next slot is not touched");
	is_int(left_out, 1, "the log says that a slot was left out");
	ok(ucx_gap_hides_frames(&u), "UCX has not read the frames behind it yet");
	u.calls += UCX_QUIET_CALLS + 1;
	ok(!ucx_gap_hides_frames(&u), "now it has");
	is_int(u.queues, 0, "the plugin keeps no mapping");

	ucx_gap_expect(&u);
	calls_of_writer = 3;
	claim(3);
	ucx_gap_advance(&u);
	is_int(u.queues, 1, "a second death: the plugin maps the queue");
	ucx_gap_close(&u);
	is_int(u.queues, 0, "the endpoint is closed: the plugin keeps no mapping");

	ucx_gap_expect(&u);
	calls_of_writer = 5;
	ucx_gap_advance(&u);
	is_int(u.gap, UCX_GAP_OPEN, "a third death, while a living rank writes");
	slot(2)[0] = INLINE;
	calls_of_writer = 6;
	ucx_gap_advance(&u);
	is_int(u.gap, UCX_GAP_NONE, "the living rank has filled its slot: there is no gap");
	is_int(left_out, 1, "the log says nothing of slots left out");
	return done_testing();
}
