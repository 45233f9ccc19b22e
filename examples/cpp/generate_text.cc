// Generates tokens after a prompt, with a saved language model:
//   generate_text MODEL.so MOST TOKEN,TOKEN,... [TEMPERATURE TOP_K TOP_P PENALTY SEED [STOP]]
#include <iostream>
#include <string>
#include <vector>

#include "tvm_disc_language.h"

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: generate_text MODEL.so MOST TOKEN,TOKEN,... "
                 "[TEMPERATURE TOP_K TOP_P PENALTY SEED [STOP]]" << std::endl;
    return 2;
  }
  try {
    tvm_disc::LanguageModel model(argv[1]);
    std::vector<int64_t> prompt, stop;
    std::istringstream words(argv[3]);
    for (std::string word; std::getline(words, word, ',');) prompt.push_back(std::stoll(word));
    tvm_disc::Choice choice;
    if (argc > 8) {
      choice.temperature = std::stod(argv[4]);
      choice.top_k = std::stoll(argv[5]);
      choice.top_p = std::stod(argv[6]);
      choice.repetition_penalty = std::stod(argv[7]);
      choice.seed = std::stoull(argv[8]);
    }
    if (argc > 9) stop.push_back(std::stoll(argv[9]));
    // Print each token when it is chosen; then generate all tokens again by one call.
    std::vector<int64_t> streamed;
    model.Generate(prompt, std::stoll(argv[2]), stop, choice, [&](int64_t token) {
      std::cout << (streamed.empty() ? "" : " ") << token << std::flush;
      streamed.push_back(token);
      return true;
    });
    std::cout << std::endl;
    if (model.Generate(prompt, std::stoll(argv[2]), stop, choice) != streamed) {
      throw std::runtime_error("the two texts differ");
    }
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
  return 0;
}
