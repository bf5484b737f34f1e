/// \file RequestField: what one field of a request line may hold, and where it goes.
#pragma once

#include "engine/sampling/check_request.hpp"
#include "engine/text/json_text.hpp"
#include "engine/text/number_text.hpp"
#include "tools/kvpage/json_ids.hpp"
#include "tools/kvpage/request_file.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

namespace kvpage::cli {

/// A request as its line says it. What takes a model is left: its prompt may still be text, and its ids may lie outside the vocabulary.
struct RequestLine {
  std::int64_t number = 0;  ///< of the line
  TimedRequest timed{};
  std::optional<std::string> prompt{};
};

/// One field's value. Errors of all: std::runtime_error that names the field, what it may hold and what it holds.
struct FieldValue {
  const nlohmann::json& value;
  const char* key;

  [[noreturn]] void refuse(const std::string& wanted) const {
    throw std::runtime_error(std::string(key) + " must be " + wanted + ", not " + engine::shown(value));
  }

  std::int64_t integer(std::int64_t least, std::int64_t most) const {
    const auto number = engine::json_integer(value, least, most);
    if (!number) refuse(engine::integer_range(least, most));
    return *number;
  }
  double number(double least, double most) const {
    if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most)) refuse(engine::real_range(least, most));
    return value.get<double>();
  }
  float real(double least, double most) const { return static_cast<float>(number(least, most)); }
  std::int64_t milliseconds(double least) const { return static_cast<std::int64_t>(number(least, 1e9) * 1e6); }
  bool boolean() const {
    if (!value.is_boolean()) refuse("true or false");
    return value.get<bool>();
  }
  std::string text() const {
    if (!value.is_string()) refuse("a text");
    return value.get<std::string>();
  }
  std::vector<TokenId> ids() const { return read_ids(value, key); }
};

