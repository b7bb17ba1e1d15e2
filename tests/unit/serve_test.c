/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve_test.c - the server of a host (option watch) and its clients: good ones, a thousand that come and go, strangers, clients
 * that stop, more than there may be; forks; the end.
 */
#include "base/clock.h"
#include "../lib/tap.h"
#include "serve/clients.h"
#include "serve/fetch.h"
#include "socket/dial.h"

#include <coll/coll.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CLIENTS = 1000, HALF = 18, PATIENCE_MS = 60000, ASK_MS = 20000 };

static char directory[64];
static uint8_t look_key[HANDSHAKE_KEY_SIZE];
static struct address_list at;

static int count_descriptors(void)
{
	DIR *list = opendir("/proc/self/fd");
	int n = 0;

	while (list && readdir(list))
		n++;
	if (list)
		closedir(list);
	return n;
}

/* Comes the number of descriptors back to what it was? */
static int descriptors_come_to(int n)
{
	const int64_t deadline = clock_deadline(PATIENCE_MS);

	while (count_descriptors() > n && clock_remaining(deadline) > 0)
		clock_nap(10000);
	return count_descriptors() <= n;
}

/* What the page of this process's rank says: with which key and where. */
static int read_page(void)
{
	struct page_list pages;
	int found = 0;

	if (page_list_read(&pages))
		return 0;
	for (int i = 0; i < pages.count; i++) {
		const struct page_head *head = &pages.view[i]->head;

		if (head->pid != getpid() || !head->look_at[0])
			continue;
		memcpy(look_key, head->look_key, sizeof(look_key));
		at.count = 1;
		found = !address_parse(head->look_at, "look_at", &at.item[0]);
	}
	page_list_free(&pages);
	return found;
}

static int fetch_once(struct fetch *fetch)
{
	return fetch_job(fetch, &at, look_key, ASK_MS);
}

static int fetch_is_whole(void)
{
	struct fetch fetch;
	int whole = !fetch_once(&fetch);

	whole = whole && fetch.nhosts == 1 && !fetch.host[0].code && fetch.host[0].pages.count == 1;
	fetch_free(&fetch);
	return whole;
}

static void test_answer(void)
{
	struct fetch fetch;
	const struct page_view *view;

	ok(!fetch_once(&fetch), "the server answers");
	ok(fetch.nranks == 1 && fetch.nhosts == 1 && fetch.host[0].rank == 0 &&
		   fetch.host[0].ranks == 1,
	   "its job has a host and a rank");
	ok(fetch.nhosts == 1 && fetch.host[0].pages.count == 1, "which has a page");
	if (fetch.nhosts == 1 && fetch.host[0].pages.count == 1) {
		view = fetch.host[0].pages.view[0];
		ok(view->head.pid == getpid() && view->head.job == fetch.job &&
			   view->life == PAGE_LIVES && view->comms == 1 &&
			   view->comm[0]->issued == 1,
		   "as the rank has written it");
		ok(!page_has_look_key(view), "but without the key that it was asked with");
	}
	fetch_free(&fetch);
}

static void test_wrong_key(void)
{
	uint8_t wrong[HANDSHAKE_KEY_SIZE] = {1};
	struct fetch fetch;

	is_int(fetch_job(&fetch, &at, wrong, ASK_MS), COLL_ERR_PERMISSION,
	       "a wrong key is turned away");
	ok(fetch_is_whole(), "the right one is not");
}

static void test_many(int before)
{
	int whole = 0;

	for (int i = 0; i < CLIENTS; i++)
		whole += fetch_is_whole();
	is_int(whole, CLIENTS, "a thousand clients get their answers");
	ok(descriptors_come_to(before), "and leave no descriptor");
}

static int connect_plain(void)
{
	const int fd = socket_new_for(&at.item[0]);

	if (fd >= 0 && socket_connect(fd, &at.item[0]) == 0 &&
	    socket_poll(fd, POLLOUT, clock_deadline(PATIENCE_MS)))
		return fd;
	return -1;
}

/* Bytes that are no handshake, a handshake that is cut off, and connections that say nothing. */
static void test_strangers(int before)
{
	static const char web[] = "GET / HTTP/1.0\r\n\r\n", cut[] = "COLLLOOK\1\0\0";
	uint8_t noise[600];
	int fd;

	for (int i = 0; i < CLIENTS; i++) {
		fd = connect_plain();
		if (fd < 0)
			continue;
		for (size_t k = 0; k < sizeof(noise); k++)
			noise[k] = (uint8_t)(i * 31 + (int)k * 7);
		if (i % 4 == 0)
			(void)socket_write(fd, web, sizeof(web));
		else if (i % 4 == 1)
			(void)socket_write(fd, cut, sizeof(cut));
		else if (i % 4 == 2)
			(void)socket_write(fd, noise, sizeof(noise));
		close(fd);
	}
	ok(fetch_is_whole(), "after a thousand strangers the server answers");
	ok(descriptors_come_to(before), "and they leave no descriptor");
}

