/* SPDX-License-Identifier: BSD-3-Clause */
/* kind.c - the kinds of operation with their properties. */
#include "base/kind.h"

#include <stddef.h>

#define KIND_HAS(traits, trait) (((traits) & (trait)) != 0)

/* Send and receive stand among the collectives. */
#define KIND_INDEX(number, traits)                                                                 \
	(KIND_HAS(traits, KIND_P2P) ? -1 : (number) < COLL_KIND_SEND ? (number)-1 : (number)-3)

#define KIND_ENTRY(number, text, sends, receives, traits)                                          \
	[number] = {                                                                               \
		.name = text,                                                                      \
		.send = sends,                                                                     \
		.recv = receives,                                                                  \
		.send_root = KIND_HAS(traits, KIND_ROOT_SENDS),                                    \
		.recv_root = KIND_HAS(traits, KIND_ROOT_RECEIVES),                                 \
		.has_root = KIND_HAS(traits, KIND_ROOT_SENDS | KIND_ROOT_RECEIVES),                \
		.reduces = KIND_HAS(traits, KIND_REDUCES),                                         \
		.sendcounts = KIND_HAS(traits, KIND_SENDCOUNTS),                                   \
		.recvcounts = KIND_HAS(traits, KIND_RECVCOUNTS),                                   \
		.is_v = KIND_HAS(traits, KIND_SENDCOUNTS | KIND_RECVCOUNTS),                       \
		.own_counts = KIND_HAS(traits, KIND_OWN_COUNTS),                                   \
		.is_collective = !KIND_HAS(traits, KIND_P2P),                                      \
		.is_p2p = KIND_HAS(traits, KIND_P2P),                                              \
		.is_scan = KIND_HAS(traits, KIND_SCAN),                                            \
		.index = KIND_INDEX(number, traits),                                               \
	},
#define KIND_PLAIN(number, name, sends, receives, traits, list)                                    \
	KIND_ENTRY(number, #name, sends, receives, traits)
#define KIND_LIST(number, name, sends, receives, traits, list)                                     \
	KIND_ENTRY(number, list, sends, receives, traits)

/* Row 0 is the row of all numbers that are no kind: it has no property. */
#define KIND_NOT_VALID [0] = {.name = "?", .index = -1},

static const struct kind kind_table[] = {KIND_NOT_VALID KINDS(KIND_PLAIN)};
static const struct kind kind_list_table[] = {KIND_NOT_VALID KINDS(KIND_LIST)};

_Static_assert(sizeof(kind_table) / sizeof(kind_table[0]) == KIND_LAST + 1,
	       "KIND_LAST is the last");

const struct kind *kind_at(int kind)
{
	return &kind_table[(uint32_t)kind <= KIND_LAST ? kind : 0];
}

const struct kind *kind_list_at(int kind)
{
	return &kind_list_table[(uint32_t)kind <= KIND_LAST ? kind : 0];
}

const char *kind_name(int kind)
{
	return kind_at(kind)->name;
}

const char *coll_kind_name(int32_t kind)
{
	return kind_name(kind);
}
