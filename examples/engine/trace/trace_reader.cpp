#include "engine/trace/trace_reader.hpp"

#include "engine/trace/event_names.hpp"
#include "engine/trace/trace_fields.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <istream>
#include <utility>

namespace kvpage::engine {
namespace {

using nlohmann::json;

std::uint64_t key_of(const json& value) {
  std::uint64_t key = 0;
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), key, 16);
  if (text.empty() || problem != std::errc{} || end != text.data() + text.size()) {
    throw detail::BadField("a content key is a string of hexadecimal digits, not " + shown(value));
  }
  return key;
}

BlockId block_at(const json& event, std::size_t at, std::int64_t num_blocks) {
  return BlockId{static_cast<std::uint32_t>(detail::number(detail::element(event, at), "a block id", num_blocks))};
}
SeqId seq_at(const json& event, std::size_t at) {
  const auto generation = detail::number(detail::element(event, at), "a sequence", std::int64_t{1} << 32);
  return {0, static_cast<std::uint32_t>(generation)};
}
std::int64_t count_at(const json& event, std::size_t at) {
  return detail::number(detail::element(event, at), "a number of tokens", detail::kAnyTokens);
}

constexpr std::int64_t kMaxAnswers = std::int64_t{1} << 32;
std::uint32_t answer_of(const json& fields) { return static_cast<std::uint32_t>(detail::optional_number(fields, "answer", kMaxAnswers)); }

/// One element of "events", as docs/traces.md lists them.
CacheEvent read_event(const json& event, StepId step, std::int64_t num_blocks) {
  const json& word = detail::element(detail::array(event, "an event"), 0);
  const auto kind = event_kind(word.is_string() ? word.get<std::string>() : "");
  if (!kind || *kind >= CacheEventKind::kSeal) throw detail::BadField("unknown event " + shown(word));
  CacheEvent result{.kind = *kind, .step = step};
  switch (*kind) {
    case CacheEventKind::kSeqStart:
    case CacheEventKind::kSeqEnd: result.seq = seq_at(event, 1); return result;
    case CacheEventKind::kHit: result.seq = seq_at(event, 1), result.num_tokens = count_at(event, 2); return result;
    case CacheEventKind::kPin:
    case CacheEventKind::kUnpin:
      result.num_tokens = count_at(event, 1), result.content_key = key_of(detail::element(event, 2));
      return result;
    case CacheEventKind::kReset: return result;
    default: result.block = block_at(event, 1, num_blocks); break;
  }
  if (*kind == CacheEventKind::kHide || *kind == CacheEventKind::kEvict) return result;
  result.seq = seq_at(event, 2);
  if (*kind == CacheEventKind::kCopy || *kind == CacheEventKind::kAdopt) result.other = block_at(event, 3, num_blocks);
  if (*kind == CacheEventKind::kCopy) result.num_tokens = count_at(event, 4);
  if (*kind != CacheEventKind::kPublish) return result;
  result.content_key = key_of(detail::element(event, 3)), result.num_tokens = count_at(event, 4);
  if (event.size() > 5) result.group = detail::number(event[5], "a group", kMaxCacheGroups);
  return result;
}

/// Runs `read`, and gives what it throws its place.
template <class Read>
auto placed(const TraceReader& reader, const TraceLine& line, Read&& read) -> Expected<decltype(read()), TraceError> {
  try {
    return read();
  } catch (const std::exception& problem) {
    return Unexpected{reader.error(line, problem.what())};
  }
}

}  // namespace

Expected<TraceReader, TraceError> TraceReader::open(const std::string& path) {
  auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*file) return Unexpected{TraceError{"cannot open the trace " + path + ": " + std::strerror(errno)}};
  return read(std::move(file), path);
}

Expected<TraceReader, TraceError> TraceReader::read(std::unique_ptr<std::istream> in, std::string name) {
  TraceReader reader{std::move(in), std::move(name)};
  if (auto done = reader.read_header(); !done) return Unexpected{done.error()};
  return reader;
}

TraceReader::TraceReader(std::unique_ptr<std::istream> in, std::string name) : in_(std::move(in)), name_(std::move(name)) {}

TraceError TraceReader::error(const TraceLine& line, const std::string& what) const {
  return {name_ + ":" + std::to_string(line.number) + ": " + what};
}

