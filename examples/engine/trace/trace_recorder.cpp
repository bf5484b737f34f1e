#include "engine/trace/trace_recorder.hpp"

#include "engine/trace/event_names.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <utility>

namespace kvpage::engine {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;
constexpr int kMaxEventsPerLine = 256;

void append_number(std::string& text, std::uint64_t value, int base = 10) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, base).ptr;
  text.append(digits, end);
}
void append_field(std::string& text, std::uint64_t value) { append_number(text += ',', value); }
void append_field(std::string& text, std::int64_t value) { append_field(text, static_cast<std::uint64_t>(value)); }
void append_count(std::string& text, const char* field, std::int64_t value) {
  append_number(text += field, static_cast<std::uint64_t>(value));
}
void append_key(std::string& text, std::uint64_t key) { append_number(text += ",\"", key, 16), text += '"'; }
void append_name(std::string& text, const char* field, std::string_view value) {
  text += field;
  text += nlohmann::json(value).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}
void append_ids(std::string& text, const char* field, std::span<const TokenId> ids) {
  text += field;
  text += '[';
  for (std::size_t i = 0; i < ids.size(); ++i) append_number(i == 0 ? text : text += ',', ids[i]);
  text += ']';
}

/// The sequence of an event: generations are given once, so they name it alone; 0 = none.
std::uint64_t seq_of(const CacheEvent& event) { return event.seq.generation; }

/// The fields of an event behind its name, as docs/traces.md lists them.
void append_fields(std::string& text, const CacheEvent& event) {
  switch (event.kind) {
    case CacheEventKind::kSeqStart:
    case CacheEventKind::kSeqEnd: append_field(text, seq_of(event)); return;
    case CacheEventKind::kHit: append_field(text, seq_of(event)), append_field(text, event.num_tokens); return;
    case CacheEventKind::kPin:
    case CacheEventKind::kUnpin: append_field(text, event.num_tokens), append_key(text, event.content_key); return;
    case CacheEventKind::kReset: return;
    default: break;
  }
  append_field(text, std::uint64_t{event.block.value});
  if (event.kind == CacheEventKind::kHide || event.kind == CacheEventKind::kEvict) return;
  append_field(text, seq_of(event));
  if (event.kind == CacheEventKind::kCopy || event.kind == CacheEventKind::kAdopt) append_field(text, std::uint64_t{event.other.value});
  if (event.kind == CacheEventKind::kCopy) append_field(text, event.num_tokens);
  if (event.kind != CacheEventKind::kPublish) return;
  append_key(text, event.content_key), append_field(text, event.num_tokens);
  if (event.group != 0) append_field(text, event.group);
}

bool has_own_line(CacheEventKind kind) {
  return kind == CacheEventKind::kSeal || kind == CacheEventKind::kCommit || kind == CacheEventKind::kRetire ||
         kind == CacheEventKind::kAbort;
}

}  // namespace

Expected<std::unique_ptr<TraceRecorder>, TraceError> TraceRecorder::open(const std::string& path, const TraceHeader& header,
                                                                         TraceClock now_ns) {
  auto file = std::make_unique<std::ofstream>(path, std::ios::binary);
  if (!*file) return Unexpected{TraceError{"cannot create the trace " + path + ": " + std::strerror(errno)}};
  return std::make_unique<TraceRecorder>(std::move(file), path, header, std::move(now_ns));
}

TraceRecorder::TraceRecorder(std::unique_ptr<std::ostream> out, std::string name, const TraceHeader& header, TraceClock now_ns)
    : out_(std::move(out)), name_(std::move(name)), now_ns_(std::move(now_ns)) {
  nlohmann::ordered_json groups = nlohmann::json::array();
  for (const std::int64_t window : header.window_tokens) groups.push_back({{"window_tokens", window}});
  const nlohmann::ordered_json line{{"kind", "header"},
                                    {"version", kTraceVersion},
                                    {"seed", header.seed},
                                    {"commit", header.commit},
                                    {"config",
                                     {{"num_blocks", header.num_blocks},
                                      {"block_size", header.block_size},
                                      {"groups", groups},
                                      {"page_bytes", header.page_bytes},
                                      {"policy", header.policy}}}};
  buffer_ = line.dump() + "\n";
  write_out();
}

TraceRecorder::~TraceRecorder() { static_cast<void>(flush()); }

void TraceRecorder::begin_line(std::string_view kind) {
  end_events();
  append_number(buffer_ += "{\"t_ns\":", static_cast<std::uint64_t>(now_ns_()));
  ((buffer_ += ",\"kind\":\"") += kind) += '"';
}

void TraceRecorder::end_line() {
  buffer_ += "}\n";
  if (buffer_.size() >= kBufferBytes) write_out();
}

void TraceRecorder::end_events() {
  if (std::exchange(num_events_, 0) == 0) return;
  buffer_ += ']';
  end_line();
}

