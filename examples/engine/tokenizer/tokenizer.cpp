/// \file Tokenizer: encoding and decoding.
#include "engine/tokenizer/tokenizer.hpp"

#include "engine/text/utf8.hpp"
#include "engine/tokenizer/pre_tokenizer.hpp"

#include <kvpage/base/error.hpp>

#include <algorithm>
#include <limits>

namespace kvpage::engine {

template <class MergeWord>
void Tokenizer::append_word(std::string_view word, MergeWord merge_word, EncodeScratch& scratch, std::vector<TokenId>& ids) const {
  const TokenId whole = vocab_.find(word);
  ++scratch.merge.steps;
  if (whole == kNoToken) return merge_word(word, scratch, ids);
  // Most words of a text are tokens, but not every token can be reached by merges: the merges decide once, and what they
  // said is kept. Two threads may both ask; they get the same answer.
  std::atomic<WholeWord>& known = whole_words_[whole];
  if (known.load(std::memory_order_relaxed) == WholeWord::kYes) return ids.push_back(whole);
  const std::size_t first = ids.size();
  merge_word(word, scratch, ids);
  const bool reached = ids.size() == first + 1 && ids.back() == whole;
  known.store(reached ? WholeWord::kYes : WholeWord::kNo, std::memory_order_relaxed);
}

void Tokenizer::encode_bpe_word(std::string_view word, EncodeScratch& scratch, std::vector<TokenId>& ids) const {
  scratch.symbols.clear();
  bool lacks_bytes = false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const TokenId id = vocab_.byte_token(static_cast<unsigned char>(word[i]));
    lacks_bytes |= id == kNoToken;
    scratch.symbols.push_back({static_cast<std::uint32_t>(i), 1, id});
  }
  if (lacks_bytes) {  // they go before the merges, so that their neighbours may merge: so does the tokenizers library
    scratch.dropped_bytes += static_cast<std::int64_t>(std::erase_if(scratch.symbols, [](const Symbol& s) { return s.id == kNoToken; }));
  }
  merge_symbols(
      scratch.symbols, [&](const Symbol& left, const Symbol& right) { return merges_.find(left.id, right.id); }, scratch.merge);
  for (const Symbol& symbol : scratch.symbols) ids.push_back(symbol.id);
}

void Tokenizer::encode_bpe(std::string_view text, EncodeScratch& scratch, std::vector<TokenId>& ids) const {
  if (composes_) text = to_nfc(text, scratch.nfc);
  const auto merge_word = [this](std::string_view word, EncodeScratch& s, std::vector<TokenId>& out) { encode_bpe_word(word, s, out); };
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = word_end(pre_tokenizer_, text, begin);
    const std::string_view word = text.substr(begin, end - begin);
    const TokenId whole = ignore_merges_ ? vocab_.find(word) : kNoToken;
    if (whole != kNoToken) {
      ids.push_back(whole);
    } else {
      append_word(word, merge_word, scratch, ids);
    }
    begin = end;
  }
}

void Tokenizer::append_unknown(std::string_view bytes, EncodeScratch& scratch, std::vector<TokenId>& ids) const {
  const auto has_token = [&](char byte) { return vocab_.byte_token(static_cast<unsigned char>(byte)) != kNoToken; };
  if (std::all_of(bytes.begin(), bytes.end(), has_token)) {
    for (const char byte : bytes) ids.push_back(vocab_.byte_token(static_cast<unsigned char>(byte)));
    return;
  }
  ids.push_back(*unk_);  // create() has seen to it that there is one
  scratch.dropped_bytes += static_cast<std::int64_t>(bytes.size());
}

void Tokenizer::encode_spm_word(std::string_view word, EncodeScratch& scratch, std::vector<TokenId>& ids) const {
  scratch.symbols.clear();
  for (std::size_t i = 0; i < word.size();) {
    const std::uint32_t length = decode_utf8(word, i).length;
    scratch.symbols.push_back({static_cast<std::uint32_t>(i), length, vocab_.find(word.substr(i, length))});
    i += length;
  }
  const auto lookup = [&](const Symbol& left, const Symbol& right) {
    const TokenId id = vocab_.find(word.substr(left.begin, left.length + right.length));
    return id == kNoToken ? PairMerge{} : PairMerge{priorities_[id], id};
  };
  merge_symbols(scratch.symbols, lookup, scratch.merge);
  for (const Symbol& symbol : scratch.symbols) {
    if (symbol.id != kNoToken) {
      ids.push_back(symbol.id);
    } else {
      append_unknown(word.substr(symbol.begin, symbol.length), scratch, ids);
    }
  }
}

