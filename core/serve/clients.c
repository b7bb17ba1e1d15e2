/* SPDX-License-Identifier: BSD-3-Clause */
/* clients.c - see clients.h. */
#include "serve/clients.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void clients_begin(struct clients *clients)
{
	for (int i = 0; i < SERVE_CLIENTS; i++)
		clients->client[i] = (struct client){.fd = -1, .place = -1};
}

static void client_drop(struct client *c, struct poll_set *set)
{
	if (c->fd < 0)
		return;
	poll_set_unwatch(set, &c->place);
	close(c->fd);
	free(c->out);
	*c = (struct client){.fd = -1, .place = -1};
}

void clients_end(struct clients *clients, struct poll_set *set)
{
	for (int i = 0; i < SERVE_CLIENTS; i++)
		client_drop(&clients->client[i], set);
}

void clients_add(struct clients *clients, const struct session *session)
{
	int i = 0;

	while (i < SERVE_CLIENTS && clients->client[i].fd >= 0)
		i++;
	if (i == SERVE_CLIENTS) {
		close(session->fd);
		return;
	}
	clients->client[i].fd = session->fd;
	clients->client[i].since_ms = clients->client[i].moved_ms = clock_now_ms();
	tree_stream_init(&clients->client[i].stream, 1, session->key, clients->keys->body);
}

/* ------------------------------------------------------------------------ requests -- */

int clients_is_request(const struct tree_frame *head)
{
	return (head->type == SERVE_HOSTS || head->type == SERVE_PAGE) && head->len == 0;
}

/* Makes the frame of the answer.  Returns -1: there is no memory for it. */
static int client_answer(const struct clients *clients, struct client *c)
{
	struct tree_frame head = {.rank = clients->rank};
	size_t size = 0;

	c->out = clients->answer(clients->owner, &c->stream.head, sizeof(head), &head.type, &size);
	if (!c->out)
		return -1;
	head.len = size;
	tree_seal_body(clients->keys->body, &head, c->out + sizeof(head));
	tree_seal(&c->stream, &head);
	memcpy(c->out, &head, sizeof(head));
	c->out_size = sizeof(head) + size;
	c->out_sent = 0;
	tree_stream_next(&c->stream);
	return 0;
}

/* Returns -1: the client broke the protocol, or is gone. */
static int client_read(const struct clients *clients, struct client *c)
{
	size_t room;
	void *at = tree_stream_space(&c->stream, NULL, 0, &room);
	const ssize_t n = socket_read(c->fd, at, room);

	if (n < 0)
		return -1;
	if (n > 0)
		c->moved_ms = clock_now_ms();
	switch (n ? tree_stream_take(&c->stream, (size_t)n) : TREE_MORE) {
	case TREE_MORE: return 0;
	case TREE_HEAD: break;
	default: return -1;
	}
	if (!clients_is_request(&c->stream.head) || tree_stream_take(&c->stream, 0) != TREE_WHOLE)
		return -1;
	return client_answer(clients, c);
}

/* Returns -1: the client is gone. */
static int client_write(struct client *c)
{
	const ssize_t n = socket_write(c->fd, c->out + c->out_sent, c->out_size - c->out_sent);

	if (n < 0)
		return -1;
	if (n > 0)
		c->moved_ms = clock_now_ms();
	c->out_sent += (size_t)n;
	if (c->out_sent < c->out_size)
		return 0;
	free(c->out);
	c->out = NULL;
	c->stream.sent++;
	return 0;
}

/* --------------------------------------------------------------------------- turns -- */

static int64_t client_end_ms(const struct client *c)
{
	const int64_t idle = c->moved_ms + SERVE_IDLE_MS, life = c->since_ms + SERVE_LIFE_MS;

	return idle < life ? idle : life;
}

void clients_prepare(struct clients *clients, struct poll_set *set)
{
	for (int i = 0; i < SERVE_CLIENTS; i++) {
		struct client *c = &clients->client[i];

		if (c->fd < 0)
			continue;
		poll_set_watch(set, &c->place, c->fd, c->out ? POLLOUT : POLLIN);
		poll_set_wake(set, client_end_ms(c));
	}
}

void clients_advance(struct clients *clients, struct poll_set *set)
{
	for (int i = 0; i < SERVE_CLIENTS; i++) {
		struct client *c = &clients->client[i];
		int over = 0;

		if (c->fd < 0)
			continue;
		if (poll_set_events(set, c->place))
			over = c->out ? client_write(c) : client_read(clients, c);
		if (over || clock_now_ms() >= client_end_ms(c))
			client_drop(c, set);
	}
}
