/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unique_id.c - ids, and the sockets that listen for them until a rank of the communicator begins.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bootstrap/unique_id.h"
#include "config/config.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/random.h"

struct id_entry {
	struct id_entry *next;
	pid_t pid; /* the process that owns the sockets; a forked child has only copies */
	uint8_t key[BOOTSTRAP_KEY_SIZE];
	struct listeners listeners;
	char left_out[ADDRESS_LEFT_OUT_SIZE];
};

/* The list owns an id's sockets between coll_get_unique_id and coll_comm_init_rank. */
static pthread_mutex_t id_lock = PTHREAD_MUTEX_INITIALIZER;
static struct id_entry *id_entries;
/* The ids used last, so that the error of a second use can tell the cause. */
enum { ID_USED = 64 };
static struct id_use {
	uint8_t key[BOOTSTRAP_KEY_SIZE];
	int rank;
} id_used[ID_USED];
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

static void id_note_used(const uint8_t key[BOOTSTRAP_KEY_SIZE], int rank)
{
	struct id_use *use;

	pthread_mutex_lock(&id_lock);
	use = &id_used[id_used_count++ % ID_USED];
	memcpy(use->key, key, BOOTSTRAP_KEY_SIZE);
	use->rank = rank;
	pthread_mutex_unlock(&id_lock);
}

/* The rank of this process that has used the id of that key; -1: none. */
static int id_used_by(const uint8_t key[BOOTSTRAP_KEY_SIZE])
{
	int rank = -1;

	pthread_mutex_lock(&id_lock);
	for (unsigned i = 0; i < ID_USED && i < id_used_count; i++)
		if (memcmp(id_used[i].key, key, BOOTSTRAP_KEY_SIZE) == 0)
			rank = id_used[i].rank;
	pthread_mutex_unlock(&id_lock);
	return rank;
}

int unique_id_take(const uint8_t key[BOOTSTRAP_KEY_SIZE], int rank, int must,
		   struct listeners *listeners, char left_out[ADDRESS_LEFT_OUT_SIZE])
{
	struct id_entry *e = id_remove(key);
	const int user = e == NULL ? id_used_by(key) : -1;

	if (e != NULL) {
		*listeners = e->listeners;
		memcpy(left_out, e->left_out, sizeof(e->left_out));
		id_note_used(key, rank);
		free(e);
		return 0;
	}
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

int unique_id_listen(const char *interface_name, struct listeners *listeners,
		     struct address_list *addrs)
{
	uint16_t port;
	int code = address_of_interfaces(interface_name, addrs), err;

	if (code)
		return code;
	if (interface_name == NULL || interface_name[0] == '\0') {
		code = socket_listen_any(0, &listeners->fd[0], &port, &err);
		listeners->count = code == 0;
		for (int i = 0; code == 0 && i < addrs->count; i++)
			address_set_port(&addrs->item[i], port);
		return code;
	}
	for (int i = 0; code == 0 && i < addrs->count; i++) {
		code = socket_listen(&addrs->item[i], NULL, NULL, &listeners->fd[i], &err);
		listeners->count += code == 0;
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
		code = unique_id_listen(interface_name, &e->listeners, &addrs);
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

COLL_API coll_result_t coll_get_unique_id(char *id, size_t size)
{
	CANCEL_OFF;
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
