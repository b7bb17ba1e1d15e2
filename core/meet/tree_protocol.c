/* SPDX-License-Identifier: BSD-3-Clause */
/* tree_protocol.c - the shape of the tree; its frames: sealed, received and checked. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "bootstrap/bootstrap_kind.h"
#include "meet/tree_protocol.h"

/* ---------------------------------------------------------------------- the shape -- */

/*
 * 256: a root that sends each of so many ranks a table of 128 bytes a rank writes 8 MiB, some milliseconds; a tree
 * costs every rank a second connection.
 */
struct tree_shape tree_shape = {.flat = 256, .fan = 32};

int tree_shape_fan(int nranks)
{
	if (nranks <= tree_shape.flat || nranks <= tree_shape.fan)
		return nranks > 1 ? nranks - 1 : 1;
	return tree_shape.fan;
}

int tree_shape_parent(int index, int nranks)
{
	return (index - 1) / tree_shape_fan(nranks);
}

int tree_shape_first_child(int index, int nranks)
{
	return index * tree_shape_fan(nranks) + 1;
}

int tree_shape_children(int index, int nranks)
{
	const int64_t fan = tree_shape_fan(nranks), left = nranks - 1 - index * fan;

	return (int)(left < 0 ? 0 : left < fan ? left : fan);
}

/* Counts the indices below `index`, and their levels. */
static int tree_shape_walk(int index, int nranks, int *levels)
{
	const int64_t fan = tree_shape_fan(nranks);
	int64_t first = index, last = index, count = 0;

	for (*levels = -1; first < nranks; ++*levels) {
		count += (last < nranks ? last : nranks - 1) - first + 1;
		first = first * fan + 1;
		last = last * fan + fan;
	}
	return (int)count;
}

int tree_shape_size(int index, int nranks)
{
	int levels;

	return tree_shape_walk(index, nranks, &levels);
}

int tree_shape_height(int index, int nranks)
{
	int levels;

	tree_shape_walk(index, nranks, &levels);
	return levels;
}

int tree_shape_depth(int index, int nranks)
{
	int levels = 0;

	for (; index > 0; index = tree_shape_parent(index, nranks))
		levels++;
	return levels;
}

/* ------------------------------------------------------------------------ frames -- */

/* The bytes under the mac of a head. */
struct tree_sealed {
	char label[8];
	uint32_t from_parent;
	uint32_t reserved;
	uint64_t number; /* of the frame in its direction */
	struct tree_frame head;
};

_Static_assert(sizeof(struct tree_frame) == 32 + 2 * HANDSHAKE_MAC_SIZE &&
		       sizeof(struct tree_sealed) == 24 + sizeof(struct tree_frame),
	       "frames have no gaps");

void tree_stream_init(struct tree_stream *stream, int is_parent,
		      const uint8_t key[HANDSHAKE_KEY_SIZE], const uint8_t *body_key)
{
	memcpy(stream->key, key, sizeof(stream->key));
	stream->body_key = body_key;
	stream->is_parent = (uint32_t)is_parent;
}

/* ---------------------------------------------------------------------- sealing -- */

static void tree_head_mac(const struct tree_stream *stream, const struct tree_frame *head,
			  uint32_t from_parent, uint64_t number, uint8_t mac[HANDSHAKE_MAC_SIZE])
{
	struct tree_sealed sealed = {.label = {'f', 'r', 'a', 'm', 'e'},
				     .from_parent = from_parent,
				     .number = number,
				     .head = *head};

	memset(sealed.head.mac, 0, sizeof(sealed.head.mac));
	siphash128(stream->key, &sealed, sizeof(sealed), mac);
}

void tree_seal_body(const uint8_t *body_key, struct tree_frame *head, const void *body)
{
	siphash128(body_key, body, (size_t)head->len, head->body_mac);
}

void tree_seal(const struct tree_stream *stream, struct tree_frame *head)
{
	tree_head_mac(stream, head, stream->is_parent, stream->sent, head->mac);
}

