/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * simgrid_bench.cc - the time of the algorithms in SimGrid: the schedules of all ranks, as `coll model` takes them, on
 * networks whose flows share the links.  The messages of a rank to another go one after the other.  A second opinion on the lengths in the rules.  Not a test.
 *
 *   c++ -std=c++17 -O2 -Iinclude -o simgrid_bench tests/bench/simgrid_bench.cc -L.libs -lcoll -lsimgrid
 *   simgrid_bench [-r ranks] [-s sizes] [-N ranks of a node] [-f L,o,B] [-n L,o,B] [-R reduce] [-l nodes,share] NAME...
 *
 * A NAME is COLLECTIVE/ALGORITHM.  -f, -n: messages between nodes and within one: latency and overhead on each side in
 * nanoseconds, time of a byte likewise; as in `coll model`, without the gap.  -R: nanoseconds to reduce or copy a byte.
 * -l: so many nodes are on one switch, whose links to the other switches have that share of the bandwidth of its nodes together;
 * default one switch for all.
 *
 * A row has the collective, the ranks, the nodes, the bytes of the count argument, the algorithm, and microseconds.
 */
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <coll/coll.h>
#include <coll/introspect.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace sg = simgrid::s4u;

struct network {
	double latency, overhead, byte; /* seconds */
};

struct machine {
	network far, near;
	double reduce; /* seconds a byte */
	int node_size, switch_nodes;
	double share;
};

struct call {
	coll_algorithm_info_t algorithm;
	int id, nranks;
	uint64_t bytes;
};

static machine host = {{10e-6, 3e-6, 0.32e-9}, {0.3e-6, 0.15e-6, 0.1e-9}, 0.1e-9, 1, 0, 1};

static const network &between(int a, int b)
{
	return a / host.node_size == b / host.node_size ? host.near : host.far;
}

/* ---------------------------------------------------------------------- a network -- */

/* A link each way; index 0: out. */
struct port {
	sg::Link *way[2];
};

static port make_port(sg::NetZone *zone, const std::string &name, const network &net, double times)
{
	port p;

	for (int way = 0; way < 2; way++) {
		p.way[way] = zone->create_link(name + (way ? "-in" : "-out"), times / net.byte);
		p.way[way]->set_latency(0)->seal(); /* rank::complete adds the latency */
	}
	return p;
}

static std::vector<port> make_ports(sg::NetZone *zone, const char *name, int count,
				    const network &net, double times)
{
	std::vector<port> ports;

	for (int i = 0; i < count; i++)
		ports.push_back(make_port(zone, name + std::to_string(i), net, times));
	return ports;
}

/* Makes a host for each rank, and the way of its messages to each other rank. */
static std::vector<sg::Host *> make_network(int nranks)
{
	auto *zone = sg::create_full_zone("all");
	const int nodes = (nranks - 1) / host.node_size + 1;
	const int on_switch = host.switch_nodes ? host.switch_nodes : nodes;
	const network core = {0, 0, host.far.byte};
	auto node = make_ports(zone, "node", nodes, host.far, 1);
	auto near = make_ports(zone, "rank", nranks, host.near, 1);
	auto top = make_ports(zone, "switch", (nodes - 1) / on_switch + 1, core,
			      on_switch * host.share);
	std::vector<sg::Host *> hosts;

	for (int r = 0; r < nranks; r++)
		hosts.push_back(zone->create_host("h" + std::to_string(r), 1e9));
	for (int a = 0; a < nranks; a++)
		for (int b = 0; b < nranks; b++) {
			const int na = a / host.node_size, nb = b / host.node_size;
			std::vector<sg::LinkInRoute> links;

			if (a == b)
				continue;
			if (na == nb)
				links = {sg::LinkInRoute(near[a].way[0]),
					 sg::LinkInRoute(near[b].way[1])};
			else
				links = {sg::LinkInRoute(node[na].way[0]),
					 sg::LinkInRoute(node[nb].way[1])};
			if (na / on_switch != nb / on_switch) {
				links.push_back(sg::LinkInRoute(top[na / on_switch].way[0]));
				links.push_back(sg::LinkInRoute(top[nb / on_switch].way[1]));
			}
			zone->add_route(hosts[a]->get_netpoint(), hosts[b]->get_netpoint(), nullptr,
					nullptr, links, false);
		}
	zone->seal();
	return hosts;
}

/* ------------------------------------------------------------------------- a rank -- */

/* One rank: an actor that takes the steps that wait for nothing in the order of the schedule. */
struct rank {
	int number;
	std::vector<coll_step_t> steps;
	std::vector<int> left; /* of each step: steps that it waits for */
	std::vector<std::vector<int>> unlocks;
	std::set<int> ready;
	std::vector<sg::CommPtr> under_way;
	std::vector<int> step_of;             /* of each message under way */
	std::map<int, std::deque<int>> sends; /* to each rank: messages under way and behind it */
	std::multimap<double, int>
		arrivals;          /* messages whose last byte is on the way, by their times */
	std::vector<bool> arrived; /* of each step: its message is here */
	int job = -1;              /* the step that has the processor, until that time */
	double until = 0;
	double end = 0;

