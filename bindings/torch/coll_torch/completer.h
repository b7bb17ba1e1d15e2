/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * completer.h - the threads that complete the futures of a communicator, and so run the functions of the application
 * that wait for these futures.
 *
 * The functions run in the order in which the futures are due, one future after another, as long as none of them waits.
 * A function may itself wait for a future of the communicator.  Then another thread goes on with the next future: at once
 * if the function has called the process group, else after a moment.  So there is one idle thread more than functions that
 * wait, however deep they are nested.
 */
#ifndef COLL_TORCH_COMPLETER_H
#define COLL_TORCH_COMPLETER_H

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace coll_torch
{

class Completer : public std::enable_shared_from_this<Completer>
{
      public:
	using Function = std::function<void()>; // completes a future

	~Completer()
	{
		detach();
	}

	// Makes sure that a thread is idle.  Throws std::system_error if the system has no thread left.
	void prepare();
	// Has a thread call the function after those that were added before.
	void add(Function function);
	// Is the calling thread one of any completer?
	static bool is_this_thread()
	{
		return of_this_thread();
	}
	// If it is one, its function may wait from here on.
	static void may_wait();
	// Waits until all functions have been called and all threads have ended, at most `limit`.  A thread of any completer
	// does not wait.  Nothing is added any more.
	void close(std::chrono::milliseconds limit);
	// Lets go of the threads, of which a child of fork has none.
	void detach();

      private:
	using Clock = std::chrono::steady_clock;
	using Lock = std::unique_lock<std::mutex>;

	// A function that has not called the process group keeps the next one for so long.
	enum { PATIENCE_MS = 10 };

	static Completer *&of_this_thread()
	{
		static thread_local Completer *completer = nullptr;

		return completer;
	}

	void start_thread();
	void await_turn(Lock &lock);
	void run();
	void run_next(Lock &lock);
	void give_up_lead();

	std::mutex mutex_;
	std::condition_variable wake_, ended_;
	std::deque<Function> ready_;
	std::list<std::thread> threads_;
	int running_ = 0;        // threads that have not ended
	int idle_ = 0;           // of these, those that wait for a function
	std::thread::id leader_; // its function keeps the next one; none: no function does
	Clock::time_point led_since_;
	bool closed_ = false;
};

// The mutex is held.
inline void Completer::start_thread()
{
	threads_.emplace_back([self = shared_from_this()] { self->run(); });
	running_++;
	idle_++;
}

inline void Completer::prepare()
{
	Lock lock(mutex_);

	if (!idle_ && !closed_)
		start_thread();
}

inline void Completer::add(Function function)
{
	std::lock_guard<std::mutex> lock(mutex_);

	ready_.push_back(std::move(function));
	wake_.notify_one();
}

// The mutex is held.
inline void Completer::give_up_lead()
{
	if (leader_ != std::this_thread::get_id())
		return;
	leader_ = {};
	wake_.notify_one();
}

inline void Completer::may_wait()
{
	if (Completer *completer = of_this_thread()) {
		std::lock_guard<std::mutex> lock(completer->mutex_);

		completer->give_up_lead();
	}
}

// Returns when this thread can take the next function, or, if the completer is closed, when there is none.
inline void Completer::await_turn(Lock &lock)
{
	while (!closed_ || !ready_.empty()) {
		const Clock::time_point end = led_since_ + std::chrono::milliseconds(PATIENCE_MS);

		if (ready_.empty())
			wake_.wait(lock);
		else if (leader_ == std::thread::id())
			return;
		else if (Clock::now() < end)
			wake_.wait_until(lock, end);
		else
			leader_ = {};
	}
}

inline void Completer::run_next(Lock &lock)
{
	Function function = std::move(ready_.front());

	ready_.pop_front();
	leader_ = std::this_thread::get_id();
	led_since_ = Clock::now();
	if (!--idle_) {
		try {
			start_thread();
		} catch (const std::system_error &) {
			// A function that waits for a future asks for the thread again, by prepare().
		}
	}
	lock.unlock();
	function();
	function = nullptr;
	lock.lock();
	idle_++;
	give_up_lead();
}

inline void Completer::run()
{
	Lock lock(mutex_);

	of_this_thread() = this;
	for (await_turn(lock); !ready_.empty(); await_turn(lock))
		run_next(lock);
	idle_--;
	running_--;
	ended_.notify_all();
}

inline void Completer::close(std::chrono::milliseconds limit)
{
	Lock lock(mutex_);
	std::list<std::thread> threads;

	closed_ = true;
	wake_.notify_all();
	if (of_this_thread())
		return;
	const bool ended = ended_.wait_for(lock, limit, [this] { return !running_; });
	threads.swap(threads_);
	lock.unlock();
	for (auto &thread : threads)
		ended ? thread.join() : thread.detach();
	lock.lock();
	while (ended && !ready_.empty()) { // there was no thread
		Function function = std::move(ready_.front());
		ready_.pop_front();
		lock.unlock();
		function();
		function = nullptr;
		lock.lock();
	}
}

inline void Completer::detach()
{
	for (auto &thread : threads_)
		thread.detach();
	threads_.clear();
}

} // namespace coll_torch

#endif