/* A client that has proved the key. */
static int new_client(struct tree_stream *stream, struct serve_keys *keys)
{
	struct handshake hs;
	struct dial dial = {.hs = &hs, .peer = SERVE_SERVER, .addresses = at};
	const int64_t deadline = clock_deadline(ASK_MS);
	struct pollfd fds[ADDRESS_MAX];
	struct poll_set set;
	int code;

	memset(stream, 0, sizeof(*stream));
	serve_make_keys(look_key, keys);
	serve_handshake(&hs, SERVE_TOOL, keys);
	poll_set_init_small(&set, fds, ADDRESS_MAX);
	code = dial_begin(&dial);
	while (!code && dial.session.fd < 0 && clock_remaining(deadline) > 0)
		code = dial_step(&dial, &set, deadline);
	if (!code && dial.session.fd >= 0)
		tree_stream_init(stream, 0, dial.session.key, keys->body);
	dial_end(&dial);
	return code ? -1 : dial.session.fd;
}

/* Sends a frame with the right macs, and tells whether the server closes the connection for it. */
static int is_closed_for(struct tree_frame head, int forge)
{
	const int64_t deadline = clock_deadline(PATIENCE_MS);
	struct serve_keys keys;
	struct tree_stream stream;
	const int fd = new_client(&stream, &keys);
	char byte;
	ssize_t n = 0;

	if (fd < 0)
		return 0;
	tree_seal_body(keys.body, &head, "");
	tree_seal(&stream, &head);
	head.mac[0] ^= (uint8_t)forge;
	(void)socket_write(fd, &head, sizeof(head));
	while (!n && clock_remaining(deadline) > 0) {
		(void)socket_poll(fd, POLLIN, deadline);
		n = socket_read(fd, &byte, 1);
	}
	close(fd);
	return n < 0;
}

static void test_requests(void)
{
	ok(is_closed_for((struct tree_frame){.type = 99}, 0),
	   "an unknown request ends the connection");
	ok(is_closed_for((struct tree_frame){.type = SERVE_HOSTS}, 1), "so does a forged one");
	ok(!is_closed_for((struct tree_frame){.type = SERVE_HOSTS}, 0), "a good one does not");
	ok(!is_closed_for((struct tree_frame){.type = SERVE_PAGE, .rank = UINT32_MAX}, 0),
	   "nor does one for a rank that is not there");
}

/* Clients that prove the key, and then do not confirm that they have the verdict. */
static int connect_half(void)
{
	const int64_t deadline = clock_deadline(ASK_MS);
	const int fd = connect_plain();
	struct serve_keys keys;
	struct handshake hs;
	struct connection c;
	struct handshake_answer *answer = &c.messages.answer;
	enum handshake_event event = HANDSHAKE_MORE;

	serve_make_keys(look_key, &keys);
	serve_handshake(&hs, SERVE_TOOL, &keys);
	connection_begin(&hs, &c, fd, at.item[0].sa.ss_family, HANDSHAKE_CHALLENGE);
	while (event == HANDSHAKE_MORE && socket_poll(fd, POLLIN, deadline))
		event = connection_receive(&hs, &c);
	answer->rank = htole32(SERVE_TOOL);
	answer->nranks = htole32(SERVE_ENDS);
	answer->order = HANDSHAKE_BYTE_ORDER;
	answer->dial = 1;
	if (event == HANDSHAKE_WHOLE && !connection_send(&hs, &c, HANDSHAKE_ANSWER))
		return fd;
	close(fd);
	return -1;
}

