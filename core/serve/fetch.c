/* SPDX-License-Identifier: BSD-3-Clause */
/* fetch.c - see fetch.h. */
#include "serve/fetch.h"
#include "base/clock.h"
#include "base/error.h"
#include "socket/dial.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Hosts are asked for FETCH_TURNS times the limit of one host, however many do not answer. */
enum { FETCH_THREADS = 16, FETCH_TURNS = 2 };

/* A connection to a server. */
struct fetch_link {
	int fd;
	int rank; /* of the server; -1: any */
	const struct serve_keys *keys;
	int64_t timeout_ms;
	struct tree_stream stream; /* with the answer that comes */
	uint8_t *body;
};

/* ---------------------------------------------------------------------- connecting -- */

static int fetch_connect_failed(const struct dial *dial, int code)
{
	char report[DIAL_REPORT_SIZE];

	if (code == COLL_ERR_PERMISSION)
		return error_set(code, "another job's server is there, or the key is not this "
				       "job's (coll top --print-key)");
	if (code)
		return code;
	dial_report(dial, report);
	return error_set(COLL_ERR_TIMEOUT, "does not answer: %s%s%s", dial->note,
			 dial->note[0] && report[0] ? "; " : "", report);
}

static int fetch_connect(struct fetch_link *link, const struct address_list *at)
{
	const int64_t deadline = clock_deadline(link->timeout_ms);
	struct handshake hs;
	struct dial dial = {
		.hs = &hs, .peer = SERVE_SERVER, .addresses = *at, .named = at->count == 1};
	struct pollfd fds[ADDRESS_MAX];
	struct poll_set set;
	int code;

	serve_handshake(&hs, SERVE_TOOL, link->keys);
	poll_set_init_small(&set, fds, ADDRESS_MAX);
	code = dial_begin(&dial);
	while (!code && dial.session.fd < 0 && clock_remaining(deadline) > 0)
		code = dial_step(&dial, &set, deadline);
	if (code || dial.session.fd < 0)
		code = fetch_connect_failed(&dial, code);
	link->fd = dial.session.fd;
	if (!code)
		tree_stream_init(&link->stream, 0, dial.session.key, link->keys->body);
	dial_end(&dial);
	return code;
}

static void fetch_disconnect(struct fetch_link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	free(link->body);
}

/* ------------------------------------------------------------------------- answers -- */

static int fetch_lost(int err)
{
	char why[SOCKET_WHY_SIZE];

	return error_set(COLL_ERR_PEER_LOST, "gives no answer: %s%s", socket_why(err, why),
			 err ? "" : " (the job has ended, or many look at it now)");
}

static int fetch_send(struct fetch_link *link, uint32_t type, uint32_t from)
{
	struct tree_frame head = {.type = type, .rank = from};

	tree_seal_body(link->keys->body, &head, "");
	tree_seal(&link->stream, &head);
	/* The socket takes so few bytes at once, since the server has read all earlier requests. */
	if (socket_write(link->fd, &head, sizeof(head)) != (ssize_t)sizeof(head))
		return fetch_lost(errno);
	link->stream.sent++;
	return COLL_SUCCESS;
}

/* The head is authentic: makes the memory for the body. */
static int fetch_take_head(struct fetch_link *link)
{
	const uint64_t len = link->stream.head.len,
		       most = link->stream.head.type == SERVE_HOSTS  ? SERVE_HOSTS_SIZE
			      : link->stream.head.type == SERVE_PAGE ? SERVE_PAGE_SIZE
								     : 0;

	if (len > most)
		return error_set(COLL_ERR_REMOTE, "answers with %llu bytes",
				 (unsigned long long)len);
	free(link->body);
	link->body = malloc(len ? (size_t)len : 1);
	if (!link->body)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %llu bytes",
				 (unsigned long long)len);
	link->stream.body = len ? link->body : NULL;
	return COLL_SUCCESS;
}

