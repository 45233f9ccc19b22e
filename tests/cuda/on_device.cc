// Runs a saved program on a GPU as a C++ program would, with tensors of its own on the device:
//   on_device MODEL.so COLUMNS ROWS...
#include <iostream>

#include "tvm_disc.h"

namespace {

// What of the driver the example calls; it links none of it.
struct Driver {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  template <typename... Args>
  void operator()(const char* name, Args... args) const {
    auto code = reinterpret_cast<int (*)(Args...)>(dlsym(library, name));
    if (code == nullptr || code(args...) != 0) throw std::runtime_error(std::string(name) + " failed");
  }
};

DLTensor View(void* data, DLDeviceType device, int64_t* shape) {
  DLTensor tensor{};
  tensor.data = data;
  tensor.device = {device, 0};
  tensor.ndim = 2;
  tensor.dtype = {kDLFloat, 32, 1};
  tensor.shape = shape;
  return tensor;
}

void Run(const tvm_disc::Program& program, const Driver& driver, int64_t rows, int64_t columns) {
  std::vector<float> values(rows * columns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3.0f;
  size_t bytes = values.size() * sizeof(float);
  void* there = nullptr;
  driver("cuMemAlloc_v2", &there, bytes + 4);
  driver("cuMemcpyHtoD_v2", there, static_cast<const void*>(values.data()), bytes);
  int64_t shape[] = {rows, columns};
  DLTensor x = View(there, kDLCUDA, shape);
  auto y = program(&x).cast<tvm::ffi::Tensor>();
  std::vector<float> found(y.numel());
  void* stream = nullptr;
  driver("cuMemcpyDtoHAsync_v2", static_cast<void*>(found.data()), y.data_ptr(),
         found.size() * sizeof(float), stream);
  driver("cuStreamSynchronize", stream);
  double sum = 0.0;
  for (float value : found) sum += value;
  std::cout << rows << "x" << columns << " -> " << y.size(0) << " " << y.size(1) << " on "
            << (y.device().device_type == kDLCUDA ? "GPU" : "CPU") << ", sum " << sum << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    tvm_disc::Program program(argv[1]);
    int64_t columns = std::stoll(argv[2]), shape[] = {1, columns};
    std::vector<float> here(columns);
    DLTensor x = View(here.data(), kDLCPU, shape);
    try {
      program(&x);
    } catch (const std::exception& error) {
      std::cout << "refused: " << error.what() << std::endl;
    }
    Driver driver;
    void* context = nullptr;
    if (driver.library != nullptr) {
      driver("cuInit", 0u);
      driver("cuDevicePrimaryCtxRetain", &context, 0);
      driver("cuCtxSetCurrent", context);
    } else {
      x.device = {kDLCUDA, 0};
      program(&x);  // its own words for a machine without a driver
    }
    for (int k = 3; k < argc; ++k) Run(program, driver, std::stoll(argv[k]), columns);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
  return 0;
}
