// Calls a saved program with recorded inputs and compares its results: replay MODEL.so CASES.
// One line per case: the inputs' shapes, the largest error, and WRONG where a result disagrees.
// `recorded.py` writes the file of cases: int64 words, and the arrays' bytes padded to such.
#include <tvm/ffi/container/array.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <vector>

#include "tvm_disc.h"

struct Array {
  DLDataType dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> words;

  int64_t size() const {
    int64_t total = 1;
    for (int64_t dim : shape) total *= dim;
    return total;
  }
};

int64_t ReadWord(std::istream* file) {
  int64_t word = 0;
  if (!file->read(reinterpret_cast<char*>(&word), sizeof word)) {
    throw std::runtime_error("the file of cases ends too early");
  }
  return word;
}

Array ReadArray(std::istream* file) {
  Array array;
  auto code = static_cast<uint8_t>(ReadWord(file));
  auto bits = static_cast<uint8_t>(ReadWord(file));
  array.dtype = {code, bits, 1};
  array.shape.resize(ReadWord(file));
  for (int64_t& dim : array.shape) dim = ReadWord(file);
  array.words.resize((array.size() * bits / 8 + 7) / 8);
  for (int64_t& word : array.words) word = ReadWord(file);
  return array;
}

std::vector<Array> ReadArrays(std::istream* file) {
  std::vector<Array> arrays(ReadWord(file));
  for (Array& array : arrays) array = ReadArray(file);
  return arrays;
}

DLTensor View(Array* array) {
  DLTensor tensor{};
  tensor.data = array->words.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = static_cast<int32_t>(array->shape.size());
  tensor.dtype = array->dtype;
  tensor.shape = array->shape.data();
  return tensor;
}

template <typename T>
double At(const void* data, int64_t i) {
  return static_cast<double>(static_cast<const T*>(data)[i]);
}

double Value(DLDataType dtype, const void* data, int64_t i) {
  switch (dtype.code * 256 + dtype.bits) {
    case kDLFloat * 256 + 32: return At<float>(data, i);
    case kDLFloat * 256 + 64: return At<double>(data, i);
    case kDLInt * 256 + 8: return At<int8_t>(data, i);
    case kDLInt * 256 + 16: return At<int16_t>(data, i);
    case kDLInt * 256 + 32: return At<int32_t>(data, i);
    case kDLInt * 256 + 64: return At<int64_t>(data, i);
    case kDLUInt * 256 + 8:
    case kDLBool * 256 + 8: return At<uint8_t>(data, i);
    case kDLUInt * 256 + 16: return At<uint16_t>(data, i);
    case kDLUInt * 256 + 32: return At<uint32_t>(data, i);
  }
  throw std::runtime_error("a result is of a dtype that replay does not compare");
}

void Flatten(const tvm::ffi::Any& value, std::vector<tvm::ffi::Tensor>* found) {
  if (auto tensor = value.as<tvm::ffi::Tensor>()) {
    found->push_back(*tensor);
    return;
  }
  for (const tvm::ffi::Any& field : value.cast<tvm::ffi::Array<tvm::ffi::Any>>()) {
    Flatten(field, found);
  }
}

bool SameType(const tvm::ffi::Tensor& found, const Array& expected) {
  if (found.dtype().code != expected.dtype.code || found.dtype().bits != expected.dtype.bits) {
    return false;
  }
  auto shape = found.shape();
  return std::equal(shape.begin(), shape.end(), expected.shape.begin(), expected.shape.end());
}

// The largest error; `tolerance` is both relative and absolute.
bool Agrees(const tvm::ffi::Tensor& found, const Array& expected, double tolerance, double* error) {
  bool agrees = true;
  for (int64_t i = 0; i < expected.size(); ++i) {
    double x = Value(expected.dtype, found.data_ptr(), i);
    double y = Value(expected.dtype, expected.words.data(), i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    double gap = std::abs(x - y);
    if (std::isnan(gap)) gap = std::numeric_limits<double>::infinity();
    *error = std::max(*error, gap);
    agrees = agrees && gap <= tolerance * (1.0 + std::abs(y));
  }
  return agrees;
}

std::string Shapes(const std::vector<Array>& inputs) {
  std::vector<std::string> found;
  for (const Array& input : inputs) {
    std::string text;
    for (int64_t dim : input.shape) text += (text.empty() ? "" : "x") + std::to_string(dim);
    if (std::find(found.begin(), found.end(), text) == found.end()) found.push_back(text);
  }
  std::string all;
  for (const std::string& text : found) all += (all.empty() ? "" : ",") + text;
  return all.empty() ? "-" : all;
}

bool Replay(const tvm_disc::Program& program, std::istream* file, double tolerance) {
  std::vector<Array> inputs = ReadArrays(file), outputs = ReadArrays(file);
  std::vector<DLTensor> views;
  for (Array& input : inputs) views.push_back(View(&input));
  std::vector<DLTensor*> arguments;
  for (DLTensor& view : views) arguments.push_back(&view);
  std::vector<tvm::ffi::Tensor> found;
  Flatten(program.Call(arguments), &found);
  double error = 0.0;
  bool right = found.size() == outputs.size();
  for (size_t i = 0; right && i < found.size(); ++i) {
    right = SameType(found[i], outputs[i]);
  }
  for (size_t i = 0; right && i < found.size(); ++i) {
    right = Agrees(found[i], outputs[i], tolerance, &error);
  }
  std::cout << Shapes(inputs) << " " << error << (right ? "" : " WRONG") << std::endl;
  return right;
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: replay MODEL.so CASES TOLERANCE" << std::endl;
    return 2;
  }
  try {
    tvm_disc::Program program(argv[1]);
    std::ifstream file(argv[2], std::ios::binary);
    bool right = true;
    for (int64_t left = ReadWord(&file); left > 0; --left) {
      right = Replay(program, &file, std::atof(argv[3])) && right;
    }
    return right ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
}
