/// \file The page of a long run: small, complete in itself, and drawn as the allocator counted (the last in a browser, at night).
#include "cli/program.hpp"
#include "engine/trace/cache_trace.hpp"
#include "loader/temp_dir.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"
#include "tools/kvpage/frame_encoder.hpp"
#include "trace/scheduled_load.hpp"
#include "trace/synthetic_load.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>

using namespace kvpage;
using namespace kvpage_test;

namespace {

constexpr std::int64_t kLargestPageBytes = 20'000'000;

/// A recorded run, ended by the allocator's own count.
void record_run(const std::filesystem::path& path, const LoadOptions& options, int num_steps) {
  engine::CacheTrace trace;
  SyntheticLoad load{options, 7, [&](const CacheEvent& event) { trace.on_event(event); }};
  auto header = engine::TraceHeader::of(load.allocator().config());
  header.policy = "lru";
  std::int64_t now_ns = 0;
  const auto recorder = engine::TraceRecorder::open(path.string(), header, [&] { return now_ns += 1'000'000; });
  trace.record_into(recorder->get());
  for (int i = 0; i < num_steps; ++i) load.step();
  (*recorder)->capacity(load.allocator().capacity());
  REQUIRE((*recorder)->flush().has_value());
}

/// Sequences that live long, share prefixes and scatter over a full pool: far more changes per step than a machine could compute.
void record_long_run(const std::filesystem::path& path) {
  const LoadOptions options{.num_blocks = 4096, .max_seqs = 64, .chunk_tokens = 16, .longest_tokens = 6000, .num_prefixes = 40,
                            .rare_events = false};
  record_run(path, options, 10'000);
}

std::string make_page(const std::filesystem::path& trace, const std::filesystem::path& page) {
  const Outcome outcome = run_kvpage({"trace", "page", trace.string(), "-o", page.string()});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return read_text(page);
}

/// Reads the frames again, by the format alone.
class FrameReader {
 public:
  explicit FrameReader(const std::string& bytes) : bytes_(bytes) {}

  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_.at(at_++));
      value |= std::uint64_t{byte & 127u} << shift;
      if (byte < 128) return value;
    }
  }
  std::uint8_t byte() { return static_cast<std::uint8_t>(bytes_.at(at_++)); }
  [[nodiscard]] bool at_end() const { return at_ == bytes_.size(); }

 private:
  const std::string& bytes_;
  std::size_t at_ = 0;
};

struct Shown {
  int state = 0;
  std::uint64_t refs = 0, owner = 0, taken = 0, key = 0;
};

void read_frame(FrameReader& in, std::uint64_t frame, std::uint64_t& owner, std::vector<Shown>& shown) {
  for (int i = 0; i < 4; ++i) static_cast<void>(in.number());
  std::uint64_t b = 0;
  for (std::uint64_t runs = in.number(); runs > 0; --runs) {
    b += in.number();
    const std::uint64_t end = b + in.number() + 1;
    const std::uint8_t head = in.byte();
    const std::uint64_t refs = (head & 16) != 0 ? in.number() : (head & 3) == 2 ? 1 : 0;
    if (refs > 0 && (head & 32) == 0) {
      const std::uint64_t zigzag = in.number();
      owner += (zigzag >> 1) ^ (0 - (zigzag & 1));
    }
    for (; b < end; ++b) {
      Shown& s = shown.at(b);
      s.state = head & 3, s.refs = refs, s.owner = refs > 0 ? owner : 0;
      if ((head & 4) != 0) s.taken = frame;
      if ((head & 8) == 0) continue;
      s.key = 0;
      for (int i = 0; i < 8; ++i) s.key = s.key << 8 | in.byte();
    }
  }
}

}  // namespace

