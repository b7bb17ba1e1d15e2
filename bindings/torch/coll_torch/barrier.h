/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.h - the monitored barrier.  It is over the store, so that a rank which does not come does not fail the
 * communicator.  Each rank makes an entry when it comes; rank 0 waits for those of the others, and the others wait
 * for its report.  The sentences are ProcessGroupGloo's, by which programs know these faults; with every failure of
 * rank 0 the ranks that are missing are named.
 */
#ifndef COLL_TORCH_BARRIER_H
#define COLL_TORCH_BARRIER_H

#include "versions.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace coll_torch
{

class MonitoredBarrier
{
      public:
	using Clock = std::chrono::steady_clock;
	using Milliseconds = std::chrono::milliseconds;

	MonitoredBarrier(c10d::Store &store, uint64_t number, int rank, int size,
			 Milliseconds timeout)
	    : store_(store), rank_(rank), size_(size), timeout_(timeout),
	      name_("monitored_barrier_" + std::to_string(number) + "_")
	{
	}

	// Returns what went wrong; empty: all ranks have come.
	std::string pass(bool wait_all_ranks)
	{
		try {
			put(of(rank_), "1");
			std::string fault = rank_ ? follow() : lead(wait_all_ranks);
			return fault.empty() ? fault : heading() + fault;
		} catch (const std::exception &error) {
			return "rank " + std::to_string(rank_) +
			       " cannot use the store: " + error.what();
		}
	}

      private:
	std::string of(int rank) const
	{
		return name_ + std::to_string(rank);
	}

	void put(const std::string &key, const std::string &text)
	{
		store_.set(key, std::vector<uint8_t>(text.begin(), text.end()));
	}

	// Waits until the store has the key: by questions, since a wait of PyTorch 1.13 cannot be given up.  Its
	// TCPStore takes the late answer for that of the next question, and its FileStore counts whole seconds.
	bool appears(const std::string &key, Clock::time_point end)
	{
		Clock::duration pause = Milliseconds(1), left;

		while (!store_.check({key})) {
			left = end - Clock::now();
			if (left.count() <= 0)
				return false;
			std::this_thread::sleep_for(std::min(pause, left));
			pause = std::min<Clock::duration>(2 * pause, Milliseconds(50));
		}
		return true;
	}

	std::string heading() const
	{
		const std::string rank = "Rank " + std::to_string(rank_);

		return rank_ ? rank + " successfully reached monitoredBarrier, but received errors "
				      "while waiting for send/recv from rank 0: "
			     : rank + " timed out in monitoredBarrier: ";
	}

	// `ranks`: their numbers, with commas.
	std::string failed(const std::string &ranks) const
	{
		return (ranks.find(',') == std::string::npos ? "Rank " : "Ranks ") + ranks +
		       " failed to pass monitoredBarrier in " + std::to_string(timeout_.count()) +
		       " ms";
	}

	// Rank 0's part.
	std::string lead(bool wait_all_ranks)
	{
		auto end = Clock::now() + timeout_;
		std::string missing, report;

		for (int r = 1; r < size_ && (missing.empty() || wait_all_ranks); r++)
			if (!appears(of(r), end))
				missing += (missing.empty() ? "" : ", ") + std::to_string(r);
		if (!missing.empty())
			report = failed(missing);
		put(name_ + "report", report);
		// The store may end with this process: those that have come get the report first.
		end = Clock::now() + grace_;
		for (int r = 1; r < size_; r++)
			if (store_.check({of(r)}))
				appears(of(r) + "_heard", end);
		return report;
	}

	// Another rank's part.
	std::string follow()
	{
		// Rank 0 reports when its time is over, and the report takes a moment.
		const Milliseconds until_report = timeout_ + grace_;

		if (!appears(of(0), Clock::now() + timeout_))
			return failed("0");
		if (!appears(name_ + "report", Clock::now() + until_report))
			return "timed out: rank 0 did not report in " +
			       std::to_string(until_report.count()) + " ms";
		auto report = store_.get(name_ + "report");
		put(of(rank_) + "_heard", "1");
		return std::string(report.begin(), report.end());
	}

	c10d::Store &store_;
	int rank_, size_;
	Milliseconds timeout_, grace_{1000};
	std::string name_;
};

} // namespace coll_torch

#endif
