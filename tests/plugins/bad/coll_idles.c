/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: together-progress */
/* coll_idles.c - progress leaves the messages that send_more keeps back where they are. */
#include "together.h"

#define BAD_NAME      "idles"
#define BAD_SEND      together_send
#define BAD_SEND_MORE together_send_more
#define BAD_FLUSH     together_out
#include "table.h"
