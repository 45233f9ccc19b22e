void __launch_bounds__(256) k1_row_max_0(float* p0, float* o0, float* scratch, int64_t n, int64_t m, int64_t tasks, int64_t blocks, int64_t round) {
  int64_t thread = ((int64_t)((int)threadIdx.x));
  int64_t block = ((int64_t)((int)blockIdx.x));
  int64_t steps = max(((((tasks - block) + blocks) - 1) / blocks), 0);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t task = (block + (step * blocks));
    float first_ptr[1];
    float second_ptr[1];
    first_ptr[0] = -CUDART_INF_F;
    second_ptr[0] = 0.000000e+00;
    int64_t accesses = (m >> 2);
    int64_t mine = (max(((accesses - thread) + 255), 0) / 256);
    for (int64_t s = 0; s < mine; ++s) {
      int64_t j = ((s * 256) + thread);
      int64_t at = (j * 4);
      int64_t lane0 = 0;
      int64_t lane1 = 1;
      int64_t lane2 = 2;
      int64_t lane3 = 3;
      float cell_ptr[4];
      int64_t begin = ((task * m) + (at + 0));
      int64_t part = (begin >> 2);
      *(float4*)(cell_ptr + 0) = *(float4*)(p0 + (part * 4));
      float p0_1 = cell_ptr[0];
      float held = first_ptr[0];
      float held_1 = second_ptr[0];
      float largest = ((held <= CUDART_INF_F) ? ((held > p0_1) ? held : p0_1) : held);
      first_ptr[0] = largest;
      second_ptr[0] = (((held == largest) ? held_1 : (held_1 * expf(__fsub_rn(held, largest)))) + ((p0_1 == largest) ? 1.000000e+00 : expf(__fsub_rn(p0_1, largest))));
      float p0_2 = cell_ptr[1];
      float held_2 = first_ptr[0];
      float held_3 = second_ptr[0];
      float largest_1 = ((held_2 <= CUDART_INF_F) ? ((held_2 > p0_2) ? held_2 : p0_2) : held_2);
      first_ptr[0] = largest_1;
      second_ptr[0] = (((held_2 == largest_1) ? held_3 : (held_3 * expf(__fsub_rn(held_2, largest_1)))) + ((p0_2 == largest_1) ? 1.000000e+00 : expf(__fsub_rn(p0_2, largest_1))));
      float p0_3 = cell_ptr[2];
      float held_4 = first_ptr[0];
      float held_5 = second_ptr[0];
      float largest_2 = ((held_4 <= CUDART_INF_F) ? ((held_4 > p0_3) ? held_4 : p0_3) : held_4);
      first_ptr[0] = largest_2;
      second_ptr[0] = (((held_4 == largest_2) ? held_5 : (held_5 * expf(__fsub_rn(held_4, largest_2)))) + ((p0_3 == largest_2) ? 1.000000e+00 : expf(__fsub_rn(p0_3, largest_2))));
      float p0_4 = cell_ptr[3];
      float held_6 = first_ptr[0];
      float held_7 = second_ptr[0];
      float largest_3 = ((held_6 <= CUDART_INF_F) ? ((held_6 > p0_4) ? held_6 : p0_4) : held_6);
      first_ptr[0] = largest_3;
      second_ptr[0] = (((held_6 == largest_3) ? held_7 : (held_7 * expf(__fsub_rn(held_6, largest_3)))) + ((p0_4 == largest_3) ? 1.000000e+00 : expf(__fsub_rn(p0_4, largest_3))));
    }
    float held_8 = first_ptr[0];
    float held_9 = second_ptr[0];
    __shared__ float parts_ptr[256];
    __shared__ float parts_ptr_1[256];
    parts_ptr[thread] = held_8;
    parts_ptr_1[thread] = held_9;
    __syncthreads();
    if (thread < 16) {
      float whole_ptr[1];
      float whole_ptr_1[1];
      whole_ptr[0] = parts_ptr[thread];
      whole_ptr_1[0] = parts_ptr_1[thread];
      for (int64_t other = 1; other < 16; ++other) {
        float theirs = parts_ptr[(thread + (other * 16))];
        float theirs_1 = parts_ptr_1[(thread + (other * 16))];
        float mine_1 = whole_ptr[0];
        float mine_2 = whole_ptr_1[0];
        float largest_4 = ((mine_1 <= CUDART_INF_F) ? ((mine_1 > theirs) ? mine_1 : theirs) : mine_1);
        whole_ptr[0] = largest_4;
        whole_ptr_1[0] = (((mine_1 == largest_4) ? mine_2 : (mine_2 * expf(__fsub_rn(mine_1, largest_4)))) + ((theirs == largest_4) ? theirs_1 : (theirs_1 * expf(__fsub_rn(theirs, largest_4)))));
      }
      float whole = whole_ptr[0];
      float whole_1 = whole_ptr_1[0];
      parts_ptr[thread] = whole;
      parts_ptr_1[thread] = whole_1;
    }
    __syncthreads();
    float whole_ptr_2[1];
    float whole_ptr_3[1];
    whole_ptr_2[0] = parts_ptr[0];
    whole_ptr_3[0] = parts_ptr_1[0];
    for (int64_t other_1 = 1; other_1 < 16; ++other_1) {
      float theirs_2 = parts_ptr[other_1];
      float theirs_3 = parts_ptr_1[other_1];
      float mine_3 = whole_ptr_2[0];
      float mine_4 = whole_ptr_3[0];
      float largest_5 = ((mine_3 <= CUDART_INF_F) ? ((mine_3 > theirs_2) ? mine_3 : theirs_2) : mine_3);
      whole_ptr_2[0] = largest_5;
      whole_ptr_3[0] = (((mine_3 == largest_5) ? mine_4 : (mine_4 * expf(__fsub_rn(mine_3, largest_5)))) + ((theirs_2 == largest_5) ? theirs_3 : (theirs_3 * expf(__fsub_rn(theirs_2, largest_5)))));
    }
    float whole_2 = whole_ptr_2[0];
    float whole_3 = whole_ptr_3[0];
    __syncthreads();
    float sum = (whole_3 + __fsub_rn(whole_2, whole_2));
    float v4 = (1.000000e+00 / sum);
    int64_t accesses_1 = (m >> 2);
    int64_t mine_5 = (max(((accesses_1 - thread) + 255), 0) / 256);
    for (int64_t s_1 = 0; s_1 < mine_5; ++s_1) {
      int64_t j_1 = ((s_1 * 256) + thread);
      int64_t at_1 = (j_1 * 4);
      int64_t lane0_1 = 0;
      int64_t lane1_1 = 1;
      int64_t lane2_1 = 2;
      int64_t lane3_1 = 3;
      float cell_ptr_1[4];
      int64_t begin_1 = ((task * m) + (at_1 + 0));
      int64_t part_1 = (begin_1 >> 2);
      *(float4*)(cell_ptr_1 + 0) = *(float4*)(p0 + (part_1 * 4));
      float p0_5 = cell_ptr_1[0];
      float v1 = __fsub_rn(p0_5, whole_2);
      float v2 = expf(v1);
      float v5 = (v2 * v4);
      float out_ptr[4];
      int64_t begin_2 = ((task * m) + (at_1 + lane0_1));
      out_ptr[0] = v5;
      float p0_6 = cell_ptr_1[1];
      float v1_1 = __fsub_rn(p0_6, whole_2);
      float v2_1 = expf(v1_1);
      float v5_1 = (v2_1 * v4);
      out_ptr[1] = v5_1;
      float p0_7 = cell_ptr_1[2];
      float v1_2 = __fsub_rn(p0_7, whole_2);
      float v2_2 = expf(v1_2);
      float v5_2 = (v2_2 * v4);
      out_ptr[2] = v5_2;
      float p0_8 = cell_ptr_1[3];
      float v1_3 = __fsub_rn(p0_8, whole_2);
      float v2_3 = expf(v1_3);
      float v5_3 = (v2_3 * v4);
      out_ptr[3] = v5_3;
      int64_t part_2 = (begin_2 >> 2);
      *(float4*)(o0 + (part_2 * 4)) = *(float4*)(out_ptr + 0);
    }
    __syncthreads();
    if (thread == 0) {
    }
  }
}
