/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * work.h - a communicator of coll.h and the works whose operations it executes.
 *
 * The thread of `progress = thread` moves data, also while the application computes.  A thread in
 * Work::wait moves data itself.  Futures may run functions of the application, which a callback of
 * coll.h must not do: the communicator's completer completes them.  After the communicator's end getFuture() does.
 */
#ifndef COLL_TORCH_WORK_H
#define COLL_TORCH_WORK_H

#include "completer.h"
#include "device.h"

#include <c10/core/InferenceMode.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace coll_torch
{

class CollWork;
using WorkRef = c10::intrusive_ptr<CollWork>;
using Tensors = std::vector<at::Tensor>;

// The copies that a process group makes are its own affair: no gradient and no tracer sees them.
struct Unseen {
	at::NoGradGuard gradients;
	c10::impl::ExcludeDispatchKeyGuard tracers{c10::DispatchKeySet(
		{c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot})};
};

// Gives up Python's lock if this thread has it, and takes it again at the end.  Another thread, for which this one waits,
// may need the lock for a future's function, or for the end of a tensor that Python knows.
class NoGil
{
      public:
	NoGil() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : NULL)
	{
	}
	~NoGil()
	{
		if (state_)
			PyEval_RestoreThread(state_);
	}
	NoGil(const NoGil &) = delete;
	NoGil &operator=(const NoGil &) = delete;

      private:
	PyThreadState *const state_;
};

// Throws the text of the calling thread's last error if `code` is one.
inline void check_result(coll_result_t code, const char *what)
{
	if (code)
		throw_failure(std::string(what) + ": " + coll_get_last_error(NULL));
}

class Communicator : public std::enable_shared_from_this<Communicator>
{
      public:
	Communicator(coll_comm_t comm, std::chrono::milliseconds timeout)
	    : handle(comm), timeout(timeout)
	{
	}

	// Python's end is to close it, if the program has not.
	void open();
	static void close_all();
	// Keeps a work, and with it the buffers, until its operation is over.
	void keep(const WorkRef &work);
	void ended(CollWork *work, coll_result_t result);
	// The calling thread takes a future.  Throws if no thread can complete it.
	void take_future();
	// Has the future of the work completed as soon as the operation is over.  False: the caller completes it.
	bool complete_later(CollWork *work);
	// Ends the communicator and completes the futures.  Functions of futures have the group's timeout to end.  The
	// process group calls it before it ends.
	void close();

	const coll_comm_t handle;
	std::atomic<std::chrono::milliseconds> timeout; // the group's

      private:
	friend class CollWork;

	void complete(WorkRef work);
	// Operations may be under way, though the handle is not valid any more.  The mutex is held.
	bool is_closing() const
	{
		return closing_ && !closed_ && getpid() == process_;
	}

	std::mutex mutex_;
	std::condition_variable wake_;
	std::list<WorkRef> open_, ended_;
	const std::shared_ptr<Completer> completer_ = std::make_shared<Completer>();
	bool closing_ = false; // close() has begun
	bool closed_ = false;  // every operation is over
	const pid_t process_ =
		getpid(); // a child of fork has neither the communicator nor the thread
};

class CollWork : public c10d::Work
{
      public:
	CollWork(std::shared_ptr<Communicator> comm, int rank, c10d::OpType type, const char *title,
		 const Tensors &inputs)
	    : Work(rank, type, title, inputs), comm_(std::move(comm)), title_(title), kept_(inputs)
	{
	}
	~CollWork() override
	{
		coll_request_free(request_);
	}

	// The calls that prepare a work before issue().
	void keep(const at::Tensor &tensor)
	{
		kept_.push_back(tensor);
	}
	void then(std::function<void()> function)
	{
		epilogue_.push_back(std::move(function));
	}
	void set_outputs(std::vector<Tensors> outputs)
	{
		outputs_ = std::move(outputs);
	}

	// The tensors lie on the stream's device: the operation is ordered with the stream.
	void run_on(const DeviceStream &stream)
	{
		device_ = std::make_unique<OnDevice>(stream);
	}

