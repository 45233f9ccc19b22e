void __launch_bounds__(256) k0_row_max_0(float* p0, float* o0, float* scratch, int64_t n, int64_t m, int64_t tasks, int64_t blocks, int64_t round) {
  int64_t thread = ((int64_t)((int)threadIdx.x));
  int64_t block = ((int64_t)((int)blockIdx.x));
  int64_t steps = max(((((tasks - block) + blocks) - 1) / blocks), 0);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t task = (block + (step * blocks));
    int64_t number = (thread / 32);
    int64_t row = ((task * 32) + (thread - (number * 32)));
    bool inside = (row < m);
    int64_t mine = min(row, (m - 1));
    float first_ptr[1];
    float second_ptr[1];
    first_ptr[0] = -CUDART_INF_F;
    second_ptr[0] = 0.000000e+00;
    int64_t mine_1 = (max((((inside ? n : 0) - number) + 7), 0) / 8);
    for (int64_t s = 0; s < mine_1; ++s) {
      int64_t j = ((s * 8) + number);
      float p0_1 = p0[((j * m) + mine)];
      float held = first_ptr[0];
      float held_1 = second_ptr[0];
      float largest = ((held <= CUDART_INF_F) ? ((held > p0_1) ? held : p0_1) : held);
      first_ptr[0] = largest;
      second_ptr[0] = (((held == largest) ? held_1 : (held_1 * expf(__fsub_rn(held, largest)))) + ((p0_1 == largest) ? 1.000000e+00 : expf(__fsub_rn(p0_1, largest))));
    }
    float held_2 = first_ptr[0];
    float held_3 = second_ptr[0];
    __shared__ float parts_ptr[256];
    __shared__ float parts_ptr_1[256];
    parts_ptr[thread] = held_2;
    parts_ptr_1[thread] = held_3;
    __syncthreads();
    int64_t place = (thread % 32);
    float whole_ptr[1];
    float whole_ptr_1[1];
    whole_ptr[0] = parts_ptr[place];
    whole_ptr_1[0] = parts_ptr_1[place];
    for (int64_t other = 1; other < 8; ++other) {
      float theirs = parts_ptr[(place + (other * 32))];
      float theirs_1 = parts_ptr_1[(place + (other * 32))];
      float mine_2 = whole_ptr[0];
      float mine_3 = whole_ptr_1[0];
      float largest_1 = ((mine_2 <= CUDART_INF_F) ? ((mine_2 > theirs) ? mine_2 : theirs) : mine_2);
      whole_ptr[0] = largest_1;
      whole_ptr_1[0] = (((mine_2 == largest_1) ? mine_3 : (mine_3 * expf(__fsub_rn(mine_2, largest_1)))) + ((theirs == largest_1) ? theirs_1 : (theirs_1 * expf(__fsub_rn(theirs, largest_1)))));
    }
    float whole = whole_ptr[0];
    float whole_1 = whole_ptr_1[0];
    __syncthreads();
    float sum = (whole_1 + __fsub_rn(whole, whole));
    float v4 = (1.000000e+00 / sum);
    int64_t mine_4 = (max((((inside ? n : 0) - number) + 7), 0) / 8);
    for (int64_t s_1 = 0; s_1 < mine_4; ++s_1) {
      int64_t j_1 = ((s_1 * 8) + number);
      float p0_2 = p0[((j_1 * m) + mine)];
      float v1 = __fsub_rn(p0_2, whole);
      float v2 = expf(v1);
      float v5 = (v2 * v4);
      o0[((j_1 * m) + mine)] = v5;
    }
    __syncthreads();
    if ((number == 0) && inside) {
    }
  }
}