void Tokenizer::encode_spm(std::string_view text, bool prefix_space, EncodeScratch& scratch, std::vector<TokenId>& ids) const {
  // U+2581 in a text is as good as a space, and pieces have spaces in its place (Vocab).
  std::string& spaced = scratch.text;
  spaced.clear();
  if (prefix_space) spaced.push_back(' ');
  for (std::size_t begin = 0;;) {
    const std::size_t end = std::min(text.find(kEscapedSpace, begin), text.size());
    spaced.append(text.substr(begin, end - begin));
    if (end == text.size()) break;
    spaced.push_back(' ');
    begin = end + kEscapedSpace.size();
  }
  const auto merge_word = [this](std::string_view word, EncodeScratch& s, std::vector<TokenId>& out) { encode_spm_word(word, s, out); };
  const std::string_view all = spaced;
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = begin + 1;
    while (end < all.size() && (all[end] != ' ' || joins_space_[static_cast<unsigned char>(all[end - 1])])) ++end;
    append_word(all.substr(begin, end - begin), merge_word, scratch, ids);
    begin = end;
  }
}

void Tokenizer::encode_text(std::string_view text, std::span<const TrustedSpan> trusted, EncodeScratch& scratch,
                            std::vector<TokenId>& ids) const {
  bool prefix_space = add_space_prefix_;
  for (std::size_t begin = 0; begin < text.size();) {
    SpecialMatch special = prefix_space ? specials_.find_behind_space(text, begin) : SpecialMatch{};
    if (special.id != kNoToken) prefix_space = false;  // a part of that token
    if (special.id == kNoToken) special = specials_.find(text, begin, trusted);
    // A user-defined token is text: the space in front of the text stands before it, and none behind it.
    const bool user_defined = special.id != kNoToken && vocab_.type(special.id) == TokenType::kUserDefined;
    const std::string_view plain = text.substr(begin, special.begin - begin);
    if (!plain.empty() && kind_ == TokenizerKind::kBpe) encode_bpe(plain, scratch, ids);
    if ((!plain.empty() || (prefix_space && user_defined)) && kind_ == TokenizerKind::kSpm) encode_spm(plain, prefix_space, scratch, ids);
    if (special.id != kNoToken) ids.push_back(special.id);
    prefix_space = add_space_prefix_ && !user_defined;
    begin = special.begin + special.length;
  }
}

void Tokenizer::encode(std::string_view text, const EncodeOptions& options, EncodeScratch& scratch, std::vector<TokenId>& ids) const {
  constexpr auto kMaxBytes = std::numeric_limits<std::uint32_t>::max() - 2;  // symbols count bytes in 32 bits
  if (text.size() > kMaxBytes) {
    const auto size = static_cast<std::int64_t>(text.size());
    throw_config_error("a text to be tokenized must have less than 4 GiB; cut it into parts", size, kMaxBytes, "bytes");
  }
  if (options.add_special && add_bos_) ids.push_back(*bos_);
  const TrustedSpan everything{0, text.size()};
  encode_text(text, options.parse_special ? std::span{&everything, 1} : options.trusted, scratch, ids);
  if (options.add_special && add_eos_) ids.push_back(*eos_);
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  EncodeScratch scratch;
  std::vector<TokenId> ids;
  encode(text, options, scratch, ids);
  return ids;
}

std::vector<TokenId> Tokenizer::encode_chat(std::string_view text, std::span<const TrustedSpan> trusted) const {
  std::vector<TokenId> ids = encode(text, {.trusted = trusted});
  if (add_bos_ && (ids.empty() || ids.front() != *bos_)) ids.insert(ids.begin(), *bos_);
  return ids;
}

bool Tokenizer::begins_with_two_bos(std::span<const TokenId> ids) const noexcept {
  return bos_ && ids.size() >= 2 && ids[0] == *bos_ && ids[1] == *bos_;
}

std::string_view Tokenizer::token_bytes(TokenId id, bool show_special) const {
  if (id >= vocab_.size()) {
    throw_config_error("a token id must be smaller than the vocabulary", id, static_cast<std::int64_t>(vocab_.size()), "tokens");
  }
  const TokenType type = vocab_.type(id);
  const bool hidden = type == TokenType::kControl || type == TokenType::kUnknown || type == TokenType::kUnused;
  return hidden && !show_special ? std::string_view{} : vocab_.bytes(id);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  SpacePrefixStripper spaces{vocab_, add_space_prefix_, options.strip_space_prefix};
  std::string text;
  for (const TokenId id : ids) text.append(spaces.strip(id, token_bytes(id, options.show_special)));
  return text;
}

}  // namespace kvpage::engine