	rank(const coll_schedule_args_t &args);
	static bool receives(const coll_step_t &s)
	{
		return s.kind == COLL_STEP_RECV || s.kind == COLL_STEP_RECV_REDUCE;
	}
	sg::Mailbox *mailbox(const coll_step_t &s) const;
	double work(const coll_step_t &s) const;
	double time(const coll_step_t &s) const;
	void put(int step);
	void sent(int peer);
	void done(int step);
	void start(int step);
	void finish();
	void complete(size_t i);
	void expire();
	void wait();
	void operator()();
};

rank::rank(const coll_schedule_args_t &args) : number(args.rank)
{
	coll_schedule_t schedule;

	if (coll_schedule_create(&args, &schedule) != COLL_SUCCESS)
		exit(3);
	steps.resize(coll_schedule_step_count(schedule));
	unlocks.resize(steps.size());
	arrived.resize(steps.size());
	for (size_t i = 0; i < steps.size(); i++) {
		steps[i].size = sizeof(steps[i]);
		coll_schedule_step(schedule, (int)i, &steps[i]);
		left.push_back((int)steps[i].after_count);
		for (uint32_t k = 0; k < steps[i].after_count; k++)
			unlocks[steps[i].after[k]].push_back((int)i);
		if (!steps[i].after_count)
			ready.insert((int)i);
	}
	coll_schedule_destroy(schedule);
}

sg::Mailbox *rank::mailbox(const coll_step_t &s) const
{
	const int from = receives(s) ? s.peer : number, to = receives(s) ? number : s.peer;

	return sg::Mailbox::by_name(std::to_string(from) + ">" + std::to_string(to) + ":" +
				    std::to_string(s.message));
}

/* The time of a step's arithmetic or copy. */
double rank::work(const coll_step_t &s) const
{
	if (s.kind == COLL_STEP_RECV || s.kind == COLL_STEP_SEND ||
	    (s.kind == COLL_STEP_COPY && s.src_buffer == s.dst_buffer && s.src == s.dst))
		return 0;
	return (double)s.bytes * host.reduce;
}

void rank::put(int step)
{
	static char byte;
	const coll_step_t &s = steps[step];

	under_way.push_back(mailbox(s)->put_async(&byte, s.bytes ? s.bytes : 1));
	step_of.push_back(step);
}

/* A message to the rank has left: the next one follows it. */
void rank::sent(int peer)
{
	sends[peer].pop_front();
	if (!sends[peer].empty())
		put(sends[peer].front());
}

void rank::done(int step)
{
	end = sg::Engine::get_clock();
	for (int next : unlocks[step])
		if (!--left[next])
			ready.insert(next);
}

/* The time for which a step needs the processor. */
double rank::time(const coll_step_t &s) const
{
	const bool message = receives(s) || s.kind == COLL_STEP_SEND;

	return (message ? between(number, s.peer).overhead : 0) + work(s);
}

/* Awaits the message of a step, or gives it the processor. */
void rank::start(int step)
{
	static void *received;

	ready.erase(step);
	if (receives(steps[step]) && !arrived[step]) {
		under_way.push_back(mailbox(steps[step])->get_async<void>(&received));
		step_of.push_back(step);
		return;
	}
	job = step;
	until = sg::Engine::get_clock() + time(steps[step]);
}

/* The processor has done its part. */
void rank::finish()
{
	const int step = job;
	const coll_step_t &s = steps[step];

	job = -1;
	if (s.kind != COLL_STEP_SEND) {
		done(step);
		return;
	}
	sends[s.peer].push_back(step);
	if (sends[s.peer].size() == 1)
		put(step);
}

/* A message has left its sender, or its last byte has, and arrives after the latency. */
void rank::complete(size_t i)
{
	const int step = step_of[i];
	const coll_step_t &s = steps[step];

	under_way.erase(under_way.begin() + i);
	step_of.erase(step_of.begin() + i);
	if (receives(s)) {
		arrivals.emplace(sg::Engine::get_clock() + between(number, s.peer).latency, step);
	} else {
		sent(s.peer);
		done(step);
	}
}

/* The processor is free, or the first message arrives. */
void rank::expire()
{
	const auto first = arrivals.begin();

	if (job >= 0 && (first == arrivals.end() || until <= first->first)) {
		finish();
		return;
	}
	arrived[first->second] = true;
	ready.insert(first->second);
	arrivals.erase(first);
}

/* Waits until the processor is free or something becomes of a message. */
void rank::wait()
{
	const double never = 1e9, now = sg::Engine::get_clock();
	const double first = arrivals.empty() ? never : arrivals.begin()->first;
	const double rest = std::min(job < 0 ? never : until, first) - now;
	ssize_t i = -1;

	if (under_way.empty() && rest > 0)
		sg::this_actor::sleep_for(rest);
	else if (rest > 0)
		i = sg::Comm::wait_any_for(under_way, rest);
	if (i < 0)
		expire();
	else
		complete((size_t)i);
}

