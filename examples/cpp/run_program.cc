// Runs a program of one float32 matrix on several row counts:
//   run_program [--level CPU] MODEL.so COLUMNS ROWS...
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "tvm_disc.h"

// Return a view of memory that the caller owns; nothing is copied.
DLTensor View(std::vector<float>* data, int64_t* shape) {
  DLTensor tensor{};
  tensor.data = data->data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 2;
  tensor.dtype = {kDLFloat, 32, 1};
  tensor.shape = shape;
  return tensor;
}

void Run(const tvm_disc::Program& program, int64_t rows, int64_t columns) {
  std::vector<float> data(rows * columns);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 7) - 3.0f;
  int64_t shape[] = {rows, columns};
  DLTensor x = View(&data, shape);
  auto y = program(&x).cast<tvm::ffi::Tensor>();

  double sum = 0.0;
  const float* values = static_cast<const float*>(y.data_ptr());
  for (int64_t i = 0; i < y.numel(); ++i) sum += values[i];
  std::cout << rows << "x" << columns << " ->";
  for (int64_t axis = 0; axis < y.ndim(); ++axis) std::cout << " " << y.size(axis);
  std::cout << ", sum " << sum << std::endl;

  // Call again, and write the result into memory that this program owns.
  std::vector<float> result(y.numel());
  int64_t result_shape[] = {y.size(0), y.size(1)};
  DLTensor out = View(&result, result_shape);
  program(&x, &out);
  for (int64_t i = 0; i < y.numel(); ++i) {
    if (result[i] != values[i]) throw std::runtime_error("the two results differ");
  }
}

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string level;
  if (words.size() > 1 && words[0] == "--level") {
    level = words[1];
    words.erase(words.begin(), words.begin() + 2);
  }
  if (words.size() < 2) {
    std::cerr << "usage: run_program [--level CPU] MODEL.so COLUMNS ROWS..." << std::endl;
    return 2;
  }
  try {
    tvm_disc::Program program(words[0], level);
    std::cout << program.signature() << std::endl;
    if (program.levels().size() > 1) std::cout << "level " << program.level() << std::endl;
    for (size_t k = 2; k < words.size(); ++k) Run(program, std::stoll(words[k]), std::stoll(words[1]));
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
  return 0;
}
