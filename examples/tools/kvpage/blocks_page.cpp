#include "tools/kvpage/blocks_page.hpp"

#include "engine/trace/run_timeline.hpp"
#include "tools/kvpage/embedded_file.hpp"
#include "tools/kvpage/frame_encoder.hpp"
#include "tools/kvpage/trace_run_encoder.hpp"

#include <kvpage/base/error.hpp>

#include <nlohmann/json.hpp>

#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace kvpage::cli {
namespace {

using engine::TraceError;
using engine::TraceLine;

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j) text += i + j > bytes.size() ? '=' : kDigits[group >> (18 - 6 * j) & 63];
  }
  return text;
}

nlohmann::ordered_json to_json(const CapacitySnapshot& c) {
  return {{"clean", c.clean}, {"cached", c.cached}, {"used", c.used}, {"pending", c.pending}};
}

/// Every count that a trace holds.
nlohmann::ordered_json all_counts(const CapacitySnapshot& c) {
  nlohmann::ordered_json counts = to_json(c);
  counts["num_blocks"] = c.num_blocks;
  counts["num_seqs"] = c.num_seqs;
  return counts;
}

/// A trace on its way to a page.
class PageBuilder {
 public:
  PageBuilder(engine::TraceReader& reader, std::int64_t steps_per_frame)
      : reader_(reader),
        map_(reader.header().num_blocks),
        encoder_(reader.header().num_blocks),
        steps_per_frame_(static_cast<std::uint64_t>(steps_per_frame)) {}

  /// Errors: the reader's, and what the trace contradicts.
  Expected<void, TraceError> read_all() {
    TraceLine line;
    while (true) {
      const auto more = reader_.next(line);
      if (!more) return Unexpected{more.error()};
      if (!*more) break;
      if (const auto done = read(line); !done) return Unexpected{done.error()};
    }
    end_frame();
    run_.close();
    return {};
  }

  [[nodiscard]] bool empty() const noexcept { return num_events_ == 0; }
  [[nodiscard]] const std::string& frames() const noexcept { return encoder_.bytes(); }
  [[nodiscard]] std::string run() const { return encode_run(run_); }

  [[nodiscard]] nlohmann::ordered_json description(const std::string& title) const {
    const engine::TraceHeader& h = reader_.header();
    nlohmann::ordered_json meta{{"title", title},         {"num_blocks", h.num_blocks}, {"block_size", h.block_size},
                                {"policy", h.policy},     {"commit", h.commit},         {"page_bytes", h.page_bytes},
                                {"frames", frame_ + 1},   {"steps_per_frame", steps_per_frame_},
                                {"fullest_frame", encoder_.fullest_frame()},
                                {"last_step", last_step_}, {"cut_short", reader_.cut_short()}};
    meta["capacity"] = capacity_ ? to_json(*capacity_) : nlohmann::ordered_json(nullptr);
    meta["states"] = engine::kAnswerStateNames;
    meta["answers"] = nlohmann::json::array();
    for (const engine::AnswerTrack& track : run_.tracks()) meta["answers"].push_back({track.id, track.answer, track.reason});
    return meta;
  }

 private:
  Expected<void, TraceError> read(const TraceLine& line) {
    if (auto done = run_.apply(reader_, line); !done) return done;
    if (line.kind == "capacity") return check_capacity(line);
    const auto events = reader_.events(line);
    if (!events) return Unexpected{events.error()};
    for (const CacheEvent& event : *events) {
      if (const auto moved = move_to(event.step.value, line); !moved) return moved;
      if (const auto problem = map_.apply(event)) return Unexpected{reader_.error(line, *problem)};
      encoder_.count(event);
      ++num_events_;
      capacity_.reset();
    }
    return {};
  }

