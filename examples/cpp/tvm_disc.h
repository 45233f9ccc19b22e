// A saved program in C++: load it, read its signature, call it.
#ifndef TVM_DISC_H_
#define TVM_DISC_H_

#include <dlfcn.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace tvm_disc {

constexpr int32_t kAbiVersion = 4;

class Program {
 public:
  // Throws std::runtime_error if the file is no program, one of another ABI version, or one that
  // this processor does not run: the message says what it lacks, and what to build instead.
  explicit Program(const std::string& path) : module_(Load(path, &signature_)) {
    main_ = module_->GetFunction("main").value();
  }

  // Names, dtypes and shapes, such as "(x: float32[n, 16]) -> (float32[n, 10])".
  const std::string& signature() const { return signature_; }

  // Inputs in the signature's order, as ffi::Tensor or DLTensor*; the result is a tensor, or an
  // array where there are several. Follow the inputs by a tensor for each result to have them
  // written there: the result is then none.
  template <typename... Args>
  tvm::ffi::Any operator()(Args&&... args) const {
    return main_(std::forward<Args>(args)...);
  }

 private:
  static tvm::ffi::Module Load(const std::string& path, std::string* signature) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    auto abi = static_cast<const int32_t*>(dlsym(library, "tvm_disc_abi"));
    auto text = static_cast<const char*>(dlsym(library, "tvm_disc_signature"));
    if (abi == nullptr || text == nullptr) {
      throw std::runtime_error(path + ": not a program saved by tvm_disc");
    }
    if (*abi != kAbiVersion) {
      throw std::runtime_error(path + ": saved with ABI version " + std::to_string(*abi) +
                               ", this header reads version " + std::to_string(kAbiVersion) +
                               "; compile the model again");
    }
    *signature = text;
    tvm::ffi::Module module = tvm::ffi::Module::LoadFromFile(path);
    try {
      module->GetFunction("tvm_disc_check").value()(-1);
    } catch (const tvm::ffi::Error& error) {
      throw std::runtime_error(path + ": " + error.message());
    }
    return module;
  }

  std::string signature_;
  tvm::ffi::Module module_;
  tvm::ffi::Function main_{nullptr};
};

}  // namespace tvm_disc

#endif  // TVM_DISC_H_
