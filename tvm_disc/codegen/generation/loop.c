/* The loop that generates tokens: choose each row's next token from the scores (logits), run the
 * step of the model on these tokens, and repeat.
 *
 * Programs of language models contain this code as LLVM IR (loop.ll), written by
 * `python -m tests.codegen.c_code --write`. The macros are the words of tvm_disc/abi/generation.py,
 * which describes the plan. Addresses are passed as integers, as in TIR. Sampling uses the
 * algorithm of runtime/text/choice.py: a sort of all scores could take longer than a step.
 * Therefore tokens are counted in bins of scores, and only the tokens of one bin are sorted.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { WIDTH = 16, BLOCK = 256 };
typedef float Lanes __attribute__((vector_size(4 * WIDTH)));
typedef int32_t Masks __attribute__((vector_size(4 * WIDTH)));
typedef uint32_t Bits __attribute__((vector_size(4 * WIDTH)));

/* TVM's structs, with the fields that this code uses. */
typedef struct {
  int32_t type_index;
  uint32_t padding;
  int64_t value;
} Any;
typedef struct {
  uint64_t references;
  int32_t type_index;
  uint32_t padding;
  void *deleter;
  int (*call)(void *self, const Any *arguments, int32_t count, Any *result);
} Function;
typedef struct {
  void *data;
} Tensor;

#define INLINE static inline __attribute__((always_inline))

INLINE void *address(const int64_t *plan, int word) { return (void *)(intptr_t)plan[word]; }

INLINE double number(const int64_t *plan, int word) {
  double value;
  memcpy(&value, plan + word, sizeof value);
  return value;
}

INLINE Lanes load(const float *at) {
  Lanes lanes;
  memcpy(&lanes, at, sizeof lanes);
  return lanes;
}

INLINE void store(float *at, Lanes lanes) { memcpy(at, &lanes, sizeof lanes); }

INLINE Lanes all(float value) { return value - (Lanes){0}; }

INLINE Lanes pick(Masks where, Lanes one, Lanes other) {
  Masks a, b;
  memcpy(&a, &one, sizeof a);
  memcpy(&b, &other, sizeof b);
  a = (a & where) | (b & ~where);
  memcpy(&one, &a, sizeof one);
  return one;
}

/* Load `count` numbers, at most WIDTH; the other lanes are `rest`. */
INLINE Lanes load_part(const float *at, int64_t count, float rest) {
  float part[WIDTH];
  for (int k = 0; k < WIDTH; k++)
    part[k] = k < count ? at[k] : rest;
  return load(part);
}

INLINE void store_part(float *at, int64_t count, Lanes lanes) {
  float part[WIDTH];
  store(part, lanes);
  for (int k = 0; k < WIDTH && k < count; k++)
    at[k] = part[k];
}

/* Return exp(x) for x <= 0, with an error of at most 2e-7; 0 for x below -87. */
INLINE Lanes exponential(Lanes x) {
  Lanes shifted = x * 1.44269504f + 12582912.0f; /* rounds to an integer */
  Lanes n = shifted - 12582912.0f;
  Lanes r = x - n * 0.693145752f - n * 1.42860677e-6f;
  Lanes p = all(1.0f / 720);
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  Bits bits, value;
  memcpy(&bits, &shifted, sizeof bits);
  memcpy(&value, &p, sizeof value);
  value += bits << 23;
  memcpy(&p, &value, sizeof p);
  return pick(x > -87.0f, p, all(0.0f));
}

/* Return the largest of n numbers; `wrong` becomes nonzero if one of them is NaN. */
INLINE float largest(const float *x, int64_t n, int *wrong) {
  Lanes most = all(-INFINITY);
  Masks bad = {0};
  for (int64_t k = 0; k < n; k += WIDTH) {
    Lanes v = n - k < WIDTH ? load_part(x + k, n - k, -INFINITY) : load(x + k);
    most = pick(v > most, v, most);
    bad |= v != v;
  }
  float top = -INFINITY;
  *wrong = 0;
  for (int k = 0; k < WIDTH; k++) {
    top = most[k] > top ? most[k] : top;
    *wrong |= bad[k];
  }
  return top;
}

