/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interface_test.c - a host with more addresses than a unique id has room for, in a network namespace: the addresses of
 * the default route come first, then one of each interface, and the others are told.
 */
#include "../lib/log_capture.h"
#include "../lib/namespaces.h"
#include "../lib/tap.h"
#include "base/error.h"
#include "base/log.h"
#include "meet/tree.h"
#include "config/config.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

enum { INTERFACES = 10 };

static int ip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int ip(const char *fmt, ...)
{
	char line[300] = "PATH=$PATH:/sbin:/usr/sbin; ip ";
	va_list args;

	va_start(args, fmt);
	vsnprintf(line + strlen(line), sizeof(line) - strlen(line) - 20, fmt, args);
	va_end(args);
	strcat(line, " >/dev/null 2>&1");
	return system(line);
}

static int count_running(void)
{
	struct ifaddrs *all;
	int n = 0;

	if (getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		n += i->ifa_name[0] == 'e' && i->ifa_addr && i->ifa_addr->sa_family == AF_PACKET &&
		     i->ifa_flags & IFF_RUNNING;
	freeifaddrs(all);
	return n;
}

/* The kernel tells of a link some time after it is up. */
static int await_running(void)
{
	for (int tries = 0; count_running() < INTERFACES; tries++) {
		if (tries == 10000)
			return 1;
		usleep(1000);
	}
	return 0;
}

/* Interfaces e0 to e9, each with an address 10.7.N.1; e0 has three more. */
static int make_host(void)
{
	int bad = namespaces_loopback();

	for (int i = 0; !bad && i < INTERFACES; i += 2)
		bad = ip("link add e%d type veth peer name e%d", i + 1, i);
	for (int i = 0; !bad && i < INTERFACES; i++)
		bad = ip("link set e%d up", i) || ip("addr add 10.7.%d.1/24 dev e%d", i, i);
	for (int i = 2; !bad && i < 5; i++)
		bad = ip("addr add 10.7.0.%d/24 dev e0", i);
	return bad || await_running();
}

static const char *text_of(const struct address_list *list, int i)
{
	static char text[ADDRESS_TEXT_SIZE];

	address_format(&list->item[i], text);
	return text;
}

/* Without a default route every interface has a place before the further addresses of e0. */
static void test_order(void)
{
	struct address_list list;

	is_int(address_of_interfaces(NULL, &list), 0,
	       "the addresses of a host with ten interfaces");
	is_str(text_of(&list, 0), "10.7.0.1:0", "the first of the first interface");
	is_str(text_of(&list, 1), "10.7.1.1:0", "then the first of the second one");
	is_str(text_of(&list, ADDRESS_INET_MAX - 2), "127.0.0.1:0", "loopback has its place");
	ok(list.more, "there are more addresses");
	has_str(list.left_out, "10.7.9.1 (e9), ", "which the list names");
}

static void test_default_route(void)
{
	struct address_list list;

	if (ip("route add default via 10.7.9.2 dev e9"))
		bail_out("no default route");
	is_int(address_of_interfaces(NULL, &list), 0, "with a default route over the last one");
	is_str(text_of(&list, 0), "10.7.9.1:0", "its address comes first");
	is_str(text_of(&list, 1), "10.7.0.1:0", "then those of the other interfaces");
	if (ip("-6 addr add fd77::9/64 dev e8 nodad") ||
	    ip("-6 route add default via fd77::1 dev e8")) {
		skip(2, "no IPv6");
		return;
	}
	is_int(address_of_interfaces(NULL, &list), 0, "with one of IPv6 too");
	is_str(text_of(&list, 1), "[fd77::9]:0", "that address follows");
}

static void test_named(void)
{
	struct address_list list;

	is_int(address_of_interfaces("e0", &list), 0, "the interface that the user has named");
	is_int(list.count, 4, "all its addresses");
	ok(!list.more, "all have room");
}

static void test_id(void)
{
	char id[COLL_UNIQUE_ID_SIZE];
	uint8_t key[BOOTSTRAP_KEY_SIZE];
	struct bootstrap *bootstrap;
	struct address_list list;

	log_set_level(2);
	log_begin();
	is_int(bootstrap_make_id(id, sizeof(id), NULL), 0, "a unique id");
	log_end();
	has_str(log_text(),
		"a unique id has no room for all addresses of this host, without: 10.7.",
		"a log line names the addresses without room");
	is_int(unique_id_parse(id, key, &list), 0, "is read");
	has_str(text_of(&list, 0), "10.7.9.1:", "first the address of the default route");
	ok(list.more, "the id says that the host has more");
	is_int(bootstrap_open_id(&bootstrap, &(struct bootstrap_id){.text = id}, 0, 2, NULL, 200),
	       COLL_ERR_TIMEOUT, "nobody comes");
	has_str(error_text(), "; the unique id has no room for 10.7.", "and rank 0 says why");
}

int main(void)
{
	if (namespaces_enter(CLONE_NEWNET))
		skip_all("no network namespace: %s", strerror(errno));
	if (make_host())
		skip_all("no network devices (ip link add type veth)");
	test_order();
	test_default_route();
	test_named();
	test_id();
	return done_testing();
}
