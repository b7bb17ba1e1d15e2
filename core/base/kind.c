/* SPDX-License-Identifier: BSD-3-Clause */
/* kind.c - the kinds of operation with their properties. */
#include "base/kind.h"

#include <stddef.h>

#define KIND_HAS(traits, trait) (((traits) & (trait)) != 0)

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
		.own_counts = KIND_HAS(traits, KIND_OWN_COUNTS),                                   \
	},
#define KIND_PLAIN(number, name, sends, receives, traits, list)                                    \
	KIND_ENTRY(number, #name, sends, receives, traits)
#define KIND_LIST(number, name, sends, receives, traits, list)                                     \
	KIND_ENTRY(number, list, sends, receives, traits)

const struct kind kind_table[] = {KINDS(KIND_PLAIN)};
const struct kind kind_list_table[] = {KINDS(KIND_LIST)};

_Static_assert(sizeof(kind_table) / sizeof(kind_table[0]) == KIND_LAST + 1,
	       "KIND_LAST is the last");

const char *kind_name(int kind)
{
	return kind_is_valid(kind) ? kind_table[kind].name : "?";
}

const char *coll_kind_name(int32_t kind)
{
	return kind_name(kind);
}
