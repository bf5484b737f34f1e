#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/json_ids.hpp"
#include "tools/kvpage/loaded_model.hpp"

#include <cstdio>
#include <stdexcept>

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
  const std::string name = options.file ? *options.file : "standard input";
  const nlohmann::json document = parse_document(read_text(options.file), name);
  std::vector<TokenId> ids;
  try {
    ids = read_ids(document, "the input");
  } catch (const std::runtime_error& error) {
    throw Failure(kExitUsage, name + ": " + error.what());
  }
  const TextModel m = open_text_model(options.model);
  require_in_vocabulary(ids, static_cast<std::int64_t>(m.tokenizer.vocab().size()), name);
  const std::string text = m.tokenizer.decode(ids, {.show_special = true});
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kExitOk;
}

}  // namespace kvpage::cli
