/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unique_id.c - ids, and the sockets that listen for them until rank 0 of the communicator begins.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bootstrap/star.h"
#include "config/config.h"
#include "base/error.h"

static const char id_prefix[] = "coll1:";

struct id_entry {
	struct id_entry *next;
	pid_t pid; /* the process that owns the sockets; a forked child has only copies */
	uint8_t key[BOOTSTRAP_KEY_SIZE];
	struct listeners listeners;
};

/* The list owns an id's sockets between coll_get_unique_id and coll_comm_init_rank. */
static pthread_mutex_t id_lock = PTHREAD_MUTEX_INITIALIZER;
static struct id_entry *id_entries;
/* The ids used last, so that the error of a second use can tell the cause. */
enum { ID_USED = 64 };
static uint8_t id_used[ID_USED][BOOTSTRAP_KEY_SIZE];
static unsigned id_used_count;

static void id_free(struct id_entry *e)
{
	if (e == NULL)
		return;
	listeners_close(&e->listeners);
	free(e);
}

/*
 * Takes out the entry of that key, or for NULL the first entry of another process; NULL: no such entry.
 */
static struct id_entry *id_remove(const uint8_t *key)
{
	struct id_entry **p, *found;

	pthread_mutex_lock(&id_lock);
	p = &id_entries;
	while (*p != NULL &&
	       (key != NULL ? memcmp((*p)->key, key, 16) != 0 : (*p)->pid == getpid()))
		p = &(*p)->next;
	found = *p;
	if (found != NULL)
		*p = found->next;
	pthread_mutex_unlock(&id_lock);
	return found;
}

void unique_id_drop_inherited(void)
{
	struct id_entry *e;

	while ((e = id_remove(NULL)) != NULL)
		id_free(e);
}

static void id_note_used(const uint8_t key[BOOTSTRAP_KEY_SIZE])
{
	pthread_mutex_lock(&id_lock);
	memcpy(id_used[id_used_count++ % ID_USED], key, BOOTSTRAP_KEY_SIZE);
	pthread_mutex_unlock(&id_lock);
}

static int id_was_used(const uint8_t key[BOOTSTRAP_KEY_SIZE])
{
	int used = 0;

	pthread_mutex_lock(&id_lock);
	for (unsigned i = 0; i < ID_USED && i < id_used_count; i++)
		used |= memcmp(id_used[i], key, BOOTSTRAP_KEY_SIZE) == 0;
	pthread_mutex_unlock(&id_lock);
	return used;
}

int unique_id_take(const uint8_t key[BOOTSTRAP_KEY_SIZE], struct listeners *listeners)
{
	struct id_entry *e = id_remove(key);

	if (e == NULL && id_was_used(key))
		return error_set(COLL_ERR_INVALID_USAGE,
				 "this unique id was used already, in process %d: call "
				 "coll_get_unique_id once for each communicator",
				 (int)getpid());
	if (e == NULL)
		return error_set(COLL_ERR_INVALID_USAGE,
				 "rank 0 must be in the process that made the unique id, once "
				 "for each id: this is process %d, which has no such id",
				 (int)getpid());
	*listeners = e->listeners;
	id_note_used(key);
	free(e);
	return 0;
}

/* ------------------------------------------------------------------- text of an id -- */

static int id_bad(const char *what)
{
	return error_set(COLL_ERR_INVALID_ARGUMENT,
			 "not a unique id of coll_get_unique_id: %s (expected "
			 "\"coll1:<32 hex digits>:<host:port>,...\")",
			 what);
}

static int id_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int id_parse_key(const char *hex, uint8_t key[BOOTSTRAP_KEY_SIZE])
{
	for (int i = 0; i < 16; i++) {
		int high = id_hex_digit(hex[2 * i]);
		int low = high < 0 ? -1 : id_hex_digit(hex[2 * i + 1]);

		if (low < 0)
			return id_bad("its key is not 32 hex digits");
		key[i] = (uint8_t)(16 * high + low);
	}
	return 0;
}

