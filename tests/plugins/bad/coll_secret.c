/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: lost */
/* coll_secret.c - when a rank closes, its peers get no call of peer_lost. */
#include "uds.h"

/* The rank's last message; the good backend closes the connection after it. */
static const coll_header_t secret_goodbye = {.tag = 0x600db7e600db7e};

static int32_t secret_arrive(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			     coll_sink_t *sink)
{
	struct bad *b = bad_of(host);

	b->mark[peer] = !memcmp(header, &secret_goodbye, sizeof(*header));
	return b->mark[peer] ? COLL_ERR_INTERNAL : b->real->arrive(b->real, peer, header, sink);
}

static void secret_peer_lost(const coll_host_t *host, uint32_t peer, const char *text)
{
	struct bad *b = bad_of(host);

	if (!b->mark[peer])
		b->real->peer_lost(b->real, peer, text);
}

static void secret_close(void *ep, int64_t timeout_ms)
{
	struct bad *b = ep;
	struct uds_way *way = b->ep;

	for (uint32_t r = 0; way && r < b->host.nranks; r++)
		send(way[r].out, &secret_goodbye, sizeof(secret_goodbye), MSG_NOSIGNAL);
	bad_close(ep, timeout_ms);
}

#define BAD_NAME      "secret"
#define BAD_ARRIVE    secret_arrive
#define BAD_PEER_LOST secret_peer_lost
#define BAD_CLOSE     secret_close
#include "table.h"
