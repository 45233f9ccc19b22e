// A saved program in C++: load it, read its signature, call it.
#ifndef TVM_DISC_H_
#define TVM_DISC_H_

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace tvm_disc {

constexpr int32_t kAbiVersion = 5;

class Program {
 public:
  // Loads a program. If a program was saved over a loaded one, the new file is loaded in addition.
  // For a program with code for several processors, selects the best level that this processor
  // supports, or `level`, by name.
  // Throws std::runtime_error if the file is not a program, is truncated, has another ABI version,
  // or needs another processor. In the last case, the message names the missing instruction sets
  // and a target to build for.
  explicit Program(const std::string& path, const std::string& level = "")
      : module_(Load(path, &signature_, &levels_)), level_(Choose(path, level)) {
    main_ = Function("main");
  }

  // Names, dtypes and shapes, such as "(x: float32[n, 16]) -> (float32[n, 10])".
  const std::string& signature() const { return signature_; }

  // The processor levels that the program was compiled for, by LLVM's names, the best one last. The
  // second function returns the level that runs.
  const std::vector<std::string>& levels() const { return levels_; }
  const std::string& level() const { return levels_[level_]; }

  // Both return a function of the program: its entry, or the function with this name. Throws
  // std::runtime_error if there is no function with the name.
  const tvm::ffi::Function& function() const { return main_; }
  tvm::ffi::Function Function(const std::string& name) const {
    auto found = module_->GetFunction(name + "_level_" + std::to_string(level_));
    if (!found.has_value()) throw std::runtime_error("the program has no function " + name);
    return found.value();
  }

  // Calls the program. The arguments are the inputs in the signature's order, as ffi::Tensor or
  // DLTensor*. Returns a tensor, or an array if there are several results. If one more tensor per
  // result follows the inputs, the program writes the results into these and returns None.
  template <typename... Args>
  tvm::ffi::Any operator()(Args&&... args) const {
    return main_(std::forward<Args>(args)...);
  }

  // Calls the program with a number of tensors that is known only at run time.
  tvm::ffi::Any Call(const std::vector<DLTensor*>& tensors) const {
    std::vector<tvm::ffi::AnyView> views(tensors.begin(), tensors.end());
    tvm::ffi::Any result;
    main_.CallPacked(views.data(), static_cast<int32_t>(views.size()), &result);
    return result;
  }

 private:
  // The program's file while it is checked and loaded. The file stays open, as its path may come to
  // refer to another file. It is loaded under a unique name, because the dynamic loader returns the
  // already loaded library for a known name.
  class File {
   public:
    explicit File(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_NONBLOCK)) {
      if (fd_ < 0) throw std::runtime_error(path + ": " + std::strerror(errno));
      const char* where = std::getenv("TMPDIR");
      folder_ = std::string(where != nullptr ? where : "/tmp") + "/tvm_disc.XXXXXX";
      struct stat status;
      std::string problem;
      if (fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
        problem = "not a program saved by tvm_disc";
      } else if (!Whole(status.st_size)) {
        problem = "not a program saved by tvm_disc, or truncated; save or copy it again";
      } else if (mkdtemp(folder_.data()) == nullptr) {
        problem = "no temporary folder: " + folder_;
      } else if (symlink(("/proc/self/fd/" + std::to_string(fd_)).c_str(), name().c_str()) != 0) {
        rmdir(folder_.c_str());
        problem = "no temporary name: " + name();
      }
      if (problem.empty()) return;
      close(fd_);
      throw std::runtime_error(path + ": " + problem);
    }
    ~File() {
      unlink(name().c_str());
      rmdir(folder_.c_str());
      close(fd_);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    std::string name() const { return folder_ + "/program.so"; }

   private:
    // Returns whether the file ends with a trailer that contains the file's length. Only Python's
    // `load` compares the trailer's checksums.
    bool Whole(int64_t size) const {
      char trailer[36];
      uint64_t library, manifest;
      if (pread(fd_, trailer, sizeof(trailer), size - 36) != 36) return false;
      std::memcpy(&library, trailer + 16, 8);
      std::memcpy(&manifest, trailer + 24, 8);
      return std::memcmp(trailer, "tvm_disc", 8) == 0 &&
             library + manifest + 36 == static_cast<uint64_t>(size);
    }

    int fd_;
    std::string folder_;
  };

  static tvm::ffi::Module Load(const std::string& path, std::string* signature,
                               std::vector<std::string>* levels) {
    const File file(path);
    void* library = dlopen(file.name().c_str(), RTLD_NOW | RTLD_LOCAL);
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
    std::istringstream lines(static_cast<const char*>(dlsym(library, "tvm_disc_levels")));
    for (std::string line; std::getline(lines, line);) levels->push_back(line);
    return tvm::ffi::Module::LoadFromFile(file.name());
  }

  int64_t Choose(const std::string& path, const std::string& level) const {
    auto found = std::find(levels_.begin(), levels_.end(), level);
    if (!level.empty() && found == levels_.end()) {
      throw std::runtime_error(path + ": has no level called " + level);
    }
    try {
      int64_t wanted = level.empty() ? -1 : found - levels_.begin();
      return module_->GetFunction("tvm_disc_check").value()(wanted).cast<int64_t>();
    } catch (const tvm::ffi::Error& error) {
      throw std::runtime_error(path + ": " + error.message());
    }
  }

  std::string signature_;
  std::vector<std::string> levels_;
  tvm::ffi::Module module_;
  int64_t level_;
  tvm::ffi::Function main_{nullptr};
};

}  // namespace tvm_disc

#endif  // TVM_DISC_H_
