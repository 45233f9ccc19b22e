// A driver of a GPU that is this processor: what of CUDA's driver compiled programs call.
//
// A "module" is the path of a library that the emulator has compiled. Memory of the device ends
// at a page that nobody may touch, and is itself closed but while a kernel or a copy runs: the
// host program that reads it, and the kernel that reads past its end, crash.
#include <dlfcn.h>
#include <sys/mman.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

typedef void (*Run)(void** args);
typedef void (*Launch)(Run, bool, int, int, void**, int);
struct Module { void* library; Launch launch; };
struct Function { Run run; Launch launch; bool barriers; };
struct Room { char* begin; size_t pages, bytes; };

static std::map<uint64_t, Room> rooms;
static std::recursive_mutex lock;
static int capability = 80, devices = 1, order = 0, refused = 0;
static uint64_t live = 0, limit = ~0ull, launches = 0, waits = 0, copies = 0;
#define HELD std::lock_guard<std::recursive_mutex> held(lock)

static const size_t kPage = 4096;
static void Open(bool open) {
  for (auto& [at, room] : rooms) {
    mprotect(room.begin, room.pages - kPage, open ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
}
struct Opened {
  Opened() { Open(true); }
  ~Opened() { Open(false); }
};

extern "C" {
void emulated_device(int number) { capability = number; }
void emulated_count(int number) { devices = number; }
void emulated_order(int number) { order = number; }
void emulated_limit(uint64_t bytes) { limit = bytes; }
void emulated_refuse(int status) { refused = status; }
uint64_t emulated_live() { return live; }
uint64_t emulated_launches() { return launches; }
uint64_t emulated_waits() { return waits; }
uint64_t emulated_copies() { return copies; }

int cuInit(unsigned) { return 0; }
int cuDeviceGetCount(int* count) { *count = devices; return devices ? 0 : 100; }
int cuDeviceGetName(char* name, int size, int) { snprintf(name, size, "Emulated GPU"); return 0; }
int cuDeviceGetAttribute(int* value, int which, int) {
  *value = which == 75 ? capability / 10 : which == 76 ? capability % 10 : 0;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) { *context = (void*)&rooms; return 0; }
int cuCtxSetCurrent(void* context) { return context == (void*)&rooms ? 0 : 201; }
int cuModuleLoadData(void** module, const char* image) {
  if (strncmp(image, "emulated ", 9)) return 200;
  void* library = dlopen(image + 9, RTLD_NOW | RTLD_LOCAL);
  if (!library) { fprintf(stderr, "emulator: %s\n", dlerror()); return 200; }
  *module = new Module{library, (Launch)dlsym(library, "emulated_launch")};
  return 0;
}
int cuModuleGetFunction(void** function, Module* module, const char* name) {
  std::string run = std::string("run_") + name, barriers = std::string("barriers_") + name;
  Run found = (Run)dlsym(module->library, run.c_str());
  if (!found) return 500;
  bool* waits = (bool*)dlsym(module->library, barriers.c_str());
  *function = new Function{found, module->launch, *waits};
  return 0;
}
int cuLaunchKernel(Function* f, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty,
                   unsigned tz, unsigned, void*, void** params, void**) {
  HELD;
  if (refused) return refused;
  if (!bx || !tx || tx > 1024 || by * bz * ty * tz != 1) return 1;
  Opened opened;
  ++launches;
  f->launch(f->run, f->barriers, bx, tx, params, order);
  return 0;
}
int cuMemAlloc_v2(uint64_t* out, size_t size) {
  HELD;
  if (!size || live + size > limit) return 2;
  size_t room = (size + 15) / 16 * 16, pages = (room + kPage - 1) / kPage * kPage + kPage;
  char* begin = (char*)mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                            -1, 0);
  if (begin == MAP_FAILED) return 2;
  memset(begin, 0xff, pages - kPage);
  mprotect(begin, pages, PROT_NONE);
  *out = (uint64_t)(begin + pages - kPage - room);
  rooms[*out] = Room{begin, pages, size};
  live += size;
  return 0;
}
int cuMemAllocAsync(uint64_t* out, size_t size, void*) { return cuMemAlloc_v2(out, size); }
int cuMemFreeAsync(uint64_t at, void*) {
  HELD;
  auto found = rooms.find(at);
  if (found == rooms.end()) {
    fprintf(stderr, "emulator: memory is freed that is none\n");
    abort();
  }
  live -= found->second.bytes;
  munmap(found->second.begin, found->second.pages);
  rooms.erase(found);
  return 0;
}
static int Copy(void* to, const void* from, size_t size) {
  HELD;
  if (refused) return refused;
  Opened opened;
  ++copies;
  memcpy(to, from, size);
  return 0;
}
int cuMemcpyHtoD_v2(void* to, const void* from, size_t size) { return Copy(to, from, size); }
int cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t size, void*) {
  return Copy(to, from, size);
}
int cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t size, void*) {
  return Copy(to, from, size);
}
int cuMemcpyDtoDAsync_v2(void* to, const void* from, size_t size, void*) {
  return Copy(to, from, size);
}
int cuStreamSynchronize(void*) { ++waits; return refused; }
int cuDeviceGetDefaultMemPool(void** pool, int) { *pool = (void*)&live; return 0; }
int cuMemPoolSetAttribute(void* pool, int which, void*) { return which == 4 ? 0 : 1; }
int cuMemPoolTrimTo(void*, size_t) { return 0; }
// NVRTC asks for it where it finds a driver.
int cuGetExportTable(void**, void*) { return 500; }
}
