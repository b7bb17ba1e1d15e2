/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unique_id.c - ids, their text, and the sockets that listen for them until a rank of the communicator begins.
 *
 * The text of a unique id is "coll2:" and then, in base64 (RFC 4648, section 5, without padding), the
 * key, a port and the addresses of the listening sockets, best first.
 *
 * An address is a byte of ID_* bits and then, as the bits say, 4 or 16 bytes of IP address and 2 of a port of its
 * own.  Numbers are big-endian.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "meet/tree.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "config/config.h"

enum {
	ID_IPV6 = 1,
	ID_LOCALHOST = 2, /* 127.0.0.1 or ::1, which has no bytes */
	ID_PORT = 4,      /* another port than the id's */
	ID_MORE = 8, /* of the first address: the id has no space for all addresses of the host */
	ID_BITS = 15
};
/* The most bytes of an id, and the fewest: a key, a port and an address without bytes. */
enum { ID_BYTES_MAX = 90, ID_BYTES_MIN = BOOTSTRAP_KEY_SIZE + 3 };

static const char id_prefix[] = "coll2:";
static const char id_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

_Static_assert(sizeof(id_prefix) + (ID_BYTES_MAX * 8 + 5) / 6 <= UNIQUE_ID_TEXT_MAX,
	       "the longest id fits");

/* ---------------------------------------------------------------------- base64 -- */

static void id_encode(const uint8_t *bytes, size_t n, char *text)
{
	unsigned bits = 0, value = 0;

	for (size_t i = 0; i < n; i++) {
		value = (value << 8 | bytes[i]) & 0xffff;
		for (bits += 8; bits >= 6; bits -= 6)
			*text++ = id_digits[value >> (bits - 6) & 63];
	}
	if (bits > 0)
		*text++ = id_digits[value << (6 - bits) & 63];
	*text = '\0';
}

/* Returns the number of bytes, or 0 if the text is no base64 of at most ID_BYTES_MAX bytes. */
static size_t id_decode(const char *text, uint8_t bytes[ID_BYTES_MAX])
{
	unsigned bits = 0, value = 0;
	size_t n = 0;

	for (; *text != '\0'; text++) {
		const char *digit = strchr(id_digits, *text);

		if (digit == NULL)
			return 0;
		value = (value << 6 | (unsigned)(digit - id_digits)) & 0xffff;
		bits += 6;
		if (bits < 8)
			continue;
		if (n == ID_BYTES_MAX)
			return 0;
		bits -= 8;
		bytes[n++] = (uint8_t)(value >> bits);
	}
	/* The last digit has bits without a byte: they are 0, so that each id has one text. */
	return bits < 6 && (value & ((1u << bits) - 1)) == 0 ? n : 0;
}

/* --------------------------------------------------------------------- addresses -- */

static int id_is_localhost(const struct address *address)
{
	const uint32_t ipv4 = htonl(INADDR_LOOPBACK);
	const void *localhost = address->sa.ss_family == AF_INET6 ? (const void *)&in6addr_loopback
								  : (const void *)&ipv4;

	return memcmp(address_ip(address), localhost, address_ip_size(address)) == 0;
}

/* Writes an address, and returns the number of its bytes: at most 19. */
static size_t id_put_address(const struct address *address, uint16_t port, uint8_t *to)
{
	const uint16_t own = address_port(address), own_be = htons(own);
	size_t n = 1;

	to[0] = (uint8_t)((address->sa.ss_family == AF_INET6 ? ID_IPV6 : 0) |
			  (id_is_localhost(address) ? ID_LOCALHOST : 0) |
			  (own != port ? ID_PORT : 0));
	if (!(to[0] & ID_LOCALHOST)) {
		memcpy(to + n, address_ip(address), address_ip_size(address));
		n += address_ip_size(address);
	}
	if (to[0] & ID_PORT) {
		memcpy(to + n, &own_be, 2);
		n += 2;
	}
	return n;
}

/* Takes n bytes of the rest, or returns 0 if there are not so many. */
static int id_read(const uint8_t **at, const uint8_t *end, void *to, size_t n)
{
	if ((size_t)(end - *at) < n)
		return 0;
	memcpy(to, *at, n);
	*at += n;
	return 1;
}

static int id_read_address(const uint8_t **at, const uint8_t *end, uint16_t port,
			   struct address_list *list)
{
	const uint32_t ipv4 = htonl(INADDR_LOOPBACK);
	struct address *address = &list->item[list->count];
	uint16_t own = htons(port);
	uint8_t bits, ip[16];
	size_t size;