int tree_is_sealed(const struct tree_stream *stream, const struct tree_frame *head)
{
	uint8_t mac[HANDSHAKE_MAC_SIZE];

	tree_head_mac(stream, head, !stream->is_parent, stream->taken, mac);
	return handshake_same_mac(mac, head->mac);
}

/* -------------------------------------------------------------------- receiving -- */

void tree_stream_next(struct tree_stream *stream)
{
	stream->head_got = 0;
	stream->got = 0;
	stream->body = NULL;
}

void *tree_stream_space(struct tree_stream *stream, void *scrap, size_t scrap_size, size_t *size)
{
	uint64_t left = stream->head.len - stream->got;

	if (stream->head_got < sizeof(stream->head)) {
		*size = sizeof(stream->head) - stream->head_got;
		return (char *)&stream->head + stream->head_got;
	}
	if (stream->body != NULL) {
		*size = (size_t)left;
		return stream->body + stream->got;
	}
	*size = left < scrap_size ? (size_t)left : scrap_size;
	return scrap;
}

static int tree_body_is_sealed(const struct tree_stream *stream)
{
	uint8_t mac[HANDSHAKE_MAC_SIZE];

	if (stream->body == NULL && stream->head.len > 0)
		return 1; /* it was thrown away */
	siphash128(stream->body_key, stream->body, (size_t)stream->head.len, mac);
	return handshake_same_mac(mac, stream->head.body_mac);
}

enum tree_event tree_stream_take(struct tree_stream *stream, size_t n)
{
	if (stream->head_got < sizeof(stream->head)) {
		stream->head_got += n;
		if (stream->head_got < sizeof(stream->head))
			return TREE_MORE;
		return tree_is_sealed(stream, &stream->head) ? TREE_HEAD : TREE_FORGED;
	}
	stream->got += n;
	if (stream->got < stream->head.len)
		return TREE_MORE;
	if (!tree_body_is_sealed(stream))
		return TREE_FORGED;
	stream->taken++;
	return TREE_WHOLE;
}

/* --------------------------------------------------------------------- checking -- */

int tree_broke(int rank, const char *fmt, ...)
{
	char text[300];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return error_set(COLL_ERR_INTERNAL, "rank %d broke the bootstrap's protocol: %s", rank,
			 text);
}

int tree_check_message(const struct tree_frame *head, int rank)
{
	if (head->len < BOOTSTRAP_TEXT_SIZE)
		return COLL_SUCCESS;
	return tree_broke(rank, "its error has %llu bytes, but %d are the most",
			  (unsigned long long)head->len, BOOTSTRAP_TEXT_SIZE - 1);
}

int tree_check_piece(const struct tree_frame *head, int rank, int parent, uint32_t round,
		     size_t len, int any_len)
{
	if ((head->type != TREE_PIECE && head->type != TREE_FAILED) || head->round != round)
		return tree_broke(rank, "frame %u of round %u in round %u", head->type, head->round,
				  round);
	if (head->type == TREE_FAILED)
		return tree_check_message(head, rank);
	if (!any_len && head->len != len)
		return error_set(COLL_ERR_MISMATCH,
				 "rank %d exchanges %llu bytes where rank %d exchanges %zu", rank,
				 (unsigned long long)head->len, parent, len);
	return COLL_SUCCESS;
}

int tree_check_table(const struct tree_frame *head, int parent, uint32_t round, size_t len)
{
	if (head->type == TREE_FAILED && head->round == round)
		return tree_check_message(head, parent);
	if (head->type != TREE_TABLE || head->round != round || head->len != len)
		return tree_broke(parent,
				  "frame %u of round %u, %llu bytes, where the table of round %u, "
				  "%zu bytes, was expected",
				  head->type, head->round, (unsigned long long)head->len, round,
				  len);
	return COLL_SUCCESS;
}
