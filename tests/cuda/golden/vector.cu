void __launch_bounds__(256) k1_dot_matmul_0(float* p0, float* p1, float* o0, float* scratch, int64_t k, int64_t n, int64_t tasks, int64_t blocks, int64_t round) {
  int64_t thread = ((int64_t)((int)threadIdx.x));
  int64_t block = ((int64_t)((int)blockIdx.x));
  int64_t steps = max(((((tasks - block) + blocks) - 1) / blocks), 0);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t task = (block + (step * blocks));
    int64_t number = (thread / 8);
    int64_t flat = (((task * 8) + (thread - (number * 8))) * 4);
    int64_t share = max(k, 0);
    float acc_ptr[4];
    acc_ptr[0] = 0.000000e+00;
    acc_ptr[1] = 0.000000e+00;
    acc_ptr[2] = 0.000000e+00;
    acc_ptr[3] = 0.000000e+00;
    if (flat < n) {
      int64_t mine = (max(((share - number) + 31), 0) / 32);
      for (int64_t s = 0; s < mine; ++s) {
        int64_t j = ((s * 32) + number);
        int64_t lane0 = 0;
        int64_t lane1 = 1;
        int64_t lane2 = 2;
        int64_t lane3 = 3;
        float p0_1 = p0[j];
        float cell_ptr[4];
        int64_t begin = ((j * n) + (flat + 0));
        int64_t part = (begin >> 2);
        *(float4*)(cell_ptr + 0) = *(float4*)(p1 + (part * 4));
        float p1_1 = cell_ptr[0];
        acc_ptr[0] = (acc_ptr[0] + (p0_1 * p1_1));
        float p1_2 = cell_ptr[1];
        acc_ptr[1] = (acc_ptr[1] + (p0_1 * p1_2));
        float p1_3 = cell_ptr[2];
        acc_ptr[2] = (acc_ptr[2] + (p0_1 * p1_3));
        float p1_4 = cell_ptr[3];
        acc_ptr[3] = (acc_ptr[3] + (p0_1 * p1_4));
      }
    }
    float mine_1 = acc_ptr[0];
    float mine_2 = acc_ptr[1];
    float mine_3 = acc_ptr[2];
    float mine_4 = acc_ptr[3];
    __shared__ float parts_ptr[256];
    __shared__ float parts_ptr_1[256];
    __shared__ float parts_ptr_2[256];
    __shared__ float parts_ptr_3[256];
    parts_ptr[thread] = mine_1;
    parts_ptr_1[thread] = mine_2;
    parts_ptr_2[thread] = mine_3;
    parts_ptr_3[thread] = mine_4;
    __syncthreads();
    if (thread < 128) {
      float whole_ptr[1];
      float whole_ptr_1[1];
      float whole_ptr_2[1];
      float whole_ptr_3[1];
      whole_ptr[0] = parts_ptr[thread];
      whole_ptr_1[0] = parts_ptr_1[thread];
      whole_ptr_2[0] = parts_ptr_2[thread];
      whole_ptr_3[0] = parts_ptr_3[thread];
      float theirs = parts_ptr[(thread + 128)];
      float theirs_1 = parts_ptr_1[(thread + 128)];
      float theirs_2 = parts_ptr_2[(thread + 128)];
      float theirs_3 = parts_ptr_3[(thread + 128)];
      float mine_5 = whole_ptr[0];
      float mine_6 = whole_ptr_1[0];
      float mine_7 = whole_ptr_2[0];
      float mine_8 = whole_ptr_3[0];
      whole_ptr[0] = (mine_5 + theirs);
      whole_ptr_1[0] = (mine_6 + theirs_1);
      whole_ptr_2[0] = (mine_7 + theirs_2);
      whole_ptr_3[0] = (mine_8 + theirs_3);
      float whole = whole_ptr[0];
      float whole_1 = whole_ptr_1[0];
      float whole_2 = whole_ptr_2[0];
      float whole_3 = whole_ptr_3[0];
      parts_ptr[thread] = whole;
      parts_ptr_1[thread] = whole_1;
      parts_ptr_2[thread] = whole_2;
      parts_ptr_3[thread] = whole_3;
    }
    __syncthreads();
    int64_t place = (thread % 8);
    float whole_ptr_4[1];
    float whole_ptr_5[1];
    float whole_ptr_6[1];
    float whole_ptr_7[1];
    whole_ptr_4[0] = parts_ptr[place];
    whole_ptr_5[0] = parts_ptr_1[place];
    whole_ptr_6[0] = parts_ptr_2[place];
    whole_ptr_7[0] = parts_ptr_3[place];
    for (int64_t other = 1; other < 16; ++other) {
      float theirs_4 = parts_ptr[(place + (other * 8))];
      float theirs_5 = parts_ptr_1[(place + (other * 8))];
      float theirs_6 = parts_ptr_2[(place + (other * 8))];
      float theirs_7 = parts_ptr_3[(place + (other * 8))];
      float mine_9 = whole_ptr_4[0];
      float mine_10 = whole_ptr_5[0];
      float mine_11 = whole_ptr_6[0];
      float mine_12 = whole_ptr_7[0];
      whole_ptr_4[0] = (mine_9 + theirs_4);
      whole_ptr_5[0] = (mine_10 + theirs_5);
      whole_ptr_6[0] = (mine_11 + theirs_6);
      whole_ptr_7[0] = (mine_12 + theirs_7);
    }
    float whole_4 = whole_ptr_4[0];
    float whole_5 = whole_ptr_5[0];
    float whole_6 = whole_ptr_6[0];
    float whole_7 = whole_ptr_7[0];
    __syncthreads();
    if ((number == 0) && (flat < n)) {
      int64_t lane0_1 = 0;
      int64_t lane1_1 = 1;
      int64_t lane2_1 = 2;
      int64_t lane3_1 = 3;
      float out_ptr[4];
      out_ptr[0] = whole_4;
      out_ptr[1] = whole_5;
      out_ptr[2] = whole_6;
      out_ptr[3] = whole_7;
      int64_t part_1 = (flat >> 2);
      *(float4*)(o0 + (part_1 * 4)) = *(float4*)(out_ptr + 0);
    }
  }
}
