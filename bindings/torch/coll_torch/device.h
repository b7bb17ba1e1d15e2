/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - calls on tensors of a CUDA device, by PyTorch's interfaces for any device: no header of CUDA is needed.
 *
 * As with PyTorch's backend for NCCL, a process group has a stream of its own on each device.  A call begins after the
 * earlier work of the current stream; Work::wait makes the current stream wait, not the thread.
 */
#ifndef COLL_TORCH_DEVICE_H
#define COLL_TORCH_DEVICE_H

#include "versions.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
#include <mutex>

namespace coll_torch
{

struct DeviceStream {
	c10::Stream stream;
	coll_stream_t raw;
};

inline c10::Stream current_stream(c10::Device device)
{
	return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

// The thread waits for the current stream of the device.
inline void synchronize_device(c10::Device device)
{
	c10::impl::VirtualGuardImpl(device.type()).synchronizeStream(current_stream(device));
}

// Later work of `stream` begins after the earlier work of `first`.
inline void order_streams(const c10::Stream &first, const c10::Stream &stream)
{
	c10::Event event(first.device_type());

	event.record(first);
	event.block(stream);
}

// The memory is not used anew before the stream has come to here.
inline void use_on(const at::Tensor &tensor, const c10::Stream &stream)
{
	if (tensor.defined() && tensor.device() == stream.device())
		c10::impl::VirtualGuardImpl(stream.device_type())
			.recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
}

class DeviceStreams
{
      public:
	DeviceStream of(c10::Device device)
	{
		std::unique_lock<std::mutex> lock(mutex_);
		auto found = streams_.find(device.index());

		if (found != streams_.end())
			return found->second;
		lock.unlock(); // for Python's lock
		DeviceStream made = make(device);
		lock.lock();
		return streams_.emplace(device.index(), made).first->second;
	}

      private:
	static DeviceStream make(c10::Device device)
	{
		c10::impl::VirtualGuardImpl impl(device.type());
		c10::Stream stream = impl.getStreamFromGlobalPool(device, false);
		c10::StreamGuard current(stream);
		pybind11::gil_scoped_acquire gil;

		auto raw = pybind11::module::import("torch._C").attr("_cuda_getCurrentRawStream");
		return {stream, reinterpret_cast<coll_stream_t>(
					raw(static_cast<int>(device.index())).cast<uintptr_t>())};
	}

	std::mutex mutex_;
	std::map<c10::DeviceIndex, DeviceStream> streams_;
};

} // namespace coll_torch

#endif
