/// \file to_nfc: finds the parts that may change, composes those, copies the rest.
#include "engine/tokenizer/nfc.hpp"

#include "engine/text/utf8.hpp"
#include "engine/tokenizer/nfc_data.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <span>

namespace kvpage::engine {
namespace {

// Hangul syllables are computed: consonant, vowel, and a final that may be absent.
constexpr std::uint32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kFinals = 0x11A7;  // the first of each; kFinals: none
constexpr std::uint32_t kNumLeads = 19, kNumVowels = 21, kNumFinals = 28;

/// What composition asks about a code point.
struct CharTraits {
  std::uint8_t combining_class = 0;
  bool unstable = false;    ///< never in a composed text
  bool joins_back = false;  ///< may compose with what stands before it
  std::uint32_t first = 0;  ///< its decomposition; 0: it has none
  std::uint32_t second = 0;

  /// Nothing before it composes or changes places with it or what follows.
  bool starts_anew() const noexcept { return combining_class == 0 && !unstable && !joins_back; }
};

class NfcTable {
 public:
  NfcTable() {
    traits_.emplace_back();  // of everything that the data does not name
    blocks_.emplace_back();
    std::uint32_t at = 0;
    for (std::size_t i = 0; i < std::size(kCombiningClassRuns); i += 3) {
      at += kCombiningClassRuns[i];
      for (std::uint32_t n = 0; n < kCombiningClassRuns[i + 1]; ++n, ++at) {
        change(at).combining_class = static_cast<std::uint8_t>(kCombiningClassRuns[i + 2]);
      }
    }
    at = 0;
    constexpr std::uint32_t kDoesNotCompose = 1u << 21;
    for (std::size_t i = 0; i < std::size(kDecompositions); i += 3) {
      at += kDecompositions[i];
      CharTraits& traits = change(at);
      traits.first = kDecompositions[i + 1];
      traits.second = kDecompositions[i + 2] & ~kDoesNotCompose;
      traits.unstable = traits.second == 0 || traits.second != kDecompositions[i + 2];
      if (!traits.unstable) pairs_.push_back({key(traits.first, traits.second), at});
    }
    for (const Pair& pair : pairs_) change(static_cast<std::uint32_t>(pair.key)).joins_back = true;
    for (std::uint32_t c = kVowels; c < kVowels + kNumVowels; ++c) change(c).joins_back = true;
    for (std::uint32_t c = kFinals + 1; c < kFinals + kNumFinals; ++c) change(c).joins_back = true;
    std::sort(pairs_.begin(), pairs_.end(), [](const Pair& a, const Pair& b) { return a.key < b.key; });
  }

  const CharTraits& operator[](std::uint32_t c) const noexcept { return traits_[blocks_[block_of_[c / kBlock]][c % kBlock]]; }

  /// What the two become, or 0.
  std::uint32_t composite(std::uint32_t first, std::uint32_t second) const noexcept {
    const std::uint32_t lead = first - kLeads, vowel = second - kVowels, syllable = first - kSyllables, final = second - kFinals;
    if (lead < kNumLeads && vowel < kNumVowels) return kSyllables + (lead * kNumVowels + vowel) * kNumFinals;
    if (syllable < kNumLeads * kNumVowels * kNumFinals && syllable % kNumFinals == 0 && final - 1 < kNumFinals - 1) return first + final;
    const std::uint64_t wanted = key(first, second);
    const auto pair = std::lower_bound(pairs_.begin(), pairs_.end(), wanted, [](const Pair& p, std::uint64_t k) { return p.key < k; });
    return pair != pairs_.end() && pair->key == wanted ? pair->composite : 0;
  }

 private:
  static constexpr std::size_t kBlock = 256;
  struct Pair {
    std::uint64_t key;
    std::uint32_t composite;
  };

  static constexpr std::uint64_t key(std::uint32_t first, std::uint32_t second) noexcept { return std::uint64_t{first} << 32 | second; }

  CharTraits& change(std::uint32_t c) {
    std::uint8_t& block = block_of_[c / kBlock];
    if (block == 0) {
      block = static_cast<std::uint8_t>(blocks_.size());
      blocks_.emplace_back();
    }
    std::uint16_t& index = blocks_[block][c % kBlock];
    if (index == 0) {
      index = static_cast<std::uint16_t>(traits_.size());
      traits_.emplace_back();
    }
    return traits_[index];
  }

