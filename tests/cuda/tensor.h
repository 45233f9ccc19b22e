// The functions of codegen/cuda/tensor.py. The threads of a warp exchange words and go on together.
//
// An address in shared memory is an offset in the section of all that threads share. Copies are done
// when a thread waits for them, or at once: a missing wait or barrier shows in one or the other.
static bool copies_are_late;
struct Copy { uint32_t to; const void* from; int bytes; };
static std::vector<std::vector<Copy>> groups[1024];
static uint32_t posted[2][1024][6];
static bool parity[1024];

static uint32_t room_end = 0;  // of dynamic shared memory, behind all other
static char* Shared(uint32_t at, int bytes) {
  if (room_end && at + bytes > room_end) Stop("bytes beyond the room of the launch", bytes, 16);
  if (at % bytes) Stop("bytes of shared memory are accessed at no multiple of them", bytes, 16);
  char* found = __start_emulated_shared + at;
  if (found + bytes > __stop_emulated_shared) Stop("bytes beyond shared memory", bytes, 16);
  return found;
}
static uint32_t disc_tensor_address(const void* at) {
  return (uint32_t)((const char*)at - __start_emulated_shared);
}
static void Do(const Copy& copy) {
  char* to = Shared(copy.to, 16);
  memset(to, 0, 16);
  if (copy.bytes) memcpy(to, copy.from, copy.bytes);
  unfenced[current] = true;
}
static void disc_tensor_copy(uint32_t to, const void* from, int32_t bytes) {
  if (bytes && (uintptr_t)from % 16) Stop("bytes are copied from no multiple of them", 16, 16);
  auto& mine = groups[current];
  if (mine.empty()) mine.emplace_back();
  mine.back().push_back({to, from, bytes});
  if (!copies_are_late) Do(mine.back().back());
}
static void disc_tensor_commit() { groups[current].emplace_back(); }
static void disc_tensor_wait(int32_t left) {
  auto& mine = groups[current];
  while ((int)mine.size() - 1 > left) {
    if (copies_are_late) {
      for (const Copy& copy : mine.front()) Do(copy);
    }
    mine.erase(mine.begin());
  }
}
// The words that each thread of the warp has given, row by row.
static uint32_t (*Exchange(const uint32_t* words, int count))[6] {
  bool now = parity[current] = !parity[current];
  memcpy(posted[now][current], words, 4 * count);
  Wait(kWarp);
  return posted[now] + current / 32 * 32;
}
static void disc_tensor_load(uint32_t* to, uint32_t at) {
  auto all = Exchange(&at, 1);
  for (int q = 0; q < 4; ++q) {
    memcpy(to + q, Shared(all[8 * q + current % 32 / 4][0], 16) + current % 4 * 4, 4);
  }
}
static void disc_tensor_load_transposed(uint32_t* to, uint32_t at) {
  auto all = Exchange(&at, 1);
  for (int q = 0; q < 4; ++q) {
    for (int k = 0; k < 2; ++k) {
      char* row = Shared(all[8 * q + current % 4 * 2 + k][0], 16);
      memcpy((char*)(to + q) + 2 * k, row + current % 32 / 4 * 2, 2);
    }
  }
}
static void disc_tensor_round(uint32_t* words) {
  for (int k = 0; k < 4; ++k) {
    if ((words[k] & 0x7f800000) != 0x7f800000) words[k] = (words[k] + 0x1000) & ~0x1fffu;
  }
}
static void disc_tensor_put(uint32_t at, float x, float y) {
  float two[2] = {x, y};
  memcpy(Shared(at, 8), two, 8);
}
static void disc_tensor_get(float* to, uint32_t at) { memcpy(to, Shared(at, 16), 16); }
static void disc_tensor_get_one(float* to, uint32_t at) { memcpy(to, Shared(at, 4), 4); }
static void disc_tensor_meet() { Wait(kWarp); }
// -- warpgroups: the products of a thread are computed when they are started, or when it waits.
struct Product { void (*run)(float*, uint32_t, uint32_t); float* sums; uint32_t a, b; };
static std::vector<std::vector<Product>> products[1024];
static void disc_tensor_group_fence() { unfenced[current] = false; }
static void disc_tensor_group_begin() {}
static void Start(Product product) {
  for (bool open : unfenced) {
    if (open) Stop("threads read copies that no fence follows", 1, 1);
  }
  auto& mine = products[current];
  if (mine.empty()) mine.emplace_back();
  mine.back().push_back(product);
  if (!copies_are_late) product.run(product.sums, product.a, product.b);
}
static void disc_tensor_group_commit() { products[current].emplace_back(); }
static void disc_tensor_group_wait(int32_t left) {
  auto& mine = products[current];
  while ((int)mine.size() - 1 > left) {
    if (copies_are_late) {
      for (const Product& p : mine.front()) p.run(p.sums, p.a, p.b);
    }
    mine.erase(mine.begin());
  }
}
static void disc_tensor_group_settle(float*) {}
struct Bfloat16 {
  static const int kElements = 2;
  static double At(uint32_t word, int k) { return __int_as_float(word >> 16 * k << 16); }
};
struct Float16 {
  static const int kElements = 2;
  static double At(uint32_t word, int k) {
    uint16_t bits = word >> 16 * k;
    _Float16 value;
    memcpy(&value, &bits, 2);
    return value;
  }
};
struct Float32 {  // as TF32: the last bits are not seen
  static const int kElements = 1;
  static double At(uint32_t word, int k) { return __int_as_float(word & ~0x1fffu); }
};
template <class T> static void Multiply(float* sums, const uint32_t* a, const uint32_t* b) {
  uint32_t words[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  auto all = Exchange(words, 6);
  for (int s = 0; s < 4; ++s) {
    int row = current % 32 / 4, column = current % 4 * 2 + s % 2;
    double total = sums[s];
    for (int half = 0; half < 2; ++half) {
      for (int k = 0; k < 4 * T::kElements; ++k) {
        int thread = k / T::kElements, part = k % T::kElements;
        total += T::At(all[row * 4 + thread][s / 2 + 2 * half], part) *
                 T::At(all[column * 4 + thread][4 + half], part);
      }
    }
    sums[s] = (float)total;
  }
}
static void disc_tensor_multiply_bfloat16(float* sums, const uint32_t* a, const uint32_t* b) {
  Multiply<Bfloat16>(sums, a, b);
}
static void disc_tensor_multiply_float16(float* sums, const uint32_t* a, const uint32_t* b) {
  Multiply<Float16>(sums, a, b);
}
static void disc_tensor_multiply_float32(float* sums, const uint32_t* a, const uint32_t* b) {
  Multiply<Float32>(sums, a, b);
}

// An element of an operand of a warpgroup: rows of 128 bytes, with their chunks exchanged.
template <class T> static double Element(uint32_t at, bool turned, int x, int k) {
  uint32_t place = turned ? at + x / 64 * 8192 + k * 128 + x % 64 * 2 : at + x * 128 + k * 2;
  place ^= (place >> 7 & 7) << 4;
  uint16_t bits;
  memcpy(&bits, Shared(place, 2), 2);
  return T::At(bits, 0);
}
template <class T, int N, bool A, bool B> static void GroupMultiply(float* sums, uint32_t a, uint32_t b) {
  int thread = current % 128, row = thread / 32 * 16 + thread % 32 / 4;
  for (int s = 0; s < N / 2; ++s) {
    int i = row + s % 4 / 2 * 8, j = s / 4 * 8 + thread % 4 * 2 + s % 2;
    double total = sums[s];
    for (int k = 0; k < 16; ++k) total += Element<T>(a, A, i, k) * Element<T>(b, B, j, k);
    sums[s] = (float)total;
  }
}
typedef Bfloat16 Named_bfloat16;
typedef Float16 Named_float16;
#define DISC_GROUP_MULTIPLY(NAME, TYPE, N, A, B) \
static void NAME(float* sums, uint32_t a, uint32_t b) { \
  Start({GroupMultiply<Named_##TYPE, N, A, B>, sums, a, b}); }
