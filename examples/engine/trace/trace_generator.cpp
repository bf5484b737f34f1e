#include "engine/trace/trace_generator.hpp"

#include <kvpage/base/philox.hpp>

#include <ostream>

namespace kvpage::engine {
namespace {

constexpr std::int64_t kVocabSize = 32'000;
constexpr std::int64_t kIntervalNs = 10'000'000;

using Tokens = std::vector<TokenId>;

/// Random numbers of one purpose.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint32_t purpose) : key_{.seed = seed, .child = purpose} {}

  std::int64_t between(std::int64_t first, std::int64_t last) {
    ++key_.position;
    return first + static_cast<std::int64_t>(draw_bits(key_) % static_cast<std::uint64_t>(last - first + 1));
  }
  Tokens tokens(std::int64_t count) {
    Tokens result;
    for (std::int64_t i = 0; i < count; ++i) result.push_back(static_cast<TokenId>(between(0, kVocabSize - 1)));
    return result;
  }

 private:
  DrawKey key_;
};

void append(Tokens& to, const Tokens& more) { to.insert(to.end(), more.begin(), more.end()); }

/// A source of requests.
class Source {
 public:
  virtual ~Source() = default;
  virtual ReplayRequest next() = 0;
};

class Chat final : public Source {
 public:
  explicit Chat(std::uint64_t seed) : draws_(seed, 1), start_(draws_.tokens(96)), talks_(kNumTalks, start_), turns_(kNumTalks, 0) {}

  ReplayRequest next() override {
    const auto talk = static_cast<std::size_t>(std::min(draws_.between(0, kNumTalks - 1), draws_.between(0, kNumTalks - 1)));
    if (turns_[talk]++ == kMaxTurns || draws_.between(0, 9) == 0) talks_[talk] = start_, turns_[talk] = 1;
    append(talks_[talk], draws_.tokens(draws_.between(15, 90)));
    ReplayRequest r;
    r.request.prompt_ids = talks_[talk];
    r.output_ids = draws_.tokens(draws_.between(40, 160));
    append(talks_[talk], r.output_ids);
    return r;
  }

 private:
  static constexpr std::int64_t kNumTalks = 32;
  static constexpr int kMaxTurns = 12;

  Draws draws_;
  Tokens start_;
  std::vector<Tokens> talks_;
  std::vector<int> turns_;
};

class SystemPrompts final : public Source {
 public:
  explicit SystemPrompts(std::uint64_t seed) : draws_(seed, 2) {
    for (int i = 0; i < kNumPrompts; ++i) prompts_.push_back(draws_.tokens(draws_.between(300, 1200)));
  }

  ReplayRequest next() override {
    const std::int64_t which = std::min(draws_.between(0, kNumPrompts - 1), draws_.between(0, kNumPrompts - 1));
    ReplayRequest r;
    r.request.prompt_ids = prompts_[static_cast<std::size_t>(which)];
    append(r.request.prompt_ids, draws_.tokens(draws_.between(10, 80)));
    r.output_ids = draws_.tokens(draws_.between(20, 120));
    return r;
  }

 private:
  static constexpr int kNumPrompts = 24;

  Draws draws_;
  std::vector<Tokens> prompts_;
};

class Scan final : public Source {
 public:
  explicit Scan(std::uint64_t seed) : draws_(seed, 3) {
    for (int i = 0; i < kNumHot; ++i) hot_.push_back(draws_.tokens(512));
  }

  ReplayRequest next() override {
    const std::int64_t i = served_++;
    const bool warm_up = i < 2 * kNumHot;
    ReplayRequest r;
    if (!warm_up && i % 2 == 1) {
      r.request.prompt_ids = draws_.tokens(draws_.between(2000, 4000));
    } else {
      r.request.prompt_ids = hot_[static_cast<std::size_t>(i / 2 % kNumHot)];
      append(r.request.prompt_ids, draws_.tokens(draws_.between(10, 40)));
    }
    r.output_ids = draws_.tokens(draws_.between(20, 60));
    return r;
  }

 private:
  static constexpr std::int64_t kNumHot = 8;

  Draws draws_;
  std::vector<Tokens> hot_;
  std::int64_t served_ = 0;
};

class Mix final : public Source {
 public:
  explicit Mix(std::uint64_t seed) : chat_(seed), system_(seed), scan_(seed) {}
  ReplayRequest next() override {
    Source* const sources[] = {&chat_, &system_, &scan_};
    return sources[served_++ % 3]->next();
  }

 private:
  Chat chat_;
  SystemPrompts system_;
  Scan scan_;
  std::int64_t served_ = 0;
};

std::unique_ptr<Source> make_source(std::string_view kind, std::uint64_t seed) {
  if (kind == "chat") return std::make_unique<Chat>(seed);
  if (kind == "system") return std::make_unique<SystemPrompts>(seed);
  if (kind == "scan") return std::make_unique<Scan>(seed);
  KVPAGE_ASSERT(kind == "mix", "the kind of a generated trace is one of kTraceKinds");
  return std::make_unique<Mix>(seed);
}

/// The requests of a kind, numbered and timed.
class Generator {
 public:
  Generator(std::string_view kind, std::uint64_t seed) : kind_(kind), source_(make_source(kind, seed)) {}

  ReplayRequest next() {
    ReplayRequest r = source_->next();
    r.request.t_ns = made_ * kIntervalNs;
    r.request.id = kind_ + "-" + std::to_string(made_++);
    r.request.max_tokens = static_cast<std::int64_t>(r.output_ids.size());
    return r;
  }

 private:
  std::string kind_;
  std::unique_ptr<Source> source_;
  std::int64_t made_ = 0;
};

}  // namespace

std::vector<ReplayRequest> generate_requests(std::string_view kind, const GeneratorOptions& options) {
  Generator generator{kind, options.seed};
  std::vector<ReplayRequest> requests;
  for (std::int64_t i = 0; i < options.num_requests; ++i) requests.push_back(generator.next());
  return requests;
}

Expected<void, TraceError> write_requests(std::unique_ptr<std::ostream> out, const std::string& name, std::string_view kind,
                                          const GeneratorOptions& options) {
  TraceHeader header;
  header.seed = options.seed;
  std::int64_t now_ns = 0;
  TraceRecorder recorder{std::move(out), name, header, [&now_ns] { return now_ns; }};
  Generator generator{kind, options.seed};
  for (std::int64_t i = 0; i < options.num_requests; ++i) {
    const ReplayRequest r = generator.next();
    now_ns = r.request.t_ns;
    recorder.submit(r.request);
    recorder.finish({.id = r.request.id, .reason = "length", .output_ids = r.output_ids});
    if (auto written = recorder.flush(); !written) return written;
  }
  return recorder.flush();
}

}  // namespace kvpage::engine