  /// Ends frames until the one of `step`; events outside of steps carry the newest step.
  Expected<void, TraceError> move_to(std::uint64_t step, const TraceLine& line) {
    last_step_ = std::max(last_step_, step);
    const std::uint64_t frame = last_step_ / steps_per_frame_ + (last_step_ % steps_per_frame_ != 0 ? 1 : 0);
    if (frame >= static_cast<std::uint64_t>(kMaxPageFrames)) {
      const std::uint64_t fewer = last_step_ / static_cast<std::uint64_t>(kMaxPageFrames) + 1;
      return Unexpected{reader_.error(line, "step " + std::to_string(step) + " is more than a page shows; try --every " +
                                                std::to_string(fewer))};
    }
    for (; frame_ < frame; ++frame_) end_frame();
    return {};
  }

  void end_frame() { encoder_.end_frame(map_, frame_ == 0 ? 0 : (frame_ - 1) * steps_per_frame_); }

  Expected<void, TraceError> check_capacity(const TraceLine& line) {
    const auto told = reader_.capacity(line);
    if (!told) return Unexpected{told.error()};
    const auto recorded = all_counts(*told), counted = all_counts(map_.recount());
    if (recorded != counted) {
      const std::string both = "the allocator counted " + recorded.dump() + ", but the events before give " + counted.dump();
      return Unexpected{reader_.error(line, both)};
    }
    capacity_ = *told;
    return {};
  }

  engine::TraceReader& reader_;
  engine::BlockMap map_;
  FrameEncoder encoder_;
  std::uint64_t steps_per_frame_;
  std::uint64_t frame_ = 0;
  std::uint64_t last_step_ = 0;
  std::int64_t num_events_ = 0;
  std::optional<CapacitySnapshot> capacity_;  ///< the allocator's own count at the very end
  engine::RunTimeline run_;
};

/// The page with a part in each place where it says {{name}}. What a part says is not looked at: it may say the same.
std::string fill(std::string_view page, const std::map<std::string_view, std::string>& parts) {
  std::string filled;
  std::size_t num_places = 0;
  for (std::size_t mark; (mark = page.find("{{")) != std::string_view::npos; ++num_places) {
    const std::size_t end = page.find("}}", mark);
    KVPAGE_ASSERT(end != std::string_view::npos, "the name of a part ends");
    const auto part = parts.find(page.substr(mark + 2, end - mark - 2));
    KVPAGE_ASSERT(part != parts.end(), "the page wants no other parts");
    (filled += page.substr(0, mark)) += part->second;
    page.remove_prefix(end + 2);
  }
  KVPAGE_ASSERT(num_places == parts.size(), "the page has a place for everything");
  return filled += page;
}

/// JSON that cannot end the element around it.
std::string inside_html(const nlohmann::ordered_json& value) {
  std::string text;
  for (const char c : value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

Expected<std::string, TraceError> render_blocks_page(engine::TraceReader& reader, const std::string& title,
                                                     std::int64_t steps_per_frame) {
  if (reader.header().num_blocks == 0) {
    return Unexpected{TraceError{title + ": the trace holds no cache events; record a run with kvpage bench --requests FILE --trace FILE"}};
  }
  PageBuilder builder{reader, steps_per_frame};
  if (const auto done = builder.read_all(); !done) return Unexpected{done.error()};
  if (builder.empty()) {
    return Unexpected{TraceError{title + ": the trace holds no cache events; it can be replayed, but not drawn"}};
  }
  std::string script;
  for (const char* part : {"byte_stream.js", "history.js", "run_log.js", "colours.js", "map.js", "timeline.js", "gantt.js", "app.js",
                           "gantt_controls.js", "controls.js"}) {
    (script += embedded_file(part)) += '\n';
  }
  return fill(embedded_file("block_map.html"), {{"style", std::string(embedded_file("block_map.css"))},
                                                {"script", script},
                                                {"description", inside_html(builder.description(title))},
                                                {"run", base64(builder.run())},
                                                {"frames", base64(builder.frames())}});
}

}  // namespace kvpage::cli
