/* SPDX-License-Identifier: BSD-3-Clause */
/* tree_listen.c - rank 0 listens at the address that all ranks know, or learns who has its port. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "bootstrap/tree.h"

enum { LISTEN_ASK_MS = 3000 }; /* the time in which the owner of the port says who it is */

/* Dials the port as any other rank does.  Returns the code with which its owner refuses, and the text; 0: it says nothing. */
static int listen_ask_owner(const struct tree *t, const struct address_list *addrs)
{
	const int64_t deadline = clock_deadline(LISTEN_ASK_MS);
	struct dial dial = {
		.hs = &t->handshake, .peer = t->handshake.rank, .addresses = *addrs, .named = 1};
	struct pollfd fds[ADDRESS_MAX];
	struct poll_set set;
	int code;

	poll_set_init_small(&set, fds, ADDRESS_MAX);
	code = dial_begin(&dial);
	while (!code && dial.fd < 0 && clock_remaining(deadline) > 0) {
		poll_set_begin(&set, deadline);
		code = dial_prepare(&dial, &set);
		if (code)
			break;
		poll_set_wait(&set);
		code = dial_advance(&dial, &set);
	}
	dial_end(&dial);
	if (dial.fd >= 0)
		close(dial.fd);
	return code;
}

/*
 * A listen() at one of the addresses has failed.  If another process has the port it is asked who it is: it may be a
 * second rank 0.
 */
static int listen_error(const struct tree *t, int code, int err, const struct address_list *addrs)
{
	struct error_first first = {0};
	int owner;

	if (err != EADDRINUSE)
		return code;
	error_note(&first, code);
	owner = listen_ask_owner(t, addrs);
	if (owner == COLL_ERR_INVALID_USAGE)
		return error_set(owner, "%s; %s", first.text, error_text());
	return error_set(code, "%s; %s%s: end it, or give COLL_ROOT another port", first.text,
			 owner == COLL_ERR_INVALID_ARGUMENT || owner == COLL_ERR_PERMISSION
				 ? error_text()
				 : "another program has that port",
			 owner == COLL_ERR_PERMISSION ? ", which has that port" : "");
}

static int listen_each(struct tree *t, struct address_list *addrs)
{
	for (int i = 0; i < addrs->count; i++) {
		int fd, err = 0;
		int code = socket_listen(&addrs->item[i], NULL, NULL, &fd, &err);

		/* The address is not one of this host's, or this host lacks the family. */
		if (code && (err == EADDRNOTAVAIL || err == EAFNOSUPPORT))
			continue;
		if (code)
			return listen_error(
				t, code, err,
				&(struct address_list){.item = {addrs->item[i]}, .count = 1});
		t->acceptor.listeners.fd[t->acceptor.listeners.count++] = fd;
	}
	return 0;
}

/* Replaces root's addresses with the interface's; loopback addresses stay, which no other host reaches. */
static int listen_take_interface(const char *interface_name, struct address_list *addrs)
{
	const struct address_list root = *addrs;
	int code = address_of_interfaces(interface_name, addrs);

	if (code)
		return code;
	for (int i = 0; i < addrs->count; i++)
		address_set_port(&addrs->item[i], address_port(&root.item[0]));
	for (int i = 0; i < root.count && addrs->count < ADDRESS_MAX; i++)
		if (address_is_loopback(&root.item[i]) &&
		    !address_list_has(addrs, (const struct sockaddr *)&root.item[i].sa))
			addrs->item[addrs->count++] = root.item[i];
	return 0;
}

/*
 * Is root the name of a host that has only loopback addresses here?  Debian's /etc/hosts gives a host's own name
 * 127.0.1.1, while the other hosts know its real address.
 */
static int listen_is_own_name(const char *root, const struct address_list *addrs)
{
	struct address unused;

	for (int i = 0; i < addrs->count; i++)
		if (!address_is_loopback(&addrs->item[i]))
			return 0;
	return strcasestr(root, "localhost") == NULL && address_parse(root, "", &unused) != 0;
}

static int listen_anywhere(struct tree *t, uint16_t port)
{
	static const uint8_t ipv4[4] = {127, 0, 0, 1}, ipv6[16] = {[15] = 1};
	struct address_list own = {.count = 2};
	int err, code = socket_listen_any(port, &t->acceptor.listeners.fd[0], &port, &err);

	address_set_ip(&own.item[0], ipv4, sizeof(ipv4), port);
	address_set_ip(&own.item[1], ipv6, sizeof(ipv6), port);
	if (code)
		return listen_error(t, code, err, &own);
	t->acceptor.listeners.count = 1;
	return 0;
}

int tree_listen_root(struct tree *t, const char *root, const char *interface_name,
		     struct address_list *addrs)
{
	const int chosen = interface_name != NULL && interface_name[0] != '\0';
	const int own_name = !chosen && listen_is_own_name(root, addrs);
	uint16_t port;
	int code = 0;

	if (chosen)
		code = listen_take_interface(interface_name, addrs);
	if (code)
		return code;
	port = address_port(&addrs->item[0]);
	if (!own_name)
		code = listen_each(t, addrs);
	if (code || t->acceptor.listeners.count > 0)
		return code;
	/* The network may translate the address that the other ranks use. */
	log_info("%s %s: listening at port %u of all interfaces", root,
		 own_name ? "has only loopback addresses on this host"
			  : "is not an address of this host",
		 (unsigned)port);
	return listen_anywhere(t, port);
}

void tree_warn_open(const struct listeners *listeners)
{
	char text[ADDRESS_TEXT_SIZE];
	struct address address;

	for (int i = 0; i < listeners->count; i++) {
		address.len = sizeof(address.sa);
		if (getsockname(listeners->fd[i], (struct sockaddr *)&address.sa, &address.len) ||
		    address_is_loopback(&address))
			continue;
		address_format(&address, text);
		log_warn("rank 0 listens at %s and COLL_KEY is not set: anyone who reaches this "
			 "port may join the job; set COLL_KEY to the same secret text on all ranks",
			 text);
		return;
	}
}