	// Makes this work end after another one.
	void follow(const c10::intrusive_ptr<c10d::Work> &before);
	using Call = std::function<coll_result_t(coll_comm_t comm, coll_request_t *request)>;
	// Issues the operation or the message, which may take `timeout`.
	void issue(const Call &call, std::chrono::milliseconds timeout);
	void issue(coll_args_t args, std::chrono::milliseconds timeout);

	bool isCompleted() override;
	bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
	void synchronize() override;
	void abort() override;
	int sourceRank() const override;
	Tensors result() override;
	c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

      private:
	friend class Communicator;

	// Of a work whose operation is ordered with a stream.
	struct OnDevice {
		explicit OnDevice(const DeviceStream &on) : on(on), end(on.stream.device_type())
		{
		}

		const DeviceStream on;
		c10::Event end; // the results are there
	};

	void run_epilogue();
	void finish_on_device();
	coll_result_t await_device(std::chrono::steady_clock::time_point end, std::string *text);
	coll_result_t ask(int64_t limit, std::string *text);
	void settle(coll_result_t code, const std::string &text);
	void complete(c10::ivalue::Future &future);

	const std::shared_ptr<Communicator> comm_;
	const char *const title_;
	coll_request_t request_ = NULL;
	Tensors kept_; // buffers that must live until the end
	std::vector<std::function<void()>>
		epilogue_; // copies results to where the caller wants them
	std::vector<Tensors> outputs_;
	std::unique_ptr<OnDevice> device_; // NULL: results are there when the operation is over

	std::mutex settling_;
	std::atomic<bool> settled_{false};
	c10::intrusive_ptr<c10::ivalue::Future> future_;

	// The communicator's mutex protects these.
	std::list<WorkRef>::iterator place_;
	bool over_ = false, future_wanted_ = false;
	coll_result_t result_ = COLL_IN_PROGRESS;
};

// ---------------------------------------------------------------- Communicator

inline void Communicator::keep(const WorkRef &work)
{
	std::list<WorkRef> ended; // freed after the mutex
	std::lock_guard<std::mutex> lock(mutex_);

	ended.swap(ended_);
	work->place_ = open_.insert(open_.end(), work);
}

// Those that are open, and the lock of the list.
struct OpenCommunicators {
	std::mutex mutex;
	std::list<std::weak_ptr<Communicator>> list;

	static OpenCommunicators &of_process()
	{
		static auto *all = new OpenCommunicators; // no destructor: threads may outlive it

		return *all;
	}
};

inline void Communicator::open()
{
	OpenCommunicators &all = OpenCommunicators::of_process();
	std::lock_guard<std::mutex> lock(all.mutex);

	all.list.remove_if([](const auto &comm) { return comm.expired(); });
	all.list.push_back(shared_from_this());
}

inline void Communicator::close_all()
{
	OpenCommunicators &all = OpenCommunicators::of_process();
	std::list<std::weak_ptr<Communicator>> list;

	{
		std::lock_guard<std::mutex> lock(all.mutex);

		list.swap(all.list);
	}
	for (auto &entry : list)
		if (auto comm = entry.lock())
			comm->close();
}

// Runs inside calls of the library, on any thread.
inline void Communicator::ended(CollWork *work, coll_result_t result)
{
	std::lock_guard<std::mutex> lock(mutex_);

	work->over_ = true;
	work->result_ = result;
	if (closing_)
		wake_.notify_all(); // see CollWork::ask
	if (work->future_wanted_)
		complete(*work->place_);
	ended_.splice(ended_.end(), open_, work->place_);
}

// The mutex is held.
inline void Communicator::complete(WorkRef work)
{
	completer_->add([work = std::move(work)] { work->isCompleted(); });
}

inline void Communicator::take_future()
{
	if (getpid() != process_)
		return;
	Completer::may_wait();
	try {
		completer_->prepare();
	} catch (const std::system_error &error) {
		throw_failure(std::string("coll: no thread to complete a future: ") + error.what());
	}
}

inline bool Communicator::complete_later(CollWork *work)
{
	std::lock_guard<std::mutex> lock(mutex_);

	if (closed_ || getpid() != process_)
		return false;
	work->future_wanted_ = true;
	if (work->over_)
		complete(WorkRef::reclaim_copy(work));
	return true;
}

