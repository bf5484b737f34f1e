#include "engine/tokenizer_from_gguf.hpp"

#include "engine/model/architectures.hpp"
#include "engine/tokenizer/special_texts.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace kvpage::engine {
namespace {

constexpr std::array<std::string_view, 6> kEndKeys{"tokenizer.ggml.eos_token_id",     "tokenizer.ggml.eot_token_id",
                                                   "tokenizer.ggml.eom_token_id",     "tokenizer.ggml.fim_pad_token_id",
                                                   "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id"};

template <class Table>
std::string names_of(const Table& table) {
  std::string text;
  for (const auto& row : table) text += (text.empty() ? "one of " : ", ") + std::string(row.name);
  return text;
}

/// The row named by `key`, or an error that lists the rows.
template <class Table>
auto find_row(const Gguf& file, std::string_view key, std::string_view name, const Table& table)
    -> Expected<typename Table::value_type, LoadError> {
  for (const auto& row : table) {
    if (row.name == name) return row;
  }
  return Unexpected{file.error(std::string(key), names_of(table), '"' + printable(name) + '"',
                               "this tokenizer is not supported; another file of the model may use a supported one")};
}

Expected<std::optional<TokenId>, LoadError> read_id(const Gguf& file, std::string_view key, std::size_t vocab_size) {
  const auto id = file.find<std::uint32_t>(key);
  if (!id) return Unexpected{id.error()};
  if (*id && **id >= vocab_size) {
    return Unexpected{file.error(std::string(key), "an id below " + std::to_string(vocab_size), std::to_string(**id),
                                 "no token has this id: convert the model again with current tools, or take another file of it")};
  }
  return std::optional<TokenId>{*id};
}

/// Reads an array of numbers into `out`; an absent key leaves it empty.
template <class Stored, class T>
Expected<void, LoadError> read_numbers(const Gguf& file, std::string_view key, std::vector<T>& out) {
  const auto numbers = file.find<GgufNumbers<Stored>>(key);
  if (!numbers) return Unexpected{numbers.error()};
  if (!*numbers) return {};
  out.reserve((*numbers)->size());
  for (std::size_t i = 0; i < (*numbers)->size(); ++i) out.push_back(static_cast<T>((**numbers)[i]));
  return {};
}

/// The tokens that `keys` name, in that order.
Expected<std::vector<TokenId>, LoadError> read_ids(const Gguf& file, std::span<const std::string_view> keys, std::size_t vocab_size) {
  std::vector<TokenId> ids;
  for (const std::string_view key : keys) {
    const auto id = read_id(file, key, vocab_size);
    if (!id) return Unexpected{id.error()};
    if (*id) ids.push_back(**id);
  }
  return ids;
}

Expected<void, LoadError> read_flag(const Gguf& file, std::string_view key, bool& flag) {
  const auto value = file.find<bool>(key);
  if (!value) return Unexpected{value.error()};
  flag = value->value_or(flag);
  return {};
}

Expected<void, LoadError> read_kind(const Gguf& file, TokenizerData& data) {
  const auto name = file.get<std::string_view>("tokenizer.ggml.model");
  if (!name) return Unexpected{name.error()};
  const auto model = find_row(file, "tokenizer.ggml.model", *name, kTokenizerModels);
  if (!model) return Unexpected{model.error()};
  data.kind = model->kind;
  if (data.kind != TokenizerKind::kBpe) {
    data.add_bos = true, data.add_space_prefix = true;  // what files of this kind mean when they are silent
    return {};
  }
  const auto pre_name = file.get<std::string_view>("tokenizer.ggml.pre");
  if (!pre_name) return Unexpected{pre_name.error()};
  const auto pre = find_row(file, "tokenizer.ggml.pre", *pre_name, kPreTokenizers);
  if (!pre) return Unexpected{pre.error()};
  data.pre_tokenizer = pre->kind;
  data.ignore_merges = pre->ignore_merges;
  data.composes = pre->composes;
  data.add_bos = pre->add_bos;
  return {};
}

Expected<void, LoadError> read_lists(const Gguf& file, TokenizerData& data) {
  const auto pieces = file.get<GgufStrings>("tokenizer.ggml.tokens");
  if (!pieces) return Unexpected{pieces.error()};
  data.pieces.assign(pieces->begin(), pieces->end());
  const auto merges = file.find<GgufStrings>("tokenizer.ggml.merges");
  if (!merges) return Unexpected{merges.error()};
  if (*merges) data.merges.assign((*merges)->begin(), (*merges)->end());
  if (data.kind == TokenizerKind::kSpm) {  // merges have an order of their own: whatever scores their files hold is not read
    if (const auto read = read_numbers<float>(file, "tokenizer.ggml.scores", data.scores); !read) return read;
  }
  constexpr TokenType kUndefined{0};  // says nothing, as a file without types
  const auto read = read_numbers<std::uint8_t>(file, "tokenizer.ggml.token_type", data.types);
  std::replace(data.types.begin(), data.types.end(), kUndefined, TokenType::kNormal);
  return read;
}

Expected<void, LoadError> read_specials(const Gguf& file, TokenizerData& data) {
  const struct {
    std::string_view key;
    std::optional<TokenId>* id;
  } ids[] = {{"tokenizer.ggml.bos_token_id", &data.bos},
             {"tokenizer.ggml.eos_token_id", &data.eos},
             {"tokenizer.ggml.unknown_token_id", &data.unk}};
  for (const auto& [key, target] : ids) {
    const auto id = read_id(file, key, data.pieces.size());
    if (!id) return Unexpected{id.error()};
    *target = *id;
  }
  const struct {
    std::string_view key;
    bool* flag;
  } flags[] = {{"tokenizer.ggml.add_bos_token", &data.add_bos},
               {"tokenizer.ggml.add_eos_token", &data.add_eos},
               {"tokenizer.ggml.add_space_prefix", &data.add_space_prefix}};
  for (const auto& [key, target] : flags) {
    if (const auto read = read_flag(file, key, *target); !read) return read;
  }
  return {};
}

Expected<void, LoadError> correct_types(const Gguf& file, TokenizerData& data) {
  auto named = read_ids(file, kEndKeys, data.pieces.size());
  if (!named) return Unexpected{std::move(named.error())};
  if (data.bos) named->push_back(*data.bos);
  correct_special_types(data, *named);
  return {};
}

}  // namespace

