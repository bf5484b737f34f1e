/// \file Prefix namespaces: typed fields that separate prefixes which must never be shared, interned to small ids.
#pragma once

#include <kvpage/cache/block_ids.hpp>
#include <kvpage/cache/cache_refusal.hpp>
#include <kvpage/cache/detail/arena.hpp>

#include <algorithm>
#include <array>

KVPAGE_BEGIN_NAMESPACE

/// Meaning of a namespace field. Values are part of portable keys and never change.
enum class NamespaceFieldType : std::uint16_t {
  kModel = 1,    ///< what tells models apart: a digest of weights, KV layout, RoPE settings
  kSalt = 2,     ///< one per API key, so that nobody can time other users' prompts
  kAdapter = 3,  ///< digest of the adapter's weights
  kUser = 4,
};

/// One typed field. Fields of equal bytes and different types are different: salt "ab" is not salt "a" with adapter "b".
struct NamespaceField {
  NamespaceFieldType type{};
  std::span<const std::byte> bytes;  ///< [<= 256]
};

inline constexpr std::int64_t kMaxNamespaceFields = 8;
inline constexpr std::int64_t kMaxNamespaceFieldBytes = 256;

namespace detail {

/// The fields in canonical order: by type. Refuses too many, too long, or two of one type.
[[nodiscard]] inline CacheResult<std::array<NamespaceField, kMaxNamespaceFields>> sort_fields(std::span<const NamespaceField> fields) {
  const auto count = static_cast<std::int64_t>(fields.size());
  if (count > kMaxNamespaceFields) return refuse(CacheRefusalKind::kBadNamespace, count, kMaxNamespaceFields);
  std::array<NamespaceField, kMaxNamespaceFields> sorted{};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto bytes = static_cast<std::int64_t>(fields[i].bytes.size());
    if (bytes > kMaxNamespaceFieldBytes) return refuse(CacheRefusalKind::kBadNamespace, bytes, kMaxNamespaceFieldBytes);
    std::size_t at = i;
    for (; at > 0 && fields[i].type <= sorted[at - 1].type; --at) {
      if (fields[i].type == sorted[at - 1].type) return refuse(CacheRefusalKind::kBadNamespace, 2, 1);
      sorted[at] = sorted[at - 1];
    }
    sorted[at] = fields[i];
  }
  return sorted;
}

/// Interned namespaces, compared byte for byte. Id 0 has no fields. Ids are never given back.
class NamespaceTable {
 public:
  /// Longest canonical form: type, length and bytes of each field.
  static constexpr std::size_t kMaxBytes = static_cast<std::size_t>(kMaxNamespaceFields * (2 + 4 + kMaxNamespaceFieldBytes));

  void attach(Arena& arena, std::int64_t max_namespaces, std::int64_t max_bytes) {
    spans_ = arena.cut<Range>(max_namespaces);
    bytes_ = arena.cut_raw<std::byte>(max_bytes);
    count_ = 1;
  }

  [[nodiscard]] std::uint32_t size() const noexcept { return count_; }

  /// The id of these fields, new or old. Cost: linear in the number of namespaces; requests keep their id.
  CacheResult<std::uint32_t> intern(std::span<const NamespaceField> fields) {
    const auto sorted = sort_fields(fields);
    if (!sorted) return Unexpected{sorted.error()};
    std::array<std::byte, kMaxBytes> form;
    const std::span<const std::byte> canonical{form.data(), write(std::span{*sorted}.first(fields.size()), form)};
    for (std::uint32_t id = 0; id < count_; ++id) {
      const auto known = bytes(id);
      if (std::equal(known.begin(), known.end(), canonical.begin(), canonical.end())) return id;
    }
    if (count_ == spans_.size()) {
      return refuse(CacheRefusalKind::kNoNamespace, count_ + 1, static_cast<std::int64_t>(spans_.size()));
    }
    if (canonical.size() > bytes_.size() - used_bytes_) {
      return refuse(CacheRefusalKind::kNoNamespace, static_cast<std::int64_t>(used_bytes_ + canonical.size()),
                    static_cast<std::int64_t>(bytes_.size()));
    }
    std::copy(canonical.begin(), canonical.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(used_bytes_));
    spans_[count_] = {used_bytes_, canonical.size()};
    used_bytes_ += canonical.size();
    return count_++;
  }

  [[nodiscard]] std::span<const std::byte> bytes(std::uint32_t id) const noexcept {
    return bytes_.subspan(spans_[id].begin, spans_[id].size);
  }

  /// The canonical form of sorted fields, little endian; returns its size. Portable keys hash it: it never changes.
  static std::size_t write(std::span<const NamespaceField> fields, std::span<std::byte> out) {
    std::size_t n = 0;
    const auto put = [&](std::uint64_t value, int width) {
      for (int i = 0; i < width; ++i) out[n++] = static_cast<std::byte>(value >> (8 * i));
    };
    for (const NamespaceField& field : fields) {
      put(static_cast<std::uint16_t>(field.type), 2);
      put(field.bytes.size(), 4);
      for (const std::byte b : field.bytes) out[n++] = b;
    }
    return n;
  }

 private:
  struct Range {
    std::size_t begin = 0;
    std::size_t size = 0;
  };

  std::span<Range> spans_;
  std::span<std::byte> bytes_;
  std::size_t used_bytes_ = 0;
  std::uint32_t count_ = 1;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