inline void Communicator::close()
{
	std::list<WorkRef> ended; // freed after the mutex
	std::unique_lock<std::mutex> lock(mutex_);
	const bool first = !closing_;

	closing_ = true;
	if (getpid() != process_) {
		completer_->detach();
		return;
	}
	if (first) {
		lock.unlock();
		coll_comm_destroy(handle); // every operation is over after it
		lock.lock();
		closed_ = true;
		wake_.notify_all();
	}
	wake_.wait(lock, [this] { return closed_; });
	lock.unlock();
	completer_->close(timeout);
	lock.lock();
	ended.swap(ended_);
}

// -------------------------------------------------------------------- CollWork

inline void CollWork::issue(coll_args_t args, std::chrono::milliseconds timeout)
{
	args.size = sizeof(args);
	if (device_) {
		order_streams(current_stream(device_->on.stream.device()), device_->on.stream);
		args.stream = device_->on.raw;
	}
	issue([&args](coll_comm_t comm,
		      coll_request_t *request) { return coll_request_issue(comm, &args, request); },
	      timeout);
	if (device_)
		finish_on_device();
}

// Results may go to tensors of inference mode, which nothing outside this mode may write, whatever the thread's mode is.
inline void CollWork::run_epilogue()
{
	Unseen unseen;
	c10::InferenceMode inference;

	for (auto &function : epilogue_)
		function();
}

// The results go to where the caller wants them on the stream, and so after the operation.
inline void CollWork::finish_on_device()
{
	const c10::Stream &stream = device_->on.stream;
	c10::StreamGuard current(stream);

	run_epilogue();
	epilogue_.clear();
	device_->end.record(stream);
	for (auto &tensor : kept_)
		use_on(tensor, stream);
	for (auto &tensor : result())
		use_on(tensor, stream);
}

inline void CollWork::issue(const Call &call, std::chrono::milliseconds timeout)
{
	check_result(call(comm_->handle, &request_), title_);
	comm_->keep(WorkRef::reclaim_copy(this));
	check_result(coll_request_set_callback(
			     request_,
			     [](void *user, coll_result_t result) {
				     auto *work = static_cast<CollWork *>(user);
				     work->comm_->ended(work, result);
			     },
			     this),
		     title_);
	check_result(coll_request_set_timeout(request_, timeout.count()), title_);
}

// Waits for the operation, at most `limit` milliseconds; -1: as long as the communicator waits.
inline coll_result_t CollWork::ask(int64_t limit, std::string *text)
{
	coll_result_t code = coll_wait_for(request_, limit);

	if (code && code != COLL_IN_PROGRESS)
		*text = coll_get_last_error(NULL);
	if (code == COLL_ERR_INVALID_ARGUMENT) { // the communicator is being destroyed, or was
		std::unique_lock<std::mutex> lock(comm_->mutex_);
		auto over = [this] { return over_ || !comm_->is_closing(); };

		// Until then the operation may write to its buffers.
		if (limit < 0)
			comm_->wake_.wait(lock, over);
		else if (!comm_->wake_.wait_for(lock, std::chrono::milliseconds(limit), over))
			return COLL_IN_PROGRESS;
		code = over_ ? result_ : COLL_ERR_ABORTED;
		*text = coll_error_string(code);
	}
	return code;
}

// The operation may be over already, but not settled: nobody has the work yet.
inline void CollWork::follow(const c10::intrusive_ptr<c10d::Work> &before)
{
	if (before && !device_) // a stream has them in order
		epilogue_.insert(epilogue_.begin(), [before] { before->wait(); });
}

// Takes the result of the operation, once.
inline void CollWork::settle(coll_result_t code, const std::string &text)
{
	NoGil no_gil;
	std::unique_lock<std::mutex> lock(settling_);
	std::exception_ptr error;

	if (settled_)
		return;
	if (code) {
		/* The words by which programs know a timeout of Gloo's. */
		error = failure_of(std::string(title_) +
				   (code == COLL_ERR_TIMEOUT ? ": Timed out waiting: " : ": ") +
				   text);
	} else {
		try {
			run_epilogue();
		} catch (...) {
			error = std::current_exception();
		}
	}
	epilogue_.clear();
	kept_.clear();
	finish(error);
	settled_ = true;
	auto future = future_;
	lock.unlock();
	if (future && !device_) // of a device it was complete at once
		complete(*future);
}

