void __launch_bounds__(256) k1_loop_relu_0(float* p0, float* o0, float* scratch, int64_t n, int64_t tasks, int64_t blocks, int64_t round) {
  int64_t thread = ((int64_t)((int)threadIdx.x));
  int64_t block = ((int64_t)((int)blockIdx.x));
  int64_t first = ((block * 256) + thread);
  int64_t steps = max(((((tasks - first) + (blocks * 256)) - 1) / (blocks * 256)), 0);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t task = (first + (step * (blocks * 256)));
    int64_t flat = (task * 4);
    if ((flat + 4) <= n) {
      int64_t lane0 = 0;
      int64_t lane1 = 1;
      int64_t lane2 = 2;
      int64_t lane3 = 3;
      float out_ptr[4];
      float cell_ptr[4];
      int64_t begin = (flat + 0);
      int64_t part = (begin >> 2);
      *(float4*)(cell_ptr + 0) = *(float4*)(p0 + (part * 4));
      float p0_1 = cell_ptr[0];
      float v0 = ((0.000000e+00 > p0_1) ? 0.000000e+00 : p0_1);
      out_ptr[0] = v0;
      float p0_2 = cell_ptr[1];
      float v0_1 = ((0.000000e+00 > p0_2) ? 0.000000e+00 : p0_2);
      out_ptr[1] = v0_1;
      float p0_3 = cell_ptr[2];
      float v0_2 = ((0.000000e+00 > p0_3) ? 0.000000e+00 : p0_3);
      out_ptr[2] = v0_2;
      float p0_4 = cell_ptr[3];
      float v0_3 = ((0.000000e+00 > p0_4) ? 0.000000e+00 : p0_4);
      out_ptr[3] = v0_3;
      int64_t part_1 = (flat >> 2);
      *(float4*)(o0 + (part_1 * 4)) = *(float4*)(out_ptr + 0);
    } else {
      for (int64_t rest = 0; rest < (n - flat); ++rest) {
        int64_t at = (flat + rest);
        float p0_5 = p0[at];
        float v0_4 = ((0.000000e+00 > p0_5) ? 0.000000e+00 : p0_5);
        o0[at] = v0_4;
      }
    }
  }
}