int unique_id_parse(const char *id, uint8_t key[BOOTSTRAP_KEY_SIZE], struct address_list *addrs)
{
	size_t prefix = sizeof(id_prefix) - 1;
	const char *p;

	if (id == NULL)
		return id_bad("it is NULL");
	if (strnlen(id, COLL_UNIQUE_ID_SIZE) == COLL_UNIQUE_ID_SIZE)
		return id_bad("it has no end");
	if (strncmp(id, id_prefix, prefix) != 0)
		return id_bad("it does not begin with \"coll1:\"");
	if (id_parse_key(id + prefix, key) != 0)
		return COLL_ERR_INVALID_ARGUMENT;
	p = id + prefix + 32;
	addrs->count = 0;
	if (*p != ':')
		return id_bad("its addresses are missing");
	while (*p != '\0') {
		char text[ADDRESS_TEXT_SIZE];
		size_t len = strcspn(++p, ",");

		if (addrs->count == ADDRESS_INET_MAX)
			return id_bad("it has too many addresses");
		if (len == 0 || len >= sizeof(text))
			return id_bad("one of its addresses is empty or too long");
		memcpy(text, p, len);
		text[len] = '\0';
		if (address_parse(text, "address in the unique id", &addrs->item[addrs->count]) !=
		    0)
			return COLL_ERR_INVALID_ARGUMENT;
		addrs->count++;
		p += len;
	}
	return 0;
}

static int id_print(const uint8_t key[BOOTSTRAP_KEY_SIZE], const struct address_list *addrs,
		    char *id, size_t size)
{
	char text[COLL_UNIQUE_ID_SIZE];
	size_t used = (size_t)snprintf(text, sizeof(text), "%s", id_prefix);

	for (int i = 0; i < 16; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%02x", key[i]);
	for (int i = 0; i < addrs->count; i++) {
		char addr[ADDRESS_TEXT_SIZE];

		address_format(&addrs->item[i], addr);
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%c%s", i ? ',' : ':',
					 addr);
	}
	if (used >= size)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "the unique id needs %zu bytes, but there is room for %zu: use "
				 "COLL_UNIQUE_ID_SIZE",
				 used + 1, size);
	memcpy(id, text, used + 1);
	return 0;
}

/* ------------------------------------------------------------------------- making -- */

/* Listens at every address of the chosen interface; without a choice one socket listens at all addresses. */
static int id_listen(struct id_entry *e, const char *interface_name, struct address_list *addrs)
{
	uint16_t port;
	int code = address_of_interfaces(interface_name, addrs), err;

	if (code)
		return code;
	if (interface_name == NULL || interface_name[0] == '\0') {
		code = socket_listen_any(0, &e->listeners.fd[0], &port, &err);
		e->listeners.count = code == 0;
		for (int i = 0; code == 0 && i < addrs->count; i++)
			address_set_port(&addrs->item[i], port);
		return code;
	}
	for (int i = 0; code == 0 && i < addrs->count; i++) {
		code = socket_listen(&addrs->item[i], NULL, NULL, &e->listeners.fd[i], &err);
		e->listeners.count += code == 0;
	}
	return code;
}

int bootstrap_make_id(char *id, size_t size, const char *interface_name)
{
	struct id_entry *e = calloc(1, sizeof(*e));
	struct address_list addrs;
	int code;

	unique_id_drop_inherited();
	if (e == NULL)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a unique id");
	e->pid = getpid();
	code = random_bytes(e->key, sizeof(e->key));
	if (code == 0)
		code = id_listen(e, interface_name, &addrs);
	if (code == 0)
		code = id_print(e->key, &addrs, id, size);
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

COLL_API coll_result_t coll_get_unique_id(char *id, size_t size)
{
	struct config *config = NULL;
	int code;

	if (id == NULL)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "id is NULL");
	code = config_load(NULL, &config);
	if (code == 0)
		code = bootstrap_check_interface(config);
	if (code == 0)
		code = bootstrap_make_id(id, size, config_string(config, "interface"));
	config_free(config);
	return code;
}