inline bool CollWork::isCompleted()
{
	std::string text;
	coll_result_t code = settled_ ? COLL_SUCCESS : ask(0, &text);

	if (code == COLL_IN_PROGRESS || (!code && device_ && !device_->end.query()))
		return false;
	settle(code, text);
	return true;
}

inline bool CollWork::wait(std::chrono::milliseconds timeout)
{
	std::string text;

	if (Completer::is_this_thread() && !isCompleted())
		Completer::may_wait();
	if (!settled_) {
		const bool limited = timeout.count() > 0;
		const auto end = std::chrono::steady_clock::now() + timeout;
		coll_result_t code = ask(limited ? timeout.count() : device_ ? 0 : -1, &text);

		if (!code && device_ && limited)
			code = await_device(end, &text);
		if (code == COLL_IN_PROGRESS && limited)
			throw_failure(std::string(title_) + ": Timed out waiting for " +
				      std::to_string(timeout.count()) +
				      " ms; the operation continues");
		if (code != COLL_IN_PROGRESS && (code || !device_))
			settle(code, text);
	}
	if (auto error = exception())
		std::rethrow_exception(error);
	synchronize();
	return true;
}

// The thread waits for the results of an operation that is over for coll.h: with nccl it may still be the stream's work.
inline coll_result_t CollWork::await_device(std::chrono::steady_clock::time_point end,
					    std::string *text)
{
	coll_result_t code = COLL_SUCCESS;

	while (!code && !device_->end.query()) {
		if (std::chrono::steady_clock::now() >= end)
			return COLL_IN_PROGRESS;
		std::this_thread::sleep_for(std::chrono::microseconds(200));
		coll_comm_get_async_error(comm_->handle, &code);
	}
	if (code)
		*text = coll_get_last_error(comm_->handle);
	return code;
}

// Later work of the current stream begins after the operation.
inline void CollWork::synchronize()
{
	if (device_)
		device_->end.block(current_stream(device_->on.stream.device()));
}

// Ends a receive to which no message has come; of a collective, all operations of the communicator.
inline void CollWork::abort()
{
	if (c10d::isP2POp(opType_))
		check_result(coll_request_cancel(request_), title_);
	else
		check_result(coll_comm_abort(comm_->handle), title_);
}

// The sender of a message that was received; else -1.
inline int CollWork::sourceRank() const
{
	coll_status_t status = {};

	status.size = sizeof(status);
	check_result(coll_request_get_status(request_, &status), title_);
	return status.source;
}

inline Tensors CollWork::result()
{
	Tensors all;

	for (auto &list : outputs_)
		all.insert(all.end(), list.begin(), list.end());
	return all;
}

inline c10::intrusive_ptr<c10::ivalue::Future> CollWork::getFuture()
{
	NoGil no_gil;
	if (!device_ && !settled_)
		comm_->take_future();
	std::unique_lock<std::mutex> lock(settling_);
	auto type = c10::ListType::create(c10::TensorType::get());

	if (future_)
		return future_;
	std::vector<c10::Device> devices;
	if (device_)
		devices.push_back(device_->on.stream.device());
	future_ = c10::make_intrusive<c10::ivalue::Future>(
		outputs_.size() > 1 ? c10::ListType::create(type) : type, devices);
	auto future = future_;
	bool settled = settled_;
	lock.unlock();
	if (device_) { // complete at once: what waits for it waits for the stream
		c10::StreamGuard current(device_->on.stream);

		complete(*future);
	} else if (settled)
		complete(*future);
	else if (!comm_->complete_later(this))
		isCompleted();
	return future;
}

// Runs the functions that wait for the future.
inline void CollWork::complete(c10::ivalue::Future &future)
{
	if (auto error = exception())
		future.setError(error);
	else if (outputs_.size() > 1)
		future.markCompleted(c10::IValue(outputs_));
	else
		future.markCompleted(c10::IValue(outputs_.empty() ? Tensors() : outputs_[0]));
}

} // namespace coll_torch

#endif
