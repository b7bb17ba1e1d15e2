/* SPDX-License-Identifier: BSD-3-Clause */
/* interfaces.h - the network interfaces of this host, as the kernel describes them. */
#ifndef TOOLS_INTERFACES_H
#define TOOLS_INTERFACES_H

#include <net/if.h>

enum { INTERFACE_ADDRESSES = 8, INTERFACE_ADDRESS = 64 };

struct interface {
	char name[IF_NAMESIZE];
	int up;       /* 1: the interface is up and has a carrier */
	int loopback; /* 1: the interface reaches this host only */
	int mtu;      /* bytes of the largest packet; 0: unknown */
	int mbits;    /* megabits per second; 0: unknown, as for virtual interfaces */
	int addresses;
	char address[INTERFACE_ADDRESSES][INTERFACE_ADDRESS]; /* "10.0.0.5/24" */
};

/* Lists the interfaces in the order of the kernel.  The caller frees *list.  Returns their number, or -1 without memory. */
int interfaces_list(struct interface **list);

#endif