/* Return the first position of `wanted`, which must occur. */
INLINE int64_t first(const float *x, int64_t n, float wanted) {
  int64_t block = 0;
  for (; block + BLOCK <= n; block += BLOCK) {
    Masks found = {0};
    for (int64_t k = block; k < block + BLOCK; k += WIDTH)
      found |= load(x + k) == wanted;
    int32_t some = 0;
    for (int k = 0; k < WIDTH; k++)
      some |= found[k];
    if (some)
      break;
  }
  while (block < n - 1 && x[block] != wanted)
    block++;
  return block;
}

/* Return one of the positions of `wanted`, all with equal probability. */
INLINE int64_t one_of_equal(const float *x, int64_t n, float wanted, double draw) {
  int64_t count = 0, last = 0;
  for (int64_t k = 0; k < n; k++)
    count += x[k] == wanted;
  int64_t place = (int64_t)(draw * (double)count);
  for (int64_t k = 0; k < n; k++)
    if (x[k] == wanted) {
      last = k;
      if (place-- == 0)
        break;
    }
  return last;
}

/* Tokens that may be chosen: `logs` and `chances` are log probabilities and probabilities, relative
 * to the most probable token. If `kept` is 0, entry k is token k; otherwise it is `tokens[k]`. The
 * other fields are memory for counting and sorting. */
typedef struct {
  float log, chance;
  int32_t token;
} Entry;
typedef struct {
  float *logs, *chances;
  int32_t *tokens;
  int64_t count;
  int kept;
  int64_t *counts;
  double *sums;
  Entry *entries;
} Choice;

INLINE int before(Entry a, Entry b) { return a.log > b.log || (a.log == b.log && a.token < b.token); }

INLINE void sift(Entry *heap, int64_t root, int64_t count) {
  Entry moved = heap[root];
  for (int64_t child; (child = 2 * root + 1) < count; root = child) {
    if (child + 1 < count && before(heap[child], heap[child + 1]))
      child++;
    if (!before(moved, heap[child]))
      break;
    heap[root] = heap[child];
  }
  heap[root] = moved;
}

/* Sort by decreasing probability; tokens of equal probability are sorted by number. */
INLINE void sort(Entry *entries, int64_t count) {
  for (int64_t root = count / 2 - 1; root >= 0; root--)
    sift(entries, root, count);
  for (int64_t last = count - 1; last > 0; last--) {
    Entry top = entries[0];
    entries[0] = entries[last];
    entries[last] = top;
    sift(entries, 0, last);
  }
}

/* Return the factor that maps log probabilities to bins. */
INLINE float bin_factor(const Choice *choice) {
  Lanes least = {0};
  for (int64_t k = 0; k < choice->count; k += WIDTH) {
    int64_t rest = choice->count - k;
    Lanes v = rest < WIDTH ? load_part(choice->logs + k, rest, 0.0f) : load(choice->logs + k);
    least = pick(v < least, v, least);
  }
  double spread = 0;
  for (int k = 0; k < WIDTH; k++)
    spread = -least[k] > spread ? -least[k] : spread;
  spread = spread < RANGE ? spread : RANGE;
  return (float)(-(double)BINS / (spread > 1e-30 ? spread : 1e-30));
}

INLINE int bin_of(float log, float factor) {
  float scaled = log * factor;
  return scaled < BINS - 1 ? (int)scaled : BINS - 1;
}

/* Copy the tokens of one bin to `entries` and sort them; return their number. */
INLINE int64_t sorted_bin(const Choice *choice, float factor, int bin) {
  int64_t count = 0;
  for (int64_t k = 0; k < choice->count; k++)
    if (bin_of(choice->logs[k], factor) == bin)
      choice->entries[count++] = (Entry){choice->logs[k], choice->chances[k],
                                         choice->kept ? choice->tokens[k] : (int32_t)k};
  sort(choice->entries, count);
  return count;
}

INLINE void keep(Choice *choice, int64_t *count, int64_t k) {
  choice->tokens[*count] = choice->kept ? choice->tokens[k] : (int32_t)k;
  choice->logs[*count] = choice->logs[k];
  choice->chances[(*count)++] = choice->chances[k];
}

/* Keep the `most` tokens of the highest scores, and tokens whose score equals the last one. */
INLINE void keep_highest(Choice *choice, int64_t most) {
  float factor = bin_factor(choice);
  int64_t counted = 0, count = 0;
  int bin = 0;
  memset(choice->counts, 0, BINS * sizeof *choice->counts);
  for (int64_t k = 0; k < choice->count; k++)
    choice->counts[bin_of(choice->logs[k], factor)]++;
  while (counted + choice->counts[bin] < most)
    counted += choice->counts[bin++];
  sorted_bin(choice, factor, bin);
  float least = choice->entries[most - counted - 1].log;
  for (int64_t k = 0; k < choice->count; k++)
    if (choice->logs[k] >= least)
      keep(choice, &count, k);
  choice->count = count;
  choice->kept = 1;
}