TEST_CASE("trace.page.the_frames_hold_the_block_map", "[trace]") {
  const std::int64_t num_blocks = 100;
  engine::BlockMap map{num_blocks};
  cli::FrameEncoder encoder{num_blocks};
  SyntheticLoad load{{.num_blocks = num_blocks}, 3, [&](const CacheEvent& event) {
                       REQUIRE_FALSE(map.apply(event));
                       encoder.count(event);
                     }};
  std::vector<std::vector<engine::MappedBlock>> frames;
  encoder.end_frame(map, 0);
  frames.push_back(map.blocks());
  for (std::uint64_t step = 1; step <= 500; ++step) {
    load.step();
    encoder.end_frame(map, step - 1);
    frames.push_back(map.blocks());
  }
  FrameReader in{encoder.bytes()};
  std::vector<Shown> shown(num_blocks);
  std::uint64_t owner = 0;
  for (std::uint64_t f = 0; f < frames.size(); ++f) {
    read_frame(in, f, owner, shown);
    for (std::size_t b = 0; b < shown.size(); ++b) {
      const engine::MappedBlock& block = frames[f][b];
      INFO("frame " << f << ", block " << b);
      REQUIRE(shown[b].state == static_cast<int>(block.state()));
      REQUIRE(shown[b].refs == block.owners.size());
      REQUIRE(shown[b].owner == (block.owners.empty() ? 0 : block.owners.front()));
      REQUIRE(shown[b].key == block.content_key);
      REQUIRE(shown[b].taken == block.taken_step);
    }
  }
  CHECK(in.at_end());
  const auto used = [](const std::vector<engine::MappedBlock>& blocks) {
    return std::count_if(blocks.begin(), blocks.end(), [](const auto& block) { return block.state() == engine::MappedState::kUsed; });
  };
  std::vector<std::ptrdiff_t> uses;
  for (const auto& blocks : frames) uses.push_back(used(blocks));
  const std::ptrdiff_t most = *std::max_element(uses.begin(), uses.end());
  REQUIRE(most > uses.back());  // the end of the run is not its fullest step
  CHECK(uses.at(encoder.fullest_frame()) == most);
}

TEST_CASE("trace.page.it_opens_on_the_fullest_step", "[trace]") {
  const TempDir dir;
  const std::string header = R"({"kind":"header","version":1,"config":{"num_blocks":8,"block_size":16}})" "\n";
  const std::string run = R"({"kind":"event","step":1,"events":[["start",1],["alloc",0,1]]})" "\n"
                          R"({"kind":"seal","step":1})" "\n" R"({"kind":"event","step":2,"events":[["alloc",1,1],["alloc",2,1]]})" "\n"
                          R"({"kind":"seal","step":2})" "\n"
                          R"({"kind":"event","step":3,"events":[["free",0,1],["free",1,1],["free",2,1],["end",1]]})" "\n"
                          R"({"kind":"seal","step":3})" "\n";
  write_text(dir / "run.jsonl", header + run);
  const std::string page = make_page(dir / "run.jsonl", dir / "run.html");
  CHECK(contains(page, "\"fullest_frame\":2,"));
  CHECK(contains(page, "\"last_step\":3,"));
  CHECK(contains(page, "let frame = description.fullest_frame,"));
}

TEST_CASE("trace.page.ten_thousand_steps_of_4096_blocks_fit_20_mb_and_need_nothing_else", "[trace]") {
  const TempDir dir;
  record_long_run(dir / "run.jsonl");
  const std::string page = make_page(dir / "run.jsonl", dir / "run.html");
  std::printf("trace %zu bytes, page %zu bytes\n", static_cast<std::size_t>(std::filesystem::file_size(dir / "run.jsonl")), page.size());
  CHECK(static_cast<std::int64_t>(page.size()) <= kLargestPageBytes);
  CHECK(page.size() > 1'000'000);
  for (const char* reference : {"http:", "https:", "src=", "url(", "@import", "import(", "fetch(", "XMLHttpRequest", "WebSocket"}) {
    INFO(reference);
    CHECK_FALSE(contains(page, reference));
  }
  const std::size_t first = page.find("href="), second = page.find("href=", first + 1);
  CHECK(page.substr(first, 14) == "href=\"data:,\">");  // the icon, so that none is asked for
  CHECK(second == std::string::npos);
  CHECK_FALSE(contains(page, "{{"));
  CHECK(contains(page, "\"frames\":10001"));
  CHECK(contains(page, "\"capacity\":{\"clean\":"));
}

TEST_CASE("trace.page.names_that_look_like_places_of_the_page_stay_names", "[trace]") {
  const TempDir dir;
  record_run(dir / "run.jsonl", {.num_blocks = 32}, 20);
  std::string text = read_text(dir / "run.jsonl");
  text.insert(text.find('\n') + 1, R"({"kind":"plan","rows":[["a {{frames}} {{script}}",1,0,1]]})" "\n");
  write_text(dir / "run.jsonl", text);
  write_text(dir / "{{frames}}.jsonl", text);
  const auto frames = [](const std::string& page) {
    const std::size_t from = page.find("id=\"frames\">");
    return page.substr(from, page.find("</script>", from) - from);
  };
  const std::string plain = make_page(dir / "run.jsonl", dir / "plain.html");
  const std::string named = make_page(dir / "{{frames}}.jsonl", dir / "named.html");
  CHECK(contains(named, R"("title":"{{frames}}.jsonl")"));
  CHECK(contains(named, R"(["a {{frames}} {{script}}",0,""])"));
  CHECK(frames(plain).size() > 200);
  CHECK(frames(named) == frames(plain));
  CHECK(named.size() == plain.size() + std::string_view("{{frames}}").size() - std::string_view("run").size());
}

