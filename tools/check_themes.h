/* SPDX-License-Identifier: BSD-3-Clause */
/* check_themes.h - the tables of checks that stand where the core stands, one for each theme. */
#ifndef TOOLS_CHECK_THEMES_H
#define TOOLS_CHECK_THEMES_H

#include "check.h"

extern const struct check check_file_checks[];     /* what the file exports and needs */
extern const struct check check_table_checks[];    /* coll_backend_v1 and its groups */
extern const struct check check_options_checks[];  /* the options it declares */
extern const struct check check_probe_checks[];    /* probe and info */
extern const struct check check_open_checks[];     /* open and close when all is well */
extern const struct check check_send_checks[];     /* what is sent arrives */
extern const struct check check_status_checks[];   /* the sender's side of a message */
extern const struct check check_receive_checks[];  /* the receiver's side of a message */
extern const struct check check_progress_checks[]; /* progress, threads, several endpoints */
extern const struct check check_sleep_checks[];    /* wait_fd, arm, mem_register */
extern const struct check check_close_checks[];    /* close in every state */
extern const struct check check_exchange_checks[]; /* host->exchange fails or takes too long */
extern const struct check check_lost_checks[];     /* peers that leave or die, messages refused */
extern const struct check check_cancel_checks[];   /* cancel, drop */
extern const struct check check_limits_checks[];   /* fork, exit, what is left behind */
extern const struct check check_native_checks[];   /* the native group */

#endif
