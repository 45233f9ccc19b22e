// A driver of a GPU that is this processor: what of CUDA's driver compiled programs call.
//
// A "module" is the path of a library that the emulator has compiled. Memory of the device ends
// at a page that nobody may touch, and is itself closed but while a kernel or a copy runs: the
// host program that reads it, and the kernel that reads past its end, crash. Everything is done at
// once, but what a stream has no right to rely on is known: memory that is freed on one stream while
// another may still use it, or used before it is there, ends the process. Kernels of a graph run in
// the latest order that their dependencies allow.
#include <dlfcn.h>
#include <sys/mman.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

typedef void (*Run)(void** args);
typedef void (*Launch)(Run, bool, int, int, void**, int);
struct Module { void* library; Launch launch; };
struct Function { Run run; Launch launch; bool barriers; int params; int* room; unsigned most; };
typedef std::map<void*, uint64_t> Clocks;  // by stream: how much of what it was given is done
struct Room { char* begin; size_t pages, bytes; Clocks uses, made; };
struct Event { Clocks known; uint64_t works; bool recorded; };
struct Node {
  std::vector<Node*> after;
  Function* function;
  unsigned blocks, threads, room;
  std::vector<uint64_t> words;
  Event* event;
};
struct Graph { std::vector<Node*> nodes; };
struct Executable { Graph* graph; std::vector<Node*> order; std::map<Node*, Node> nodes; Clocks known; };

static std::map<uint64_t, Room> rooms;
static std::recursive_mutex lock;
static int capability = 80, devices = 1, order = 0, refused = 0;
static uint64_t live = 0, limit = ~0ull, launches = 0, works = 0, waits = 0, copies = 0, calls = 0;
static std::string failing;
static int last = 0;
static float (*times)(int) = nullptr;
static int failure = 0;
static std::set<void*> handles;
static std::map<void*, Clocks> streams;
static Clocks waited;  // what the host has waited for, and all that it gives from then on
#define HELD std::lock_guard<std::recursive_mutex> held(lock)

