/* SPDX-License-Identifier: BSD-3-Clause */
/* ucp_old.c - a stand-in for libucp.so.0 whose version is too old; it has no other function. */

void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release);

void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release)
{
	*major = 1;
	*minor = 9;
	*release = 0;
}
