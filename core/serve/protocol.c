/* SPDX-License-Identifier: BSD-3-Clause */
/* protocol.c - keys, addresses and pages as bytes: see protocol.h. */
#include "serve/protocol.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/siphash.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---------------------------------------------------------------------------- keys -- */

static void serve_derive(const uint8_t key[HANDSHAKE_KEY_SIZE], const char *label,
			 uint8_t out[HANDSHAKE_KEY_SIZE])
{
	siphash128(key, label, strlen(label), out);
}

void serve_look_key(const uint8_t job[HANDSHAKE_KEY_SIZE], uint8_t look[HANDSHAKE_KEY_SIZE])
{
	serve_derive(job, "libcoll key for looking", look);
}

void serve_make_keys(const uint8_t look[HANDSHAKE_KEY_SIZE], struct serve_keys *keys)
{
	memcpy(keys->look, look, sizeof(keys->look));
	serve_derive(look, "libcoll bodies of pages", keys->body);
}

static void serve_mac(const void *user, const void *data, size_t len,
		      uint8_t mac[HANDSHAKE_MAC_SIZE])
{
	siphash128(((const struct serve_keys *)user)->look, data, len, mac);
}

static void serve_tune(const void *user, int fd, int family, int local)
{
	(void)user;
	(void)family;
	(void)local;
	socket_no_delay(fd);
}

static void serve_log_nothing(const void *user, int level, const char *text)
{
	(void)user;
	(void)level;
	(void)text;
}

void serve_handshake(struct handshake *hs, int end, const struct serve_keys *keys)
{
	*hs = (struct handshake){.magic = {'C', 'O', 'L', 'L', 'L', 'O', 'O', 'K'},
				 .version = SERVE_VERSION,
				 .name = "watch",
				 .rank = (uint32_t)end,
				 .nranks = SERVE_ENDS,
				 .mac = serve_mac,
				 .log = serve_log_nothing,
				 .tune = serve_tune,
				 .user = keys};
}

/* ----------------------------------------------------------------------- addresses -- */

void serve_put_addresses(const struct address_list *list, struct serve_share *share)
{
	int only_loopback = 1;

	memset(share, 0, sizeof(*share));
	for (int i = 0; i < list->count; i++)
		only_loopback &= list->item[i].loopback;
	for (int i = 0; i < list->count && share->count < SERVE_ADDRESSES; i++) {
		const struct address *from = &list->item[i];
		struct serve_address *to = &share->address[share->count];

		if (from->loopback && !only_loopback)
			continue;
		to->ipv6 = from->sa.ss_family == AF_INET6;
		to->port[0] = (uint8_t)(address_port(from) >> 8);
		to->port[1] = (uint8_t)address_port(from);
		memcpy(to->ip, address_ip(from), address_ip_size(from));
		share->count++;
	}
}

void serve_get_addresses(const struct serve_share *share, struct address_list *list)
{
	memset(list, 0, sizeof(*list));
	for (uint32_t i = 0; i < share->count && i < SERVE_ADDRESSES; i++) {
		const struct serve_address *from = &share->address[i];
		const uint16_t port = (uint16_t)(from->port[0] << 8 | from->port[1]);

		if (port)
			address_set_ip(&list->item[list->count++], from->ip, from->ipv6 ? 16 : 4,
				       port);
	}
}

/* --------------------------------------------------------------------------- pages -- */

static const uint8_t serve_zeros[PAGE_BLOCK];

/* Appends the blocks of `bytes` that are not zeros.  at: where they begin in the page. */
static void serve_pack(struct serve_page *page, size_t *count, const void *bytes, size_t size,
		       size_t at)
{
	for (size_t done = 0; done < size; done += PAGE_BLOCK) {
		const uint8_t *block = (const uint8_t *)bytes + done;
		struct serve_block *to = &page->block[*count];

		if (!memcmp(block, serve_zeros, PAGE_BLOCK))
			continue;
		to->number = (uint32_t)((at + done) / PAGE_BLOCK);
		to->reserved = 0;
		memcpy(to->bytes, block, PAGE_BLOCK);
		++*count;
	}
}

