/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_devices.c - finds the network devices for UCX if the user has chosen an interface. */
#include "ucx.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

static int ucx_has_address(const struct ifaddrs *i, const char *wanted)
{
	const struct sockaddr *sa = i->ifa_addr;
	char text[INET6_ADDRSTRLEN] = "";

	if (sa && sa->sa_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)sa)->sin_addr, text, sizeof(text));
	else if (sa && sa->sa_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)sa)->sin6_addr, text,
			  sizeof(text));
	return text[0] && !strcmp(text, wanted);
}

int32_t ucx_find_interface(const coll_host_t *host, char name[UCX_INTERFACE_SIZE],
			   coll_error_t *err)
{
	const char *wanted = host->option_string(host, "interface");
	struct ifaddrs *list;

	name[0] = '\0';
	if (!wanted || !wanted[0])
		return COLL_SUCCESS;
	if (getifaddrs(&list))
		return error_fill(err, COLL_ERR_SYSTEM, "cannot list the network interfaces: %s",
				  strerror(errno));
	for (const struct ifaddrs *i = list; i && !name[0]; i = i->ifa_next)
		if (!strcmp(i->ifa_name, wanted) || ucx_has_address(i, wanted))
			snprintf(name, UCX_INTERFACE_SIZE, "%s", i->ifa_name);
	freeifaddrs(list);
	if (name[0])
		return COLL_SUCCESS;
	return error_fill(
		err, COLL_ERR_CONFIG,
		"option ucx.interface: this host has no network interface '%.64s', and none "
		"with that address",
		wanted);
}

static void ucx_add_device(char *list, const char *device)
{
	size_t used = strlen(list);

	if (used + 1 + strlen(device) < UCX_DEVICES_SIZE)
		snprintf(list + used, UCX_DEVICES_SIZE - used, "%s%s", used ? "," : "", device);
}

/* Only an RDMA port has a colon in its name, before the number of the port: "mlx5_0:1". */
void ucx_list_devices(const char *description, const char *interface_name,
		      char list[UCX_DEVICES_SIZE])
{
	char device[64], last[64] = "";

	list[0] = '\0';
	ucx_add_device(list, interface_name);
	/* Lines "resource N : md M dev D flags -- rc_verbs/mlx5_0:1"; the lines of one device are neighbours. */
	for (const char *at = description; (at = strstr(at, "- ")); at += 2) {
		if (sscanf(at + 2, "%*[^/ ]/%63s", device) != 1 || !strchr(device, ':') ||
		    !strcmp(device, last))
			continue;
		strcpy(last, device);
		ucx_add_device(list, device);
	}
}