void rank::operator()()
{
	for (const auto &s : steps)
		if (receives(
			    s)) /* messages set out when they are sent, not when they are awaited */
			mailbox(s)->set_receiver(sg::Actor::self());
	while (job >= 0 || !ready.empty() || !under_way.empty() || !arrivals.empty())
		if (job < 0 && !ready.empty())
			start(*ready.begin());
		else
			wait();
	for (int n : left)
		if (n > 0)
			exit(4);
}

/* -------------------------------------------------------------------------- calls -- */

/* Simulates a call in this process, which can make one engine only, and prints its row. */
static void simulate(const call &c)
{
	static char name[] = "simgrid_bench", quiet[] = "--log=root.thres:error",
		    model[] = "--cfg=network/model:CM02", window[] = "--cfg=network/TCP-gamma:0";
	char *argv[] = {name, quiet, model, window, nullptr};
	int argc = 4;
	sg::Engine engine(&argc, argv);
	const auto hosts = make_network(c.nranks);
	std::vector<int32_t> nodes;
	std::vector<rank> ranks;
	double end = 0;

	for (int r = 0; r < c.nranks; r++)
		nodes.push_back(r / host.node_size);
	for (int r = 0; r < c.nranks; r++) {
		coll_schedule_args_t args = {};

		args.size = sizeof(args);
		args.algorithm = c.id;
		args.nranks = c.nranks;
		args.rank = r;
		args.count = c.bytes;
		args.elem = 1;
		args.segment = 1 << 20;
		args.nodes = nodes.data();
		ranks.emplace_back(args);
	}
	for (auto &r : ranks)
		sg::Actor::create("r" + std::to_string(r.number), hosts[r.number], [&r]() { r(); });
	engine.run();
	for (const auto &r : ranks)
		end = r.end > end ? r.end : end;
	printf("%-16s %6d %6d %11llu    %-19s %14.3f\n", coll_kind_name(c.algorithm.kind), c.nranks,
	       nodes.back() + 1, (unsigned long long)c.bytes, c.algorithm.name, end * 1e6);
}

/* Returns whether the call can use the algorithm. */
static int fits(const coll_algorithm_info_t &a, int nranks)
{
	const int nodes = (nranks - 1) / host.node_size + 1;

	if (a.flags & COLL_ALGORITHM_POWER_OF_TWO && nranks & (nranks - 1))
		return 0;
	return !(a.flags & COLL_ALGORITHM_NODES) || (nodes > 1 && nodes < nranks);
}

static void one(const call &c)
{
	int status = 0;

	fflush(stdout);
	const pid_t child = fork();
	if (!child) {
		simulate(c);
		fflush(stdout);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0 || status)
		fprintf(stderr, "simgrid_bench: %s on %d ranks: no result (%d)\n", c.algorithm.name,
			c.nranks, status);
}

static void all(const char *name, const std::vector<uint64_t> &ranks,
		const std::vector<uint64_t> &sizes)
{
	for (int i = 0; i < coll_algorithm_count(); i++) {
		call c = {};

		c.id = i;
		c.algorithm.size = sizeof(c.algorithm);
		if (coll_algorithm(i, &c.algorithm) != COLL_SUCCESS ||
		    std::string(coll_kind_name(c.algorithm.kind)) + "/" + c.algorithm.name != name)
			continue;
		for (uint64_t n : ranks)
			for (uint64_t bytes : sizes) {
				c.nranks = (int)n;
				c.bytes = bytes;
				if (fits(c.algorithm, c.nranks))
					one(c);
			}
	}
}

static std::vector<uint64_t> list(const char *text)
{
	std::vector<uint64_t> numbers;
	char *end;

	for (;; text = end + 1) {
		numbers.push_back(strtoull(text, &end, 10));
		if (*end == 'K' || *end == 'M')
			numbers.back() <<= *end++ == 'K' ? 10 : 20;
		if (*end != ',')
			return numbers;
	}
}

static network times(const char *text)
{
	double l = 0, o = 0, byte = 0;

	if (sscanf(text, "%lf,%lf,%lf", &l, &o, &byte) != 3)
		exit(2);
	return {l * 1e-9, o * 1e-9, byte * 1e-9};
}

int main(int argc, char **argv)
{
	std::vector<uint64_t> ranks = {16}, sizes = {1 << 20};
	int option;

	while ((option = getopt(argc, argv, "r:s:N:f:n:R:l:")) != -1)
		switch (option) {
		case 'r': ranks = list(optarg); break;
		case 's': sizes = list(optarg); break;
		case 'N': host.node_size = atoi(optarg); break;
		case 'f': host.far = times(optarg); break;
		case 'n': host.near = times(optarg); break;
		case 'R': host.reduce = atof(optarg) * 1e-9; break;
		case 'l': sscanf(optarg, "%d,%lf", &host.switch_nodes, &host.share); break;
		default: return 2;
		}
	for (; optind < argc; optind++)
		all(argv[optind], ranks, sizes);
	return 0;
}