static void test_half(int before)
{
	int fd[HALF], n = 0;

	for (int i = 0; i < HALF; i++) {
		fd[i] = connect_half();
		n += fd[i] >= 0;
	}
	is_int(n, HALF, "clients that prove the key, and stop");
	ok(fetch_is_whole(), "keep out nobody for long");
	for (int i = 0; i < HALF; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	ok(descriptors_come_to(before), "they leave no descriptor");
}

/* A client that asks for a page of many communicators, which no socket takes at once, and does not read it. */
static void test_long_answer(int before)
{
	struct tree_frame ask = {.type = SERVE_PAGE};
	struct tree_stream stream;
	struct serve_keys keys;
	const int fd = new_client(&stream, &keys);
	struct fetch fetch;

	tree_seal_body(keys.body, &ask, "");
	tree_seal(&stream, &ask);
	ok(fd >= 0 && socket_write(fd, &ask, sizeof(ask)) == (ssize_t)sizeof(ask),
	   "a client asks for a long page");
	ok(!fetch_once(&fetch) && fetch.nhosts == 1 && fetch.host[0].pages.count == 1 &&
		   fetch.host[0].pages.view[0]->comms == PAGE_SLOTS,
	   "another one reads it whole");
	fetch_free(&fetch);
	ok(descriptors_come_to(before + 1), "the first, which does not read, is dropped");
	close(fd);
}

/* As many communicators as a page has slots. */
static void test_many_comms(coll_comm_t comm)
{
	coll_comm_t split[PAGE_SLOTS] = {NULL};
	int n = 1;

	while (n < PAGE_SLOTS && !coll_comm_split(comm, 0, 0, &split[n], NULL))
		n++;
	is_int(n, PAGE_SLOTS, "as many communicators as a page has slots");
	test_long_answer(count_descriptors());
	while (n > 1)
		coll_comm_destroy(split[--n]);
}

/* Clients that ask and read nothing, as many as there may be; then more. */
static void test_stopped(int before)
{
	const struct tree_frame ask = {.type = SERVE_PAGE};
	struct tree_stream stream;
	struct serve_keys keys;
	int fd[SERVE_CLIENTS], n = 0;
	const int64_t deadline = clock_deadline(PATIENCE_MS);
	struct fetch fetch;
	int whole = 0;

	for (int i = 0; i < SERVE_CLIENTS; i++) {
		fd[i] = new_client(&stream, &keys);
		n += fd[i] >= 0 && socket_write(fd[i], &ask, sizeof(ask) / 2) > 0;
	}
	is_int(n, SERVE_CLIENTS, "as many clients as there may be have asked half a question");
	is_int(fetch_once(&fetch), COLL_ERR_PEER_LOST, "one more is turned away");
	while (!(whole = fetch_is_whole()) && clock_remaining(deadline) > 0)
		clock_nap(100000);
	ok(whole, "until the time of the others is up");
	for (int i = 0; i < SERVE_CLIENTS; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	ok(descriptors_come_to(before), "they leave no descriptor");
}

static void test_fork(void)
{
	const int before = count_descriptors();
	int status = 0;
	pid_t child = fork();

	if (!child) {
		/* The listening socket, the wake-up and the directory are the parent's; more sockets of its transport may be, too. */
		_exit(count_descriptors() < before - 1 ? 0 : 1);
	}
	ok(child > 0 && waitpid(child, &status, 0) == child && !status,
	   "a child keeps no descriptor of the server");
	ok(fetch_is_whole(), "and the server goes on in the parent");
}

/* Destroying the communicator, whose job others look at. */
static void test_end(coll_comm_t comm, int before)
{
	struct serve_keys keys;
	struct tree_stream stream;
	const int fd = new_client(&stream, &keys);
	struct fetch fetch;

	is_int(coll_comm_destroy(comm), COLL_SUCCESS,
	       "the communicator ends while a client is there");
	if (fd >= 0)
		close(fd);
	is_int(fetch_once(&fetch), COLL_ERR_PEER_LOST, "then nobody listens");
	ok(descriptors_come_to(before), "all descriptors are closed");
}

static coll_comm_t make_comm(void)
{
	char id[COLL_UNIQUE_ID_SIZE];
	coll_comm_t comm = NULL;
	float x = 1;

	if (coll_get_unique_id(id, sizeof(id)) || coll_comm_init_rank(&comm, 1, id, 0, NULL) ||
	    coll_allreduce(&x, &x, 1, COLL_FLOAT32, COLL_SUM, comm, NULL) || coll_sync(comm))
		bail_out("%s", coll_get_last_error(NULL));
	return comm;
}

int main(void)
{
	char path[80];
	coll_comm_t comm, split = NULL;
	int before, within;

	snprintf(directory, sizeof(directory), "/dev/shm/coll-serve-XXXXXX");
	if (!mkdtemp(directory))
		bail_out("no directory in /dev/shm");
	setenv("XDG_RUNTIME_DIR", directory, 1);
	setenv("COLL_WATCH", "yes", 1);
	setenv("COLL_INTERFACE", "lo", 1);
	setenv("COLL_BACKEND", "simulated", 1);
	coll_comm_destroy(
		make_comm()); /* whatever a first communicator opens for good is open now */
	before = count_descriptors();
	comm = make_comm();
	ok(read_page(), "the page has the key and the address");
	within = count_descriptors();
	test_answer();
	test_wrong_key();
	test_requests();
	test_many(within);
	test_strangers(within);
	test_stopped(within);
	test_half(within);
	test_fork();
	test_many_comms(comm);
	is_int(coll_comm_split(comm, 0, 0, &split, NULL), COLL_SUCCESS, "a split");
	is_int(coll_comm_destroy(split), COLL_SUCCESS, "and its end");
	ok(fetch_is_whole(), "the server lives as long as one communicator");
	test_end(comm, before);
	snprintf(path, sizeof(path), "%s/coll", directory);
	rmdir(path);
	rmdir(directory);
	return done_testing();
}
