void __launch_bounds__(32) k2_row_max_0(float* p0, float* o0, float* scratch, int64_t n, int64_t m, int64_t tasks, int64_t blocks, int64_t round) {
  int64_t thread = ((int64_t)((int)threadIdx.x));
  int64_t block = ((int64_t)((int)blockIdx.x));
  int64_t steps = max(((((tasks - block) + blocks) - 1) / blocks), 0);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t task = (block + (step * blocks));
    float kept_ptr[16];
    float held_ptr[16];
    #pragma unroll
    for (int64_t s = 0; s < 4; ++s) {
      int64_t at = (((s * 32) + thread) * 4);
      if (at < m) {
        int64_t lane0 = 0;
        int64_t lane1 = 1;
        int64_t lane2 = 2;
        int64_t lane3 = 3;
        int64_t begin = ((task * m) + at);
        int64_t part = ((s * 4) >> 2);
        int64_t part_1 = (begin >> 2);
        *(float4*)(held_ptr + (part * 4)) = *(float4*)(p0 + (part_1 * 4));
      }
    }
    float v0_ptr[1];
    v0_ptr[0] = -CUDART_INF_F;
    #pragma unroll
    for (int64_t s_1 = 0; s_1 < 4; ++s_1) {
      int64_t at_1 = (((s_1 * 32) + thread) * 4);
      if (at_1 < m) {
        int64_t lane0_1 = 0;
        int64_t lane1_1 = 1;
        int64_t lane2_1 = 2;
        int64_t lane3_1 = 3;
        float p0_1 = held_ptr[(s_1 * 4)];
        v0_ptr[0] = ((v0_ptr[0] <= CUDART_INF_F) ? ((v0_ptr[0] > p0_1) ? v0_ptr[0] : p0_1) : v0_ptr[0]);
        float p0_2 = held_ptr[((s_1 * 4) + 1)];
        v0_ptr[0] = ((v0_ptr[0] <= CUDART_INF_F) ? ((v0_ptr[0] > p0_2) ? v0_ptr[0] : p0_2) : v0_ptr[0]);
        float p0_3 = held_ptr[((s_1 * 4) + 2)];
        v0_ptr[0] = ((v0_ptr[0] <= CUDART_INF_F) ? ((v0_ptr[0] > p0_3) ? v0_ptr[0] : p0_3) : v0_ptr[0]);
        float p0_4 = held_ptr[((s_1 * 4) + 3)];
        v0_ptr[0] = ((v0_ptr[0] <= CUDART_INF_F) ? ((v0_ptr[0] > p0_4) ? v0_ptr[0] : p0_4) : v0_ptr[0]);
      }
    }
    float part_2 = v0_ptr[0];
    __shared__ float parts_ptr[32];
    parts_ptr[thread] = part_2;
    __syncthreads();
    if (thread < 16) {
      float whole_ptr[1];
      whole_ptr[0] = parts_ptr[thread];
      float theirs = parts_ptr[(thread + 16)];
      float mine = whole_ptr[0];
      whole_ptr[0] = ((mine <= CUDART_INF_F) ? ((mine > theirs) ? mine : theirs) : mine);
      float whole = whole_ptr[0];
      parts_ptr[thread] = whole;
    }
    __syncthreads();
    float whole_ptr_1[1];
    whole_ptr_1[0] = parts_ptr[0];
    for (int64_t other = 1; other < 16; ++other) {
      float theirs_1 = parts_ptr[other];
      float mine_1 = whole_ptr_1[0];
      whole_ptr_1[0] = ((mine_1 <= CUDART_INF_F) ? ((mine_1 > theirs_1) ? mine_1 : theirs_1) : mine_1);
    }
    float whole_1 = whole_ptr_1[0];
    __syncthreads();
    float v3_ptr[1];
    v3_ptr[0] = 0.000000e+00;
    #pragma unroll
    for (int64_t s_2 = 0; s_2 < 4; ++s_2) {
      int64_t at_2 = (((s_2 * 32) + thread) * 4);
      if (at_2 < m) {
        int64_t lane0_2 = 0;
        int64_t lane1_2 = 1;
        int64_t lane2_2 = 2;
        int64_t lane3_2 = 3;
        float p0_5 = held_ptr[(s_2 * 4)];
        float v1 = __fsub_rn(p0_5, whole_1);
        float v2 = expf(v1);
        kept_ptr[(s_2 * 4)] = v2;
        v3_ptr[0] = (v3_ptr[0] + v2);
        float p0_6 = held_ptr[((s_2 * 4) + 1)];
        float v1_1 = __fsub_rn(p0_6, whole_1);
        float v2_1 = expf(v1_1);
        kept_ptr[((s_2 * 4) + 1)] = v2_1;
        v3_ptr[0] = (v3_ptr[0] + v2_1);
        float p0_7 = held_ptr[((s_2 * 4) + 2)];
        float v1_2 = __fsub_rn(p0_7, whole_1);
        float v2_2 = expf(v1_2);
        kept_ptr[((s_2 * 4) + 2)] = v2_2;
        v3_ptr[0] = (v3_ptr[0] + v2_2);
        float p0_8 = held_ptr[((s_2 * 4) + 3)];
        float v1_3 = __fsub_rn(p0_8, whole_1);
        float v2_3 = expf(v1_3);
        kept_ptr[((s_2 * 4) + 3)] = v2_3;
        v3_ptr[0] = (v3_ptr[0] + v2_3);
      }
    }
    float part_3 = v3_ptr[0];
    __shared__ float parts_ptr_1[32];
    parts_ptr_1[thread] = part_3;
    __syncthreads();
    if (thread < 16) {
      float whole_ptr_2[1];
      whole_ptr_2[0] = parts_ptr_1[thread];
      float theirs_2 = parts_ptr_1[(thread + 16)];
      float mine_2 = whole_ptr_2[0];
      whole_ptr_2[0] = (mine_2 + theirs_2);
      float whole_2 = whole_ptr_2[0];
      parts_ptr_1[thread] = whole_2;
    }
    __syncthreads();
    float whole_ptr_3[1];
    whole_ptr_3[0] = parts_ptr_1[0];
    for (int64_t other_1 = 1; other_1 < 16; ++other_1) {
      float theirs_3 = parts_ptr_1[other_1];
      float mine_3 = whole_ptr_3[0];
      whole_ptr_3[0] = (mine_3 + theirs_3);
    }
    float whole_3 = whole_ptr_3[0];
    __syncthreads();
    float v4 = (1.000000e+00 / whole_3);
    #pragma unroll
    for (int64_t s_3 = 0; s_3 < 4; ++s_3) {
      int64_t at_3 = (((s_3 * 32) + thread) * 4);
      if (at_3 < m) {
        int64_t lane0_3 = 0;
        int64_t lane1_3 = 1;
        int64_t lane2_3 = 2;
        int64_t lane3_3 = 3;
        float v2_4 = kept_ptr[(s_3 * 4)];
        float v5 = (v2_4 * v4);
        float out_ptr[4];
        int64_t begin_1 = ((task * m) + (at_3 + lane0_3));
        out_ptr[0] = v5;
        float v2_5 = kept_ptr[((s_3 * 4) + 1)];
        float v5_1 = (v2_5 * v4);
        out_ptr[1] = v5_1;
        float v2_6 = kept_ptr[((s_3 * 4) + 2)];
        float v5_2 = (v2_6 * v4);
        out_ptr[2] = v5_2;
        float v2_7 = kept_ptr[((s_3 * 4) + 3)];
        float v5_3 = (v2_7 * v4);
        out_ptr[3] = v5_3;
        int64_t part_4 = (begin_1 >> 2);
        *(float4*)(o0 + (part_4 * 4)) = *(float4*)(out_ptr + 0);
      }
    }
    __syncthreads();
    if (thread == 0) {
    }
  }
}
