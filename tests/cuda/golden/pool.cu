void __launch_bounds__(128) k0_conv_max_pool2d_0(float* p0, float* o0, float* scratch, int64_t n, int64_t h, int64_t w, int64_t tasks, int64_t blocks, int64_t round) {
  int64_t thread = ((int64_t)((int)threadIdx.x));
  int64_t block = ((int64_t)((int)blockIdx.x));
  int64_t first = ((block * 128) + thread);
  int64_t steps = max(((((tasks - first) + (blocks * 128)) - 1) / (blocks * 128)), 0);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t task = (first + (step * (blocks * 128)));
    int64_t i0 = disc_div_floor_divide_int64_v1(task, ((3 * max(((h + 1) / 2), 1)) * max(((((w + 1) >> 1) + 3) / 4), 1)));
    int64_t i1 = ((disc_div_floor_divide_int64_v1(task, (max(((h + 1) / 2), 1) * max(((((w + 1) >> 1) + 3) / 4), 1))) % 3) + (3 & ((disc_div_floor_divide_int64_v1(task, (max(((h + 1) / 2), 1) * max(((((w + 1) >> 1) + 3) / 4), 1))) % 3) >> 63)));
    int64_t i2 = disc_div_floor_mod_int64_v1(disc_div_floor_divide_int64_v1(task, max(((((w + 1) >> 1) + 3) / 4), 1)), max(((h + 1) / 2), 1));
    int64_t i3 = disc_div_floor_mod_int64_v1(task, max(((((w + 1) >> 1) + 3) / 4), 1));
    int64_t begin = (i3 * 4);
    float acc_ptr[4];
    #pragma unroll
    for (int64_t a = 0; a < 4; ++a) {
      acc_ptr[a] = -CUDART_INF_F;
    }
    for (int64_t t0 = 0; t0 < 3; ++t0) {
      int64_t line = (((i2 * 2) + t0) + (int64_t)-1);
      if (((((i2 * 2) + t0) + (int64_t)-1) >= 0) && ((((i2 * 2) + t0) + (int64_t)-1) < h)) {
        float pixels_ptr[9];
        int64_t first_1 = ((begin * 2) - 1);
        #pragma unroll
        for (int64_t p = 0; p < 9; ++p) {
          int64_t x = (first_1 + p);
          pixels_ptr[p] = -CUDART_INF_F;
          if ((x >= 0) && (x < w)) {
            int64_t lane0 = 0;
            float p0_1 = p0[((((((i0 * 3) + (i1 + lane0)) * h) + line) * w) + x)];
            pixels_ptr[p] = p0_1;
          }
        }
        #pragma unroll
        for (int64_t tap = 0; tap < 3; ++tap) {
          float weights_ptr[1];
          #pragma unroll
          for (int64_t s = 0; s < 4; ++s) {
            #pragma unroll
            for (int64_t lane = 0; lane < 1; ++lane) {
              acc_ptr[(s + lane)] = ((acc_ptr[(s + lane)] <= CUDART_INF_F) ? ((acc_ptr[(s + lane)] > pixels_ptr[(((s * 2) + tap) + lane)]) ? acc_ptr[(s + lane)] : pixels_ptr[(((s * 2) + tap) + lane)]) : acc_ptr[(s + lane)]);
            }
          }
        }
      }
    }
    #pragma unroll
    for (int64_t s_1 = 0; s_1 < 4; ++s_1) {
      int64_t x_1 = (begin + s_1);
      if (x_1 < ((w + 1) >> 1)) {
        int64_t flat = ((((((i0 * 3) + i1) * ((h + 1) >> 1)) + i2) * ((w + 1) >> 1)) + x_1);
        float sum = acc_ptr[s_1];
        o0[((((((i0 * 3) + i1) * ((h + 1) >> 1)) + i2) * ((w + 1) >> 1)) + x_1)] = sum;
      }
    }
  }
}
