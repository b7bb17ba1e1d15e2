/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_devices_test.c - the network devices that UCX shall use; links that file of the plugin. */
#include "../lib/tap.h"
#include "../../plugins/ucx/ucx.h"

static const char *wanted;

static const char *option_string(const coll_host_t *host, const char *key)
{
	(void)host;
	return strcmp(key, "interface") ? NULL : wanted;
}

static void check_found(const char *option, int code, const char *name, const char *text)
{
	const coll_host_t host = {.option_string = option_string};
	coll_error_t err = {.size = sizeof(err)};
	char found[UCX_INTERFACE_SIZE];

	wanted = option;
	is_int(ucx_find_interface(&host, found, &err), code, "interface '%s'",
	       option ? option : "(unset)");
	is_str(found, name, "its name");
	ok(strstr(err.text, text) != NULL, "the error is '%s'", err.text);
}

static void test_find(void)
{
	check_found(NULL, COLL_SUCCESS, "", "");
	check_found("", COLL_SUCCESS, "", "");
	check_found("lo", COLL_SUCCESS, "lo", "");
	check_found("127.0.0.1", COLL_SUCCESS, "lo", "");
	check_found("nosuch0", COLL_ERR_CONFIG, "", "no network interface 'nosuch0'");
	check_found("l", COLL_ERR_CONFIG, "", "no network interface 'l'");
	check_found("127.0.0", COLL_ERR_CONFIG, "", "no network interface '127.0.0'");
	check_found("an interface with a very long name", COLL_ERR_CONFIG, "", "very long name");
}

/* The lines of UCX 1.13 that name devices; the RDMA ports as its source prints them. */
static void test_list(void)
{
	static const char description[] =
		"#     resource 0  :  md 0  dev 0  flags -- self/memory\n"
		"#     resource 1  :  md 1  dev 1  flags -- tcp/lo\n"
		"#     resource 2  :  md 1  dev 2  flags -- tcp/eth0\n"
		"#     resource 3  :  md 2  dev 3  flags -- rc_verbs/mlx5_0:1\n"
		"#     resource 4  :  md 2  dev 3  flags -- ud_verbs/mlx5_0:1\n"
		"#     resource 5  :  md 3  dev 4  flags -- rc_verbs/mlx5_1:2\n"
		"#     resource 6  :  md 4  dev 5  flags -- posix/memory\n";
	static char many[200 * 60];
	char list[UCX_DEVICES_SIZE];
	size_t used = 0;

	ucx_list_devices("", "eth0", list);
	is_str(list, "eth0", "no device");
	ucx_list_devices(description, "eth0", list);
	is_str(list, "eth0,mlx5_0:1,mlx5_1:2", "the interface, and each RDMA port once");
	for (int i = 0; i < 200; i++)
		used += (size_t)snprintf(many + used, sizeof(many) - used,
					 "# resource : flags -- rc_verbs/mlx5_%d:1\n", i);
	ucx_list_devices(many, "eth0", list);
	ok(strlen(list) < sizeof(list) && !strncmp(list, "eth0,mlx5_0:1,", 14) &&
		   list[strlen(list) - 1] == '1',
	   "more devices than fit are left out whole");
}

int main(void)
{
	test_find();
	test_list();
	return done_testing();
}