/* Keep the most probable tokens. A token is kept if the probabilities of all more probable tokens
 * add up to less than the fraction `share` of the total. */
INLINE void keep_probable(Choice *choice, double share) {
  float factor = bin_factor(choice);
  memset(choice->sums, 0, BINS * sizeof *choice->sums);
  for (int64_t k = 0; k < choice->count; k++)
    choice->sums[bin_of(choice->logs[k], factor)] += choice->chances[k];
  double total = 0, sum = 0, own = 0;
  for (int bin = 0; bin < BINS; bin++)
    total += choice->sums[bin];
  int bin = 0;
  while (bin < BINS - 1 && sum + choice->sums[bin] < share * total)
    sum += choice->sums[bin++];
  int64_t inside = sorted_bin(choice, factor, bin), count = 0;
  for (int64_t k = 0; k < choice->count; k++)
    if (bin_of(choice->logs[k], factor) < bin)
      keep(choice, &count, k);
  for (int64_t k = 0; k < inside; k++) {
    own += choice->entries[k].chance;
    if (sum + own - choice->entries[k].chance >= share * total)
      break;
    choice->tokens[count] = choice->entries[k].token;
    choice->chances[count++] = choice->entries[k].chance;
  }
  choice->count = count;
  choice->kept = 1;
}

INLINE double sum_of(const float *x, int64_t count) {
  double sum = 0;
  if (count == BLOCK) {
    Lanes lanes = {0};
    for (int k = 0; k < BLOCK; k += WIDTH)
      lanes += load(x + k);
    for (int k = 0; k < WIDTH; k++)
      sum += lanes[k];
  } else {
    for (int64_t k = 0; k < count; k++)
      sum += x[k];
  }
  return sum;
}

/* Return the position at which the cumulative probability exceeds `draw`, in [0, 1). */
INLINE int64_t place_of(const float *chances, int64_t count, double draw) {
  double total = 0, sum = 0;
  for (int64_t k = 0; k < count; k += BLOCK)
    total += sum_of(chances + k, count - k < BLOCK ? count - k : BLOCK);
  double wanted = draw * total;
  int64_t block = 0;
  for (; block + BLOCK < count; block += BLOCK) {
    double own = sum_of(chances + block, BLOCK);
    if (sum + own > wanted)
      break;
    sum += own;
  }
  int64_t found = 0;
  for (int64_t k = 0; k < count; k++) {
    if (k < block && chances[k] > 0)
      found = k;
    if (k < block)
      continue;
    if (chances[k] > 0)
      found = k;
    sum += chances[k];
    if (sum > wanted)
      break;
  }
  return found;
}

/* Return the token that `draw`, in [0, 1), selects; scores become log probabilities. */
INLINE int64_t drawn(const int64_t *plan, float *scores, float top, double draw) {
  int64_t n = plan[VOCABULARY];
  if (!isfinite(top))
    return one_of_equal(scores, n, top, draw);
  char *memory = address(plan, SCRATCH);
  Choice choice = {.logs = scores, .count = n, .kept = 0};
  choice.counts = (int64_t *)memory;
  choice.sums = (double *)(memory + 8 * BINS);
  choice.entries = (Entry *)(memory + 16 * BINS);
  choice.chances = (float *)(choice.entries + n);
  choice.tokens = (int32_t *)(choice.chances + n);
  double temperature = number(plan, TEMPERATURE);
  Lanes by = all(temperature > 1.17549435e-38 ? (float)temperature : 1.17549435e-38f);
  for (int64_t k = 0; k < n; k += WIDTH) {
    int64_t rest = n - k;
    Lanes v = rest < WIDTH ? load_part(scores + k, rest, top) : load(scores + k);
    v = (v - top) / by;
    if (rest < WIDTH) {
      store_part(scores + k, rest, v);
      store_part(choice.chances + k, rest, exponential(v));
    } else {
      store(scores + k, v);
      store(choice.chances + k, exponential(v));
    }
  }
  if (plan[TOP_K] > 0 && plan[TOP_K] < n)
    keep_highest(&choice, plan[TOP_K]);
  if (number(plan, TOP_P) < 1)
    keep_probable(&choice, number(plan, TOP_P));
  int64_t place = place_of(choice.chances, choice.count, draw);
  return choice.kept ? choice.tokens[place] : place;
}