/* Reads the bytes of the answer that have come. */
static int fetch_read(struct fetch_link *link, enum tree_event *event)
{
	size_t room;
	void *at = tree_stream_space(&link->stream, NULL, 0, &room);
	const ssize_t n = socket_read(link->fd, at, room);
	int code = COLL_SUCCESS;

	if (n < 0)
		return fetch_lost(errno);
	*event = n ? tree_stream_take(&link->stream, (size_t)n) : TREE_MORE;
	if (*event == TREE_HEAD) {
		code = fetch_take_head(link);
		*event = code ? TREE_FORGED : tree_stream_take(&link->stream, 0);
	}
	if (!code && *event == TREE_FORGED)
		code = error_set(COLL_ERR_REMOTE,
				 "answers with bytes that were changed on the way");
	return code;
}

/* Asks, and waits for the whole answer, whose head and body are then in link->stream.head and link->body. */
static int fetch_ask(struct fetch_link *link, uint32_t type, uint32_t from)
{
	const int64_t deadline = clock_deadline(link->timeout_ms);
	enum tree_event event = TREE_MORE;
	int code = fetch_send(link, type, from);

	tree_stream_next(&link->stream);
	while (!code && event != TREE_WHOLE) {
		if (!socket_poll(link->fd, POLLIN, deadline))
			return error_set(COLL_ERR_TIMEOUT, "does not answer for %lld s",
					 (long long)link->timeout_ms / 1000);
		code = fetch_read(link, &event);
	}
	if (!code && link->stream.head.type != type && link->stream.head.type != SERVE_END)
		code = error_set(COLL_ERR_REMOTE, "answers another question");
	if (!code && link->rank >= 0 && link->stream.head.rank != (uint32_t)link->rank)
		code = error_set(COLL_ERR_REMOTE,
				 "is not there: another host of the job has its address");
	return code;
}

/* --------------------------------------------------------------------------- hosts -- */

static int fetch_take_host(const struct fetch *fetch, struct fetch_host *host, const uint8_t *bytes)
{
	struct serve_host from;

	memcpy(&from, bytes, sizeof(from));
	if (from.rank < 0 || from.ranks < 1 || from.rank >= fetch->nranks ||
	    from.ranks > fetch->nranks)
		return error_set(COLL_ERR_REMOTE, "names a host with rank %d and %d ranks of %d",
				 from.rank, from.ranks, fetch->nranks);
	from.name[sizeof(from.name) - 1] = '\0';
	page_plain_text(from.name);
	memcpy(host->name, from.name, sizeof(host->name));
	host->rank = from.rank;
	host->ranks = from.ranks;
	serve_get_addresses(&from.share, &host->addresses);
	return COLL_SUCCESS;
}

int fetch_take_hosts(struct fetch *fetch, const uint8_t *body, size_t size)
{
	struct serve_hosts hosts;
	int code = serve_unpack_hosts(body, size, &hosts);

	if (code)
		return code;
	fetch->job = hosts.job;
	fetch->nranks = hosts.nranks;
	fetch->host = calloc((size_t)hosts.nhosts, sizeof(*fetch->host));
	if (!fetch->host)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d hosts", hosts.nhosts);
	fetch->nhosts = hosts.nhosts;
	for (int h = 0; !code && h < hosts.nhosts; h++)
		code = fetch_take_host(fetch, &fetch->host[h],
				       body + sizeof(hosts) +
					       (size_t)h * sizeof(struct serve_host));
	return code;
}

/* --------------------------------------------------------------------------- pages -- */

int fetch_take_page(const struct fetch *fetch, struct fetch_host *host, uint32_t from,
		    const uint8_t *body, size_t size)
{
	struct page_view *view = serve_unpack_page(body, size);
	int code = view ? COLL_SUCCESS : error_code();

	if (view && (view->head.job != fetch->job || view->head.nranks != fetch->nranks ||
		     (uint32_t)view->head.rank < from))
		code = error_set(COLL_ERR_REMOTE, "shows rank %d of another job", view->head.rank);
	if (!code)
		code = page_list_add(&host->pages, view);
	if (code)
		page_view_free(view);
	return code;
}

static int fetch_pages(const struct fetch *fetch, struct fetch_host *host, struct fetch_link *link)
{
	uint32_t from = 0;
	int code;

	do {
		code = fetch_ask(link, SERVE_PAGE, from);
		if (code || link->stream.head.type == SERVE_END)
			return code;
		code = fetch_take_page(fetch, host, from, link->body,
				       (size_t)link->stream.head.len);
		if (!code)
			from = (uint32_t)host->pages.view[host->pages.count - 1]->head.rank + 1;
	} while (!code);
	return code;
}