Expected<bool, TraceError> TraceReader::next(TraceLine& line) {
  std::string text;
  do {
    if (!std::getline(*in_, text)) {
      line.number = line_number_ + 1;
      if (in_->bad()) return Unexpected{error(line, "the file cannot be read")};
      return false;
    }
    line.number = ++line_number_;
  } while (text.empty());
  const bool whole = !in_->eof();
  auto fields = parse_json(text);
  if (!fields && !whole) {
    cut_short_ = true;
    return false;
  }
  if (!fields) return Unexpected{error(line, "this line is not a JSON object: " + fields.error().what)};
  line.fields = std::move(*fields);
  if (!line.fields.is_object()) return Unexpected{error(line, "this line is not a JSON object")};
  return placed(*this, line, [&] {
    const json& kind = detail::field(line.fields, "kind");
    if (!kind.is_string()) throw detail::BadField("\"kind\" must be a string");
    line.kind = kind.get<std::string>();
    return true;
  });
}

Expected<void, TraceError> TraceReader::read_header() {
  TraceLine line;
  const auto there = next(line);
  if (!there) return Unexpected{there.error()};
  if (!*there || line.kind != "header") return Unexpected{error(line, "a trace starts with a line of kind \"header\"")};
  const auto done = placed(*this, line, [&] {
    const std::int64_t version = detail::number_field(line.fields, "version");
    if (version < 1 || version > kTraceVersion) {
      throw detail::BadField("version " + std::to_string(version) + " is not known; this program reads 1 to " +
                             std::to_string(kTraceVersion));
    }
    if (const auto seed = line.fields.find("seed"); seed != line.fields.end()) {
      if (!seed->is_number_unsigned()) throw detail::BadField("\"seed\" must be an integer in [0, 2^64), not " + shown(*seed));
      header_.seed = seed->get<std::uint64_t>();
    }
    if (line.fields.contains("commit")) header_.commit = detail::name(line.fields["commit"], "commit");
    const json nothing = json::object(), no_groups = json::array();
    const json& config = line.fields.contains("config") ? line.fields["config"] : nothing;
    if (!config.is_object()) throw detail::BadField("\"config\" must be an object, not " + shown(config));
    header_.num_blocks = detail::optional_number(config, "num_blocks");
    if (header_.num_blocks > kMaxTraceBlocks) {
      throw detail::BadField("\"num_blocks\" is " + std::to_string(header_.num_blocks) + "; a trace can be of a pool of at most " +
                             std::to_string(kMaxTraceBlocks) + " blocks");
    }
    header_.block_size = detail::optional_number(config, "block_size", 1025);
    header_.page_bytes = detail::optional_number(config, "page_bytes");
    if (config.contains("policy")) header_.policy = detail::name(config["policy"], "policy");
    const json& groups = config.contains("groups") ? config["groups"] : no_groups;
    if (detail::array(groups, "\"groups\"").size() > static_cast<std::size_t>(kMaxCacheGroups)) {
      throw detail::BadField("\"groups\" has " + std::to_string(groups.size()) + " elements; a pool has at most " +
                             std::to_string(kMaxCacheGroups) + " cache groups");
    }
    for (const json& group : groups) {
      if (!group.is_object()) throw detail::BadField("a cache group must be an object, not " + shown(group));
      header_.window_tokens.push_back(detail::optional_number(group, "window_tokens", detail::kAnyTokens));
    }
    return true;
  });
  if (!done) return Unexpected{done.error()};
  return {};
}

Expected<std::int64_t, TraceError> TraceReader::time_ns(const TraceLine& line) const {
  return placed(*this, line, [&] { return detail::optional_number(line.fields, "t_ns"); });
}

Expected<TraceRequest, TraceError> TraceReader::request(const TraceLine& line) const {
  return placed(*this, line, [&] {
    const json& f = line.fields;
    TraceRequest request;
    request.t_ns = detail::optional_number(f, "t_ns");
    request.id = detail::name(detail::field(f, "id"), "id");
    const char* tokens = f.contains("tokens") ? "tokens" : "prompt_ids";
    request.prompt_ids = detail::token_ids(detail::field(f, tokens), std::string("\"") + tokens + "\"");
    if (request.prompt_ids.empty()) throw detail::BadField("the prompt holds no token");
    request.max_tokens = detail::optional_number(f, "max_tokens");
    if (f.contains("n")) request.num_answers = detail::number_field(f, "n", kMaxAnswers);
    if (f.contains("tenant")) request.tenant = detail::name(f["tenant"], "tenant");
    if (f.contains("priority")) request.priority = detail::number_field(f, "priority", 101);
    request.ttl_ns = detail::optional_number(f, "ttl_ns");
    return request;
  });
}

