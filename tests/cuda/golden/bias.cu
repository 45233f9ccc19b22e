void __launch_bounds__(256) k1_loop_add_0(float* p0, float* p1, float* o0, float* scratch, int64_t n, int64_t m, int64_t tasks, int64_t blocks, int64_t round) {
  int64_t thread = ((int64_t)((int)threadIdx.x));
  int64_t block = ((int64_t)((int)blockIdx.x));
  int64_t first = ((block * 256) + thread);
  int64_t steps = max(((((tasks - first) + (blocks * 256)) - 1) / (blocks * 256)), 0);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t task = (first + (step * (blocks * 256)));
    int64_t flat = (task * 4);
    int64_t i0 = disc_div_floor_divide_int64_v1(flat, max(m, 1));
    int64_t j = (flat - (i0 * m));
    int64_t lane0 = 0;
    int64_t lane1 = 1;
    int64_t lane2 = 2;
    int64_t lane3 = 3;
    float out_ptr[4];
    float cell_ptr[4];
    int64_t begin = ((i0 * m) + (j + 0));
    int64_t part = (begin >> 2);
    *(float4*)(cell_ptr + 0) = *(float4*)(p0 + (part * 4));
    float p0_1 = cell_ptr[0];
    float cell_ptr_1[4];
    int64_t begin_1 = (j + 0);
    int64_t part_1 = (begin_1 >> 2);
    *(float4*)(cell_ptr_1 + 0) = *(float4*)(p1 + (part_1 * 4));
    float p1_1 = cell_ptr_1[0];
    float v0 = (p0_1 + p1_1);
    out_ptr[0] = v0;
    float p0_2 = cell_ptr[1];
    float p1_2 = cell_ptr_1[1];
    float v0_1 = (p0_2 + p1_2);
    out_ptr[1] = v0_1;
    float p0_3 = cell_ptr[2];
    float p1_3 = cell_ptr_1[2];
    float v0_2 = (p0_3 + p1_3);
    out_ptr[2] = v0_2;
    float p0_4 = cell_ptr[3];
    float p1_4 = cell_ptr_1[3];
    float v0_3 = (p0_4 + p1_4);
    out_ptr[3] = v0_3;
    int64_t part_2 = (flat >> 2);
    *(float4*)(o0 + (part_2 * 4)) = *(float4*)(out_ptr + 0);
  }
}