static void fetch_note(struct fetch_host *host, int code)
{
	host->code = code;
	if (code)
		snprintf(host->why, sizeof(host->why), "%s", error_text());
}

/* Connects to the server of a host and reads its pages.  The host notes how that ended. */
static void fetch_from_host(const struct fetch *fetch, struct fetch_host *host,
			    const struct fetch_link *first)
{
	struct fetch_link link = {
		.fd = -1, .rank = host->rank, .keys = first->keys, .timeout_ms = first->timeout_ms};
	int code;

	if (!host->addresses.count) {
		fetch_note(host, error_set(COLL_ERR_NOT_FOUND,
					   "shows no ranks: its log says why (option watch)"));
		return;
	}
	code = fetch_connect(&link, &host->addresses);
	if (!code)
		code = fetch_pages(fetch, host, &link);
	fetch_note(host, code);
	fetch_disconnect(&link);
}

/* ----------------------------------------------------------------------- all hosts -- */

/* What the threads share: each thread takes one host after the other. */
struct fetch_work {
	struct fetch *fetch;
	const struct fetch_link *first;
	int own;          /* the host of that link, which has answered */
	int64_t deadline; /* no other host is asked after it */
	_Atomic int next;
};

static void *fetch_run(void *arg)
{
	struct fetch_work *work = arg;
	int h;

	while ((h = atomic_fetch_add(&work->next, 1)) < work->fetch->nhosts) {
		struct fetch_host *host = &work->fetch->host[h];

		if (h == work->own)
			continue;
		if (clock_remaining(work->deadline))
			fetch_from_host(work->fetch, host, work->first);
		else
			fetch_note(host, error_set(COLL_ERR_TIMEOUT,
						   "was not asked: other hosts do not answer"));
	}
	return NULL;
}

/* The calling thread works too, so that it is done also where no thread can be started. */
static void fetch_all(struct fetch_work *work)
{
	pthread_t thread[FETCH_THREADS];
	int n = 0;

	while (n < FETCH_THREADS && n + 2 < work->fetch->nhosts &&
	       !pthread_create(&thread[n], NULL, fetch_run, work))
		n++;
	fetch_run(work);
	while (n > 0)
		pthread_join(thread[--n], NULL);
}

/* The host whose server the link leads to, or -1: none. */
static int fetch_own_host(const struct fetch *fetch, const struct fetch_link *link)
{
	for (int h = 0; h < fetch->nhosts; h++)
		if ((uint32_t)fetch->host[h].rank == link->stream.head.rank)
			return h;
	return -1;
}

int fetch_job(struct fetch *fetch, const struct address_list *at,
	      const uint8_t look_key[HANDSHAKE_KEY_SIZE], int64_t timeout_ms)
{
	struct serve_keys keys;
	struct fetch_link link = {.fd = -1, .rank = -1, .keys = &keys, .timeout_ms = timeout_ms};
	struct fetch_work work = {.fetch = fetch, .first = &link};
	int code;

	*fetch = (struct fetch){.nhosts = 0};
	serve_make_keys(look_key, &keys);
	code = fetch_connect(&link, at);
	if (!code)
		code = fetch_ask(&link, SERVE_HOSTS, 0);
	if (!code)
		code = fetch_take_hosts(fetch, link.body, (size_t)link.stream.head.len);
	if (!code) {
		work.own = fetch_own_host(fetch, &link);
		work.deadline = clock_deadline(FETCH_TURNS * timeout_ms);
		if (work.own >= 0)
			fetch_note(&fetch->host[work.own],
				   fetch_pages(fetch, &fetch->host[work.own], &link));
		fetch_all(&work);
	}
	fetch_disconnect(&link);
	if (code)
		fetch_free(fetch);
	return code;
}

void fetch_free(struct fetch *fetch)
{
	for (int h = 0; h < fetch->nhosts; h++)
		page_list_free(&fetch->host[h].pages);
	free(fetch->host);
	*fetch = (struct fetch){.nhosts = 0};
}