  std::array<std::uint8_t, 0x110000 / kBlock> block_of_{};  // most blocks are the first, which names nothing
  std::vector<std::array<std::uint16_t, kBlock>> blocks_;
  std::vector<CharTraits> traits_;
  std::vector<Pair> pairs_;
};

/// The table, made when it is first needed. Threads: any.
const NfcTable& nfc_table() {
  static const NfcTable table;
  return table;
}

/// The first byte from `at` on that may begin a character from U+0300 on: no character below changes or joins back.
std::size_t skip_plain(std::string_view text, std::size_t at) noexcept {
  constexpr unsigned char kLeadOf0300 = 0xCC;
  constexpr std::uint64_t kHighBits = 0x8080'8080'8080'8080u;
  for (;;) {
    std::uint64_t word = 0;
    for (; at + sizeof word <= text.size(); at += sizeof word) {
      std::memcpy(&word, text.data() + at, sizeof word);
      if ((word & kHighBits) != 0) break;
    }
    const std::size_t stop = std::min(at + sizeof word, text.size());
    for (; at < stop; ++at) {
      if (static_cast<unsigned char>(text[at]) >= kLeadOf0300) return at;
    }
    if (at == text.size()) return at;
  }
}

/// Appends the full decomposition of `c`. Hangul syllables stay: what joins them is composed all the same.
void decompose(const NfcTable& table, std::uint32_t c, std::vector<NfcChar>& chars) {
  const CharTraits& traits = table[c];
  if (traits.first == 0) {
    chars.push_back({c, traits.combining_class});
    return;
  }
  decompose(table, traits.first, chars);  // a few levels at most: the data is finite
  if (traits.second != 0) decompose(table, traits.second, chars);
}

/// Marks behind a character stand by rising class; those of equal class keep their order.
void sort_marks(std::vector<NfcChar>& chars) {
  const auto by_class = [](const NfcChar& a, const NfcChar& b) { return a.combining_class < b.combining_class; };
  const auto is_mark = [](const NfcChar& c) { return c.combining_class != 0; };
  for (auto begin = chars.begin(); begin != chars.end();) {
    begin = std::find_if(begin, chars.end(), is_mark);
    const auto end = std::find_if_not(begin, chars.end(), is_mark);
    if (!std::is_sorted(begin, end, by_class)) std::stable_sort(begin, end, by_class);
    begin = end;
  }
}

/// Joins each character with the last starter before it, unless one of equal or higher class stands between.
void compose(const NfcTable& table, std::vector<NfcChar>& chars) {
  constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t starter = kNone;
  std::size_t kept = 0;
  for (const NfcChar c : chars) {
    const bool free = starter != kNone && (kept == starter + 1 || chars[kept - 1].combining_class < c.combining_class);
    const std::uint32_t joined = free ? table.composite(chars[starter].code_point, c.code_point) : 0;
    if (joined != 0) {
      chars[starter].code_point = joined;
      continue;
    }
    if (c.combining_class == 0) starter = kept;
    chars[kept++] = c;
  }
  chars.resize(kept);
}

/// Appends the composed form of `part`, which may begin with an invalid part and is valid behind it.
void append_composed(const NfcTable& table, std::string_view part, NfcScratch& scratch) {
  std::size_t at = 0;
  if (const Utf8Char c = decode_utf8(part, 0); !c.valid()) {
    scratch.text.append(part, 0, c.length);
    at = c.length;
  }
  scratch.chars.clear();
  while (at < part.size()) {
    const Utf8Char c = decode_utf8(part, at);
    decompose(table, c.code_point, scratch.chars);
    at += c.length;
  }
  sort_marks(scratch.chars);
  compose(table, scratch.chars);
  for (const NfcChar& c : scratch.chars) append_utf8(scratch.text, c.code_point);
}

/// The start of the character that ends before `end`, at or behind `begin`; of an invalid one the last byte.
/// Requires: begin < end.
std::size_t last_char(std::string_view text, std::size_t begin, std::size_t end) noexcept {
  std::size_t at = end - 1;
  while (at > begin && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  const Utf8Char c = decode_utf8(text, at);
  return c.valid() && at + c.length == end ? at : end - 1;
}

}  // namespace

std::string_view to_nfc(std::string_view text, NfcScratch& scratch) {
  std::size_t at = skip_plain(text, 0);
  if (at == text.size()) return text;
  const NfcTable& table = nfc_table();
  scratch.text.clear();
  std::size_t copied = 0;   // text[0, copied) is in the scratch
  std::size_t starter = at > 0 ? last_char(text, 0, at) : 0;  // behind it nothing has changed yet
  std::uint32_t last_class = 0;
  while (at < text.size()) {
    const Utf8Char c = decode_utf8(text, at);
    static constexpr CharTraits kInvalid{};
    const CharTraits& traits = c.valid() ? table[c.code_point] : kInvalid;
    if (!traits.unstable && !traits.joins_back && (traits.combining_class == 0 || traits.combining_class >= last_class)) {
      if (traits.combining_class == 0) starter = at;
      last_class = traits.combining_class;
      at += c.length;
      if (const std::size_t next = last_class == 0 ? skip_plain(text, at) : at; next > at) {
        starter = last_char(text, at, next);
        at = next;
      }
      continue;
    }
    std::size_t end = at;
    for (Utf8Char next = c; next.valid() && !table[next.code_point].starts_anew();) {
      end += next.length;
      if (end == text.size()) break;
      next = decode_utf8(text, end);
    }
    scratch.text.append(text, copied, starter - copied);
    append_composed(table, text.substr(starter, end - starter), scratch);
    copied = starter = at = end;
    last_class = 0;
  }
  if (copied == 0) return text;
  scratch.text.append(text, copied);
  return scratch.text;
}

}  // namespace kvpage::engine
