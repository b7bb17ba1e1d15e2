/* SPDX-License-Identifier: BSD-3-Clause */
/* p2p.h - checks of messages between endpoints without faults. */
#ifndef TOOLS_CHECK_P2P_H
#define TOOLS_CHECK_P2P_H

#include "check/kit/kit.h"

extern const struct check check_open_checks[];     /* open and close without faults */
extern const struct check check_send_checks[];     /* every message sent arrives */
extern const struct check check_together_checks[]; /* send_more and flush */
extern const struct check check_status_checks[];   /* the sender's side of a message */
extern const struct check check_receive_checks[];  /* the receiver's side of a message */
extern const struct check check_progress_checks[]; /* progress, threads, several endpoints */
extern const struct check check_sleep_checks[];    /* wait_fd, arm, mem_register */
extern const struct check check_memory_checks[];   /* mem_alloc and mem_free */
extern const struct check check_close_checks[];    /* close in every state */

struct check_ep;

/* Checks that the messages of `peer` have come in the order of their tags, 0 to count - 1. */
void check_send_order(struct check_ep *ep, uint32_t peer, uint64_t count);

#endif