void TraceRecorder::write_out() {
  out_->write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  out_->flush();
  failed_ = failed_ || !*out_;
  buffer_.clear();
}

Expected<void, TraceError> TraceRecorder::flush() {
  end_events();
  write_out();
  if (failed_) return Unexpected{TraceError{"the trace " + name_ + " could not be written completely; is the disk full?"}};
  return {};
}

void TraceRecorder::append_answer(std::string_view id, std::uint32_t answer) {
  append_name(buffer_, ",\"id\":", id);
  if (answer != 0) append_number(buffer_ += ",\"answer\":", answer);
}

void TraceRecorder::submit(const TraceRequest& request) {
  begin_line("submit");
  append_name(buffer_, ",\"id\":", request.id);
  append_ids(buffer_, ",\"prompt_ids\":", request.prompt_ids);
  append_count(buffer_, ",\"max_tokens\":", request.max_tokens);
  if (request.num_answers != 1) append_count(buffer_, ",\"n\":", request.num_answers);
  if (!request.tenant.empty()) append_name(buffer_, ",\"tenant\":", request.tenant);
  if (request.priority) append_count(buffer_, ",\"priority\":", *request.priority);
  if (request.ttl_ns != 0) append_count(buffer_, ",\"ttl_ns\":", request.ttl_ns);
  end_line();
}

void TraceRecorder::plan(std::span<const PlannedRow> rows, std::optional<StepId> step) {
  begin_line("plan");
  if (step) append_number(buffer_ += ",\"step\":", step->value);
  buffer_ += ",\"rows\":[";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PlannedRow& row = rows[i];
    append_name(buffer_, i == 0 ? "[" : ",[", row.id);
    append_field(buffer_, std::uint64_t{row.seq.generation});
    append_field(buffer_, row.first_position), append_field(buffer_, row.num_tokens);
    if (row.answer != 0 || row.cached_tokens >= 0) append_field(buffer_, std::uint64_t{row.answer});
    if (row.cached_tokens >= 0) append_field(buffer_, row.cached_tokens);
    buffer_ += ']';
  }
  buffer_ += ']';
  end_line();
}

void TraceRecorder::preempt(const TracePreemption& preemption) {
  begin_line("preempt");
  append_answer(preemption.id, preemption.answer);
  append_name(buffer_, ",\"how\":", name_of(preemption.kind));
  end_line();
}

void TraceRecorder::transfer(const TraceTransfer& transfer) {
  begin_line("transfer");
  if (!transfer.id.empty()) append_answer(transfer.id, transfer.answer);
  if (transfer.demoted_blocks != 0) append_count(buffer_, ",\"demoted\":", transfer.demoted_blocks);
  if (transfer.promoted_blocks != 0) append_count(buffer_, ",\"promoted\":", transfer.promoted_blocks);
  end_line();
}

void TraceRecorder::finish(const TraceFinish& end) {
  begin_line("finish");
  append_answer(end.id, end.answer);
  append_name(buffer_, ",\"reason\":", end.reason);
  append_ids(buffer_, ",\"output_ids\":", end.output_ids);
  end_line();
  write_out();
}

void TraceRecorder::capacity(const CapacitySnapshot& snapshot) {
  begin_line("capacity");
  const std::pair<const char*, std::int64_t> counts[] = {
      {",\"num_blocks\":", snapshot.num_blocks}, {",\"clean\":", snapshot.clean},     {",\"cached\":", snapshot.cached},
      {",\"used\":", snapshot.used},             {",\"pending\":", snapshot.pending}, {",\"num_seqs\":", snapshot.num_seqs}};
  append_number(buffer_ += ",\"step\":", step_.value);
  for (const auto& [field, count] : counts) append_count(buffer_, field, count);
  end_line();
  write_out();
}

void TraceRecorder::event(const CacheEvent& event) noexcept {
  try {
    write_event(event);
  } catch (const std::bad_alloc&) {
    fail();
  }
}

void TraceRecorder::write_event(const CacheEvent& event) {
  if (event.step > step_) step_ = event.step;
  if (has_own_line(event.kind)) {
    begin_line(name_of(event.kind));
    append_number(buffer_ += ",\"step\":", event.step.value);
    end_line();
    return;
  }
  if (num_events_ == kMaxEventsPerLine || (num_events_ > 0 && events_step_ != step_)) end_events();
  if (num_events_ == 0) {
    begin_line("event");
    append_number(buffer_ += ",\"step\":", step_.value);
    buffer_ += ",\"events\":[";
    events_step_ = step_;
  } else {
    buffer_ += ',';
  }
  ++num_events_;
  ((buffer_ += "[\"") += name_of(event.kind)) += '"';
  append_fields(buffer_, event);
  buffer_ += ']';
}

}  // namespace kvpage::engine