TEST_CASE("trace.page.wrong_traces_and_files_are_named", "[trace]") {
  const TempDir dir;
  const std::string trace = dir / "run.jsonl", page = dir / "run.html";
  record_run(trace, {.num_blocks = 32}, 20);
  const std::string text = read_text(trace);
  const auto check = [&](const std::string& changed, int exit_code, const std::string& part) {
    write_text(trace, changed);
    const Outcome outcome = run_kvpage({"trace", "page", trace, "-o", page});
    INFO(outcome.err);
    CHECK(outcome.exit_code == exit_code);
    CHECK(contains(outcome.err, part));
  };
  check(text, 0, "");
  check(text.substr(0, text.size() - 5), 0, "middle of a line");
  check(text.substr(0, text.find('\n') + 1), 3, "no cache events");
  std::string wrong = text;
  const std::size_t clean = wrong.find("\"clean\":") + 8;
  wrong.insert(clean, "1");
  check(wrong, 3, "the allocator counted");
  wrong = text;
  wrong.insert(wrong.rfind("\"num_seqs\":") + 11, "9");
  check(wrong, 3, "\"num_seqs\":9");
  wrong = text;
  wrong.replace(wrong.rfind("\"num_blocks\":32"), 15, "\"num_blocks\":33");
  check(wrong, 3, "\"num_blocks\":33");
  const std::size_t share = text.find("[\"alloc\",");
  check(text.substr(0, share) + text.substr(share, text.find(']', share) - share + 1) + "," + text.substr(share), 3, "while it is used");
  write_text(trace, text);
  std::filesystem::create_symlink(trace, dir / "link.html");
  for (const std::string& same : {trace, (dir / "." / "run.jsonl").string(), (dir / "link.html").string()}) {
    const Outcome outcome = run_kvpage({"trace", "page", trace, "-o", same});
    CHECK(outcome.exit_code == 2);
    CHECK(contains(outcome.err, "would overwrite its trace"));
    CHECK(read_text(trace) == text);
  }
  CHECK(run_kvpage({"trace", "page", trace, "-o", dir / "no" / "run.html"}).exit_code == 1);
  CHECK(run_kvpage({"trace", "page", dir / "none.jsonl", "-o", page}).exit_code == 3);
  CHECK(run_kvpage({"trace"}).exit_code == 2);
}

namespace {

/// What the page found out about itself in a window of this width.
nlohmann::json self_check(const TempDir& dir, const std::string& page, const std::string& width) {
  const std::string out = dir / "dom.html";
  const std::string browser = "chromium --headless=new --no-sandbox --disable-gpu --virtual-time-budget=10000 --dump-dom --window-size=";
  const std::string command = browser + width + ",900 'file://" + page + "' >" + out + " 2>/dev/null";
  REQUIRE(std::system(command.c_str()) == 0);
  const std::string dom = read_text(out), mark = "data-self-check=\"";
  REQUIRE(contains(dom, mark));
  std::string check = dom.substr(dom.find(mark) + mark.size());
  check.resize(check.find('"'));
  for (std::size_t at; (at = check.find("&quot;")) != std::string::npos;) check.replace(at, 6, "\"");
  INFO(width << ": " << check);
  const auto told = nlohmann::json::parse(check);
  CHECK(told.at("agrees") == true);
  CHECK(told.at("fits") == true);  // nothing to scroll sideways
  CHECK(told.at("recount") == told.at("capacity"));
  return told;
}

}  // namespace

TEST_CASE("trace.page.a_browser_draws_what_was_recorded", "[trace][night]") {
  if (!night_run()) skip("long-running");
  if (std::system("command -v chromium >/dev/null") != 0) skip("there is no chromium; Debian has it in the package chromium");
  const TempDir dir;
  record_long_run(dir / "blocks.jsonl");
  make_page(dir / "blocks.jsonl", dir / "blocks.html");
  const ScheduledCounts counts = record_scheduled_load(dir / "run.jsonl", {});
  make_page(dir / "run.jsonl", dir / "run.html");
  for (const char* width : {"375", "1440"}) {
    const auto blocks = self_check(dir, dir / "blocks.html", width);
    CHECK(blocks.at("blocks_drawn") == 4096);
    CHECK(blocks.at("frames") == 10'001);
    CHECK(blocks.at("requests").at("answers") == 0);
    const auto requests = self_check(dir, dir / "run.html", width).at("requests");
    CHECK(requests.at("steps") == counts.sealed_steps);
    CHECK(requests.at("answers") == counts.answers);
    CHECK(requests.at("planned_rows") == counts.stats.tokens);
    CHECK(requests.at("shown_rows") == counts.stats.tokens);
    CHECK(requests.at("drawn") > 0);
  }
}