static const size_t kPage = 4096;
static void Open(bool open) {
  for (auto& [at, room] : rooms) {
    mprotect(room.begin, room.pages - kPage, open ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
}
static void Stop(const char* what) {
  fprintf(stderr, "emulator: %s\n", what);
  abort();
}
// Every call that may fail begins here: whether it is told to.
static bool Fails(const char* name) { ++calls; return refused || failing == name; }
static int Failure() { return refused ? refused : failure; }
#define FAILS if (Fails(__func__)) return Failure()
template <class T> static T* Alive(void* handle) {
  if (!handles.count(handle)) Stop("a handle is used that was destroyed, or is none");
  return (T*)handle;
}
static void Learn(Clocks& known, const Clocks& other) {
  for (auto& [stream, time] : other) known[stream] = std::max(known[stream], time);
}
static bool Covers(const Clocks& known, const Clocks& other) {
  for (auto& [stream, time] : other) {
    auto found = known.find(stream);
    if (found == known.end() || found->second < time) return false;
  }
  return true;
}
// One more thing that a stream does: what it uses was made in its order.
static void Uses(void* stream, const std::vector<uint64_t>& addresses) {
  Clocks& known = streams[stream];
  Learn(known, waited);
  uint64_t now = ++known[stream];
  for (uint64_t address : addresses) {
    auto next = rooms.upper_bound(address);
    if (next == rooms.begin()) continue;
    auto& [at, room] = *--next;
    if (address - at >= room.bytes) continue;
    if (!Covers(known, room.made)) Stop("a stream uses memory that another has not made yet");
    room.uses[stream] = now;
  }
}
// What lies around memory in its pages is as it was when that was taken.
static void CheckRim(uint64_t at, const Room& room) {
  auto clean = [](const char* from, const char* to) {
    return std::all_of(from, to, [](char c) { return c == (char)0xff; });
  };
  char *end = room.begin + room.pages - kPage, *last = (char*)at + room.bytes;
  mprotect(room.begin, room.pages - kPage, PROT_READ);
  if (!clean(room.begin, (char*)at) || !clean(last, end)) Stop("a kernel wrote beside its memory");
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
void emulated_fail(const char* name, int status) { failing = name; failure = status; }
// For libraries that run on the device.
void emulated_open(bool open) { Open(open); }
// What they did, as the clock is told of it.
void emulated_did(int what) { ++works; last = what; }
void emulated_uses(void* stream, const uint64_t* addresses, int count) {
  HELD;
  Uses(stream, std::vector<uint64_t>(addresses, addresses + count));
}
uint64_t emulated_calls() { return calls; }
uint64_t emulated_handles() { return handles.size(); }
uint64_t emulated_live() { return live; }
uint64_t emulated_launches() { return launches; }
uint64_t emulated_waits() { return waits; }
uint64_t emulated_copies() { return copies; }

int cuInit(unsigned) { FAILS; return 0; }
int cuDeviceGetCount(int* count) { *count = devices; return devices ? 0 : 100; }
int cuDeviceGetName(char* name, int size, int) { snprintf(name, size, "Emulated GPU"); return 0; }
int cuDeviceGetAttribute(int* value, int which, int) {
  *value = which == 75 ? capability / 10 : which == 76 ? capability % 10 : 0;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) { FAILS; *context = (void*)&rooms; return 0; }
int cuCtxSetCurrent(void* context) { return context == (void*)&rooms ? 0 : 201; }
int cuModuleLoadData(void** module, const char* image) {
  FAILS;
  if (strncmp(image, "emulated ", 9)) return 200;
  void* library = dlopen(image + 9, RTLD_NOW | RTLD_LOCAL);
  if (!library) { fprintf(stderr, "emulator: %s\n", dlerror()); return 200; }
  *module = new Module{library, (Launch)dlsym(library, "emulated_launch")};
  return 0;
}
int cuModuleGetFunction(void** function, Module* module, const char* name) {
  FAILS;
  std::string run = std::string("run_") + name, barriers = std::string("barriers_") + name;
  Run found = (Run)dlsym(module->library, run.c_str());
  if (!found) return 500;
  bool* waits = (bool*)dlsym(module->library, barriers.c_str());
  int* params = (int*)dlsym(module->library, (std::string("params_") + name).c_str());
  int* room = (int*)dlsym(module->library, "emulated_room");
  *function = new Function{found, module->launch, *waits, *params, room, 48 << 10};
  return 0;
}
int cuFuncSetAttribute(Function* f, int which, int value) {
  FAILS;
  if (which != 8 || value > 227 << 10 || capability < 90) return 1;
  f->most = value;
  return 0;
}
static int Run1(Function* f, unsigned blocks, unsigned threads, unsigned room, void** params,
                void* stream) {
  if (!blocks || !threads || threads > 1024 || room > f->most || (room && !f->room)) return 1;
  if (f->room) *f->room = room;
  std::vector<uint64_t> words;
  for (int k = 0; k < f->params; ++k) words.push_back(*(uint64_t*)params[k]);
  Uses(stream, words);
  Opened opened;
  ++launches, ++works;
  last = threads;
  f->launch(f->run, f->barriers, blocks, threads, params, order);
  return 0;
}
int cuLaunchKernel(Function* f, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty,
                   unsigned tz, unsigned room, void* stream, void** params, void**) {
  HELD;
  FAILS;
  return by * bz * ty * tz == 1 ? Run1(f, bx, tx, room, params, stream) : 1;
}
static int Allocate(uint64_t* out, size_t size, const Clocks& made) {
  HELD;
  if (!size || live + size > limit) return 2;
  size_t room = (size + 15) / 16 * 16, pages = (room + kPage - 1) / kPage * kPage + kPage;
  char* begin = (char*)mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                            -1, 0);
  if (begin == MAP_FAILED) return 2;
  memset(begin, 0xff, pages - kPage);
  mprotect(begin, pages, PROT_NONE);
  *out = (uint64_t)(begin + pages - kPage - room);
  rooms[*out] = Room{begin, pages, size, {}, made};
  live += size;
  return 0;
}
int cuMemAlloc_v2(uint64_t* out, size_t size) {
  if (Fails(__func__)) return Failure();
  return Allocate(out, size, {});
}
int cuMemAllocAsync(uint64_t* out, size_t size, void* stream) {
  HELD;
  ++calls;
  if (failing == __func__) return failure;
  return Allocate(out, size, {{stream, ++streams[stream][stream]}});
}
int cuMemFreeAsync(uint64_t at, void* stream) {
  HELD;
  ++calls;
  auto found = rooms.find(at);
  if (found == rooms.end()) Stop("memory is freed that is none");
  Learn(streams[stream], waited);
  if (!Covers(streams[stream], found->second.uses)) {
    Stop("a stream frees memory that another may still use");
  }
  CheckRim(at, found->second);
  live -= found->second.bytes;
  munmap(found->second.begin, found->second.pages);
  rooms.erase(found);
  return 0;
}
static int Copy(void* to, const void* from, size_t size, void* stream) {
  Uses(stream, {(uint64_t)to, (uint64_t)from});
  Opened opened;
  ++copies;
  memcpy(to, from, size);
  return 0;
}
int cuMemcpyHtoD_v2(void* to, const void* from, size_t size) {
  HELD;
  FAILS;
  Opened opened;
  ++copies;
  memcpy(to, from, size);
  return 0;
}
int cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t size, void* stream) {
  HELD;
  FAILS;
  return Copy(to, from, size, stream);
}
int cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t size, void* stream) {
  HELD;
  FAILS;
  return Copy(to, from, size, stream);
}
int cuMemcpyDtoDAsync_v2(void* to, const void* from, size_t size, void* stream) {
  HELD;
  FAILS;
  return Copy(to, from, size, stream);
}
int cuStreamSynchronize(void* stream) {
  HELD;
  ++waits;
  FAILS;
  Learn(waited, streams[stream]);
  return 0;
}
int cuCtxSynchronize() {
  HELD;
  FAILS;
  for (auto& [stream, known] : streams) Learn(waited, known);
  return 0;
}
int cuMemFree_v2(uint64_t at) {
  HELD;
  FAILS;
  auto found = rooms.find(at);
  if (found == rooms.end()) Stop("memory is freed that is none");
  if (!Covers(waited, found->second.uses)) Stop("memory is freed that a stream may still use");
  CheckRim(at, found->second);
  live -= found->second.bytes;
  munmap(found->second.begin, found->second.pages);
  rooms.erase(found);
  return 0;
}
int cuEventCreate(Event** event, unsigned) {
  HELD;
  FAILS;
  handles.insert(*event = new Event{});
  return 0;
}
// What the time between two events is, in milliseconds, by threads of the last launch, or what else
// was done: the test says.
void emulated_times(float (*given)(int threads)) { times = given; }
int cuEventRecord(Event* event, void* stream) {
  HELD;
  FAILS;
  Alive<Event>(event)->known = streams[stream];
  Alive<Event>(event)->works = works;
  event->recorded = true;
  return 0;
}
int cuEventSynchronize(Event* event) {
  HELD;
  FAILS;
  ++waits;
  Learn(waited, Alive<Event>(event)->known);
  return 0;
}
int cuEventElapsedTime(float* ms, Event* begin, Event* end) {
  HELD;
  FAILS;
  if (!Alive<Event>(begin)->recorded || !Alive<Event>(end)->recorded) return 400;
  uint64_t between = Alive<Event>(end)->works - Alive<Event>(begin)->works;
  *ms = between && times ? times(last) : 0.0f;
  return 0;
}
int cuEventDestroy_v2(Event* event) {
  HELD;
  handles.erase(Alive<Event>(event));
  return 0;
}
int cuStreamWaitEvent(void* stream, Event* event, unsigned) {
  HELD;
  FAILS;
  Learn(streams[stream], Alive<Event>(event)->known);
  return 0;
}

