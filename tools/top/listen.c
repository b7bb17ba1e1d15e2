/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * listen.c - a text by HTTP/1.1: see listen.h.  One thread serves a few clients at a time.  A client sends one request, of a
 * bounded size, and its connection ends with the answer.  A client that does not send, or does not read, is dropped at its
 * deadline.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "base/error.h"
#include "lib/tool.h"
#include "socket/socket.h"
#include "top/http.h"
#include "top/listen.h"
#include "top/show.h"

enum {
	LISTEN_CLIENTS = 16, /* at a time; others wait in the kernel's queue */
	LISTEN_REQUEST = 8192,
	LISTEN_MS = 5000, /* for the request, and again for the answer */
	LISTEN_LINGER_MS =
		1000, /* until the client closes its end: a reset could overtake the answer */
	LISTEN_PAUSE_MS = 100,   /* after an accept that failed */
	LISTEN_BUFFER = 64 << 10 /* of the kernel, for a client that does not read */
};

struct client {
	int fd; /* -1: free */
	enum { CLIENT_ASKS, CLIENT_READS, CLIENT_CLOSES } state;
	int64_t deadline_ms;
	char request[LISTEN_REQUEST + 1];
	size_t asked; /* bytes of it */
	char *answer;
	size_t bytes, sent;
};

struct server {
	int fd;
	int64_t pause_ms; /* accepts nobody until then */
	int (*print)(FILE *out, void *user);
	void *user;
	struct client client[LISTEN_CLIENTS];
};

/* ---------------------------------------------------------------------- an answer -- */

static const struct status {
	int code;
	const char *reason, *text;
} listen_statuses[] = {{200, "OK", NULL},
		       {400, "Bad Request", "this is no request of HTTP/1.1"},
		       {404, "Not Found", "the only path is /metrics"},
		       {405, "Method Not Allowed", "the methods are GET and HEAD"},
		       {431, "Request Header Fields Too Large", "the request is too long"},
		       {500, "Internal Server Error", "the pages cannot be read"},
		       {505, "HTTP Version Not Supported", "the versions are HTTP/1.0 and 1.1"}};

static const struct status *listen_status(int code)
{
	const struct status *status = listen_statuses;

	while (status->code != code)
		status++;
	return status;
}

static void listen_print_head(FILE *out, const struct status *status, size_t bytes)
{
	const time_t now = time(NULL);
	struct tm utc;
	char date[64];

	gmtime_r(&now, &utc);
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &utc);
	fprintf(out,
		"HTTP/1.1 %d %s\r\nDate: %s\r\nConnection: close\r\nContent-Length: %zu\r\n"
		"Content-Type: text/plain; %scharset=utf-8\r\n%s\r\n",
		status->code, status->reason, date, bytes,
		status->code == 200 ? "version=0.0.4; " : "",
		status->code == 405 ? "Allow: GET, HEAD\r\n" : "");
}

/* The text of an answer, on the heap.  *code: its status, which becomes 500 if the text cannot be printed.  NULL: no memory. */
static char *listen_text(const struct server *server, int *code, size_t *bytes)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, bytes);

	if (!out)
		return NULL;
	if (*code == 200 && server->print(out, server->user)) {
		*code = 500;
		rewind(out);
	}
	if (*code != 200)
		fprintf(out, "%s\n", listen_status(*code)->text);
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

/* Makes the answer.  Returns 0; -1: there is no memory. */
static int client_answer(struct client *client, const struct server *server, int code, int whole)
{
	size_t bytes = 0;
	char *text = listen_text(server, &code, &bytes);
	FILE *out = text ? open_memstream(&client->answer, &client->bytes) : NULL;
	int failed = !out;

	if (out) {
		listen_print_head(out, listen_status(code), bytes);
		if (whole)
			fwrite(text, 1, bytes, out);
		failed = fclose(out);
	}
	free(text);
	client->state = CLIENT_READS;
	client->deadline_ms = tool_now_ms() + LISTEN_MS;
	return failed ? -1 : 0;
}

/* ---------------------------------------------------------------------- a client -- */

static void client_drop(struct client *client)
{
	close(client->fd);
	free(client->answer);
	*client = (struct client){.fd = -1};
}

/* The functions of a state return 0, or -1: the client is to be dropped. */

static int client_ask(struct client *client, const struct server *server)
{
	const size_t room = LISTEN_REQUEST - client->asked;
	const ssize_t n = socket_read(client->fd, client->request + client->asked, room);
	const char *method;
	size_t head;
	int code;

	if (n < 0)
		return -1;
	client->asked += (size_t)n;
	head = http_head(client->request, client->asked);
	if (!head)
		return client->asked < LISTEN_REQUEST ? 0 : client_answer(client, server, 431, 1);
	code = http_judge(client->request, head, &method);
	return client_answer(client, server, code, strcmp(method, "HEAD") != 0);
}

static int client_read(struct client *client)
{
	const ssize_t n = socket_write(client->fd, client->answer + client->sent,
				       client->bytes - client->sent);

	if (n < 0)
		return -1;
	client->sent += (size_t)n;
	if (client->sent < client->bytes)
		return 0;
	shutdown(client->fd, SHUT_WR);
	client->state = CLIENT_CLOSES;
	client->deadline_ms = tool_now_ms() + LISTEN_LINGER_MS;
	return 0;
}

