/// \file The textbook algorithms of BPE and SPM on strings, quadratic and without tricks, as judges of the real ones.
#pragma once

#include "engine/loader/gguf.hpp"
#include "engine/text/utf8.hpp"
#include "engine/tokenizer/pre_tokenizer.hpp"
#include "tokenizer/random_text.hpp"

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvpage_test {

/// Joins again and again the pair with the smallest rank, the leftmost of equals. `rank(pair)` is empty if it never joins.
template <class Rank>
std::vector<std::string> merge_naively(std::vector<std::string> symbols, Rank rank) {
  for (;;) {
    std::size_t best = symbols.size();
    std::optional<double> best_rank;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const std::optional<double> found = rank(symbols[i], symbols[i + 1]);
      if (found && (!best_rank || *found < *best_rank)) best = i, best_rank = found;
    }
    if (!best_rank) return symbols;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

/// Plain text (no special tokens in it) to ids, straight from the lists of a model file.
class NaiveEncoder {
 public:
  explicit NaiveEncoder(const kvpage::engine::Gguf& file) {
    using kvpage::engine::GgufStrings;
    kvpage::TokenId id = 0;
    const GgufStrings pieces = file.get<GgufStrings>("tokenizer.ggml.tokens").value();
    for (const std::string_view piece : pieces) ids_.emplace(piece, id++);
    if (const auto merges = file.find<GgufStrings>("tokenizer.ggml.merges").value()) {
      double rank = 0;
      for (const std::string_view merge : *merges) ranks_.emplace(merge, rank++);
    }
    if (const auto scores = file.find<kvpage::engine::GgufNumbers<float>>("tokenizer.ggml.scores").value()) {
      for (std::size_t i = 0; i < scores->size(); ++i) scores_.push_back((*scores)[i]);
    }
  }

  std::vector<kvpage::TokenId> encode_bpe(std::string_view text, kvpage::engine::PreTokenizer kind) const {
    std::vector<kvpage::TokenId> ids;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = kvpage::engine::word_end(kind, text, begin);
      std::vector<std::string> symbols;
      for (; begin < end; ++begin) {
        const std::string symbol = alphabet(static_cast<unsigned char>(text[begin]));
        if (ids_.contains(symbol)) symbols.push_back(symbol);  // bytes without a token are not there
      }
      const auto rank = [&](const std::string& left, const std::string& right) -> std::optional<double> {
        const auto found = ranks_.find(left + ' ' + right);
        return found == ranks_.end() ? std::nullopt : std::optional{found->second};
      };
      for (const std::string& symbol : merge_naively(std::move(symbols), rank)) {
        if (const auto found = ids_.find(symbol); found != ids_.end()) ids.push_back(found->second);
      }
    }
    return ids;
  }

  std::vector<kvpage::TokenId> encode_spm(std::string_view text) const {
    std::vector<std::string> symbols;
    for (std::size_t at = 0; at < text.size();) {
      const auto length = kvpage::engine::decode_utf8(text, at).length;
      symbols.emplace_back(text[at] == ' ' ? "\u2581" : text.substr(at, length));
      at += length;
    }
    const auto rank = [&](const std::string& left, const std::string& right) -> std::optional<double> {
      const auto found = ids_.find(left + right);
      return found == ids_.end() ? std::nullopt : std::optional{-static_cast<double>(scores_[found->second])};
    };
    std::vector<kvpage::TokenId> ids;
    for (const std::string& symbol : merge_naively(std::move(symbols), rank)) {
      if (const auto found = ids_.find(symbol); found != ids_.end()) {
        ids.push_back(found->second);
        continue;
      }
      for (const char byte : symbol) {
        char piece[8];
        std::snprintf(piece, sizeof piece, "<0x%02X>", static_cast<unsigned>(static_cast<unsigned char>(byte)));
        ids.push_back(ids_.at(piece));
      }
    }
    return ids;
  }

 private:
  static std::string alphabet(unsigned char byte) {
    const auto plain = [](std::uint32_t b) { return (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD); };
    std::uint32_t code_point = byte;
    if (!plain(byte)) {
      code_point = 0x100;
      for (std::uint32_t b = 0; b < byte; ++b) code_point += plain(b) ? 0u : 1u;
    }
    std::string piece;
    kvpage::engine::append_utf8(piece, code_point);
    return piece;
  }

  std::unordered_map<std::string, kvpage::TokenId> ids_;
  std::unordered_map<std::string, double> ranks_;
  std::vector<float> scores_;
};

}  // namespace kvpage_test
