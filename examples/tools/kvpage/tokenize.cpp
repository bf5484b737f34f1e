#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/loaded_model.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace kvpage::cli {

int tokenize(const TokenizeOptions& options) {
  const TextModel m = open_text_model(options.model);
  const auto ids = encode_or_warn(m.tokenizer, read_text(options.file), {.add_special = false, .parse_special = options.parse_special});
  std::string line = "[";
  for (const TokenId id : ids) line += (line.size() > 1 ? ", " : "") + std::to_string(id);
  std::printf("%s]\n", line.c_str());
  return kExitOk;
}

int detokenize(const TokenizeOptions& options) {
  const TextModel m = open_text_model(options.model);
  const auto parsed = nlohmann::json::parse(read_text(options.file), nullptr, false);
  if (!parsed.is_array()) throw Failure(kExitUsage, "detokenize: the input must be a JSON array of token ids");
  std::vector<TokenId> ids;
  const auto vocab_size = m.tokenizer.vocab().size();
  for (const auto& element : parsed) {
    if (!element.is_number_unsigned() || element.get<std::uint64_t>() >= vocab_size) {
      throw Failure(kExitUsage, "detokenize: element " + std::to_string(ids.size()) + " (" + element.type_name() + ") is no id in [0, " +
                                    std::to_string(vocab_size) + ")");
    }
    ids.push_back(element.get<TokenId>());
  }
  const std::string text = m.tokenizer.decode(ids, {.show_special = true});
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kExitOk;
}

}  // namespace kvpage::cli
