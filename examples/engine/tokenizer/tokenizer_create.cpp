/// \file Tokenizer::create: from the lists of a file to tables, with every entry checked.
#include "engine/loader/load_error.hpp"
#include "engine/tokenizer/byte_alphabet.hpp"
#include "engine/tokenizer/tokenizer.hpp"

#include <bit>
#include <cmath>

namespace kvpage::engine {
namespace {

constexpr const char* kBrokenFile = "the vocabulary contradicts itself: convert the model again with current tools";

TokenizerError broken(std::string item, std::string wanted, std::string found) {
  return {std::move(item), std::move(wanted), std::move(found), kBrokenFile};
}

/// Orders scores as unsigned numbers, the best first. Requires: `score` is not NaN.
std::uint32_t priority_of(float score) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);  // -0 becomes +0
  const std::uint32_t rising = (bits >> 31) != 0 ? ~bits : bits | 0x8000'0000u;
  return ~rising;
}

Expected<std::vector<std::uint32_t>, TokenizerError> read_scores(const TokenizerData& data) {
  if (data.scores.size() != data.pieces.size()) {
    const std::string wanted = std::to_string(data.pieces.size()) + ", one for each piece";
    return Unexpected{broken("token scores", wanted, std::to_string(data.scores.size()))};
  }
  std::vector<std::uint32_t> priorities;
  priorities.reserve(data.scores.size());
  for (const float score : data.scores) {
    if (std::isnan(score)) return Unexpected{broken("score of token " + std::to_string(priorities.size()), "a number", "NaN")};
    priorities.push_back(priority_of(score));
  }
  return priorities;
}

/// Appends what `piece` stands for.
void append_piece(std::string_view piece, std::string& bytes) {
  if (!append_alphabet_bytes(piece, bytes)) bytes.append(piece);
}

Expected<MergeTable, TokenizerError> read_merges(const TokenizerData& data, const Vocab& vocab) {
  if (data.merges.size() >= kNoMerge) return Unexpected{broken("merges", "less than 2^32", std::to_string(data.merges.size()))};
  MergeTable table{data.merges.size()};
  std::string bytes;
  for (std::size_t rank = 0; rank < data.merges.size(); ++rank) {
    const std::string_view merge = data.merges[rank];
    const auto item = [rank] { return "merge " + std::to_string(rank); };
    const std::size_t space = merge.find(' ', 1);  // a left side that is itself a bare space keeps it
    if (space == std::string_view::npos) return Unexpected{broken(item(), "two pieces with a space between them", printable(merge))};
    bytes.clear();
    append_piece(merge.substr(0, space), bytes);
    const std::size_t left_bytes = bytes.size();
    append_piece(merge.substr(space + 1), bytes);
    const TokenId left = vocab.find(std::string_view(bytes).substr(0, left_bytes));
    const TokenId right = vocab.find(std::string_view(bytes).substr(left_bytes));
    const TokenId whole = left != kNoToken && right != kNoToken ? vocab.find(bytes) : kNoToken;
    if (whole == kNoToken) {
      return Unexpected{broken(item(), "both pieces and the two joined in the vocabulary", printable(merge))};
    }
    table.insert(left, right, {static_cast<std::uint32_t>(rank), whole});
  }
  return table;
}

/// The bytes behind which some mergeable piece has a space: merges may cross only these word borders.
std::array<bool, 256> bytes_joined_to_space(const Vocab& vocab) {
  std::array<bool, 256> joins{};
  for (TokenId id = 0; id < vocab.size(); ++id) {
    if (!vocab.mergeable(id)) continue;
    const std::string_view piece = vocab.bytes(id);
    for (std::size_t i = 1; i < piece.size(); ++i) {
      if (piece[i] == ' ') joins[static_cast<unsigned char>(piece[i - 1])] = true;
    }
  }
  return joins;
}

/// Empty if the special ids fit the vocabulary and the flags; otherwise the reason.
std::optional<TokenizerError> check_specials(const TokenizerData& data, const Vocab& vocab) {
  const auto check = [&](const char* name, std::optional<TokenId> id, bool needed) -> std::optional<TokenizerError> {
    const std::string item = std::string("id of the ") + name + " token";
    if (id && *id >= vocab.size()) return broken(item, "less than " + std::to_string(vocab.size()), std::to_string(*id));
    if (!id && needed) return broken(item, "an id, because the file asks for this token in every text", "none");
    return std::nullopt;
  };
  if (auto error = check("BOS", data.bos, data.add_bos)) return error;
  if (auto error = check("EOS", data.eos, data.add_eos)) return error;
  if (auto error = check("unknown", data.unk, false)) return error;
  if (data.kind != TokenizerKind::kSpm || data.unk) return std::nullopt;
  for (int byte = 0; byte < 256; ++byte) {
    if (vocab.byte_token(static_cast<unsigned char>(byte)) == kNoToken) {
      return broken("byte token " + std::to_string(byte), "a token for every byte, or an unknown token", "neither");
    }
  }
  return std::nullopt;
}

}  // namespace

Expected<Tokenizer, TokenizerError> Tokenizer::create(const TokenizerData& data) {
  auto vocab = Vocab::create(data);
  if (!vocab) return Unexpected{std::move(vocab).error()};
  if (auto error = check_specials(data, *vocab)) return Unexpected{std::move(*error)};
  Tokenizer tokenizer{*std::move(vocab)};
  if (data.kind == TokenizerKind::kBpe) {
    auto merges = read_merges(data, tokenizer.vocab_);
    if (!merges) return Unexpected{std::move(merges).error()};
    tokenizer.merges_ = *std::move(merges);
  } else {
    auto priorities = read_scores(data);
    if (!priorities) return Unexpected{std::move(priorities).error()};
    tokenizer.priorities_ = *std::move(priorities);
    tokenizer.joins_space_ = bytes_joined_to_space(tokenizer.vocab_);
  }
  tokenizer.specials_ = SpecialMatcher{tokenizer.vocab_, data.kind == TokenizerKind::kSpm};
  tokenizer.whole_words_ = std::make_unique<std::atomic<WholeWord>[]>(tokenizer.vocab_.size());
  tokenizer.bos_ = data.bos;
  tokenizer.eos_ = data.eos;
  tokenizer.unk_ = data.unk;
  tokenizer.kind_ = data.kind;
  tokenizer.pre_tokenizer_ = data.pre_tokenizer;
  tokenizer.ignore_merges_ = data.ignore_merges;
  tokenizer.composes_ = data.composes;
  tokenizer.add_bos_ = data.add_bos;
  tokenizer.add_eos_ = data.add_eos;
  tokenizer.add_space_prefix_ = data.add_space_prefix && data.kind == TokenizerKind::kSpm;
  return tokenizer;
}

}  // namespace kvpage::engine
