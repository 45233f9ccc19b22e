/* Tests of loop.c under a sanitizer, with a step that copies scores from a table. If a check fails,
 * its text is printed. */
#include "loop.c"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                           \
  if (!(condition)) {                                                                              \
    fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                        \
    exit(1);                                                                                       \
  }

enum { ROWS = 3, TOKENS_MADE = 5 };

static int64_t plan[PLAN_WORDS], vocabulary, steps, fails_at;
static float *scores, *table; /* table[step, row, token] */
static int64_t tokens[ROWS], positions[ROWS], lengths[2], chosen[TOKENS_MADE * ROWS];
static double draws[TOKENS_MADE * ROWS];
static uint8_t ended[ROWS];
static Tensor states[4];
static Tensor *pairs[4] = {states, states + 1, states + 2, states + 3};

static void set(int word, double value) { memcpy(plan + word, &value, sizeof value); }

static int copy(void *self, const Any *arguments, int32_t count, Any *result) {
  CHECK(self && arguments == (Any *)tokens && count == 7 && result->type_index == 0);
  if (++steps == fails_at)
    return -1;
  memcpy(scores, table + steps * ROWS * vocabulary, ROWS * vocabulary * sizeof *scores);
  return 0;
}

static int64_t generate(void) {
  Function function = {.call = copy};
  memset(ended, 0, sizeof ended);
  steps = 0;
  plan[READY] = 1;
  memcpy(scores, table, ROWS * vocabulary * sizeof *scores);
  return disc_generate((int64_t)&function, (int64_t)plan);
}

static void begin(int64_t n, int kind) {
  vocabulary = n;
  scores = malloc(ROWS * n * sizeof *scores);
  table = malloc((TOKENS_MADE + 1) * ROWS * n * sizeof *table);
  for (int64_t k = 0; k < (TOKENS_MADE + 1) * ROWS * n; k++) {
    float value = (float)(rand() % 2000) / 100 - 10;
    table[k] = kind == 0 ? value : kind == 1 ? roundf(value / 4) : rand() % 3 ? -INFINITY : value;
  }
  memset(plan, 0, sizeof plan);
  plan[ARGUMENTS] = plan[TOKENS] = (int64_t)tokens;
  plan[ARGUMENT_COUNT] = 7;
  plan[POSITIONS] = (int64_t)positions;
  plan[LENGTHS] = (int64_t)lengths;
  plan[LENGTH_COUNT] = plan[RECURRENT_COUNT] = 2;
  plan[RECURRENT] = (int64_t)pairs;
  plan[SCORES] = (int64_t)scores;
  plan[BATCH] = ROWS;
  plan[VOCABULARY] = n;
  plan[MOST] = TOKENS_MADE;
  plan[CHOSEN] = (int64_t)chosen;
  plan[ENDED] = (int64_t)ended;
  plan[DRAWS] = (int64_t)draws;
  plan[SCRATCH] = (int64_t)malloc(SCRATCH_BYTES * n + SCRATCH_MORE);
  set(TOP_P, 1);
  set(PENALTY, 1);
  for (int k = 0; k < TOKENS_MADE * ROWS; k++)
    draws[k] = (rand() % 1000) / 1000.0;
  fails_at = 0;
}

static void finish(void) {
  free(scores);
  free(table);
  free(address(plan, SCRATCH));
}

/* Return how many tokens of a row have a higher score than the chosen one, and, in `share`, how
 * much of the probability they have. */
static int64_t higher(int at, double temperature, double *share) {
  const float *own = table + at * vocabulary;
  int64_t count = 0;
  double all = 0, above = 0;
  for (int64_t k = 0; k < vocabulary; k++) {
    double chance = exp((own[k] - own[chosen[at]]) / temperature);
    all += chance;
    above += own[k] > own[chosen[at]] ? chance : 0;
    count += own[k] > own[chosen[at]];
  }
  *share = above / all;
  return count;
}