namespace detail {

inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;
inline constexpr std::int64_t kMostId = std::int64_t{0xFFFF'FFFF};
using Most = engine::SamplingLimits;
inline constexpr auto kBias = static_cast<double>(Most::kBias);
inline constexpr auto kLengthPenalty = static_cast<double>(Most::kLengthPenalty);
inline constexpr double kPenalty = Most::kPenalty;

inline std::string read_id(const FieldValue& f) {
  if (!f.value.is_string() && !f.value.is_number_integer()) f.refuse("a text or an integer");
  return f.value.is_string() ? f.value.get<std::string>() : f.value.dump();
}

inline std::uint64_t read_seed(const FieldValue& f) {
  if (!f.value.is_number_unsigned()) f.refuse(engine::integer_range(std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max()));
  return f.value.get<std::uint64_t>();
}

/// Both `{"id": bias, ..}` and `[[id, bias], ..]`.
inline std::vector<LogitBias> read_logit_bias(const FieldValue& f) {
  if (!f.value.is_structured()) f.refuse("an object of biases by id");
  if (std::ssize(f.value) > Most::kLogitBiases) f.refuse("biases of at most " + std::to_string(Most::kLogitBiases) + " ids");
  std::vector<LogitBias> biases;
  for (const auto& item : f.value.items()) {
    const bool pair = f.value.is_array() && item.value().is_array() && item.value().size() == 2;
    if (f.value.is_array() && !pair) f.refuse("an array of pairs [id, bias]");
    const auto key = pair ? std::nullopt : engine::parse_integer<std::int64_t>(item.key());
    const nlohmann::json named = key ? nlohmann::json(*key) : nlohmann::json(item.key());
    const nlohmann::json& id = pair ? item.value()[0] : named;
    const nlohmann::json& bias = pair ? item.value()[1] : item.value();
    biases.push_back({static_cast<TokenId>(FieldValue{id, "each id of logit_bias"}.integer(0, kMostId)),
                      FieldValue{bias, "each bias of logit_bias"}.real(-kBias, kBias)});
  }
  return biases;
}

inline std::vector<std::string> read_stops(const FieldValue& f) {
  std::vector<std::string> stops;
  const auto take = [&](const nlohmann::json& one) {
    const auto* text = one.get_ptr<const std::string*>();
    if (text == nullptr || text->empty() || std::ssize(*text) > Most::kStopStringBytes) {
      f.refuse("a text or texts of 1 to " + std::to_string(Most::kStopStringBytes) + " bytes");
    }
    stops.push_back(*text);
  };
  if (!f.value.is_array()) {
    take(f.value);
    return stops;
  }
  if (std::ssize(f.value) > Most::kStopStrings) f.refuse("at most " + std::to_string(Most::kStopStrings) + " texts");
  for (const auto& one : f.value) take(one);
  return stops;
}

}  // namespace detail

/// One row of the table.
struct RequestField {
  const char* key;
  const char* help;
  void (*read)(const FieldValue&, RequestLine&);
};

/// Everything that a line may say. What two fields allow together (best_of and n, min_tokens and max_tokens) is the engine's to refuse.
inline constexpr RequestField kRequestFields[] = {
    {"id", "text or integer; needed", [](const FieldValue& f, RequestLine& r) { r.timed.request.name = detail::read_id(f); }},
    {"prompt", "text, as in run --raw; this or prompt_ids is needed",
     [](const FieldValue& f, RequestLine& r) { r.prompt = f.text(); }},
    {"prompt_ids", "token ids", [](const FieldValue& f, RequestLine& r) { r.timed.request.prompt_ids = f.ids(); }},
    {"max_tokens", "longest answer, 1 or more; needed",
     [](const FieldValue& f, RequestLine& r) { r.timed.request.max_tokens = f.integer(1, detail::kMostTokens); }},
    {"min_tokens", "no answer ends before; default 0",
     [](const FieldValue& f, RequestLine& r) { r.timed.request.min_tokens = f.integer(0, detail::kMostTokens); }},
    {"n", "answers, 1 to 128; default 1",
     [](const FieldValue& f, RequestLine& r) { r.timed.request.n = f.integer(1, detail::Most::kAnswers); }},
    {"best_of", "answers that are computed, of which the n likeliest are kept",
     [](const FieldValue& f, RequestLine& r) { r.timed.request.best_of = f.integer(1, detail::Most::kAnswers); }},
    {"beam", "width of a beam search, 1 to 128",
     [](const FieldValue& f, RequestLine& r) { r.timed.request.beam_width = f.integer(1, detail::Most::kAnswers); }},
    {"length_penalty", "of beams: score = log-probability / tokens^penalty, -16 to 16; default 1",
     [](const FieldValue& f, RequestLine& r) {
       r.timed.request.length_penalty = f.number(-detail::kLengthPenalty, detail::kLengthPenalty);
     }},
    {"temperature", "0 = greedy, the default; to 100",
     [](const FieldValue& f, RequestLine& r) { r.timed.request.sampling.temperature = f.real(0, detail::Most::kTemperature); }},
    {"temperature_last", "filters see probabilities at temperature 1",
     [](const FieldValue& f, RequestLine& r) { r.timed.request.temperature_last = f.boolean(); }},
    {"top_k", "0 or -1 = off",
     [](const FieldValue& f, RequestLine& r) { r.timed.request.sampling.top_k = f.integer(-1, detail::kMostTokens); }},
    {"top_p", "0 to 1", [](const FieldValue& f, RequestLine& r) { r.timed.request.sampling.top_p = f.real(0, 1); }},
    {"min_p", "0 to 1", [](const FieldValue& f, RequestLine& r) { r.timed.request.sampling.min_p = f.real(0, 1); }},
    {"repetition_penalty", "0.01 to 100; 1 = off",
     [](const FieldValue& f, RequestLine& r) {
       r.timed.request.sampling.repetition_penalty = f.real(detail::Most::kLeastRepetitionPenalty, detail::kPenalty);
     }},
    {"presence_penalty", "-100 to 100; 0 = off",
     [](const FieldValue& f, RequestLine& r) {
       r.timed.request.sampling.presence_penalty = f.real(-detail::kPenalty, detail::kPenalty);
     }},
    {"frequency_penalty", "-100 to 100; 0 = off",
     [](const FieldValue& f, RequestLine& r) {
       r.timed.request.sampling.frequency_penalty = f.real(-detail::kPenalty, detail::kPenalty);
     }},
    {"logit_bias", "{\"id\": bias, ..}, biases of -100 to 100",
     [](const FieldValue& f, RequestLine& r) { r.timed.request.logit_bias = detail::read_logit_bias(f); }},
    {"logprobs", "0 to 20 likeliest tokens at each place, beside the chosen one",
     [](const FieldValue& f, RequestLine& r) { r.timed.request.num_logprobs = f.integer(0, detail::Most::kTopLogprobs); }},
    {"stop", "text or texts before which an answer ends",
     [](const FieldValue& f, RequestLine& r) { r.timed.request.stop_strings = detail::read_stops(f); }},
    {"stop_tokens", "token ids before which an answer ends",
     [](const FieldValue& f, RequestLine& r) { r.timed.request.stop_tokens = f.ids(); }},
    {"ignore_eos", "true: the model's end tokens end nothing",
     [](const FieldValue& f, RequestLine& r) { r.timed.request.ignore_eos = f.boolean(); }},
    {"seed", "of the draws, 0 or more; one is drawn and reported if it is missing",
     [](const FieldValue& f, RequestLine& r) { r.timed.request.seed = detail::read_seed(f); }},
    {"priority", "0 = most urgent, the default (--order priority)",
     [](const FieldValue& f, RequestLine& r) { r.timed.request.priority = f.integer(0, 1'000'000); }},
    {"tenant", "number of whom it is for (--order fair-share)",
     [](const FieldValue& f, RequestLine& r) {
       r.timed.request.tenant = static_cast<std::uint32_t>(f.integer(0, std::numeric_limits<std::uint32_t>::max()));
     }},
    {"arrival_ms", "after the start of the run; default 0",
     [](const FieldValue& f, RequestLine& r) { r.timed.arrival_ns = f.milliseconds(0); }},
    {"deadline_ms", "after its arrival: then it ends with what it has", [](const FieldValue& f, RequestLine& r) {
       r.timed.deadline_ns = f.milliseconds(0.001);
     }},
};

}  // namespace kvpage::cli