Expected<TraceFinish, TraceError> TraceReader::finish(const TraceLine& line) const {
  return placed(*this, line, [&] {
    TraceFinish end;
    end.t_ns = detail::optional_number(line.fields, "t_ns");
    end.id = detail::name(detail::field(line.fields, "id"), "id");
    end.answer = answer_of(line.fields);
    if (line.fields.contains("reason")) end.reason = detail::name(line.fields["reason"], "reason");
    if (line.fields.contains("output_ids")) end.output_ids = detail::token_ids(line.fields["output_ids"], "\"output_ids\"");
    return end;
  });
}

Expected<TracePlan, TraceError> TraceReader::plan(const TraceLine& line) const {
  return placed(*this, line, [&] {
    TracePlan plan;
    if (line.fields.contains("step")) plan.step = StepId{static_cast<std::uint64_t>(detail::number_field(line.fields, "step"))};
    for (const json& row : detail::array(detail::field(line.fields, "rows"), "\"rows\"")) {
      const json& id = detail::element(detail::array(row, "a row"), 0);
      plan.rows.push_back({detail::name(id, "id"), seq_at(row, 1), count_at(row, 2), count_at(row, 3)});
      if (row.size() > 4) plan.rows.back().answer = static_cast<std::uint32_t>(detail::number(row[4], "an answer", kMaxAnswers));
      if (row.size() > 5) plan.rows.back().cached_tokens = count_at(row, 5);
    }
    return plan;
  });
}

Expected<TracePreemption, TraceError> TraceReader::preemption(const TraceLine& line) const {
  return placed(*this, line, [&] {
    TracePreemption preemption{.t_ns = detail::optional_number(line.fields, "t_ns"),
                               .id = detail::name(detail::field(line.fields, "id"), "id"),
                               .answer = answer_of(line.fields)};
    const std::string how = detail::name(detail::field(line.fields, "how"), "how");
    const auto found = std::find(kPreemptionNames.begin(), kPreemptionNames.end(), how);
    if (found == kPreemptionNames.end()) {
      throw detail::BadField("\"how\" must be \"keep\", \"demote\" or \"recompute\", not \"" + how + "\"");
    }
    preemption.kind = static_cast<PreemptionKind>(found - kPreemptionNames.begin());
    return preemption;
  });
}

Expected<TraceTransfer, TraceError> TraceReader::transfer(const TraceLine& line) const {
  return placed(*this, line, [&] {
    TraceTransfer transfer{.t_ns = detail::optional_number(line.fields, "t_ns")};
    if (line.fields.contains("id")) transfer.id = detail::name(line.fields["id"], "id");
    transfer.answer = answer_of(line.fields);
    transfer.demoted_blocks = detail::optional_number(line.fields, "demoted", kMaxTraceBlocks + 1);
    transfer.promoted_blocks = detail::optional_number(line.fields, "promoted", kMaxTraceBlocks + 1);
    return transfer;
  });
}

Expected<CapacitySnapshot, TraceError> TraceReader::capacity(const TraceLine& line) const {
  return placed(*this, line, [&] {
    const auto count = [&](const char* name) { return detail::number_field(line.fields, name); };
    CapacitySnapshot counts;
    counts.num_blocks = count("num_blocks"), counts.num_seqs = count("num_seqs");
    counts.clean = count("clean"), counts.cached = count("cached"), counts.used = count("used"), counts.pending = count("pending");
    return counts;
  });
}

Expected<std::vector<CacheEvent>, TraceError> TraceReader::events(const TraceLine& line) const {
  return placed(*this, line, [&] {
    std::vector<CacheEvent> events;
    const auto own = event_kind(line.kind);
    if (line.kind != "event" && (!own || *own < CacheEventKind::kSeal)) return events;
    const StepId step{static_cast<std::uint64_t>(detail::number_field(line.fields, "step"))};
    if (line.kind != "event") {
      events.push_back({.kind = *own, .step = step});
      return events;
    }
    for (const json& event : detail::array(detail::field(line.fields, "events"), "\"events\"")) {
      events.push_back(read_event(event, step, header_.num_blocks));
    }
    return events;
  });
}

}  // namespace kvpage::engine
