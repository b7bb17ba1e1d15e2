/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp.h - includes the backend tcp, which cancels, drops and sleeps, so that a bad plugin can spoil
 * it.
 */
#define _GNU_SOURCE
#include "base.h"

/* The good backend's table is not exported. */
#undef COLL_BACKEND_EXPORT
#define COLL_BACKEND_EXPORT BAD_FN
#define coll_backend_v1     bad_good
#include "../../../plugins/tcp/tcp_addr.c"
#include "../../../plugins/tcp/tcp_mesh.c"
#include "../../../plugins/tcp/tcp_borrow.c"
#include "../../../plugins/tcp/tcp_bounce.c"
#include "../../../plugins/tcp/tcp_cipher_none.c"
#include "../../../plugins/tcp/tcp_close.c"
#include "../../../plugins/tcp/tcp_copy.c"
#include "../../../plugins/tcp/tcp_far.c"
#include "../../../plugins/tcp/tcp_io.c"
#include "../../../plugins/tcp/tcp_lend.c"
#include "../../../plugins/tcp/tcp_memory.c"
#include "../../../plugins/tcp/tcp_paths.c"
#include "../../../plugins/tcp/tcp_record.c"
#include "../../../plugins/tcp/tcp_ring.c"
#include "../../../plugins/tcp/tcp_ring_offer.c"
#include "../../../plugins/tcp/tcp_security.c"
#include "../../../plugins/tcp/tcp_send.c"
#include "../../../plugins/tcp/tcp.c"
#undef coll_backend_v1

#define GOOD_SEND         tcp_send
#define GOOD_PROGRESS     tcp_progress
#define GOOD_CANCEL       tcp_cancel
#define GOOD_DROP         tcp_drop
#define GOOD_WAIT_FD      tcp_wait_fd
#define GOOD_ARM          tcp_arm
#define GOOD_OPEN         tcp_open
#define GOOD_CLOSE        tcp_close
#define GOOD_OPTIONS      tcp_options
#define GOOD_OPTION_COUNT (sizeof(tcp_options) / sizeof(tcp_options[0]))
