/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: name */
/* coll_nemo.c - says that its name is another. */
#include "uds.h"

#define BAD_NAME "nobody"
#include "table.h"