static void test_choices(int64_t n, int kind) {
  begin(n, kind);
  double share;
  CHECK(generate() == DONE && plan[CHOSEN_COUNT] == TOKENS_MADE);
  CHECK(plan[STEPS] == TOKENS_MADE - 1 && steps == TOKENS_MADE - 1 && !plan[READY]);
  for (int k = 0; k < TOKENS_MADE * ROWS; k++) {
    CHECK(higher(k, 1, &share) == 0);
    for (int64_t j = 0; j < chosen[k]; j++)
      CHECK(table[k * n + j] < table[k * n + chosen[k]]);
  }
  double temperatures[] = {0.5, 3}, shares[] = {1, 0.3, 0.9};
  int64_t most[] = {0, 1, 3, 100000};
  for (int a = 0; a < 2; a++)
    for (int b = 0; b < 3; b++)
      for (int c = 0; c < 4; c++) {
        set(TEMPERATURE, temperatures[a]);
        set(TOP_P, shares[b]);
        plan[TOP_K] = most[c];
        CHECK(generate() == DONE);
        for (int k = 0; k < TOKENS_MADE * ROWS; k++) {
          CHECK(chosen[k] >= 0 && chosen[k] < n);
          int64_t count = higher(k, temperatures[a], &share);
          float top = table[k * n + chosen[k]];
          CHECK(most[c] == 0 || count < most[c]);
          CHECK(top == -INFINITY || most[c] || share < shares[b] + 1e-5);
        }
      }
  finish();
}

static void test_ends_and_failures(void) {
  begin(40, 0);
  uint8_t *occurred = calloc(ROWS * 40, 1);
  int64_t first_tokens[ROWS], before[2] = {lengths[0], positions[1]};
  CHECK(generate() == DONE);
  memcpy(first_tokens, chosen, sizeof first_tokens);
  CHECK(lengths[0] == before[0] + TOKENS_MADE - 1 && positions[1] == before[1] + TOKENS_MADE - 1);

  plan[STOPS] = (int64_t)first_tokens; /* every row ends with its first token */
  plan[STOP_COUNT] = ROWS;
  CHECK(generate() == DONE && plan[CHOSEN_COUNT] == 1 && plan[STEPS] == 0);
  plan[STOP_COUNT] = 0;

  fails_at = 2;
  char memory[4];
  for (int k = 0; k < 4; k++)
    states[k].data = memory + k;
  CHECK(generate() == -1 && plan[CHOSEN_COUNT] == 2 && plan[STEPS] == 1 && !plan[READY]);
  CHECK(states[0].data == memory + 1 && states[3].data == memory + 2);
  fails_at = 0;

  table[2 * ROWS * 40 + 40] = NAN;
  CHECK(generate() == NOT_A_NUMBER && plan[CHOSEN_COUNT] == 2 && plan[STEPS] == 2);
  table[2 * ROWS * 40 + 40] = 0;

  plan[TIME_LIMIT] = 1;
  CHECK(generate() == DONE && plan[CHOSEN_COUNT] >= 1);
  plan[TIME_LIMIT] = 0;

  plan[OCCURRED] = (int64_t)occurred;
  set(PENALTY, 1e6);
  for (int k = 0; k < 40 * (TOKENS_MADE + 1) * ROWS; k++)
    table[k] = fabsf(table[k]) + 1;
  CHECK(generate() == DONE);
  for (int row = 0; row < ROWS; row++)
    for (int a = 0; a < TOKENS_MADE; a++) {
      CHECK(occurred[row * 40 + chosen[a * ROWS + row]] == 1);
      for (int b = 0; b < a; b++)
        CHECK(chosen[a * ROWS + row] != chosen[b * ROWS + row]);
    }
  free(occurred);
  finish();
}

int main(void) {
  int64_t sizes[] = {1, 2, 15, 16, 17, 255, 256, 257, 1000, 4099};
  for (int kind = 0; kind < 3; kind++)
    for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++)
      test_choices(sizes[k], kind);
  test_ends_and_failures();
  return 0;
}
