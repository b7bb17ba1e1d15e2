/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: name */
/* coll_nemo.c - its table gives another name than its file. */
#include "uds.h"

#define BAD_NAME "nobody"
#include "table.h"
