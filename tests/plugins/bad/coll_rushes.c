/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: together-order */
/* coll_rushes.c - a message of send overtakes the messages that send_more keeps back. */
#include "together.h"

#define BAD_NAME      "rushes"
#define BAD_PROGRESS  together_progress
#define BAD_SEND_MORE together_send_more
#define BAD_FLUSH     together_out
#include "table.h"
