/* SPDX-License-Identifier: BSD-3-Clause */
/* interfaces.c - the network interfaces of this host, as the kernel describes them. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/interfaces.h"

/* Reads a number from /sys/class/net; 0: the kernel does not tell it. */
static int interface_number(const char *name, const char *what)
{
	char path[64 + IF_NAMESIZE];
	FILE *file;
	int n = 0;

	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", name, what);
	file = fopen(path, "r");
	if (file == NULL)
		return 0;
	if (fscanf(file, "%d", &n) != 1 || n < 0)
		n = 0;
	fclose(file);
	return n;
}

static int interface_mask_bits(const void *mask, size_t bytes)
{
	const unsigned char *at = mask;
	int bits = 0;

	for (size_t i = 0; i < bytes; i++)
		bits += __builtin_popcount(at[i]);
	return bits;
}

static void interface_add_address(struct interface *to, const struct ifaddrs *from)
{
	char text[INET6_ADDRSTRLEN], *out;
	const void *address, *mask;
	size_t bytes;

	if (from->ifa_addr == NULL || from->ifa_netmask == NULL ||
	    to->addresses == INTERFACE_ADDRESSES)
		return;
	if (from->ifa_addr->sa_family == AF_INET) {
		address = &((const struct sockaddr_in *)(const void *)from->ifa_addr)->sin_addr;
		mask = &((const struct sockaddr_in *)(const void *)from->ifa_netmask)->sin_addr;
		bytes = sizeof(struct in_addr);
	} else if (from->ifa_addr->sa_family == AF_INET6) {
		address = &((const struct sockaddr_in6 *)(const void *)from->ifa_addr)->sin6_addr;
		mask = &((const struct sockaddr_in6 *)(const void *)from->ifa_netmask)->sin6_addr;
		bytes = sizeof(struct in6_addr);
	} else {
		return;
	}
	if (inet_ntop(from->ifa_addr->sa_family, address, text, sizeof(text)) == NULL)
		return;
	out = to->address[to->addresses++];
	snprintf(out, INTERFACE_ADDRESS, "%s/%d", text, interface_mask_bits(mask, bytes));
}

/* Returns the entry of that name, which may be new. */
static struct interface *interface_entry(struct interface *list, int *n, const struct ifaddrs *from)
{
	const unsigned up = IFF_UP | IFF_RUNNING;

	for (int i = 0; i < *n; i++)
		if (strcmp(list[i].name, from->ifa_name) == 0)
			return &list[i];
	list[*n] = (struct interface){.up = (from->ifa_flags & up) == up,
				      .loopback = (from->ifa_flags & IFF_LOOPBACK) != 0,
				      .mtu = interface_number(from->ifa_name, "mtu"),
				      .mbits = interface_number(from->ifa_name, "speed")};
	snprintf(list[*n].name, sizeof(list[*n].name), "%s", from->ifa_name);
	return &list[(*n)++];
}

int interfaces_list(struct interface **list)
{
	struct ifaddrs *all = NULL;
	size_t entries = 1;
	int n = 0;

	if (getifaddrs(&all) != 0)
		all = NULL;
	for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next)
		entries++;
	*list = calloc(entries, sizeof(**list));
	for (const struct ifaddrs *at = *list ? all : NULL; at != NULL; at = at->ifa_next)
		interface_add_address(interface_entry(*list, &n, at), at);
	if (all != NULL)
		freeifaddrs(all);
	return *list ? n : -1;
}