uint8_t *serve_pack_page(const struct page_view *view, size_t room, size_t *size)
{
	const size_t most =
		sizeof(struct serve_page) +
		(1 + (size_t)view->comms * (PAGE_SLOT / PAGE_BLOCK)) * sizeof(struct serve_block);
	uint8_t *memory = malloc(room + most);
	union {
		struct page_head head;
		uint8_t block[PAGE_BLOCK];
	} first;
	struct serve_page *page = (void *)(memory + room);
	size_t count = 0;

	if (!memory)
		return NULL;
	memset(&first, 0, sizeof(first));
	first.head = view->head;
	memset(first.head.look_key, 0, sizeof(first.head.look_key));
	*page = (struct serve_page){
		.now_us = view->now_us, .life = (int32_t)view->life, .state = view->state};
	serve_pack(page, &count, &first, sizeof(first), 0);
	for (int i = 0; i < view->comms; i++)
		serve_pack(page, &count, view->comm[i], PAGE_SLOT,
			   PAGE_BLOCK + (size_t)i * PAGE_SLOT);
	*size = sizeof(*page) + count * sizeof(struct serve_block);
	return memory;
}

/* Writes the blocks to their places in a file in memory, which page_view_read then takes for hostile. */
static int serve_write_blocks(int fd, const uint8_t *body, size_t count)
{
	struct serve_block block;

	for (size_t i = 0; i < count; i++) {
		memcpy(&block, body + i * sizeof(block), sizeof(block));
		if (block.number >= SERVE_BLOCKS)
			return error_set(COLL_ERR_REMOTE, "it has a block %u, but %d are the most",
					 block.number, SERVE_BLOCKS);
		if (pwrite(fd, block.bytes, PAGE_BLOCK, (off_t)block.number * PAGE_BLOCK) !=
		    PAGE_BLOCK)
			return error_set(COLL_ERR_NO_MEMORY, "no memory for it");
	}
	return COLL_SUCCESS;
}

static struct page_view *serve_view(const struct serve_page *page, const uint8_t *blocks,
				    size_t count)
{
	const int fd = descriptor_lift(memfd_create("coll-page", MFD_CLOEXEC));
	struct page_view *view = NULL;

	if (fd < 0 || ftruncate(fd, PAGE_BYTES))
		error_set(COLL_ERR_NO_MEMORY, "no memory for it");
	else if (!serve_write_blocks(fd, blocks, count))
		view = page_view_read(fd);
	if (fd >= 0)
		close(fd);
	if (!view)
		return NULL;
	/* page_view_read has asked the clock and the processes of this host, but the page is of another host. */
	view->now_us = page->now_us;
	page_bound_time(&view->now_us);
	view->life = page->life == PAGE_LIVES || page->life == PAGE_GONE
			     ? (enum page_life)page->life
			     : PAGE_UNKNOWN;
	view->state = isalpha((unsigned char)page->state) ? page->state : '?';
	return view;
}

struct page_view *serve_unpack_page(const uint8_t *body, size_t size)
{
	struct serve_page page;

	if (size < sizeof(page) || (size - sizeof(page)) % sizeof(struct serve_block) ||
	    size > SERVE_PAGE_SIZE) {
		error_set(COLL_ERR_REMOTE, "it has %zu bytes, which are no page", size);
		return NULL;
	}
	memcpy(&page, body, sizeof(page));
	return serve_view(&page, body + sizeof(page),
			  (size - sizeof(page)) / sizeof(struct serve_block));
}

int serve_unpack_hosts(const uint8_t *body, size_t size, struct serve_hosts *hosts)
{
	if (size < sizeof(*hosts))
		return error_set(COLL_ERR_REMOTE, "its list of hosts is cut off");
	memcpy(hosts, body, sizeof(*hosts));
	if (hosts->nranks < 1 || hosts->nhosts < 1 || hosts->nhosts > SERVE_HOSTS_MOST ||
	    size != sizeof(*hosts) + (size_t)hosts->nhosts * sizeof(struct serve_host))
		return error_set(COLL_ERR_REMOTE, "its list of %d hosts has %zu bytes",
				 hosts->nhosts, size);
	return COLL_SUCCESS;
}
