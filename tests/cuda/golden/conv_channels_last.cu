void __launch_bounds__(64) k1_conv_conv2d_0(float* p0, float* p1, float* o0, float* scratch, int64_t n, int64_t h, int64_t w, int64_t tasks, int64_t blocks, int64_t round) {
  int64_t thread = ((int64_t)((int)threadIdx.x));
  int64_t block = ((int64_t)((int)blockIdx.x));
  int64_t steps = max(((((tasks - block) + blocks) - 1) / blocks), 0);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t task = (block + (step * blocks));
    int64_t m = ((n * h) * w);
    int64_t tiles = ((m + 31) >> 5);
    int64_t along = (task / 2);
    int64_t j0 = ((task - (along * 2)) * 32);
    int64_t item = (along / tiles);
    int64_t i0 = ((along - (item * tiles)) * 32);
    int64_t row = (thread / 8);
    int64_t column = (thread - (row * 8));
    float sums_ptr[16];
    int64_t major = (thread / 4);
    int64_t minor = ((thread - (major * 4)) * 4);
    __shared__ float a_ptr[1024];
    float a_next_ptr[8];
    int64_t i = (i0 + major);
    int64_t i0_1 = disc_div_floor_divide_int64_v1(i, (max(h, 1) * max(w, 1)));
    int64_t i1 = disc_div_floor_mod_int64_v1(disc_div_floor_divide_int64_v1(i, max(w, 1)), max(h, 1));
    int64_t i2 = disc_div_floor_mod_int64_v1(i, max(w, 1));
    int64_t i_1 = (i0 + (major + 16));
    int64_t i0_2 = disc_div_floor_divide_int64_v1(i_1, (max(h, 1) * max(w, 1)));
    int64_t i1_1 = disc_div_floor_mod_int64_v1(disc_div_floor_divide_int64_v1(i_1, max(w, 1)), max(h, 1));
    int64_t i2_1 = disc_div_floor_mod_int64_v1(i_1, max(w, 1));
    int64_t major_1 = (thread / 8);
    int64_t minor_1 = ((thread - (major_1 * 8)) * 4);
    __shared__ float b_ptr[1024];
    float b_next_ptr[8];
    int64_t j = (j0 + minor_1);
    int64_t i0_3 = disc_div_floor_divide_int64_v1(j, (max(h, 1) * max(w, 1)));
    int64_t i1_2 = disc_div_floor_mod_int64_v1(disc_div_floor_divide_int64_v1(j, max(w, 1)), max(h, 1));
    int64_t i2_2 = disc_div_floor_mod_int64_v1(j, max(w, 1));
    int64_t j_1 = (j0 + minor_1);
    int64_t i0_4 = disc_div_floor_divide_int64_v1(j_1, (max(h, 1) * max(w, 1)));
    int64_t i1_3 = disc_div_floor_mod_int64_v1(disc_div_floor_divide_int64_v1(j_1, max(w, 1)), max(h, 1));
    int64_t i2_3 = disc_div_floor_mod_int64_v1(j_1, max(w, 1));
    #pragma unroll
    for (int64_t s = 0; s < 16; ++s) {
      sums_ptr[s] = 0.000000e+00;
    }
    a_next_ptr[0] = 0.000000e+00;
    a_next_ptr[1] = 0.000000e+00;
    a_next_ptr[2] = 0.000000e+00;
    a_next_ptr[3] = 0.000000e+00;
    if ((i < m) && (minor < 72)) {
      int64_t lane0 = 0;
      int64_t lane1 = 1;
      int64_t lane2 = 2;
      int64_t lane3 = 3;
      float cell_ptr[4];
      int64_t i0_5 = (minor / 24);
      int64_t i1_4 = ((minor >> 3) % 3);
      int64_t i2_4 = (minor & 7);
      int64_t begin = ((((((i0_1 * h) + ((i1 + i0_5) - 1)) * w) + ((i2 + i1_4) - 1)) * 8) + (((item * 8) + i2_4) + 0));
      if ((begin >= 0) && (begin < (((n * h) * w) * 8))) {
        int64_t part = (begin >> 2);
        *(float4*)(cell_ptr + 0) = *(float4*)(p0 + (part * 4));
      }
      float condval;
      if ((((((i1 + i0_5) - 1) >= 0) && (((i1 + i0_5) - 1) < h)) && (((i2 + i1_4) - 1) >= 0)) && (((i2 + i1_4) - 1) < w)) {
        condval = cell_ptr[0];
      } else {
        condval = 0.000000e+00;
      }
      a_next_ptr[0] = condval;
      float condval_1;
      if ((((((i1 + i0_5) - 1) >= 0) && (((i1 + i0_5) - 1) < h)) && (((i2 + i1_4) - 1) >= 0)) && (((i2 + i1_4) - 1) < w)) {
        condval_1 = cell_ptr[1];
      } else {
        condval_1 = 0.000000e+00;
      }
      a_next_ptr[1] = condval_1;
      float condval_2;
      if ((((((i1 + i0_5) - 1) >= 0) && (((i1 + i0_5) - 1) < h)) && (((i2 + i1_4) - 1) >= 0)) && (((i2 + i1_4) - 1) < w)) {
        condval_2 = cell_ptr[2];
      } else {
        condval_2 = 0.000000e+00;
      }
      a_next_ptr[2] = condval_2;
      float condval_3;
      if ((((((i1 + i0_5) - 1) >= 0) && (((i1 + i0_5) - 1) < h)) && (((i2 + i1_4) - 1) >= 0)) && (((i2 + i1_4) - 1) < w)) {
        condval_3 = cell_ptr[3];
      } else {
        condval_3 = 0.000000e+00;
      }
      a_next_ptr[3] = condval_3;
    }
    a_next_ptr[4] = 0.000000e+00;
    a_next_ptr[5] = 0.000000e+00;
    a_next_ptr[6] = 0.000000e+00;
    a_next_ptr[7] = 0.000000e+00;
    if ((i_1 < m) && (minor < 72)) {
      int64_t lane0_1 = 0;
      int64_t lane1_1 = 1;
      int64_t lane2_1 = 2;
      int64_t lane3_1 = 3;
      float cell_ptr_1[4];
      int64_t i0_6 = (minor / 24);
      int64_t i1_5 = ((minor >> 3) % 3);
      int64_t i2_5 = (minor & 7);
      int64_t begin_1 = ((((((i0_2 * h) + ((i1_1 + i0_6) - 1)) * w) + ((i2_1 + i1_5) - 1)) * 8) + (((item * 8) + i2_5) + 0));
      if ((begin_1 >= 0) && (begin_1 < (((n * h) * w) * 8))) {
        int64_t part_1 = (begin_1 >> 2);
        *(float4*)(cell_ptr_1 + 0) = *(float4*)(p0 + (part_1 * 4));
      }
      float condval_4;
      if ((((((i1_1 + i0_6) - 1) >= 0) && (((i1_1 + i0_6) - 1) < h)) && (((i2_1 + i1_5) - 1) >= 0)) && (((i2_1 + i1_5) - 1) < w)) {
        condval_4 = cell_ptr_1[0];
      } else {
        condval_4 = 0.000000e+00;
      }
      a_next_ptr[4] = condval_4;
      float condval_5;
      if ((((((i1_1 + i0_6) - 1) >= 0) && (((i1_1 + i0_6) - 1) < h)) && (((i2_1 + i1_5) - 1) >= 0)) && (((i2_1 + i1_5) - 1) < w)) {
        condval_5 = cell_ptr_1[1];
      } else {
        condval_5 = 0.000000e+00;
      }
      a_next_ptr[5] = condval_5;
      float condval_6;
      if ((((((i1_1 + i0_6) - 1) >= 0) && (((i1_1 + i0_6) - 1) < h)) && (((i2_1 + i1_5) - 1) >= 0)) && (((i2_1 + i1_5) - 1) < w)) {
        condval_6 = cell_ptr_1[2];
      } else {
        condval_6 = 0.000000e+00;
      }
      a_next_ptr[6] = condval_6;
      float condval_7;
      if ((((((i1_1 + i0_6) - 1) >= 0) && (((i1_1 + i0_6) - 1) < h)) && (((i2_1 + i1_5) - 1) >= 0)) && (((i2_1 + i1_5) - 1) < w)) {
        condval_7 = cell_ptr_1[3];
      } else {
        condval_7 = 0.000000e+00;
      }
      a_next_ptr[7] = condval_7;
    }
    b_next_ptr[0] = 0.000000e+00;
    b_next_ptr[1] = 0.000000e+00;
    b_next_ptr[2] = 0.000000e+00;
    b_next_ptr[3] = 0.000000e+00;
    if ((j < 64) && (major_1 < 72)) {
      int64_t lane0_2 = 0;
      int64_t lane1_2 = 1;
      int64_t lane2_2 = 2;
      int64_t lane3_2 = 3;
      float cell_ptr_2[4];
      int64_t begin_2 = ((((item * 72) + major_1) * 64) + (j + 0));
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
    if ((j_1 < 64) && (kk < 72)) {
      int64_t lane0_3 = 0;
      int64_t lane1_3 = 1;
      int64_t lane2_3 = 2;
      int64_t lane3_3 = 3;
      float cell_ptr_3[4];
      int64_t begin_3 = ((((item * 72) + kk) * 64) + (j_1 + 0));
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
    __syncthreads();
    for (int64_t slice = 0; slice < 5; ++slice) {
      int64_t current = (slice & 1);
      if ((slice + 1) < 5) {
        int64_t kk_1 = (((slice + 1) * 16) + minor);
        a_next_ptr[0] = 0.000000e+00;
        a_next_ptr[1] = 0.000000e+00;
        a_next_ptr[2] = 0.000000e+00;
        a_next_ptr[3] = 0.000000e+00;
        if ((i < m) && (kk_1 < 72)) {
          int64_t lane0_4 = 0;
          int64_t lane1_4 = 1;
          int64_t lane2_4 = 2;
          int64_t lane3_4 = 3;
          float cell_ptr_4[4];
          int64_t i0_7 = (kk_1 / 24);
          int64_t i1_6 = ((kk_1 >> 3) % 3);
          int64_t i2_6 = (kk_1 & 7);
          int64_t begin_4 = ((((((i0_1 * h) + ((i1 + i0_7) - 1)) * w) + ((i2 + i1_6) - 1)) * 8) + (((item * 8) + i2_6) + 0));
          if ((begin_4 >= 0) && (begin_4 < (((n * h) * w) * 8))) {
            int64_t part_4 = (begin_4 >> 2);
            *(float4*)(cell_ptr_4 + 0) = *(float4*)(p0 + (part_4 * 4));
          }
          float condval_8;
          if ((((((i1 + i0_7) - 1) >= 0) && (((i1 + i0_7) - 1) < h)) && (((i2 + i1_6) - 1) >= 0)) && (((i2 + i1_6) - 1) < w)) {
            condval_8 = cell_ptr_4[0];
          } else {
            condval_8 = 0.000000e+00;
          }
          a_next_ptr[0] = condval_8;
          float condval_9;
          if ((((((i1 + i0_7) - 1) >= 0) && (((i1 + i0_7) - 1) < h)) && (((i2 + i1_6) - 1) >= 0)) && (((i2 + i1_6) - 1) < w)) {
            condval_9 = cell_ptr_4[1];
          } else {
            condval_9 = 0.000000e+00;
          }
          a_next_ptr[1] = condval_9;
          float condval_10;
          if ((((((i1 + i0_7) - 1) >= 0) && (((i1 + i0_7) - 1) < h)) && (((i2 + i1_6) - 1) >= 0)) && (((i2 + i1_6) - 1) < w)) {
            condval_10 = cell_ptr_4[2];
          } else {
            condval_10 = 0.000000e+00;
          }
          a_next_ptr[2] = condval_10;
          float condval_11;
          if ((((((i1 + i0_7) - 1) >= 0) && (((i1 + i0_7) - 1) < h)) && (((i2 + i1_6) - 1) >= 0)) && (((i2 + i1_6) - 1) < w)) {
            condval_11 = cell_ptr_4[3];
          } else {
            condval_11 = 0.000000e+00;
          }
          a_next_ptr[3] = condval_11;
        }
        int64_t kk_2 = (((slice + 1) * 16) + minor);
        a_next_ptr[4] = 0.000000e+00;
        a_next_ptr[5] = 0.000000e+00;
        a_next_ptr[6] = 0.000000e+00;
        a_next_ptr[7] = 0.000000e+00;
        if ((i_1 < m) && (kk_2 < 72)) {
          int64_t lane0_5 = 0;
          int64_t lane1_5 = 1;
          int64_t lane2_5 = 2;
          int64_t lane3_5 = 3;
          float cell_ptr_5[4];
          int64_t i0_8 = (kk_2 / 24);
          int64_t i1_7 = ((kk_2 >> 3) % 3);
          int64_t i2_7 = (kk_2 & 7);
          int64_t begin_5 = ((((((i0_2 * h) + ((i1_1 + i0_8) - 1)) * w) + ((i2_1 + i1_7) - 1)) * 8) + (((item * 8) + i2_7) + 0));
          if ((begin_5 >= 0) && (begin_5 < (((n * h) * w) * 8))) {
            int64_t part_5 = (begin_5 >> 2);
            *(float4*)(cell_ptr_5 + 0) = *(float4*)(p0 + (part_5 * 4));
          }
          float condval_12;
          if ((((((i1_1 + i0_8) - 1) >= 0) && (((i1_1 + i0_8) - 1) < h)) && (((i2_1 + i1_7) - 1) >= 0)) && (((i2_1 + i1_7) - 1) < w)) {
            condval_12 = cell_ptr_5[0];
          } else {
            condval_12 = 0.000000e+00;
          }
          a_next_ptr[4] = condval_12;
          float condval_13;
          if ((((((i1_1 + i0_8) - 1) >= 0) && (((i1_1 + i0_8) - 1) < h)) && (((i2_1 + i1_7) - 1) >= 0)) && (((i2_1 + i1_7) - 1) < w)) {
            condval_13 = cell_ptr_5[1];
          } else {
            condval_13 = 0.000000e+00;
          }
          a_next_ptr[5] = condval_13;
          float condval_14;
          if ((((((i1_1 + i0_8) - 1) >= 0) && (((i1_1 + i0_8) - 1) < h)) && (((i2_1 + i1_7) - 1) >= 0)) && (((i2_1 + i1_7) - 1) < w)) {
            condval_14 = cell_ptr_5[2];
          } else {
            condval_14 = 0.000000e+00;
          }
          a_next_ptr[6] = condval_14;
          float condval_15;
          if ((((((i1_1 + i0_8) - 1) >= 0) && (((i1_1 + i0_8) - 1) < h)) && (((i2_1 + i1_7) - 1) >= 0)) && (((i2_1 + i1_7) - 1) < w)) {
            condval_15 = cell_ptr_5[3];
          } else {
            condval_15 = 0.000000e+00;
          }
          a_next_ptr[7] = condval_15;
        }
        int64_t kk_3 = (((slice + 1) * 16) + major_1);
        b_next_ptr[0] = 0.000000e+00;
        b_next_ptr[1] = 0.000000e+00;
        b_next_ptr[2] = 0.000000e+00;
        b_next_ptr[3] = 0.000000e+00;
        if ((j < 64) && (kk_3 < 72)) {
          int64_t lane0_6 = 0;
          int64_t lane1_6 = 1;
          int64_t lane2_6 = 2;
          int64_t lane3_6 = 3;
          float cell_ptr_6[4];
          int64_t begin_6 = ((((item * 72) + kk_3) * 64) + (j + 0));
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
        if ((j_1 < 64) && (kk_4 < 72)) {
          int64_t lane0_7 = 0;
          int64_t lane1_7 = 1;
          int64_t lane2_7 = 2;
          int64_t lane3_7 = 3;
          float cell_ptr_7[4];
          int64_t begin_7 = ((((item * 72) + kk_4) * 64) + (j_1 + 0));
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
      if ((slice + 1) < 5) {
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
        if ((i_2 < m) && (j_2 < 64)) {
          int64_t lane0_8 = 0;
          int64_t lane1_8 = 1;
          int64_t lane2_8 = 2;
          int64_t lane3_8 = 3;
          float out_ptr[4];
          float total = sums_ptr[((r_1 * 4) + (c_1 * 4))];
          out_ptr[0] = total;
          float total_1 = sums_ptr[(((r_1 * 4) + (c_1 * 4)) + 1)];
          out_ptr[1] = total_1;
          float total_2 = sums_ptr[(((r_1 * 4) + (c_1 * 4)) + 2)];
          out_ptr[2] = total_2;
          float total_3 = sums_ptr[(((r_1 * 4) + (c_1 * 4)) + 3)];
          out_ptr[3] = total_3;
          int64_t flat = ((i_2 * 64) + ((item * 64) + j_2));
          int64_t part_8 = (flat >> 2);
          *(float4*)(o0 + (part_8 * 4)) = *(float4*)(out_ptr + 0);
        }
      }
    }
  }
}
