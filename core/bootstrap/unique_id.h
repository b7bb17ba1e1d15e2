/* SPDX-License-Identifier: BSD-3-Clause */
/* unique_id.h - unique ids: their text, and the sockets that listen for them; for core/bootstrap/ only. */
#ifndef CORE_BOOTSTRAP_UNIQUE_ID_H
#define CORE_BOOTSTRAP_UNIQUE_ID_H

#include "bootstrap/bootstrap.h"
#include "socket/acceptor.h"

/* A unique id has fewer bytes than this, as many as an ncclUniqueId has. */
enum { UNIQUE_ID_TEXT_MAX = 128 };

/*
 * id: receives the text.  COLL_ERR_INVALID_ARGUMENT: it needs more than `size` bytes with its NUL.  Addresses without
 * room join addresses->left_out, and a log line names these.
 */
int unique_id_print(const uint8_t key[BOOTSTRAP_KEY_SIZE], struct address_list *addresses, char *id,
		    size_t size);
int unique_id_parse(const char *id, uint8_t key[BOOTSTRAP_KEY_SIZE],
		    struct address_list *addresses);

/*
 * Hands over the listening sockets that this process made for the id, and the addresses for which the id has no room;
 * or no sockets if the process of another rank made the id; must: that is an error.
 */
int unique_id_take(const uint8_t key[BOOTSTRAP_KEY_SIZE], int rank, int must,
		   struct listeners *listeners, char left_out[ADDRESS_LEFT_OUT_SIZE]);
/* Listens at every address of the chosen interface; without a choice one socket listens at all addresses. */
int unique_id_listen(const char *interface_name, struct listeners *listeners,
		     struct address_list *addresses);
/* Closes the sockets that a parent process made before it forked. */
void unique_id_drop_inherited(void);

#endif