	if (list->count == ADDRESS_INET_MAX || !id_read(at, end, &bits, 1) || bits & ~ID_BITS ||
	    (bits & ID_MORE && list->count > 0))
		return 0;
	size = bits & ID_IPV6 ? 16 : 4;
	memcpy(ip, bits & ID_IPV6 ? (const void *)&in6addr_loopback : (const void *)&ipv4, size);
	if ((!(bits & ID_LOCALHOST) && !id_read(at, end, ip, size)) ||
	    (bits & ID_PORT && !id_read(at, end, &own, 2)) || own == 0)
		return 0;
	address_set_ip(address, ip, size, ntohs(own));
	address->loopback = address_is_loopback(address);
	list->more |= (bits & ID_MORE) != 0;
	list->count++;
	return 1;
}

/* ---------------------------------------------------------------------- the text -- */

/*
 * If the id has no space for all addresses, it keeps the best ones, and the addresses that only this host can reach: such
 * an address costs a byte, and a host can always reach itself.
 */
int unique_id_print(const uint8_t key[BOOTSTRAP_KEY_SIZE], struct address_list *addresses, char *id,
		    size_t size)
{
	const uint16_t port = address_port(&addresses->item[0]), port_be = htons(port);
	uint8_t bytes[ID_BYTES_MAX], one[32];
	char text[UNIQUE_ID_TEXT_MAX], dropped[ADDRESS_TEXT_SIZE];
	size_t used = BOOTSTRAP_KEY_SIZE + 2, reserved = 0;

	memcpy(bytes, key, BOOTSTRAP_KEY_SIZE);
	memcpy(bytes + BOOTSTRAP_KEY_SIZE, &port_be, 2);
	for (int i = 0; i < addresses->count; i++)
		if (id_is_localhost(&addresses->item[i]))
			reserved += id_put_address(&addresses->item[i], port, one);
	for (int i = 0; i < addresses->count; i++) {
		size_t n = id_put_address(&addresses->item[i], port, one);

		if (id_is_localhost(&addresses->item[i])) {
			reserved -= n;
		} else if (used + n + reserved > sizeof(bytes)) {
			address_format(&addresses->item[i], dropped);
			address_list_leave_out(addresses, dropped);
			continue;
		}
		memcpy(bytes + used, one, n);
		used += n;
	}
	if (addresses->more) {
		bytes[BOOTSTRAP_KEY_SIZE + 2] |= ID_MORE;
		log_info("a unique id has no room for all addresses of this host, without: %s; if "
			 "other ranks need one of these, name its interface in the option "
			 "interface",
			 addresses->left_out);
	}
	memcpy(text, id_prefix, sizeof(id_prefix));
	id_encode(bytes, used, text + sizeof(id_prefix) - 1);
	if (strlen(text) >= size)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "the unique id needs %zu bytes, but there is room for %zu: use "
				 "COLL_UNIQUE_ID_SIZE",
				 strlen(text) + 1, size);
	memcpy(id, text, strlen(text) + 1);
	return 0;
}

static int id_bad(const char *what)
{
	return error_set(COLL_ERR_INVALID_ARGUMENT,
			 "not a unique id of coll_get_unique_id: %s (expected \"coll2:\" and "
			 "letters, digits, - and _)",
			 what);
}

int unique_id_parse(const char *id, uint8_t key[BOOTSTRAP_KEY_SIZE], struct address_list *addresses)
{
	uint8_t bytes[ID_BYTES_MAX];
	const uint8_t *at = bytes, *end;
	uint16_t port = 0; /* gcc 14 does not see that ID_BYTES_MIN covers it */

	if (id == NULL)
		return id_bad("it is NULL");
	if (strnlen(id, UNIQUE_ID_TEXT_MAX) == UNIQUE_ID_TEXT_MAX)
		return id_bad("it is too long");
	if (strncmp(id, id_prefix, sizeof(id_prefix) - 1) != 0)
		return id_bad("it does not begin with \"coll2:\"");
	end = bytes + id_decode(id + sizeof(id_prefix) - 1, bytes);
	if (end < bytes + ID_BYTES_MIN)
		return id_bad("it is cut off or has other characters");
	id_read(&at, end, key, BOOTSTRAP_KEY_SIZE);
	id_read(&at, end, &port, sizeof(port));
	*addresses = (struct address_list){.count = 0};
	while (at < end)
		if (!id_read_address(&at, end, ntohs(port), addresses))
			return id_bad("its addresses are wrong");
	return 0;
}

/* ------------------------------------------------------ the sockets of an id -- */

