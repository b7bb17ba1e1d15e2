/* SPDX-License-Identifier: BSD-3-Clause */
/* random.c - random bytes from the system. */
#include "base/random.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "base/interrupt.h"

int random_bytes(void *out, size_t len)
{
	uint8_t *p = out;
	int tries = 0;

	while (len > 0) {
		ssize_t n = getrandom(p, len, 0);

		if (n < 0 && !interrupted(n, &tries))
			return error_set(COLL_ERR_SYSTEM, "cannot get random bytes: %s",
					 strerror(errno));
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		}
	}
	return 0;
}