// -- graphs: nodes are values, an executable graph is a copy of them.
struct KernelParams {
  Function* function;
  unsigned bx, by, bz, tx, ty, tz, shared;
  void **params, **extra;
};
static int Set(Node* node, const KernelParams* given) {
  if (!given->bx || !given->tx || given->by * given->bz * given->ty * given->tz != 1) return 1;
  if (given->extra) return 1;
  node->function = given->function;
  node->blocks = given->bx;
  node->threads = given->tx;
  node->room = given->shared;
  node->words.clear();
  for (int k = 0; k < given->function->params; ++k) {
    node->words.push_back(*(uint64_t*)given->params[k]);
  }
  return 0;
}
static int Add(Node** out, Graph* graph, Node** after, size_t count, Node node) {
  Alive<Graph>(graph);
  for (size_t k = 0; k < count; ++k) {
    bool own = false;
    for (Node* other : graph->nodes) own |= other == after[k];
    if (!own) return 1;
    node.after.push_back(after[k]);
  }
  graph->nodes.push_back(*out = new Node(node));
  return 0;
}
int cuGraphCreate(Graph** graph, unsigned flags) {
  HELD;
  FAILS;
  handles.insert(*graph = new Graph{});
  return flags ? 1 : 0;
}
int cuGraphDestroy(Graph* graph) {
  HELD;
  handles.erase(Alive<Graph>(graph));
  return 0;
}
int cuGraphAddKernelNode(Node** out, Graph* graph, Node** after, size_t count,
                         const KernelParams* params) {
  HELD;
  FAILS;
  Node node{};
  int status = Set(&node, params);
  return status ? status : Add(out, graph, after, count, node);
}
int cuGraphAddEventRecordNode(Node** out, Graph* graph, Node** after, size_t count, Event* event) {
  HELD;
  FAILS;
  Node node{};
  node.event = Alive<Event>(event);
  return Add(out, graph, after, count, node);
}
int cuGraphInstantiateWithFlags(Executable** out, Graph* graph, uint64_t flags) {
  HELD;
  FAILS;
  auto made = new Executable{Alive<Graph>(graph)};
  std::set<Node*> ended;
  while (ended.size() < graph->nodes.size()) {
    for (auto k = graph->nodes.rbegin(); k != graph->nodes.rend(); ++k) {
      bool ready = !ended.count(*k);
      for (Node* before : (*k)->after) ready &= ended.count(before) > 0;
      if (!ready) continue;
      ended.insert(*k);
      made->order.push_back(*k);
      made->nodes[*k] = **k;
      break;
    }
  }
  handles.insert(*out = made);
  return flags ? 1 : 0;
}
int cuGraphExecKernelNodeSetParams(Executable* executable, Node* node, const KernelParams* params) {
  HELD;
  FAILS;
  Alive<Graph>(Alive<Executable>(executable)->graph);
  auto found = executable->nodes.find(node);
  if (found == executable->nodes.end() || found->second.function != params->function) return 1;
  return Set(&found->second, params);
}
int cuGraphExecDestroy(Executable* executable) {
  HELD;
  handles.erase(Alive<Executable>(executable));
  return 0;
}
int cuGraphLaunch(Executable* executable, void* stream) {
  HELD;
  FAILS;
  Learn(streams[stream], Alive<Executable>(executable)->known);
  for (Node* each : executable->order) {
    Node& node = executable->nodes[each];
    if (node.event) {
      Alive<Event>(node.event)->known = streams[stream];
      continue;
    }
    std::vector<void*> params;
    for (uint64_t& word : node.words) params.push_back(&word);
    if (int status = Run1(node.function, node.blocks, node.threads, node.room, params.data(), stream)) {
      return status;
    }
  }
  executable->known = streams[stream];
  return 0;
}
int cuDeviceGetDefaultMemPool(void** pool, int) { FAILS; *pool = (void*)&live; return 0; }
int cuMemPoolSetAttribute(void* pool, int which, void*) { return which == 4 ? 0 : 1; }
int cuMemPoolTrimTo(void*, size_t) { return 0; }
// NVRTC asks for it where it finds a driver.
int cuGetExportTable(void**, void*) { return 500; }
}
