// A language model that was saved as a program, in C++: generate tokens after a prompt.
#ifndef TVM_DISC_LANGUAGE_H_
#define TVM_DISC_LANGUAGE_H_

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include "tvm_disc.h"

namespace tvm_disc {

// How the next token is chosen from the scores (logits). First, the scores of tokens that occurred
// are divided by the penalty, or multiplied if they are negative. If the temperature is 0, the
// token with the highest score is chosen. Otherwise a token is drawn from the tokens with the top_k
// highest scores (0: from all), and from those of them whose probabilities add up to top_p. Equal
// seeds result in equal tokens, but not in the tokens of Python.
struct Choice {
  double temperature = 0, top_p = 1, repetition_penalty = 1;
  int64_t top_k = 0;
  uint64_t seed = 0;
};

class LanguageModel {
 public:
  // Loads a program that `tvm_disc.language_model(...).program.save(path)` wrote in Python.
  // Throws std::runtime_error as Program does, or if the program is not a language model.
  explicit LanguageModel(const std::string& path, const std::string& level = "")
      : program_(path, level) {
    ReadSignature(path);
    generate_ = program_.Function("tvm_disc_generate");
  }

  const Program& program() const { return program_; }
  int64_t vocabulary() const { return vocabulary_; }

  // Returns at most `most` tokens after a prompt. A token in `stop` ends the generation. `each` is
  // called with every token, and ends the generation if it returns false. Several threads may call
  // this method concurrently.
  std::vector<int64_t> Generate(const std::vector<int64_t>& prompt, int64_t most,
                                std::vector<int64_t> stop = {}, const Choice& choice = {},
                                const std::function<bool(int64_t)>& each = nullptr) const {
    for (int64_t token : prompt) {
      if (token < 0 || token >= vocabulary_) {
        throw std::runtime_error("prompt: expected tokens 0 .. " + std::to_string(vocabulary_ - 1) +
                                 ", found " + std::to_string(token));
      }
    }
    if (prompt.empty() || most < 0) {
      throw std::runtime_error("expected a prompt of at least one token, and at least 0 tokens to generate");
    }
    if (!(choice.temperature >= 0 && choice.top_p > 0 && choice.top_p <= 1 && choice.top_k >= 0 &&
          choice.repetition_penalty > 0)) {
      throw std::runtime_error("choice: expected temperature and top_k from 0, top_p of (0, 1], and "
                               "a repetition_penalty above 0");
    }
    if (most == 0) return {};
    Text text(*this, prompt, most);
    return text.Run(most, std::move(stop), choice, each);
  }

 private:
  struct Input {
    std::string name, dtype;
    std::vector<std::string> dims;
    bool Is(const char* prefix) const { return name.rfind(prefix, 0) == 0; }
    bool IsLength() const {
      return name.size() > 7 && name.compare(name.size() - 7, 7, "_length") == 0;
    }
  };

  // Words of the plan, as in tvm_disc/abi/generation.py.
  enum Word {
    kArguments, kArgumentCount, kTokens, kPositions, kLengths, kLengthCount, kRecurrent,
    kRecurrentCount, kScores, kReady, kBatch, kVocabulary, kMost, kChosen, kChosenCount, kSteps,
    kStops, kStopCount, kEnded, kTemperature, kTopP, kPenalty, kTopK, kOccurred, kDraws, kScratch,
    kTimeLimit, kPlanWords
  };
  static constexpr int64_t kScratchBytes = 24, kScratchMore = 16 * 1024 + 64;

  // The memory for one generated text: inputs of the step, caches, and scores.
  class Text {
   public:
    Text(const LanguageModel& model, const std::vector<int64_t>& prompt, int64_t most)
        : model_(model), prompt_(prompt), scores_(model.vocabulary_) {
      lengths_.resize(model.lengths_);
      size_t length = 0;
      for (const Input& input : model.inputs_) {
        std::vector<int64_t> shape;
        for (size_t axis = 0; axis < input.dims.size(); ++axis) {
          const std::string& dim = input.dims[axis];
          bool known = dim.find_first_not_of("0123456789") == std::string::npos;
          shape.push_back(known ? std::stoll(dim) : axis == 0 ? 1 : Rows(input, prompt, most));
        }
        Add(input, shape);
        if (input.IsLength()) tensors_.back()->shape = &lengths_[length++];
      }
      AddTensor(scores_.data(), {1, model.vocabulary_}, {kDLFloat, 32, 1});
      for (size_t k = 0; k < model.inputs_.size(); ++k) {
        if (!model.inputs_[k].Is("recurrent_")) continue;
        DLTensor* state = tensors_[k].get();
        Add(model.inputs_[k], {state->shape, state->shape + state->ndim});
        pairs_.push_back(reinterpret_cast<int64_t>(state));
        pairs_.push_back(reinterpret_cast<int64_t>(tensors_.back().get()));
      }
    }

