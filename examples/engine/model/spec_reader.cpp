#include "engine/model/spec_reader.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvpage::engine {
namespace {

constexpr const char* kContradictionHint = "the metadata contradicts itself: convert the model again with current tools";
constexpr const char* kUnsupportedHint = "models with this setting are not supported";

}  // namespace

const GgufEntry* SpecReader::entry_at(const std::string& key) const {
  const auto entries = file_.metadata();
  const auto entry = std::find_if(entries.begin(), entries.end(), [&](const GgufEntry& e) { return e.key == prefix_ + key; });
  return entry != entries.end() ? &*entry : nullptr;
}

template <class T>
std::optional<T> SpecReader::equal_elements(const std::string& key, const GgufNumbers<T>& elements) {
  if (elements.size() != num_layers_) {
    fail(key, "one value, or one per layer, which are " + std::to_string(num_layers_), std::to_string(elements.size()) + " values");
    return std::nullopt;
  }
  for (std::size_t i = 1; i < elements.size(); ++i) {
    if (elements[i] == elements[0]) continue;
    unsupported(key, "one value for all layers",
                std::to_string(elements[0]) + " in layer 0 and " + std::to_string(elements[i]) + " in layer " + std::to_string(i));
    return std::nullopt;
  }
  return elements[0];
}

template <class T>
std::optional<T> SpecReader::number(const std::string& key) {
  if (error_) return std::nullopt;
  if (num_layers_ > 0 && is_array(key)) {
    const auto elements = file_.get<GgufNumbers<T>>(prefix_ + key);
    if (!elements) return fail(elements.error()), std::nullopt;
    return equal_elements<T>(key, *elements);
  }
  const auto value = file_.find<T>(prefix_ + key);
  if (!value) return fail(value.error()), std::nullopt;
  return *value;
}

std::int64_t SpecReader::count(const std::string& key, std::int64_t lo, std::int64_t hi, std::int64_t fallback) {
  const auto stated = number<std::uint64_t>(key);
  if (error_) return lo;
  if (!stated && fallback < 0) return fail(file_.get<std::uint64_t>(prefix_ + key).error()), lo;
  const std::uint64_t value = stated.value_or(static_cast<std::uint64_t>(fallback));
  const std::string wanted = "a number in [" + std::to_string(lo) + ", " + std::to_string(hi) + "]";
  if (value < static_cast<std::uint64_t>(lo)) return fail(key, wanted, std::to_string(value)), lo;
  if (value > static_cast<std::uint64_t>(hi)) return unsupported(key, wanted, std::to_string(value)), lo;
  return static_cast<std::int64_t>(value);
}

float SpecReader::positive(const std::string& key, float fallback, float lowest) {
  const auto stated = number<float>(key);
  if (error_) return 1;
  if (!stated && fallback < 0) return fail(file_.get<float>(prefix_ + key).error()), 1.0f;
  if (stated && !(std::isfinite(*stated) && *stated > lowest)) {
    fail(key, "a finite number above " + std::to_string(static_cast<int>(lowest)), std::to_string(*stated));
  }
  return stated.value_or(fallback);
}

float SpecReader::positive_unless_off(const std::string& key, float fallback) {
  return number<float>(key) == 0.0f ? fallback : positive(key, fallback);
}

std::string SpecReader::text(const std::string& key, const std::string& fallback) {
  if (error_) return fallback;
  const auto value = file_.find<std::string_view>(prefix_ + key);
  if (!value) return fail(value.error()), fallback;
  return *value ? std::string(**value) : fallback;
}

std::optional<std::vector<bool>> SpecReader::flags(const std::string& key) {
  if (error_ || !is_array(key)) return std::nullopt;
  const auto elements = file_.get<GgufNumbers<bool>>(prefix_ + key);
  if (!elements) return fail(elements.error()), std::nullopt;
  if (elements->size() != num_layers_) {
    fail(key, "one value per layer, which are " + std::to_string(num_layers_), std::to_string(elements->size()) + " values");
    return std::nullopt;
  }
  std::vector<bool> flags;
  for (std::size_t i = 0; i < elements->size(); ++i) flags.push_back((*elements)[i]);
  return flags;
}

void SpecReader::require_known(const std::string& group, std::initializer_list<std::string_view> known) {
  for (const GgufEntry& entry : file_.metadata()) {
    if (!entry.key.starts_with(prefix_ + group)) continue;
    const std::string_view rest = entry.key.substr(prefix_.size() + group.size());
    if (std::find(known.begin(), known.end(), rest) == known.end()) {
      unsupported(group + printable(rest), "a setting that is supported", "an unknown one");
    }
  }
}

void SpecReader::require_neutral(const std::string& key, std::initializer_list<float> neutral) {
  const auto stated = number<float>(key);
  if (!stated || std::find(neutral.begin(), neutral.end(), *stated) != neutral.end()) return;
  std::string wanted;
  for (const float value : neutral) wanted += (wanted.empty() ? "" : " or ") + std::to_string(value);
  unsupported(key, wanted + ", which changes nothing", std::to_string(*stated));
}

void SpecReader::fail(const std::string& key, std::string wanted, std::string found) {
  fail(file_.error("key '" + prefix_ + key + "'", std::move(wanted), std::move(found), kContradictionHint));
}

void SpecReader::unsupported(const std::string& key, std::string wanted, std::string found) {
  fail(file_.error("key '" + prefix_ + key + "'", std::move(wanted), std::move(found), kUnsupportedHint));
}

void SpecReader::fail(LoadError error) {
  if (!error_) error_ = std::move(error);
}

}  // namespace kvpage::engine