static int client_close(struct client *client)
{
	return socket_read(client->fd, client->request, LISTEN_REQUEST) < 0 ? -1 : 0;
}

static void client_advance(struct client *client, const struct server *server)
{
	int over = client->state == CLIENT_ASKS    ? client_ask(client, server)
		   : client->state == CLIENT_READS ? client_read(client)
						   : client_close(client);

	if (over)
		client_drop(client);
}

/* ---------------------------------------------------------------------- the server -- */

/* The place of a client that is not taken, or NULL. */
static struct client *server_find_free(struct server *server)
{
	for (int i = 0; i < LISTEN_CLIENTS; i++)
		if (server->client[i].fd < 0)
			return &server->client[i];
	return NULL;
}

static void server_accept(struct server *server)
{
	struct client *client = server_find_free(server);
	const int fd = client ? accept4(server->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC) : -1;

	if (fd >= 0) {
		const int buffer = LISTEN_BUFFER;

		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
		*client = (struct client){.fd = fd, .deadline_ms = tool_now_ms() + LISTEN_MS};
	} else if (client && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
		server->pause_ms = tool_now_ms() + LISTEN_PAUSE_MS;
	}
}

/* Returns the milliseconds until the next deadline, 0 if it is over; -1: there is none. */
static int64_t server_deadline(const struct server *server)
{
	const int64_t now = tool_now_ms();
	int64_t next = server->pause_ms > now ? server->pause_ms : INT64_MAX;

	for (int i = 0; i < LISTEN_CLIENTS; i++)
		if (server->client[i].fd >= 0 && server->client[i].deadline_ms < next)
			next = server->client[i].deadline_ms;
	return next == INT64_MAX ? -1 : next > now ? next - now : 0;
}

/* Waits once.  Returns 1 if the program is to end. */
static int server_step(struct server *server)
{
	const int64_t wait_ms = server_deadline(server);
	struct pollfd fds[LISTEN_CLIENTS + 1];
	const int accepts = server_find_free(server) && server->pause_ms <= tool_now_ms();
	int64_t now;

	for (int i = 0; i < LISTEN_CLIENTS; i++)
		fds[i] = (struct pollfd){
			.fd = server->client[i].fd,
			.events = server->client[i].state == CLIENT_READS ? POLLOUT : POLLIN};
	fds[LISTEN_CLIENTS] = (struct pollfd){.fd = accepts ? server->fd : -1, .events = POLLIN};
	if (screen_poll(fds, LISTEN_CLIENTS + 1, wait_ms))
		return 1;
	/*
	 * client_advance may make an answer for seconds.  The server first reads what each client has sent meanwhile, and an
	 * answer sets the client's new deadline.
	 */
	now = tool_now_ms();
	for (int i = 0; i < LISTEN_CLIENTS; i++) {
		if (fds[i].revents)
			client_advance(&server->client[i], server);
		if (server->client[i].fd >= 0 && server->client[i].deadline_ms <= now)
			client_drop(&server->client[i]);
	}
	if (fds[LISTEN_CLIENTS].revents)
		server_accept(server);
	return 0;
}

/* Finds the address.  Returns 0, or TOOL_USAGE. */
static int listen_parse(const char *where, struct address *address)
{
	const char *colon = strrchr(where, ':');
	char text[ADDRESS_TEXT_SIZE];
	int64_t port;

	if (tool_parse_int(colon ? colon + 1 : where, 0, UINT16_MAX, &port))
		return tool_usage("metrics",
				  "--listen wants [ADDRESS:]PORT, with a port from 0 to 65535, got "
				  "'%s'",
				  where);
	/* Only a server may name port 0. */
	snprintf(text, sizeof(text), "%.*s:1", colon ? (int)(colon - where) : 9,
		 colon ? where : "127.0.0.1");
	if (address_parse(text, "--listen", address))
		return tool_usage("metrics", "%s", error_text());
	address_set_port(address, (uint16_t)port);
	return 0;
}

static int listen_open(const char *where, struct server *server)
{
	char text[ADDRESS_TEXT_SIZE];
	struct address address;
	int error;

	if (listen_parse(where, &address))
		return TOOL_USAGE;
	if (socket_listen(&address, NULL, NULL, &server->fd, &error)) {
		fprintf(stderr, "coll metrics: %s\n", error_text());
		return 1;
	}
	address_format(&address, text);
	printf("listening at http://%s/metrics\n", text);
	fflush(stdout);
	return 0;
}

int listen_serve(const char *where, int (*print)(FILE *out, void *user), void *user)
{
	struct server server = {.print = print, .user = user};
	int status;

	for (int i = 0; i < LISTEN_CLIENTS; i++)
		server.client[i].fd = -1;
	status = listen_open(where, &server);
	if (status)
		return status;
	screen_catch();
	while (!server_step(&server))
		;
	for (int i = 0; i < LISTEN_CLIENTS; i++)
		if (server.client[i].fd >= 0)
			client_drop(&server.client[i]);
	close(server.fd);
	screen_raise();
	return 0;
}
