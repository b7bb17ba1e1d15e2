/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * protocol.h - what a tool that looks at a job and the server of a host (serve.h) say to each other.
 *
 * Both ends of a connection prove the *look key* (socket/handshake.h), which follows from the job's key.  Who has the look key can
 * look at the job, but cannot join it: a random key of the job cannot be found from the look key (a word that somebody chose for
 * COLL_KEY can be guessed).  Then the tool sends requests, one at a time, and the server answers each with a frame
 * (meet/tree_protocol.h, with both of its macs):
 *
 *   SERVE_HOSTS               struct serve_hosts, and a struct serve_host for each host
 *   SERVE_PAGE, from a rank   struct serve_page, and a struct serve_block for each block of the page of the next such rank on
 *                             this host that has a page; or SERVE_END
 *
 * The head of each answer has the rank of the server.  A page travels as the server's copy of it (page/page_read.h), without the
 * blocks that are zeros, and without the look key.  Numbers are in the machines' byte order, which the handshake compares.  Nothing
 * is encrypted.
 */
#ifndef CORE_SERVE_PROTOCOL_H
#define CORE_SERVE_PROTOCOL_H

#include "meet/tree_protocol.h"
#include "page/page_read.h"

#include <stdint.h>

enum {
	SERVE_VERSION = 1,
	SERVE_ADDRESSES = 4, /* of a host, best first */
	SERVE_HOSTS_MOST = 1 << 16,
	SERVE_BLOCKS = PAGE_BYTES / PAGE_BLOCK /* of a page */
};

/* The type of a frame; the numbers of TREE_* stay free. */
enum serve_type { SERVE_HOSTS = 32, SERVE_PAGE = 33, SERVE_END = 34 };

/* The handshake knows two ends, whatever the job: the server, and any tool. */
enum { SERVE_SERVER = 0, SERVE_TOOL = 1, SERVE_ENDS = 2 };

struct serve_keys {
	uint8_t look[HANDSHAKE_KEY_SIZE];
	uint8_t body[HANDSHAKE_KEY_SIZE]; /* of the bodies of frames; follows from `look` */
};

struct serve_address {
	uint8_t ipv6, reserved;
	uint8_t port[2]; /* big-endian */
	uint8_t ip[16];  /* of IPv4 the first 4 */
};

/* What each rank tells the others: where its host's server listens, if this rank has it. */
struct serve_share {
	uint32_t count;
	struct serve_address address[SERVE_ADDRESSES];
};

/* A host: ranks that share a network and see the same pages. */
struct serve_host {
	char name[64];
	int32_t rank, ranks; /* the lowest of its ranks, which serves; how many ranks it has */
	struct serve_share share;
};

struct serve_hosts {
	uint64_t job;
	int32_t nranks, nhosts;
	struct serve_host host[];
};

struct serve_block {
	uint32_t number, reserved; /* within the page */
	uint8_t bytes[PAGE_BLOCK];
};

struct serve_page {
	int64_t now_us; /* as in struct page_view, and the next two */
	int32_t life;
	char state, reserved[3];
	struct serve_block block[];
};

_Static_assert(sizeof(struct serve_share) == 4 + SERVE_ADDRESSES * 20, "no gaps");
_Static_assert(sizeof(struct serve_host) == 72 + sizeof(struct serve_share), "no gaps");
_Static_assert(sizeof(struct serve_hosts) == 16 && sizeof(struct serve_page) == 16, "no gaps");

enum {
	SERVE_HOSTS_SIZE = sizeof(struct serve_hosts) +
			   SERVE_HOSTS_MOST * sizeof(struct serve_host), /* at most */
	SERVE_PAGE_SIZE = sizeof(struct serve_page) + SERVE_BLOCKS * sizeof(struct serve_block)
};

/* Makes the look key from the key of the job's bootstrap. */
void serve_look_key(const uint8_t job[HANDSHAKE_KEY_SIZE], uint8_t look[HANDSHAKE_KEY_SIZE]);
/* Makes both keys from the look key. */
void serve_make_keys(const uint8_t look[HANDSHAKE_KEY_SIZE], struct serve_keys *keys);
/* Fills *hs for the end SERVE_SERVER or SERVE_TOOL, which logs nothing.  *keys must live as long as *hs. */
void serve_handshake(struct handshake *hs, int end, const struct serve_keys *keys);

/* A share has the loopback addresses of the list only if the list has no other addresses. */
void serve_put_addresses(const struct address_list *list, struct serve_share *share);
/* The share may have any bytes. */
void serve_get_addresses(const struct serve_share *share, struct address_list *list);

/*
 * Makes the body of a SERVE_PAGE behind `room` bytes of free space.  Returns memory for free(), or NULL: there is none.  *size: of
 * the body.
 */
uint8_t *serve_pack_page(const struct page_view *view, size_t room, size_t *size);
/* Makes the page of a body, which may have any bytes.  Returns NULL with error_text(). */
struct page_view *serve_unpack_page(const uint8_t *body, size_t size);
/* Is the body that of a SERVE_HOSTS?  Its hosts then begin at *host; their bytes may be anything. */
int serve_unpack_hosts(const uint8_t *body, size_t size, struct serve_hosts *hosts);

#endif