/* Lower the scores of tokens that occurred. */
INLINE void penalize(const int64_t *plan, float *scores, const uint8_t *occurred) {
  double by = number(plan, PENALTY);
  for (int64_t k = 0; k < plan[VOCABULARY]; k++)
    if (occurred[k])
      scores[k] = (float)(scores[k] * (scores[k] > 0 ? 1 / by : by));
}

/* Choose a token for each row from the scores. Return NOT_A_NUMBER if a score is NaN. */
INLINE int64_t choose(const int64_t *plan, int64_t *chosen, const double *draws) {
  int64_t n = plan[VOCABULARY], *tokens = address(plan, TOKENS);
  float *scores = address(plan, SCORES);
  uint8_t *occurred = address(plan, OCCURRED), *ended = address(plan, ENDED);
  int wrong = 0;
  for (int64_t row = 0; row < plan[BATCH] && !wrong; row++)
    largest(scores + row * n, n, &wrong);
  if (wrong)
    return NOT_A_NUMBER;
  for (int64_t row = 0; row < plan[BATCH]; row++) {
    float *own = scores + row * n;
    if (occurred)
      penalize(plan, own, occurred + row * n);
    float top = largest(own, n, &wrong);
    int64_t token = number(plan, TEMPERATURE) == 0 ? first(own, n, top)
                                                   : drawn(plan, own, top, draws[row]);
    if (ended[row])
      token = tokens[row];
    for (int64_t k = 0; k < plan[STOP_COUNT]; k++)
      ended[row] |= ((int64_t *)address(plan, STOPS))[k] == token;
    if (occurred)
      occurred[row * n + token] = 1;
    tokens[row] = chosen[row] = token;
  }
  return DONE;
}

/* Run the step on the last token of each row. Return 0 if it succeeds, else -1. */
INLINE int step(int64_t *plan, Function *function) {
  Any result = {0, 0, 0};
  if (function->call(function, address(plan, ARGUMENTS), (int32_t)plan[ARGUMENT_COUNT], &result))
    return -1;
  int64_t *lengths = address(plan, LENGTHS), *positions = address(plan, POSITIONS);
  Tensor **pairs = address(plan, RECURRENT);
  for (int64_t k = 0; k < plan[LENGTH_COUNT]; k++)
    lengths[k]++;
  for (int64_t row = 0; row < plan[BATCH]; row++)
    positions[row]++;
  for (int64_t k = 0; k < plan[RECURRENT_COUNT]; k++) {
    void *old = pairs[2 * k]->data;
    pairs[2 * k]->data = pairs[2 * k + 1]->data;
    pairs[2 * k + 1]->data = old;
  }
  plan[STEPS]++;
  plan[READY] = 1;
  return 0;
}

INLINE int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000 + time.tv_nsec;
}

INLINE int all_ended(const int64_t *plan) {
  const uint8_t *ended = address(plan, ENDED);
  for (int64_t row = 0; row < plan[BATCH]; row++)
    if (!ended[row])
      return 0;
  return 1;
}

/* Generate tokens as a plan specifies. Return DONE, NOT_A_NUMBER, or -1 if a step fails. */
int64_t disc_generate(int64_t function, int64_t words) {
  int64_t *plan = (int64_t *)(intptr_t)words, *chosen = address(plan, CHOSEN);
  const double *draws = address(plan, DRAWS);
  int64_t begin = now();
  plan[CHOSEN_COUNT] = plan[STEPS] = 0;
  while (plan[CHOSEN_COUNT] < plan[MOST]) {
    int64_t at = plan[CHOSEN_COUNT] * plan[BATCH];
    if (!plan[READY] && step(plan, (Function *)(intptr_t)function))
      return -1;
    plan[READY] = 0;
    int64_t failed = choose(plan, chosen + at, draws + at);
    if (failed)
      return failed;
    plan[CHOSEN_COUNT]++;
    if (all_ended(plan) || (plan[TIME_LIMIT] && now() - begin > plan[TIME_LIMIT]))
      break;
  }
  return DONE;
}
