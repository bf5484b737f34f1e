/// \file Vocab: reading the pieces of a file.
#include "engine/tokenizer/vocab.hpp"

#include "engine/loader/load_error.hpp"
#include "engine/tokenizer/byte_alphabet.hpp"

#include <charconv>
#include <limits>

namespace kvpage::engine {
namespace {

constexpr const char* kBrokenFile = "the vocabulary contradicts itself: convert the model again with current tools";

/// The byte of "<0xNN>", or -1.
int parse_byte_piece(std::string_view piece) noexcept {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  int byte = -1;
  const char* const end = piece.data() + 5;
  return std::from_chars(piece.data() + 3, end, byte, 16).ptr == end ? byte : -1;
}

void append_unescaped(std::string_view piece, std::string& bytes) {
  for (;;) {
    const std::size_t space = piece.find(kEscapedSpace);
    bytes.append(piece.substr(0, space));
    if (space == std::string_view::npos) return;
    bytes.push_back(' ');
    piece.remove_prefix(space + kEscapedSpace.size());
  }
}

bool is_token_type(TokenType type) noexcept { return type >= TokenType::kNormal && type <= TokenType::kByte; }

}  // namespace

Expected<Vocab, TokenizerError> Vocab::create(const TokenizerData& data) {
  const std::size_t size = data.pieces.size();
  if (size == 0 || size >= kNoToken / 2) {
    return Unexpected{TokenizerError{"token pieces", "1 to 2^31 pieces", std::to_string(size), kBrokenFile}};
  }
  if (!data.types.empty() && data.types.size() != size) {
    const std::string wanted = std::to_string(size) + ", one for each piece";
    return Unexpected{TokenizerError{"token types", wanted, std::to_string(data.types.size()), kBrokenFile}};
  }
  Vocab vocab;
  vocab.types_ = data.types;
  vocab.types_.resize(size, TokenType::kNormal);
  vocab.offsets_.reserve(size + 1);
  vocab.offsets_.push_back(0);
  for (std::size_t i = 0; i < size; ++i) {
    const TokenType type = vocab.types_[i];
    const auto item = [i] { return "token " + std::to_string(i); };
    if (!is_token_type(type)) {
      return Unexpected{TokenizerError{item(), "a type from 1 to 6", std::to_string(static_cast<int>(type)), kBrokenFile}};
    }
    if (!vocab.append_piece(data.kind, data.pieces[i], type)) {
      return Unexpected{TokenizerError{item() + ", a byte token", "<0xNN>", printable(data.pieces[i]), kBrokenFile}};
    }
    if (vocab.arena_.size() > std::numeric_limits<std::uint32_t>::max()) {
      return Unexpected{TokenizerError{item(), "less than 4 GiB of pieces", std::to_string(vocab.arena_.size()) + " bytes", kBrokenFile}};
    }
    vocab.offsets_.push_back(static_cast<std::uint32_t>(vocab.arena_.size()));
  }
  vocab.index_pieces(data.kind, data.pieces);
  return vocab;
}

bool Vocab::append_piece(TokenizerKind kind, std::string_view piece, TokenType type) {
  if (type == TokenType::kByte) {
    const int byte = parse_byte_piece(piece);
    if (byte >= 0) arena_.push_back(static_cast<char>(byte));
    return byte >= 0;
  }
  const bool stands_for_text = type == TokenType::kNormal || type == TokenType::kUserDefined;
  if (kind == TokenizerKind::kSpm && stands_for_text) {
    append_unescaped(piece, arena_);
  } else if (type != TokenType::kNormal || !append_alphabet_bytes(piece, arena_)) {
    arena_.append(piece);
  }
  return true;
}

void Vocab::index_pieces(TokenizerKind kind, const std::vector<std::string_view>& pieces) {
  byte_tokens_.fill(kNoToken);
  mergeable_.resize(size());
  slots_.resize(table_slots(size()));
  for (std::size_t i = 0; i < size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view piece = bytes(id);
    if (types_[i] == TokenType::kByte && byte_tokens_[static_cast<unsigned char>(piece[0])] == kNoToken) {
      byte_tokens_[static_cast<unsigned char>(piece[0])] = id;
    }
    // SPM finds a user-defined token before it merges what lies between, BPE may list merges that lead to one.
    const bool merges = types_[i] == TokenType::kNormal || (types_[i] == TokenType::kUserDefined && kind == TokenizerKind::kBpe);
    if (!merges || piece.empty()) continue;
    // A space in an SPM text is U+2581 to its merges: pieces with a bare space are found in no text.
    if (kind == TokenizerKind::kSpm && pieces[i].find(' ') != std::string_view::npos) continue;
    if (find(piece) != kNoToken) continue;
    mergeable_[i] = true;
    longest_mergeable_ = std::max(longest_mergeable_, piece.size());
    const std::uint64_t hash = hash_bytes(piece);
    std::size_t slot = hash & (slots_.size() - 1);
    while (slots_[slot].id != kNoToken) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = {tag(hash), id};
    if (kind == TokenizerKind::kBpe && piece.size() == 1) byte_tokens_[static_cast<unsigned char>(piece[0])] = id;
  }
}

}  // namespace kvpage::engine
