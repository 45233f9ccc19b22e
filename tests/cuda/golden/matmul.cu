void __launch_bounds__(64) k1_dot_matmul_0(float* p0, float* p1, float* o0, float* scratch, int64_t m, int64_t k, int64_t n, int64_t tasks, int64_t blocks, int64_t round) {
  int64_t thread = ((int64_t)((int)threadIdx.x));
  int64_t block = ((int64_t)((int)blockIdx.x));
  int64_t steps = max(((((tasks - block) + blocks) - 1) / blocks), 0);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t task = (block + (step * blocks));
    int64_t tiles = ((m + 31) >> 5);
    int64_t tiles_1 = ((n + 31) >> 5);
    int64_t along = (task / tiles_1);
    int64_t j0 = ((task - (along * tiles_1)) * 32);
    int64_t item = (along / tiles);
    int64_t i0 = ((along - (item * tiles)) * 32);
    int64_t slices = ((k + 15) >> 4);
    int64_t row = (thread / 8);
    int64_t column = (thread - (row * 8));
    float sums_ptr[16];
    int64_t major = (thread / 4);
    int64_t minor = ((thread - (major * 4)) * 4);
    __shared__ float a_ptr[1024];
    float a_next_ptr[8];
    int64_t i = (i0 + major);
    int64_t i_1 = (i0 + (major + 16));
    int64_t major_1 = (thread / 8);
    int64_t minor_1 = ((thread - (major_1 * 8)) * 4);
    __shared__ float b_ptr[1024];
    float b_next_ptr[8];
    int64_t j = (j0 + minor_1);
    int64_t j_1 = (j0 + minor_1);
    #pragma unroll
    for (int64_t s = 0; s < 16; ++s) {
      sums_ptr[s] = 0.000000e+00;
    }
    if (slices > 0) {
      a_next_ptr[0] = 0.000000e+00;
      a_next_ptr[1] = 0.000000e+00;
      a_next_ptr[2] = 0.000000e+00;
      a_next_ptr[3] = 0.000000e+00;
      if ((i < m) && (minor < k)) {
        int64_t lane0 = 0;
        int64_t lane1 = 1;
        int64_t lane2 = 2;
        int64_t lane3 = 3;
        float cell_ptr[4];
        int64_t begin = ((i * k) + (minor + 0));
        int64_t part = (begin >> 2);
        *(float4*)(cell_ptr + 0) = *(float4*)(p0 + (part * 4));
        float p0_1 = cell_ptr[0];
        a_next_ptr[0] = p0_1;
        float p0_2 = cell_ptr[1];
        a_next_ptr[1] = p0_2;
        float p0_3 = cell_ptr[2];
        a_next_ptr[2] = p0_3;
        float p0_4 = cell_ptr[3];
        a_next_ptr[3] = p0_4;
      }
      a_next_ptr[4] = 0.000000e+00;
      a_next_ptr[5] = 0.000000e+00;
      a_next_ptr[6] = 0.000000e+00;
      a_next_ptr[7] = 0.000000e+00;
      if ((i_1 < m) && (minor < k)) {
        int64_t lane0_1 = 0;
        int64_t lane1_1 = 1;
        int64_t lane2_1 = 2;
        int64_t lane3_1 = 3;
        float cell_ptr_1[4];
        int64_t begin_1 = ((i_1 * k) + (minor + 0));
        int64_t part_1 = (begin_1 >> 2);
        *(float4*)(cell_ptr_1 + 0) = *(float4*)(p0 + (part_1 * 4));
        float p0_5 = cell_ptr_1[0];
        a_next_ptr[4] = p0_5;
        float p0_6 = cell_ptr_1[1];
        a_next_ptr[5] = p0_6;
        float p0_7 = cell_ptr_1[2];
        a_next_ptr[6] = p0_7;
        float p0_8 = cell_ptr_1[3];
        a_next_ptr[7] = p0_8;
      }
      b_next_ptr[0] = 0.000000e+00;
      b_next_ptr[1] = 0.000000e+00;
      b_next_ptr[2] = 0.000000e+00;
      b_next_ptr[3] = 0.000000e+00;
      if ((j < n) && (major_1 < k)) {
        int64_t lane0_2 = 0;
        int64_t lane1_2 = 1;
        int64_t lane2_2 = 2;
        int64_t lane3_2 = 3;
        float cell_ptr_2[4];
        int64_t begin_2 = ((major_1 * n) + (j + 0));
        int64_t part_2 = (begin_2 >> 2);
        *(float4*)(cell_ptr_2 + 0) = *(float4*)(p1 + (part_2 * 4));
        float p1_1 = cell_ptr_2[0];
        b_next_ptr[0] = p1_1;
        float p1_2 = cell_ptr_2[1];
        b_next_ptr[1] = p1_2;
        float p1_3 = cell_ptr_2[2];
        b_next_ptr[2] = p1_3;
        float p1_4 = cell_ptr_2[3];
        b_next_ptr[3] = p1_4;
      }
      int64_t kk = (major_1 + 8);
      b_next_ptr[4] = 0.000000e+00;
      b_next_ptr[5] = 0.000000e+00;
      b_next_ptr[6] = 0.000000e+00;
      b_next_ptr[7] = 0.000000e+00;
      if ((j_1 < n) && (kk < k)) {
        int64_t lane0_3 = 0;
        int64_t lane1_3 = 1;
        int64_t lane2_3 = 2;
        int64_t lane3_3 = 3;
        float cell_ptr_3[4];
        int64_t begin_3 = ((kk * n) + (j_1 + 0));
        int64_t part_3 = (begin_3 >> 2);
        *(float4*)(cell_ptr_3 + 0) = *(float4*)(p1 + (part_3 * 4));
        float p1_5 = cell_ptr_3[0];
        b_next_ptr[4] = p1_5;
        float p1_6 = cell_ptr_3[1];
        b_next_ptr[5] = p1_6;
        float p1_7 = cell_ptr_3[2];
        b_next_ptr[6] = p1_7;
        float p1_8 = cell_ptr_3[3];
        b_next_ptr[7] = p1_8;
      }
      a_ptr[((minor * 32) + (major ^ ((((minor / 4) % 4) * 8) & 31)))] = a_next_ptr[0];
      a_ptr[(((minor + 1) * 32) + (major ^ ((((minor / 4) % 4) * 8) & 31)))] = a_next_ptr[1];
      a_ptr[(((minor + 2) * 32) + (major ^ ((((minor / 4) % 4) * 8) & 31)))] = a_next_ptr[2];
      a_ptr[(((minor + 3) * 32) + (major ^ ((((minor / 4) % 4) * 8) & 31)))] = a_next_ptr[3];
      a_ptr[((minor * 32) + ((major + 16) ^ ((((minor / 4) % 4) * 8) & 31)))] = a_next_ptr[4];
      a_ptr[(((minor + 1) * 32) + ((major + 16) ^ ((((minor / 4) % 4) * 8) & 31)))] = a_next_ptr[5];
      a_ptr[(((minor + 2) * 32) + ((major + 16) ^ ((((minor / 4) % 4) * 8) & 31)))] = a_next_ptr[6];
      a_ptr[(((minor + 3) * 32) + ((major + 16) ^ ((((minor / 4) % 4) * 8) & 31)))] = a_next_ptr[7];
      *(float4*)(b_ptr + (((major_1 * 8) + (minor_1 / 4)) * 4)) = *(float4*)(b_next_ptr + 0);
      *(float4*)(b_ptr + ((((major_1 + 8) * 8) + (minor_1 / 4)) * 4)) = *(float4*)(b_next_ptr + 4);
    }
    __syncthreads();
    for (int64_t slice = 0; slice < slices; ++slice) {
      int64_t current = (slice & 1);
      if ((slice + 1) < slices) {
        int64_t kk_1 = (((slice + 1) * 16) + minor);
        a_next_ptr[0] = 0.000000e+00;
        a_next_ptr[1] = 0.000000e+00;
        a_next_ptr[2] = 0.000000e+00;
        a_next_ptr[3] = 0.000000e+00;
        if ((i < m) && (kk_1 < k)) {
          int64_t lane0_4 = 0;
          int64_t lane1_4 = 1;
          int64_t lane2_4 = 2;
          int64_t lane3_4 = 3;
          float cell_ptr_4[4];
          int64_t begin_4 = ((i * k) + (kk_1 + 0));
          int64_t part_4 = (begin_4 >> 2);
          *(float4*)(cell_ptr_4 + 0) = *(float4*)(p0 + (part_4 * 4));
          float p0_9 = cell_ptr_4[0];
          a_next_ptr[0] = p0_9;
          float p0_10 = cell_ptr_4[1];
          a_next_ptr[1] = p0_10;
          float p0_11 = cell_ptr_4[2];
          a_next_ptr[2] = p0_11;
          float p0_12 = cell_ptr_4[3];
          a_next_ptr[3] = p0_12;
        }
        int64_t kk_2 = (((slice + 1) * 16) + minor);
        a_next_ptr[4] = 0.000000e+00;
        a_next_ptr[5] = 0.000000e+00;
        a_next_ptr[6] = 0.000000e+00;
        a_next_ptr[7] = 0.000000e+00;
        if ((i_1 < m) && (kk_2 < k)) {
          int64_t lane0_5 = 0;
          int64_t lane1_5 = 1;
          int64_t lane2_5 = 2;
          int64_t lane3_5 = 3;
          float cell_ptr_5[4];
          int64_t begin_5 = ((i_1 * k) + (kk_2 + 0));
          int64_t part_5 = (begin_5 >> 2);
          *(float4*)(cell_ptr_5 + 0) = *(float4*)(p0 + (part_5 * 4));
          float p0_13 = cell_ptr_5[0];
          a_next_ptr[4] = p0_13;
          float p0_14 = cell_ptr_5[1];
          a_next_ptr[5] = p0_14;
          float p0_15 = cell_ptr_5[2];
          a_next_ptr[6] = p0_15;
          float p0_16 = cell_ptr_5[3];
          a_next_ptr[7] = p0_16;
        }
        int64_t kk_3 = (((slice + 1) * 16) + major_1);
        b_next_ptr[0] = 0.000000e+00;
        b_next_ptr[1] = 0.000000e+00;
        b_next_ptr[2] = 0.000000e+00;
        b_next_ptr[3] = 0.000000e+00;
        if ((j < n) && (kk_3 < k)) {
          int64_t lane0_6 = 0;
          int64_t lane1_6 = 1;
          int64_t lane2_6 = 2;
          int64_t lane3_6 = 3;
          float cell_ptr_6[4];
          int64_t begin_6 = ((kk_3 * n) + (j + 0));
          int64_t part_6 = (begin_6 >> 2);
          *(float4*)(cell_ptr_6 + 0) = *(float4*)(p1 + (part_6 * 4));
          float p1_9 = cell_ptr_6[0];
          b_next_ptr[0] = p1_9;
          float p1_10 = cell_ptr_6[1];
          b_next_ptr[1] = p1_10;
          float p1_11 = cell_ptr_6[2];
          b_next_ptr[2] = p1_11;
          float p1_12 = cell_ptr_6[3];
          b_next_ptr[3] = p1_12;
        }
        int64_t kk_4 = (((slice + 1) * 16) + (major_1 + 8));
        b_next_ptr[4] = 0.000000e+00;
        b_next_ptr[5] = 0.000000e+00;
        b_next_ptr[6] = 0.000000e+00;
        b_next_ptr[7] = 0.000000e+00;
        if ((j_1 < n) && (kk_4 < k)) {
          int64_t lane0_7 = 0;
          int64_t lane1_7 = 1;
          int64_t lane2_7 = 2;
          int64_t lane3_7 = 3;
          float cell_ptr_7[4];
          int64_t begin_7 = ((kk_4 * n) + (j_1 + 0));
          int64_t part_7 = (begin_7 >> 2);
          *(float4*)(cell_ptr_7 + 0) = *(float4*)(p1 + (part_7 * 4));
          float p1_13 = cell_ptr_7[0];
          b_next_ptr[4] = p1_13;
          float p1_14 = cell_ptr_7[1];
          b_next_ptr[5] = p1_14;
          float p1_15 = cell_ptr_7[2];
          b_next_ptr[6] = p1_15;
          float p1_16 = cell_ptr_7[3];
          b_next_ptr[7] = p1_16;
        }
      }
      #pragma unroll
      for (int64_t kk_5 = 0; kk_5 < 16; ++kk_5) {
        float left_ptr[4];
        float right_ptr[4];
        *(float4*)(left_ptr + 0) = *(float4*)(a_ptr + (((((current * 16) + kk_5) * 8) + (row ^ (((((kk_5 / 4) % 4) * 8) & 31) / 4))) * 4));
        *(float4*)(right_ptr + 0) = *(float4*)(b_ptr + (((((current * 16) + kk_5) * 8) + column) * 4));
        #pragma unroll
        for (int64_t r = 0; r < 4; ++r) {
          #pragma unroll
          for (int64_t c = 0; c < 4; ++c) {
            sums_ptr[((r * 4) + c)] = (sums_ptr[((r * 4) + c)] + (left_ptr[r] * right_ptr[c]));
          }
        }
      }
      if ((slice + 1) < slices) {
        a_ptr[(((((1 - current) * 16) + minor) * 32) + (major ^ ((((minor / 4) % 4) * 8) & 31)))] = a_next_ptr[0];
        a_ptr[((((((1 - current) * 16) + minor) + 1) * 32) + (major ^ ((((minor / 4) % 4) * 8) & 31)))] = a_next_ptr[1];
        a_ptr[((((((1 - current) * 16) + minor) + 2) * 32) + (major ^ ((((minor / 4) % 4) * 8) & 31)))] = a_next_ptr[2];
        a_ptr[((((((1 - current) * 16) + minor) + 3) * 32) + (major ^ ((((minor / 4) % 4) * 8) & 31)))] = a_next_ptr[3];
        a_ptr[(((((1 - current) * 16) + minor) * 32) + ((major + 16) ^ ((((minor / 4) % 4) * 8) & 31)))] = a_next_ptr[4];
        a_ptr[((((((1 - current) * 16) + minor) + 1) * 32) + ((major + 16) ^ ((((minor / 4) % 4) * 8) & 31)))] = a_next_ptr[5];
        a_ptr[((((((1 - current) * 16) + minor) + 2) * 32) + ((major + 16) ^ ((((minor / 4) % 4) * 8) & 31)))] = a_next_ptr[6];
        a_ptr[((((((1 - current) * 16) + minor) + 3) * 32) + ((major + 16) ^ ((((minor / 4) % 4) * 8) & 31)))] = a_next_ptr[7];
        *(float4*)(b_ptr + ((((((1 - current) * 16) + major_1) * 8) + (minor_1 / 4)) * 4)) = *(float4*)(b_next_ptr + 0);
        *(float4*)(b_ptr + ((((((1 - current) * 16) + (major_1 + 8)) * 8) + (minor_1 / 4)) * 4)) = *(float4*)(b_next_ptr + 4);
      }
      __syncthreads();
    }
    #pragma unroll
    for (int64_t r_1 = 0; r_1 < 4; ++r_1) {
      #pragma unroll
      for (int64_t c_1 = 0; c_1 < 1; ++c_1) {
        int64_t i_2 = (i0 + (((((r_1 / 4) * 8) + row) * 4) + (r_1 % 4)));
        int64_t j_2 = ((j0 + (((((c_1 * 4) / 4) * 8) + column) * 4)) + ((c_1 * 4) % 4));
        if ((i_2 < m) && (j_2 < n)) {
          int64_t lane0_8 = 0;
          int64_t lane1_8 = 1;
          int64_t lane2_8 = 2;
          int64_t lane3_8 = 3;
          float out_ptr[4];
          float total = sums_ptr[((r_1 * 4) + (c_1 * 4))];
          float v1 = ((0.000000e+00 > total) ? 0.000000e+00 : total);
          out_ptr[0] = v1;
          float total_1 = sums_ptr[(((r_1 * 4) + (c_1 * 4)) + 1)];
          float v1_1 = ((0.000000e+00 > total_1) ? 0.000000e+00 : total_1);
          out_ptr[1] = v1_1;
          float total_2 = sums_ptr[(((r_1 * 4) + (c_1 * 4)) + 2)];
          float v1_2 = ((0.000000e+00 > total_2) ? 0.000000e+00 : total_2);
          out_ptr[2] = v1_2;
          float total_3 = sums_ptr[(((r_1 * 4) + (c_1 * 4)) + 3)];
          float v1_3 = ((0.000000e+00 > total_3) ? 0.000000e+00 : total_3);
          out_ptr[3] = v1_3;
          int64_t flat = ((((item * m) + i_2) * n) + j_2);
          int64_t part_8 = (flat >> 2);
          *(float4*)(o0 + (part_8 * 4)) = *(float4*)(out_ptr + 0);
        }
      }
    }
  }
}
