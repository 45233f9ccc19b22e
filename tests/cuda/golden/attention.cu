void __launch_bounds__(64) k1_attention_matmul_0(float* p0, float* p1, float* p2, float* o0, float* scratch, int64_t q_0, int64_t q_1, int64_t k_2, int64_t q_2, int64_t tasks, int64_t blocks, int64_t round) {
  int64_t thread = ((int64_t)((int)threadIdx.x));
  int64_t block = ((int64_t)((int)blockIdx.x));
  int64_t steps = max(((((tasks - block) + blocks) - 1) / blocks), 0);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t task = (block + (step * blocks));
    int64_t b = (q_0 * q_1);
    int64_t tiles = ((q_2 + 31) >> 5);
    int64_t item = (task / tiles);
    int64_t i0 = ((task - (item * tiles)) * 32);
    int64_t count = ((k_2 + 31) >> 5);
    int64_t i0_1 = disc_div_floor_divide_int64_v1(item, max(q_1, 1));
    int64_t i1 = disc_div_floor_mod_int64_v1(item, max(q_1, 1));
    int64_t row = (thread / 8);
    int64_t column = (thread - (row * 8));
    __shared__ float queries_ptr[2048];
    __shared__ float keys_ptr[2048];
    __shared__ float values_ptr[2048];
    float q_next_ptr[32];
    int64_t major = (thread / 16);
    int64_t minor = ((thread - (major * 16)) * 4);
    float k_next_ptr[32];
    int64_t major_1 = (thread / 16);
    int64_t minor_1 = ((thread - (major_1 * 16)) * 4);
    float v_next_ptr[32];
    int64_t major_2 = (thread / 16);
    int64_t minor_2 = ((thread - (major_2 * 16)) * 4);
    float scores_ptr[16];
    float result_ptr[32];
    float peaks_ptr[4];
    float sums_ptr[4];
    #pragma unroll
    for (int64_t s = 0; s < 4; ++s) {
      peaks_ptr[s] = -CUDART_INF_F;
    }
    #pragma unroll
    for (int64_t s_1 = 0; s_1 < 4; ++s_1) {
      sums_ptr[s_1] = 0.000000e+00;
    }
    #pragma unroll
    for (int64_t s_2 = 0; s_2 < 32; ++s_2) {
      result_ptr[s_2] = 0.000000e+00;
    }
    if (count > 0) {
      #pragma unroll
      for (int64_t copy = 0; copy < 8; ++copy) {
        int64_t here = (major_1 + (copy * 4));
        k_next_ptr[(copy * 4)] = 0.000000e+00;
        k_next_ptr[((copy * 4) + 1)] = 0.000000e+00;
        k_next_ptr[((copy * 4) + 2)] = 0.000000e+00;
        k_next_ptr[((copy * 4) + 3)] = 0.000000e+00;
        if (here < k_2) {
          int64_t lane0 = 0;
          int64_t lane1 = 1;
          int64_t lane2 = 2;
          int64_t lane3 = 3;
          float cell_ptr[4];
          int64_t begin = ((((item * k_2) + here) * 64) + (minor_1 + 0));
          int64_t part = (begin >> 2);
          *(float4*)(cell_ptr + 0) = *(float4*)(p0 + (part * 4));
          float p0_1 = cell_ptr[0];
          k_next_ptr[(copy * 4)] = p0_1;
          float p0_2 = cell_ptr[1];
          k_next_ptr[((copy * 4) + 1)] = p0_2;
          float p0_3 = cell_ptr[2];
          k_next_ptr[((copy * 4) + 2)] = p0_3;
          float p0_4 = cell_ptr[3];
          k_next_ptr[((copy * 4) + 3)] = p0_4;
        }
      }
      #pragma unroll
      for (int64_t copy_1 = 0; copy_1 < 8; ++copy_1) {
        int64_t here_1 = (i0 + (major + (copy_1 * 4)));
        q_next_ptr[(copy_1 * 4)] = 0.000000e+00;
        q_next_ptr[((copy_1 * 4) + 1)] = 0.000000e+00;
        q_next_ptr[((copy_1 * 4) + 2)] = 0.000000e+00;
        q_next_ptr[((copy_1 * 4) + 3)] = 0.000000e+00;
        if (here_1 < q_2) {
          int64_t lane0_1 = 0;
          int64_t lane1_1 = 1;
          int64_t lane2_1 = 2;
          int64_t lane3_1 = 3;
          float cell_ptr_1[4];
          int64_t begin_1 = ((((item * q_2) + here_1) * 64) + (minor + 0));
          int64_t part_1 = (begin_1 >> 2);
          *(float4*)(cell_ptr_1 + 0) = *(float4*)(p1 + (part_1 * 4));
          float p1_1 = cell_ptr_1[0];
          q_next_ptr[(copy_1 * 4)] = p1_1;
          float p1_2 = cell_ptr_1[1];
          q_next_ptr[((copy_1 * 4) + 1)] = p1_2;
          float p1_3 = cell_ptr_1[2];
          q_next_ptr[((copy_1 * 4) + 2)] = p1_3;
          float p1_4 = cell_ptr_1[3];
          q_next_ptr[((copy_1 * 4) + 3)] = p1_4;
        }
      }
      #pragma unroll
      for (int64_t copy_2 = 0; copy_2 < 8; ++copy_2) {
        queries_ptr[((minor * 32) + (((((major + (copy_2 * 4)) >> 2) ^ ((minor >> 2) & 7)) * 4) + ((major + (copy_2 * 4)) & 3)))] = q_next_ptr[(copy_2 * 4)];
        queries_ptr[(((minor + 1) * 32) + (((((major + (copy_2 * 4)) >> 2) ^ ((minor >> 2) & 7)) * 4) + ((major + (copy_2 * 4)) & 3)))] = q_next_ptr[((copy_2 * 4) + 1)];
        queries_ptr[(((minor + 2) * 32) + (((((major + (copy_2 * 4)) >> 2) ^ ((minor >> 2) & 7)) * 4) + ((major + (copy_2 * 4)) & 3)))] = q_next_ptr[((copy_2 * 4) + 2)];
        queries_ptr[(((minor + 3) * 32) + (((((major + (copy_2 * 4)) >> 2) ^ ((minor >> 2) & 7)) * 4) + ((major + (copy_2 * 4)) & 3)))] = q_next_ptr[((copy_2 * 4) + 3)];
      }
    }
    for (int64_t c = 0; c < count; ++c) {
      int64_t k0 = (c * 32);
      #pragma unroll
      for (int64_t copy_3 = 0; copy_3 < 8; ++copy_3) {
        keys_ptr[((minor_1 * 32) + (((((major_1 + (copy_3 * 4)) >> 2) ^ ((minor_1 >> 2) & 7)) * 4) + ((major_1 + (copy_3 * 4)) & 3)))] = k_next_ptr[(copy_3 * 4)];
        keys_ptr[(((minor_1 + 1) * 32) + (((((major_1 + (copy_3 * 4)) >> 2) ^ ((minor_1 >> 2) & 7)) * 4) + ((major_1 + (copy_3 * 4)) & 3)))] = k_next_ptr[((copy_3 * 4) + 1)];
        keys_ptr[(((minor_1 + 2) * 32) + (((((major_1 + (copy_3 * 4)) >> 2) ^ ((minor_1 >> 2) & 7)) * 4) + ((major_1 + (copy_3 * 4)) & 3)))] = k_next_ptr[((copy_3 * 4) + 2)];
        keys_ptr[(((minor_1 + 3) * 32) + (((((major_1 + (copy_3 * 4)) >> 2) ^ ((minor_1 >> 2) & 7)) * 4) + ((major_1 + (copy_3 * 4)) & 3)))] = k_next_ptr[((copy_3 * 4) + 3)];
      }
      __syncthreads();
      #pragma unroll
      for (int64_t s_3 = 0; s_3 < 16; ++s_3) {
        scores_ptr[s_3] = 0.000000e+00;
      }
      for (int64_t outer = 0; outer < 8; ++outer) {
        #pragma unroll
        for (int64_t inner = 0; inner < 8; ++inner) {
          float left_ptr[4];
          float right_ptr[4];
          int64_t at = ((outer * 8) + inner);
          *(float4*)(left_ptr + 0) = *(float4*)(queries_ptr + (((at * 8) + (row ^ ((at >> 2) & 7))) * 4));
          *(float4*)(right_ptr + 0) = *(float4*)(keys_ptr + (((at * 8) + (column ^ ((at >> 2) & 7))) * 4));
          #pragma unroll
          for (int64_t c_1 = 0; c_1 < 4; ++c_1) {
            #pragma unroll
            for (int64_t r = 0; r < 4; ++r) {
              scores_ptr[((c_1 * 4) + r)] = (scores_ptr[((c_1 * 4) + r)] + (left_ptr[r] * right_ptr[c_1]));
            }
          }
        }
      }
      #pragma unroll
      for (int64_t c_2 = 0; c_2 < 4; ++c_2) {
        #pragma unroll
        for (int64_t r_1 = 0; r_1 < 4; ++r_1) {
          int64_t i = min((i0 + (((((r_1 >> 2) * 8) + row) * 4) + (r_1 & 3))), (q_2 - 1));
          int64_t key = (k0 + (((((c_2 >> 2) * 8) + column) * 4) + (c_2 & 3)));
          int64_t j = min(key, (k_2 - 1));
          float dot = scores_ptr[((c_2 * 4) + r_1)];
          float v2 = (dot * 3.000000e-01);
          scores_ptr[((c_2 * 4) + r_1)] = ((key < k_2) ? v2 : -CUDART_INF_F);
        }
      }
      float tops_ptr[4];
      #pragma unroll
      for (int64_t r_2 = 0; r_2 < 4; ++r_2) {
        tops_ptr[r_2] = scores_ptr[r_2];
        tops_ptr[r_2] = max(tops_ptr[r_2], scores_ptr[(4 + r_2)]);
        tops_ptr[r_2] = max(tops_ptr[r_2], scores_ptr[(8 + r_2)]);
        tops_ptr[r_2] = max(tops_ptr[r_2], scores_ptr[(12 + r_2)]);
      }
      *(float4*)(values_ptr + (((column * 8) + (row ^ (column & 7))) * 4)) = *(float4*)(tops_ptr + 0);
      __syncthreads();
      #pragma unroll
      for (int64_t copy_4 = 0; copy_4 < 8; ++copy_4) {
        int64_t here_2 = (k0 + (major_2 + (copy_4 * 4)));
        v_next_ptr[(copy_4 * 4)] = 0.000000e+00;
        v_next_ptr[((copy_4 * 4) + 1)] = 0.000000e+00;
        v_next_ptr[((copy_4 * 4) + 2)] = 0.000000e+00;
        v_next_ptr[((copy_4 * 4) + 3)] = 0.000000e+00;
        if (here_2 < k_2) {
          int64_t lane0_2 = 0;
          int64_t lane1_2 = 1;
          int64_t lane2_2 = 2;
          int64_t lane3_2 = 3;
          float cell_ptr_2[4];
          int64_t begin_2 = ((((item * k_2) + here_2) * 64) + (minor_2 + 0));
          int64_t part_2 = (begin_2 >> 2);
          *(float4*)(cell_ptr_2 + 0) = *(float4*)(p2 + (part_2 * 4));
          float p2_1 = cell_ptr_2[0];
          v_next_ptr[(copy_4 * 4)] = p2_1;
          float p2_2 = cell_ptr_2[1];
          v_next_ptr[((copy_4 * 4) + 1)] = p2_2;
          float p2_3 = cell_ptr_2[2];
          v_next_ptr[((copy_4 * 4) + 2)] = p2_3;
          float p2_4 = cell_ptr_2[3];
          v_next_ptr[((copy_4 * 4) + 3)] = p2_4;
        }
      }
      float theirs_ptr[4];
      *(float4*)(tops_ptr + 0) = *(float4*)(values_ptr + ((row ^ 0) * 4));
      #pragma unroll
      for (int64_t t = 1; t < 8; ++t) {
        *(float4*)(theirs_ptr + 0) = *(float4*)(values_ptr + (((t * 8) + (row ^ (t & 7))) * 4));
        #pragma unroll
        for (int64_t r_3 = 0; r_3 < 4; ++r_3) {
          tops_ptr[r_3] = max(tops_ptr[r_3], theirs_ptr[r_3]);
        }
      }
      #pragma unroll
      for (int64_t r_4 = 0; r_4 < 4; ++r_4) {
        float before = peaks_ptr[r_4];
        float peak = max(before, tops_ptr[r_4]);
        float shift = ((peak == -CUDART_INF_F) ? 0.000000e+00 : peak);
        float factor = expf(__fsub_rn(before, shift));
        peaks_ptr[r_4] = peak;
        sums_ptr[r_4] = (sums_ptr[r_4] * factor);
        #pragma unroll
        for (int64_t c_3 = 0; c_3 < 4; ++c_3) {
          float weight = expf(__fsub_rn(scores_ptr[((c_3 * 4) + r_4)], shift));
          scores_ptr[((c_3 * 4) + r_4)] = weight;
          sums_ptr[r_4] = (sums_ptr[r_4] + weight);
        }
        #pragma unroll
        for (int64_t e = 0; e < 8; ++e) {
          result_ptr[((e * 4) + r_4)] = (result_ptr[((e * 4) + r_4)] * factor);
        }
      }
      #pragma unroll
      for (int64_t c_4 = 0; c_4 < 4; ++c_4) {
        *(float4*)(keys_ptr + ((((((((c_4 >> 2) * 8) + column) * 4) + (c_4 & 3)) * 8) + (row ^ (((((((c_4 >> 2) * 8) + column) * 4) + (c_4 & 3)) >> 2) & 7))) * 4)) = *(float4*)(scores_ptr + (c_4 * 4));
      }
      __syncthreads();
      #pragma unroll
      for (int64_t copy_5 = 0; copy_5 < 8; ++copy_5) {
        *(float4*)(values_ptr + ((((major_2 + (copy_5 * 4)) * 16) + (minor_2 >> 2)) * 4)) = *(float4*)(v_next_ptr + (copy_5 * 4));
      }
      __syncthreads();
      if ((c + 1) < count) {
        #pragma unroll
        for (int64_t copy_6 = 0; copy_6 < 8; ++copy_6) {
          int64_t here_3 = ((k0 + 32) + (major_1 + (copy_6 * 4)));
          k_next_ptr[(copy_6 * 4)] = 0.000000e+00;
          k_next_ptr[((copy_6 * 4) + 1)] = 0.000000e+00;
          k_next_ptr[((copy_6 * 4) + 2)] = 0.000000e+00;
          k_next_ptr[((copy_6 * 4) + 3)] = 0.000000e+00;
          if (here_3 < k_2) {
            int64_t lane0_3 = 0;
            int64_t lane1_3 = 1;
            int64_t lane2_3 = 2;
            int64_t lane3_3 = 3;
            float cell_ptr_3[4];
            int64_t begin_3 = ((((item * k_2) + here_3) * 64) + (minor_1 + 0));
            int64_t part_3 = (begin_3 >> 2);
            *(float4*)(cell_ptr_3 + 0) = *(float4*)(p0 + (part_3 * 4));
            float p0_5 = cell_ptr_3[0];
            k_next_ptr[(copy_6 * 4)] = p0_5;
            float p0_6 = cell_ptr_3[1];
            k_next_ptr[((copy_6 * 4) + 1)] = p0_6;
            float p0_7 = cell_ptr_3[2];
            k_next_ptr[((copy_6 * 4) + 2)] = p0_7;
            float p0_8 = cell_ptr_3[3];
            k_next_ptr[((copy_6 * 4) + 3)] = p0_8;
          }
        }
      }
      for (int64_t outer_1 = 0; outer_1 < 4; ++outer_1) {
        #pragma unroll
        for (int64_t inner_1 = 0; inner_1 < 8; ++inner_1) {
          float left_ptr_1[4];
          float right_ptr_1[8];
          int64_t at_1 = ((outer_1 * 8) + inner_1);
          *(float4*)(left_ptr_1 + 0) = *(float4*)(keys_ptr + (((at_1 * 8) + (row ^ ((at_1 >> 2) & 7))) * 4));
          *(float4*)(right_ptr_1 + 0) = *(float4*)(values_ptr + (((at_1 * 16) + column) * 4));
          *(float4*)(right_ptr_1 + 4) = *(float4*)(values_ptr + ((((at_1 * 16) + column) + 8) * 4));
          #pragma unroll
          for (int64_t c_5 = 0; c_5 < 8; ++c_5) {
            #pragma unroll
            for (int64_t r_5 = 0; r_5 < 4; ++r_5) {
              result_ptr[((c_5 * 4) + r_5)] = (result_ptr[((c_5 * 4) + r_5)] + (left_ptr_1[r_5] * right_ptr_1[c_5]));
            }
          }
        }
      }
      __syncthreads();
    }
    *(float4*)(values_ptr + (((column * 8) + (row ^ (column & 7))) * 4)) = *(float4*)(sums_ptr + 0);
    __syncthreads();
    float theirs_ptr_1[4];
    *(float4*)(sums_ptr + 0) = *(float4*)(values_ptr + ((row ^ 0) * 4));
    #pragma unroll
    for (int64_t t_1 = 1; t_1 < 8; ++t_1) {
      *(float4*)(theirs_ptr_1 + 0) = *(float4*)(values_ptr + (((t_1 * 8) + (row ^ (t_1 & 7))) * 4));
      #pragma unroll
      for (int64_t r_6 = 0; r_6 < 4; ++r_6) {
        sums_ptr[r_6] = (sums_ptr[r_6] + theirs_ptr_1[r_6]);
      }
    }
    __syncthreads();
    #pragma unroll
    for (int64_t r_7 = 0; r_7 < 4; ++r_7) {
      int64_t i_1 = (i0 + (((((r_7 >> 2) * 8) + row) * 4) + (r_7 & 3)));
      if (i_1 < q_2) {
        #pragma unroll
        for (int64_t q = 0; q < 2; ++q) {
          int64_t x = (((q * 8) + column) * 4);
          if (x < 64) {
            int64_t lane0_4 = 0;
            int64_t lane1_4 = 1;
            int64_t lane2_4 = 2;
            int64_t lane3_4 = 3;
            float out_ptr[4];
            float total = ((k_2 > 0) ? (result_ptr[(((q * 4) * 4) + r_7)] / sums_ptr[r_7]) : 0.000000e+00);
            out_ptr[0] = total;
            float total_1 = ((k_2 > 0) ? (result_ptr[((((q * 4) + 1) * 4) + r_7)] / sums_ptr[r_7]) : 0.000000e+00);
            out_ptr[1] = total_1;
            float total_2 = ((k_2 > 0) ? (result_ptr[((((q * 4) + 2) * 4) + r_7)] / sums_ptr[r_7]) : 0.000000e+00);
            out_ptr[2] = total_2;
            float total_3 = ((k_2 > 0) ? (result_ptr[((((q * 4) + 3) * 4) + r_7)] / sums_ptr[r_7]) : 0.000000e+00);
            out_ptr[3] = total_3;
            int64_t flat = ((((item * q_2) + i_1) * 64) + x);
            int64_t part_4 = (flat >> 2);
            *(float4*)(o0 + (part_4 * 4)) = *(float4*)(out_ptr + 0);
          }
        }
      }
    }
  }
}