    std::vector<int64_t> Run(int64_t most, std::vector<int64_t> stop, const Choice& choice,
                             const std::function<bool(int64_t)>& each) {
      ReadPrompt();
      std::vector<int64_t> found, plan = Plan(stop, choice);
      std::mt19937_64 random(choice.seed);
      std::vector<double> draws(each ? 1 : most);
      std::vector<int64_t> chosen(draws.size());
      while (static_cast<int64_t>(found.size()) < most && !ended_) {
        for (double& draw : draws) draw = static_cast<double>(random() >> 11) * 0x1p-53;
        plan[kDraws] = reinterpret_cast<int64_t>(draws.data());
        plan[kChosen] = reinterpret_cast<int64_t>(chosen.data());
        plan[kMost] = static_cast<int64_t>(draws.size());
        auto status = model_.generate_(model_.program_.function(), Address(plan.data()));
        if (status.cast<int64_t>() != 0) {
          throw std::runtime_error("the scores of token " +
                                   std::to_string(prompt_.size() + found.size()) + " contain NaN");
        }
        found.insert(found.end(), chosen.begin(), chosen.begin() + plan[kChosenCount]);
        if (each && !each(found.back())) break;
      }
      return found;
    }

   private:
    static int64_t Address(const void* at) { return reinterpret_cast<int64_t>(at); }

    // Returns the size of an axis other than the batch: the number of tokens, of used rows, or of
    // rows of a cache.
    static int64_t Rows(const Input& input, const std::vector<int64_t>& prompt, int64_t most) {
      int64_t length = static_cast<int64_t>(prompt.size());
      return input.Is("past_") ? length + most : length;
    }

    void Add(const Input& input, const std::vector<int64_t>& shape) {
      DLDataType dtype = tvm::ffi::StringToDLDataType(input.dtype);
      int64_t bytes = (dtype.bits + 7) / 8;
      for (int64_t size : shape) bytes *= size;
      memory_.emplace_back(bytes + 64);
      char* start = memory_.back().data();
      start += (64 - Address(start) % 64) % 64;
      if (input.IsLength()) bytes = 0;
      AddTensor(start, shape, dtype);
    }

    void AddTensor(void* data, std::vector<int64_t> shape, DLDataType dtype) {
      shapes_.push_back(std::make_unique<std::vector<int64_t>>(std::move(shape)));
      std::vector<int64_t>& own = *shapes_.back();
      tensors_.push_back(std::make_unique<DLTensor>(DLTensor{
          data, {kDLCPU, 0}, static_cast<int32_t>(own.size()), dtype, own.data(), nullptr, 0}));
    }

    DLTensor* Named(const char* name) {
      size_t k = 0;
      while (model_.inputs_[k].name != name) ++k;
      return tensors_[k].get();
    }

    // Reads the prompt into the caches; then `scores_` has the scores of the next token.
    void ReadPrompt() {
      int64_t length = static_cast<int64_t>(prompt_.size());
      const int64_t step = model_.one_by_one_ ? 1 : length;
      for (int64_t first = 0; first < length; first += step) {
        for (int64_t k = 0; k < step; ++k) Write(k, prompt_[first + k], first + k);
        std::vector<DLTensor*> tensors;
        for (auto& tensor : tensors_) tensors.push_back(tensor.get());
        model_.program_.Call(tensors);
        for (int64_t& used : lengths_) used += step;
        for (size_t k = 0; k < pairs_.size(); k += 2) {
          std::swap(reinterpret_cast<DLTensor*>(pairs_[k])->data,
                    reinterpret_cast<DLTensor*>(pairs_[k + 1])->data);
        }
      }
      for (const char* name : {"ids", "mask", "positions"}) Named(name)->shape[1] = 1;
      Write(0, prompt_.back(), length);
    }

    void Write(int64_t at, int64_t token, int64_t position) {
      static_cast<int64_t*>(Named("ids")->data)[at] = token;
      static_cast<int64_t*>(Named("mask")->data)[at] = 1;
      static_cast<int64_t*>(Named("positions")->data)[at] = position;
    }

