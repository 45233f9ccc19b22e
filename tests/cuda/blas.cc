// cuBLASLt as far as programs call it: it multiplies what it is told of, and refuses what the real
// one would: attributes of other sizes, leading dimensions that are too small, matrices that do not
// fit each other, handles that are none. Batches lie at equal steps.
#include <dlfcn.h>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

struct Product { int compute, scale, transposed[2]; unsigned epilogue; const float* bias; };
struct Matrix { int type; uint64_t rows, columns; int64_t lead; int batch; int64_t step; };
static std::set<void*> alive;
static bool present = false, unable = false;
// Element at a place of an array of float32, float16 or bfloat16.
static float Get(const void* at, int type, int64_t k) {
  if (type == 0) return ((const float*)at)[k];
  if (type == 2) return ((const _Float16*)at)[k];
  uint32_t bits = (uint32_t)((const uint16_t*)at)[k] << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
static void Set(void* at, int type, int64_t k, float value) {
  if (type == 0) ((float*)at)[k] = value;
  if (type == 2) ((_Float16*)at)[k] = value;
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if (type == 14) ((uint16_t*)at)[k] = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
static int calls = 0, compute = 0, last_batch = 0;
static void* last_stream = nullptr;
static int handle;

template <class F> static F* Driver(const char* name) { return (F*)dlsym(RTLD_DEFAULT, name); }

extern "C" {
void fake_present(bool is) { present = is; }
void fake_unable(bool is) { unable = is; }
int fake_calls() { return calls; }
int fake_alive() { return alive.size(); }
int fake_compute() { return compute; }
int fake_batch() { return last_batch; }
uint64_t fake_stream() { return (uint64_t)last_stream; }

int cublasLtCreate(void** out) {
  *out = &handle;
  return present ? 0 : 1;
}
int cublasLtMatmulDescCreate(Product** out, int compute, int scale) {
  if (scale != 0 || (compute != 68 && compute != 77)) return 7;
  alive.insert(*out = new Product{compute, scale, {0, 0}, 1, nullptr});
  return 0;
}
int cublasLtMatmulDescSetAttribute(Product* product, int which, const void* value, size_t size) {
  if (!alive.count(product) || size != (which == 8 ? 8 : 4)) return 7;
  if (which == 3 || which == 4) memcpy(&product->transposed[which - 3], value, 4);
  else if (which == 7) memcpy(&product->epilogue, value, 4);
  else if (which == 8) memcpy(&product->bias, value, 8);
  else return 7;
  return 0;
}
int cublasLtMatmulDescDestroy(Product* product) { return alive.erase(product) ? 0 : 7; }
int cublasLtMatrixLayoutCreate(Matrix** out, int type, uint64_t rows, uint64_t columns,
                               int64_t lead) {
  if ((type != 0 && type != 2 && type != 14) || !rows || !columns || lead < (int64_t)rows) return 7;
  alive.insert(*out = new Matrix{type, rows, columns, lead, 1, 0});
  return 0;
}
int cublasLtMatrixLayoutSetAttribute(Matrix* matrix, int which, const void* value, size_t size) {
  if (!alive.count(matrix)) return 7;
  if (which == 5 && size == 4) memcpy(&matrix->batch, value, 4);
  else if (which == 6 && size == 8) memcpy(&matrix->step, value, 8);
  else return 7;
  return 0;
}
int cublasLtMatrixLayoutDestroy(Matrix* matrix) { return alive.erase(matrix) ? 0 : 7; }
int cublasLtMatmul(void* own, Product* product, const float* alpha, const void* a, Matrix* of_a,
                   const void* b, Matrix* of_b, const float* beta, const void* c, Matrix* of_c,
                   void* d, Matrix* of_d, const void* algorithm, void* workspace, size_t size,
                   void* stream) {
  if (unable) return 15;
  for (void* each : {(void*)product, (void*)of_a, (void*)of_b, (void*)of_c, (void*)of_d}) {
    if (!alive.count(each)) return 7;
  }
  bool ta = product->transposed[0], tb = product->transposed[1];
  uint64_t rows = ta ? of_a->columns : of_a->rows, depth = ta ? of_a->rows : of_a->columns;
  uint64_t columns = tb ? of_b->rows : of_b->columns;
  if ((tb ? of_b->columns : of_b->rows) != depth) return 7;
  if (of_a->type != of_b->type || (of_d->type && of_d->type != of_a->type)) return 15;
  if (of_d->rows != rows || of_d->columns != columns || c != d || of_c != of_d) return 7;
  if (of_a->batch != of_d->batch || of_b->batch != of_d->batch) return 7;
  if (own != &handle || *alpha != 1 || *beta != 0 || algorithm || workspace || size) return 7;
  if ((product->epilogue == 4) != (product->bias != nullptr)) return 7;
  const uint64_t used[] = {(uint64_t)a, (uint64_t)b, (uint64_t)d};
  Driver<void(void*, const uint64_t*, int)>("emulated_uses")(stream, used, 3);
  Driver<void(bool)>("emulated_open")(true);
  for (int g = 0; g < of_d->batch; ++g) {
    int64_t first = g * of_a->step, second = g * of_b->step, result = g * of_d->step;
    for (uint64_t j = 0; j < columns; ++j) {
      for (uint64_t i = 0; i < rows; ++i) {
        double sum = product->bias ? product->bias[i] : 0;
        for (uint64_t k = 0; k < depth; ++k) {
          float x = Get(a, of_a->type, first + (ta ? k + i * of_a->lead : i + k * of_a->lead));
          float y = Get(b, of_b->type, second + (tb ? j + k * of_b->lead : k + j * of_b->lead));
          sum += (double)x * y;
        }
        Set(d, of_d->type, result + i + j * of_d->lead, sum);
      }
    }
  }
  Driver<void(bool)>("emulated_open")(false);
  Driver<void(int)>("emulated_did")(-(int)columns);
  ++calls;
  compute = product->compute;
  last_batch = of_d->batch;
  last_stream = stream;
  return 0;
}
}
