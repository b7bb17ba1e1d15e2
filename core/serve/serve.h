/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve.h - with the option `watch`, a thread on each host that shows the pages of the host's ranks to `coll top --job`.
 *
 * Rank 0's option holds for all ranks (struct selection).  Of the ranks that share a host, its network and its files the lowest
 * serves: it listens at the option `interface`, port `watch_port`, from the making of the job's first communicator to the end of
 * its last one.  In the exchange that ends the making the ranks tell each other where the servers listen, so that a tool which
 * knows one server learns of all.  A rank that cannot serve says so in the log, and the job goes on without its server.
 *
 * The thread blocks all signals, takes no lock of a communicator, and never waits for a client: it reads pages as tools do
 * (page/page_read.h), so that ranks which compute or hang are seen too.  While nobody asks it sleeps in poll().  A client has
 * proved the look key (protocol.h); there are SERVE_CLIENTS at most, each with limits of time (clients.h).
 */
#ifndef CORE_SERVE_SERVE_H
#define CORE_SERVE_SERVE_H

#include "comm/comm.h"

/*
 * A part of the lane (struct comm_part), after the part that takes the page: the lock of the context is held in serve_begin, and
 * not in serve_free, which joins the thread when the rank's last communicator of the job goes.
 */
int serve_begin(struct lane *lane);
void serve_free(struct lane *lane);

/*
 * Collective, in place of bootstrap_all_ok about the first communicator of the context: returns the same, and with the option
 * `watch` the servers also learn of each other.
 */
int serve_all_ok(struct context *context, int code, int64_t timeout_ms);

#endif
