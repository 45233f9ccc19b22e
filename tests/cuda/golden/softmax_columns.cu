void __launch_bounds__(256) k1_row_max_0(float* p0, float* o0, float* scratch, int64_t n, int64_t m, int64_t tasks, int64_t blocks, int64_t round) {
  int64_t thread = ((int64_t)((int)threadIdx.x));
  int64_t block = ((int64_t)((int)blockIdx.x));
  int64_t steps = max(((((tasks - block) + blocks) - 1) / blocks), 0);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t task = (block + (step * blocks));
    int64_t number = (thread / 8);
    int64_t row = (((task * 8) + (thread - (number * 8))) * 4);
    bool inside = (row < m);
    int64_t mine = min(row, (m - 4));
    float first_ptr[1];
    float second_ptr[1];
    first_ptr[0] = -CUDART_INF_F;
    second_ptr[0] = 0.000000e+00;
    float first_ptr_1[1];
    float second_ptr_1[1];
    first_ptr_1[0] = -CUDART_INF_F;
    second_ptr_1[0] = 0.000000e+00;
    float first_ptr_2[1];
    float second_ptr_2[1];
    first_ptr_2[0] = -CUDART_INF_F;
    second_ptr_2[0] = 0.000000e+00;
    float first_ptr_3[1];
    float second_ptr_3[1];
    first_ptr_3[0] = -CUDART_INF_F;
    second_ptr_3[0] = 0.000000e+00;
    int64_t mine_1 = (max((((inside ? n : 0) - number) + 31), 0) / 32);
    for (int64_t s = 0; s < mine_1; ++s) {
      int64_t j = ((s * 32) + number);
      int64_t lane0 = 0;
      int64_t lane1 = 1;
      int64_t lane2 = 2;
      int64_t lane3 = 3;
      float cell_ptr[4];
      int64_t begin = ((j * m) + (mine + 0));
      int64_t part = (begin >> 2);
      *(float4*)(cell_ptr + 0) = *(float4*)(p0 + (part * 4));
      float p0_1 = cell_ptr[0];
      float held = first_ptr[0];
      float held_1 = second_ptr[0];
      float largest = ((held <= CUDART_INF_F) ? ((held > p0_1) ? held : p0_1) : held);
      first_ptr[0] = largest;
      second_ptr[0] = (((held == largest) ? held_1 : (held_1 * expf(__fsub_rn(held, largest)))) + ((p0_1 == largest) ? 1.000000e+00 : expf(__fsub_rn(p0_1, largest))));
      float p0_2 = cell_ptr[1];
      float held_2 = first_ptr_1[0];
      float held_3 = second_ptr_1[0];
      float largest_1 = ((held_2 <= CUDART_INF_F) ? ((held_2 > p0_2) ? held_2 : p0_2) : held_2);
      first_ptr_1[0] = largest_1;
      second_ptr_1[0] = (((held_2 == largest_1) ? held_3 : (held_3 * expf(__fsub_rn(held_2, largest_1)))) + ((p0_2 == largest_1) ? 1.000000e+00 : expf(__fsub_rn(p0_2, largest_1))));
      float p0_3 = cell_ptr[2];
      float held_4 = first_ptr_2[0];
      float held_5 = second_ptr_2[0];
      float largest_2 = ((held_4 <= CUDART_INF_F) ? ((held_4 > p0_3) ? held_4 : p0_3) : held_4);
      first_ptr_2[0] = largest_2;
      second_ptr_2[0] = (((held_4 == largest_2) ? held_5 : (held_5 * expf(__fsub_rn(held_4, largest_2)))) + ((p0_3 == largest_2) ? 1.000000e+00 : expf(__fsub_rn(p0_3, largest_2))));
      float p0_4 = cell_ptr[3];
      float held_6 = first_ptr_3[0];
      float held_7 = second_ptr_3[0];
      float largest_3 = ((held_6 <= CUDART_INF_F) ? ((held_6 > p0_4) ? held_6 : p0_4) : held_6);
      first_ptr_3[0] = largest_3;
      second_ptr_3[0] = (((held_6 == largest_3) ? held_7 : (held_7 * expf(__fsub_rn(held_6, largest_3)))) + ((p0_4 == largest_3) ? 1.000000e+00 : expf(__fsub_rn(p0_4, largest_3))));
    }
    float held_8 = first_ptr[0];
    float held_9 = second_ptr[0];
    __shared__ float parts_ptr[256];
    __shared__ float parts_ptr_1[256];
    parts_ptr[thread] = held_8;
    parts_ptr_1[thread] = held_9;
    __syncthreads();
    if (thread < 128) {
      float whole_ptr[1];
      float whole_ptr_1[1];
      whole_ptr[0] = parts_ptr[thread];
      whole_ptr_1[0] = parts_ptr_1[thread];
      for (int64_t other = 1; other < 2; ++other) {
        float theirs = parts_ptr[(thread + (other * 128))];
        float theirs_1 = parts_ptr_1[(thread + (other * 128))];
        float mine_2 = whole_ptr[0];
        float mine_3 = whole_ptr_1[0];
        float largest_4 = ((mine_2 <= CUDART_INF_F) ? ((mine_2 > theirs) ? mine_2 : theirs) : mine_2);
        whole_ptr[0] = largest_4;
        whole_ptr_1[0] = (((mine_2 == largest_4) ? mine_3 : (mine_3 * expf(__fsub_rn(mine_2, largest_4)))) + ((theirs == largest_4) ? theirs_1 : (theirs_1 * expf(__fsub_rn(theirs, largest_4)))));
      }
      float whole = whole_ptr[0];
      float whole_1 = whole_ptr_1[0];
      parts_ptr[thread] = whole;
      parts_ptr_1[thread] = whole_1;
    }
    __syncthreads();
    int64_t place = (thread % 8);
    float whole_ptr_2[1];
    float whole_ptr_3[1];
    whole_ptr_2[0] = parts_ptr[place];
    whole_ptr_3[0] = parts_ptr_1[place];
    for (int64_t other_1 = 1; other_1 < 16; ++other_1) {
      float theirs_2 = parts_ptr[(place + (other_1 * 8))];
      float theirs_3 = parts_ptr_1[(place + (other_1 * 8))];
      float mine_4 = whole_ptr_2[0];
      float mine_5 = whole_ptr_3[0];
      float largest_5 = ((mine_4 <= CUDART_INF_F) ? ((mine_4 > theirs_2) ? mine_4 : theirs_2) : mine_4);
      whole_ptr_2[0] = largest_5;
      whole_ptr_3[0] = (((mine_4 == largest_5) ? mine_5 : (mine_5 * expf(__fsub_rn(mine_4, largest_5)))) + ((theirs_2 == largest_5) ? theirs_3 : (theirs_3 * expf(__fsub_rn(theirs_2, largest_5)))));
    }
    float whole_2 = whole_ptr_2[0];
    float whole_3 = whole_ptr_3[0];
    __syncthreads();
    float sum = (whole_3 + __fsub_rn(whole_2, whole_2));
    float held_10 = first_ptr_1[0];
    float held_11 = second_ptr_1[0];
    __shared__ float parts_ptr_2[256];
    __shared__ float parts_ptr_3[256];
    parts_ptr_2[thread] = held_10;
    parts_ptr_3[thread] = held_11;
    __syncthreads();
    if (thread < 128) {
      float whole_ptr_4[1];
      float whole_ptr_5[1];
      whole_ptr_4[0] = parts_ptr_2[thread];
      whole_ptr_5[0] = parts_ptr_3[thread];
      for (int64_t other_2 = 1; other_2 < 2; ++other_2) {
        float theirs_4 = parts_ptr_2[(thread + (other_2 * 128))];
        float theirs_5 = parts_ptr_3[(thread + (other_2 * 128))];
        float mine_6 = whole_ptr_4[0];
        float mine_7 = whole_ptr_5[0];
        float largest_6 = ((mine_6 <= CUDART_INF_F) ? ((mine_6 > theirs_4) ? mine_6 : theirs_4) : mine_6);
        whole_ptr_4[0] = largest_6;
        whole_ptr_5[0] = (((mine_6 == largest_6) ? mine_7 : (mine_7 * expf(__fsub_rn(mine_6, largest_6)))) + ((theirs_4 == largest_6) ? theirs_5 : (theirs_5 * expf(__fsub_rn(theirs_4, largest_6)))));
      }
      float whole_4 = whole_ptr_4[0];
      float whole_5 = whole_ptr_5[0];
      parts_ptr_2[thread] = whole_4;
      parts_ptr_3[thread] = whole_5;
    }
    __syncthreads();
    int64_t place_1 = (thread % 8);
    float whole_ptr_6[1];
    float whole_ptr_7[1];
    whole_ptr_6[0] = parts_ptr_2[place_1];
    whole_ptr_7[0] = parts_ptr_3[place_1];
    for (int64_t other_3 = 1; other_3 < 16; ++other_3) {
      float theirs_6 = parts_ptr_2[(place_1 + (other_3 * 8))];
      float theirs_7 = parts_ptr_3[(place_1 + (other_3 * 8))];
      float mine_8 = whole_ptr_6[0];
      float mine_9 = whole_ptr_7[0];
      float largest_7 = ((mine_8 <= CUDART_INF_F) ? ((mine_8 > theirs_6) ? mine_8 : theirs_6) : mine_8);
      whole_ptr_6[0] = largest_7;
      whole_ptr_7[0] = (((mine_8 == largest_7) ? mine_9 : (mine_9 * expf(__fsub_rn(mine_8, largest_7)))) + ((theirs_6 == largest_7) ? theirs_7 : (theirs_7 * expf(__fsub_rn(theirs_6, largest_7)))));
    }
    float whole_6 = whole_ptr_6[0];
    float whole_7 = whole_ptr_7[0];
    __syncthreads();
    float sum_1 = (whole_7 + __fsub_rn(whole_6, whole_6));
    float held_12 = first_ptr_2[0];
    float held_13 = second_ptr_2[0];
    __shared__ float parts_ptr_4[256];
    __shared__ float parts_ptr_5[256];
    parts_ptr_4[thread] = held_12;
    parts_ptr_5[thread] = held_13;
    __syncthreads();
    if (thread < 128) {
      float whole_ptr_8[1];
      float whole_ptr_9[1];
      whole_ptr_8[0] = parts_ptr_4[thread];
      whole_ptr_9[0] = parts_ptr_5[thread];
      for (int64_t other_4 = 1; other_4 < 2; ++other_4) {
        float theirs_8 = parts_ptr_4[(thread + (other_4 * 128))];
        float theirs_9 = parts_ptr_5[(thread + (other_4 * 128))];
        float mine_10 = whole_ptr_8[0];
        float mine_11 = whole_ptr_9[0];
        float largest_8 = ((mine_10 <= CUDART_INF_F) ? ((mine_10 > theirs_8) ? mine_10 : theirs_8) : mine_10);
        whole_ptr_8[0] = largest_8;
        whole_ptr_9[0] = (((mine_10 == largest_8) ? mine_11 : (mine_11 * expf(__fsub_rn(mine_10, largest_8)))) + ((theirs_8 == largest_8) ? theirs_9 : (theirs_9 * expf(__fsub_rn(theirs_8, largest_8)))));
      }
      float whole_8 = whole_ptr_8[0];
      float whole_9 = whole_ptr_9[0];
      parts_ptr_4[thread] = whole_8;
      parts_ptr_5[thread] = whole_9;
    }
    __syncthreads();
    int64_t place_2 = (thread % 8);
    float whole_ptr_10[1];
    float whole_ptr_11[1];
    whole_ptr_10[0] = parts_ptr_4[place_2];
    whole_ptr_11[0] = parts_ptr_5[place_2];
    for (int64_t other_5 = 1; other_5 < 16; ++other_5) {
      float theirs_10 = parts_ptr_4[(place_2 + (other_5 * 8))];
      float theirs_11 = parts_ptr_5[(place_2 + (other_5 * 8))];
      float mine_12 = whole_ptr_10[0];
      float mine_13 = whole_ptr_11[0];
      float largest_9 = ((mine_12 <= CUDART_INF_F) ? ((mine_12 > theirs_10) ? mine_12 : theirs_10) : mine_12);
      whole_ptr_10[0] = largest_9;
      whole_ptr_11[0] = (((mine_12 == largest_9) ? mine_13 : (mine_13 * expf(__fsub_rn(mine_12, largest_9)))) + ((theirs_10 == largest_9) ? theirs_11 : (theirs_11 * expf(__fsub_rn(theirs_10, largest_9)))));
    }
    float whole_10 = whole_ptr_10[0];
    float whole_11 = whole_ptr_11[0];
    __syncthreads();
    float sum_2 = (whole_11 + __fsub_rn(whole_10, whole_10));
    float held_14 = first_ptr_3[0];
    float held_15 = second_ptr_3[0];
    __shared__ float parts_ptr_6[256];
    __shared__ float parts_ptr_7[256];
    parts_ptr_6[thread] = held_14;
    parts_ptr_7[thread] = held_15;
    __syncthreads();
    if (thread < 128) {
      float whole_ptr_12[1];
      float whole_ptr_13[1];
      whole_ptr_12[0] = parts_ptr_6[thread];
      whole_ptr_13[0] = parts_ptr_7[thread];
      for (int64_t other_6 = 1; other_6 < 2; ++other_6) {
        float theirs_12 = parts_ptr_6[(thread + (other_6 * 128))];
        float theirs_13 = parts_ptr_7[(thread + (other_6 * 128))];
        float mine_14 = whole_ptr_12[0];
        float mine_15 = whole_ptr_13[0];
        float largest_10 = ((mine_14 <= CUDART_INF_F) ? ((mine_14 > theirs_12) ? mine_14 : theirs_12) : mine_14);
        whole_ptr_12[0] = largest_10;
        whole_ptr_13[0] = (((mine_14 == largest_10) ? mine_15 : (mine_15 * expf(__fsub_rn(mine_14, largest_10)))) + ((theirs_12 == largest_10) ? theirs_13 : (theirs_13 * expf(__fsub_rn(theirs_12, largest_10)))));
      }
      float whole_12 = whole_ptr_12[0];
      float whole_13 = whole_ptr_13[0];
      parts_ptr_6[thread] = whole_12;
      parts_ptr_7[thread] = whole_13;
    }
    __syncthreads();
    int64_t place_3 = (thread % 8);
    float whole_ptr_14[1];
    float whole_ptr_15[1];
    whole_ptr_14[0] = parts_ptr_6[place_3];
    whole_ptr_15[0] = parts_ptr_7[place_3];
    for (int64_t other_7 = 1; other_7 < 16; ++other_7) {
      float theirs_14 = parts_ptr_6[(place_3 + (other_7 * 8))];
      float theirs_15 = parts_ptr_7[(place_3 + (other_7 * 8))];
      float mine_16 = whole_ptr_14[0];
      float mine_17 = whole_ptr_15[0];
      float largest_11 = ((mine_16 <= CUDART_INF_F) ? ((mine_16 > theirs_14) ? mine_16 : theirs_14) : mine_16);
      whole_ptr_14[0] = largest_11;
      whole_ptr_15[0] = (((mine_16 == largest_11) ? mine_17 : (mine_17 * expf(__fsub_rn(mine_16, largest_11)))) + ((theirs_14 == largest_11) ? theirs_15 : (theirs_15 * expf(__fsub_rn(theirs_14, largest_11)))));
    }
    float whole_14 = whole_ptr_14[0];
    float whole_15 = whole_ptr_15[0];
    __syncthreads();
    float sum_3 = (whole_15 + __fsub_rn(whole_14, whole_14));
    float v4 = (1.000000e+00 / sum);
    float v4_1 = (1.000000e+00 / sum_1);
    float v4_2 = (1.000000e+00 / sum_2);
    float v4_3 = (1.000000e+00 / sum_3);
    int64_t mine_18 = (max((((inside ? n : 0) - number) + 31), 0) / 32);
    for (int64_t s_1 = 0; s_1 < mine_18; ++s_1) {
      int64_t j_1 = ((s_1 * 32) + number);
      int64_t lane0_1 = 0;
      int64_t lane1_1 = 1;
      int64_t lane2_1 = 2;
      int64_t lane3_1 = 3;
      float cell_ptr_1[4];
      int64_t begin_1 = ((j_1 * m) + (mine + 0));
      int64_t part_1 = (begin_1 >> 2);
      *(float4*)(cell_ptr_1 + 0) = *(float4*)(p0 + (part_1 * 4));
      float p0_5 = cell_ptr_1[0];
      float v1 = __fsub_rn(p0_5, whole_2);
      float v2 = expf(v1);
      float v5 = (v2 * v4);
      float out_ptr[4];
      int64_t begin_2 = ((j_1 * m) + (mine + lane0_1));
      out_ptr[0] = v5;
      float p0_6 = cell_ptr_1[1];
      float v1_1 = __fsub_rn(p0_6, whole_6);
      float v2_1 = expf(v1_1);
      float v5_1 = (v2_1 * v4_1);
      out_ptr[1] = v5_1;
      float p0_7 = cell_ptr_1[2];
      float v1_2 = __fsub_rn(p0_7, whole_10);
      float v2_2 = expf(v1_2);
      float v5_2 = (v2_2 * v4_2);
      out_ptr[2] = v5_2;
      float p0_8 = cell_ptr_1[3];
      float v1_3 = __fsub_rn(p0_8, whole_14);
      float v2_3 = expf(v1_3);
      float v5_3 = (v2_3 * v4_3);
      out_ptr[3] = v5_3;
      int64_t part_2 = (begin_2 >> 2);
      *(float4*)(o0 + (part_2 * 4)) = *(float4*)(out_ptr + 0);
    }
    __syncthreads();
    if ((number == 0) && inside) {
    }
  }
}