    std::vector<int64_t> Plan(const std::vector<int64_t>& stop, const Choice& choice) {
      for (auto& tensor : tensors_) arguments_.push_back(tvm::ffi::AnyView(tensor.get()));
      scratch_.resize(kScratchBytes * model_.vocabulary_ + kScratchMore);
      std::vector<int64_t> plan(kPlanWords);
      plan[kArguments] = Address(arguments_.data());
      plan[kArgumentCount] = static_cast<int64_t>(arguments_.size());
      plan[kTokens] = Address(Named("ids")->data);
      plan[kPositions] = Address(Named("positions")->data);
      plan[kLengths] = Address(lengths_.data());
      plan[kLengthCount] = static_cast<int64_t>(lengths_.size());
      plan[kRecurrent] = Address(pairs_.data());
      plan[kRecurrentCount] = static_cast<int64_t>(pairs_.size() / 2);
      plan[kScores] = Address(scores_.data());
      plan[kReady] = plan[kBatch] = 1;
      plan[kVocabulary] = model_.vocabulary_;
      plan[kStops] = Address(stop.data());
      plan[kStopCount] = static_cast<int64_t>(stop.size());
      plan[kEnded] = Address(&ended_);
      plan[kTopK] = choice.top_k;
      plan[kScratch] = Address(scratch_.data());
      if (choice.repetition_penalty != 1) {
        occurred_.resize(model_.vocabulary_);
        for (int64_t token : prompt_) occurred_[token] = 1;
        plan[kOccurred] = Address(occurred_.data());
      }
      const double numbers[] = {choice.temperature, choice.top_p, choice.repetition_penalty};
      std::memcpy(&plan[kTemperature], numbers, sizeof(numbers));
      return plan;
    }

    const LanguageModel& model_;
    const std::vector<int64_t>& prompt_;
    std::vector<float> scores_;
    std::vector<int64_t> lengths_, pairs_;
    std::vector<std::vector<char>> memory_;
    std::vector<std::unique_ptr<std::vector<int64_t>>> shapes_;
    std::vector<std::unique_ptr<DLTensor>> tensors_;
    std::vector<tvm::ffi::AnyView> arguments_;
    std::vector<char> scratch_;
    std::vector<uint8_t> occurred_;
    uint8_t ended_ = 0;
  };

  // Parses a signature "(ids: int64[batch, length], ...) -> (float32[batch, 32000], ...)".
  void ReadSignature(const std::string& path) {
    const std::string& text = program_.signature();
    size_t end = text.find(") -> "), at = 1;
    for (size_t colon; (colon = text.find(": ", at)) < end; at = text.find(']', at) + 3) {
      Input input;
      input.name = text.substr(at, colon - at);
      size_t open = text.find('[', colon), close = text.find(']', open);
      input.dtype = text.substr(colon + 2, open - colon - 2);
      input.dims = Dims(text.substr(open + 1, close - open - 1));
      lengths_ += input.IsLength();
      if (input.name == "ids") one_by_one_ = input.dims.size() == 2 && input.dims[1] == "1";
      inputs_.push_back(input);
      at = open;
    }
    size_t open = text.find('[', end);
    std::vector<std::string> scores;
    if (open != std::string::npos) {
      scores = Dims(text.substr(open + 1, text.find(']', open) - open - 1));
    }
    for (const char* name : {"ids", "mask", "positions"}) {
      auto named = [&](const Input& input) { return input.name == name; };
      if (std::none_of(inputs_.begin(), inputs_.end(), named) || scores.size() != 2) {
        throw std::runtime_error(path + ": expected a language model, with inputs ids, mask and "
                                 "positions, found " + text);
      }
    }
    vocabulary_ = std::stoll(scores[1]);
  }

  static std::vector<std::string> Dims(const std::string& text) {
    std::vector<std::string> dims;
    std::istringstream parts(text);
    for (std::string dim; std::getline(parts, dim, ',');) {
      dims.push_back(dim.substr(dim.find_first_not_of(' ')));
    }
    return dims;
  }

  Program program_;
  std::vector<Input> inputs_;
  size_t lengths_ = 0;
  int64_t vocabulary_ = 0;
  bool one_by_one_ = false;
  tvm::ffi::Function generate_{nullptr};
};

}  // namespace tvm_disc

#endif  // TVM_DISC_LANGUAGE_H_
