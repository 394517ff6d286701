// Pretends to a torch without CUDA that there is one CUDA device, so that fake CUDA tensors (FakeTensorMode) can run
// backward passes: autograd asks for a device guard, streams and events, all of which do nothing here. To be loaded
// before torch (LD_PRELOAD), in a process of its own.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace at {

struct CUDAHooks : CUDAHooksInterface {  // torch looks the class up by this name
  explicit CUDAHooks(CUDAHooksArgs = {}) {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  void init() const override {}
};
REGISTER_CUDA_HOOKS(CUDAHooks)

struct PretendedGuard : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
  static Device gpu() { return {c10::DeviceType::CUDA, 0}; }
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, gpu()); }
  Device exchangeDevice(Device) const override { return gpu(); }
  Device getDevice() const override { return gpu(); }
  c10::Stream getStream(Device) const noexcept override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
};
C10_REGISTER_GUARD_IMPL(CUDA, PretendedGuard)

}  // namespace at