Expected<Tokenizer, LoadError> read_tokenizer(const Gguf& file) {
  TokenizerData data;
  for (const auto read : {read_kind, read_lists, read_specials, correct_types}) {
    if (auto done = read(file, data); !done) return Unexpected{std::move(done.error())};
  }
  auto tokenizer = Tokenizer::create(data);
  if (!tokenizer) {
    const TokenizerError& error = tokenizer.error();
    return Unexpected{file.error(error.item, error.wanted, error.found, error.hint)};
  }
  return std::move(*tokenizer);
}

Expected<std::optional<std::string>, LoadError> read_chat_template(const Gguf& file) {
  const auto source = file.find<std::string_view>("tokenizer.chat_template");
  if (!source) return Unexpected{source.error()};
  if (!*source) return std::optional<std::string>{};
  return std::optional<std::string>{**source};
}

Expected<std::vector<TokenId>, LoadError> read_end_tokens(const Gguf& file, const Tokenizer& tokenizer) {
  auto ids = read_ids(file, kEndKeys, tokenizer.vocab().size());
  if (!ids) return ids;
  const std::vector<TokenId> by_text = find_end_texts(tokenizer);
  ids->insert(ids->end(), by_text.begin(), by_text.end());
  std::sort(ids->begin(), ids->end());
  ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
  return ids;
}

}  // namespace kvpage::engine
