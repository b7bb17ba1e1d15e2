/* SPDX-License-Identifier: BSD-3-Clause */
/* ucp_old.c - in the place of libucp.so.0: a UCX that is too old, and says no more than that. */

void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release);

void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release)
{
	*major = 1;
	*minor = 9;
	*release = 0;
}