struct id_entry {
	struct id_entry *next;
	pid_t pid; /* the process that owns the sockets; a forked child has only copies */
	int user;  /* the rank that has used the id, and has the sockets; -1: none yet */
	uint8_t key[BOOTSTRAP_KEY_SIZE];
	struct listeners listeners;
	char left_out[ADDRESS_LEFT_OUT_SIZE];
};

/* The list remembers so many used ids, so that the error of a second use can tell the cause. */
enum { ID_USED = 64 };
static pthread_mutex_t id_lock = PTHREAD_MUTEX_INITIALIZER;
static struct id_entry *id_entries; /* the id made or used last comes first */

static void id_free(struct id_entry *e)
{
	listeners_close(&e->listeners);
	free(e);
}

/* Removes the ids of another process that are not used, and the oldest used ids.  The caller holds the lock. */
static void id_forget(void)
{
	int used = 0;

	for (struct id_entry **p = &id_entries; *p != NULL;) {
		struct id_entry *e = *p;

		used += e->user >= 0;
		if (e->user >= 0 ? used <= ID_USED : e->pid == getpid()) {
			p = &e->next;
			continue;
		}
		*p = e->next;
		id_free(e);
	}
}

void unique_id_drop_inherited(void)
{
	pthread_mutex_lock(&id_lock);
	id_forget();
	pthread_mutex_unlock(&id_lock);
}

/* Takes the sockets of the id.  Returns 1, or 0 with the rank that has used the id before, or -1. */
static int id_take(const uint8_t key[BOOTSTRAP_KEY_SIZE], int rank, struct listeners *listeners,
		   char left_out[ADDRESS_LEFT_OUT_SIZE], int *user)
{
	struct id_entry **at = &id_entries, *e;
	int taken;

	pthread_mutex_lock(&id_lock);
	while (*at != NULL && memcmp((*at)->key, key, BOOTSTRAP_KEY_SIZE) != 0)
		at = &(*at)->next;
	e = *at;
	*user = e != NULL ? e->user : -1;
	taken = e != NULL && e->user < 0;
	if (taken) {
		*listeners = e->listeners;
		memcpy(left_out, e->left_out, sizeof(e->left_out));
		e->listeners.count = 0;
		e->user = rank;
		*at = e->next; /* id_forget keeps the ids that were used last */
		e->next = id_entries;
		id_entries = e;
	}
	pthread_mutex_unlock(&id_lock);
	return taken;
}

int unique_id_take(const uint8_t key[BOOTSTRAP_KEY_SIZE], int rank, int must,
		   struct listeners *listeners, char left_out[ADDRESS_LEFT_OUT_SIZE])
{
	int user;

	if (id_take(key, rank, listeners, left_out, &user))
		return 0;
	if (user == rank || (must && user >= 0))
		return error_set(COLL_ERR_INVALID_USAGE,
				 "this unique id was used already, in process %d: call "
				 "coll_get_unique_id once for each communicator",
				 (int)getpid());
	if (must)
		return error_set(COLL_ERR_INVALID_USAGE,
				 "rank 0 must be in the process that made the unique id, once "
				 "for each id: this is process %d, which has no such id",
				 (int)getpid());
	return 0;
}

/* ------------------------------------------------------------------------- making -- */

int bootstrap_make_id(char *id, size_t size, const char *interface_name)
{
	struct id_entry *e = calloc(1, sizeof(*e));
	struct address_list addrs;
	int code;

	unique_id_drop_inherited();
	if (e == NULL)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a unique id");
	e->pid = getpid();
	e->user = -1;
	code = random_bytes(e->key, sizeof(e->key));
	if (code == 0)
		code = listeners_open(interface_name, 0, &e->listeners, &addrs);
	if (code == 0)
		code = unique_id_print(e->key, &addrs, id, size);
	if (code == 0)
		memcpy(e->left_out, addrs.left_out, sizeof(e->left_out));
	if (code) {
		id_free(e);
		return code;
	}
	pthread_mutex_lock(&id_lock);
	e->next = id_entries;
	id_entries = e;
	pthread_mutex_unlock(&id_lock);
	return 0;
}

int bootstrap_check_interface(const struct config *config)
{
	const char *name = config_string(config, "interface");
	struct address_list addresses;
	int code;

	if (name == NULL || name[0] == '\0')
		return COLL_SUCCESS;
	code = address_of_interfaces(name, &addresses);
	if (code == COLL_SUCCESS)
		return COLL_SUCCESS;
	return error_set(code, "option 'interface', set by %s: %s",
			 config_source(config, "interface"), error_text());
}
