/// \file MappedFile refuses what is no model file; TruncationGuard names a file that shrinks under the reader.
#include "engine/loader/mapped_file.hpp"
#include "loader/temp_dir.hpp"
#include "support/catch.hpp"
#include "support/file_maps.hpp"
#include "support/gguf_writer.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kvpage_test {
namespace {

using kvpage::engine::MappedFile;
using kvpage::engine::TruncationGuard;

struct ChildEnd {
  int status;
  std::string errors;
};

/// Runs `work` in a child process and collects how it ended and what it printed on standard error.
template <class Work>
ChildEnd run_child(const Work& work) {
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::dup2(pipe_ends[1], STDERR_FILENO);
    std::signal(SIGBUS, SIG_DFL);  // whatever the test program has installed
    work();
    ::_exit(0);
  }
  ::close(pipe_ends[1]);
  ChildEnd end{0, {}};
  char buffer[4096];
  for (ssize_t n; (n = ::read(pipe_ends[0], buffer, sizeof buffer)) > 0;) end.errors.append(buffer, static_cast<std::size_t>(n));
  ::close(pipe_ends[0]);
  REQUIRE(::waitpid(child, &end.status, 0) == child);
  return end;
}

unsigned sum(std::span<const std::byte> bytes) {
  unsigned total = 0;
  for (const std::byte b : bytes) total += std::to_integer<unsigned>(b);
  return total;
}

void map_truncate_and_read(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  if (!file || ::truncate(path.c_str(), 100) != 0) ::_exit(10);
  volatile unsigned total = sum(file->bytes());
  static_cast<void>(total);
}

}  // namespace

TEST_CASE("loader.mapped_file.holds_the_bytes_and_survives_moves", "[loader]") {
  const TempDir dir;
  GgufWriter::write_file(dir / "file", "some bytes");
  auto opened = MappedFile::open(dir / "file");
  REQUIRE(opened);
  const std::byte* data = opened->bytes().data();
  MappedFile moved{std::move(*opened)};
  CHECK(moved.bytes().data() == data);
  CHECK(moved.bytes().size() == 10);
  CHECK(moved.path() == (dir / "file").string());
  GgufWriter::write_file(dir / "other", "x");
  auto other = MappedFile::open(dir / "other");
  REQUIRE(other);
  moved = std::move(*other);
  CHECK(moved.bytes().size() == 1);
}

TEST_CASE("loader.mapped_file.refuses_what_is_no_file", "[loader]") {
  const TempDir dir;
  GgufWriter::write_file(dir / "empty", "");
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  std::filesystem::create_directory(dir / "folder");
  const std::pair<const char*, const char*> cases[]{
      {"empty", "an empty file"}, {"pipe", "a device or pipe"}, {"folder", "a directory"}, {"missing", "No such file"}};
  for (const auto& [name, found] : cases) {
    const auto opened = MappedFile::open(dir / name);
    INFO(name);
    REQUIRE_FALSE(opened);
    CHECK(opened.error().file == (dir / name).string());
    CHECK(opened.error().found.find(found) != std::string::npos);
  }
}

TEST_CASE("loader.truncation_guard.names_the_file_and_exits_3", "[loader]") {
  const TempDir dir;
  GgufWriter::write_file(dir / "shrinks.gguf", std::string(1 << 20, 'x'));
  const ChildEnd end = run_child([&] {
    const TruncationGuard guard;
    map_truncate_and_read(dir / "shrinks.gguf");
  });
  CHECK(WIFEXITED(end.status));
  CHECK(WEXITSTATUS(end.status) == 3);
  CHECK(end.errors.find("cannot load " + (dir / "shrinks.gguf").string()) == 0);
  CHECK(end.errors.find("shrank") != std::string::npos);
}

TEST_CASE("loader.truncation_guard.leaves_other_faults_alone", "[loader]") {
  const TempDir dir;
  GgufWriter::write_file(dir / "shrinks.gguf", std::string(1 << 20, 'x'));
  const ChildEnd without_guard = run_child([&] { map_truncate_and_read(dir / "shrinks.gguf"); });
  CHECK(WIFSIGNALED(without_guard.status));
  CHECK(without_guard.errors.empty());

  GgufWriter::write_file(dir / "shrinks.gguf", std::string(1 << 20, 'x'));
  const ChildEnd after_guard = run_child([&] {
    { const TruncationGuard guard; }
    map_truncate_and_read(dir / "shrinks.gguf");
  });
  CHECK(WIFSIGNALED(after_guard.status));

  const ChildEnd raised = run_child([] {
    const TruncationGuard guard;
    ::raise(SIGBUS);  // no address of ours: the previous effect must return, here at the second signal
    ::raise(SIGBUS);
  });
  CHECK(WIFSIGNALED(raised.status));
  CHECK(WTERMSIG(raised.status) == SIGBUS);
}

namespace {

/// A file of 4 MiB whose bytes depend on their place.
struct PatternFile {
  static constexpr std::size_t kBytes = std::size_t{4} << 20;

  PatternFile() : text(kBytes, '\0') {
    for (std::size_t i = 0; i < kBytes; ++i) text[i] = static_cast<char>(i * 2654435761u >> 24);
    GgufWriter::write_file(path, text);
  }
  TempDir dir;
  std::filesystem::path path = dir / "file";
  std::string text;
};

}  // namespace

TEST_CASE("loader.mapped_file.a_separated_part_is_given_back_and_stays_so_until_it_is_read", "[loader]") {
  constexpr std::size_t kFront = 1'000'001;
  const PatternFile pattern;
  auto file = MappedFile::open(pattern.path);
  REQUIRE(file);
  const unsigned all = sum(file->bytes());
  CHECK(FileMaps(pattern.path).resident_bytes == PatternFile::kBytes);
  file->separate(kFront);
  const auto page = ::sysconf(_SC_PAGESIZE);
  const auto front_bytes = static_cast<std::int64_t>(kFront + page - 1) / page * page;
  const unsigned front = sum(file->bytes().first(kFront));
  CHECK(FileMaps(pattern.path).resident_bytes == front_bytes);
  CHECK(front + sum(file->bytes().subspan(kFront)) == all);
  CHECK(FileMaps(pattern.path).resident_bytes == PatternFile::kBytes);
  file->separate(PatternFile::kBytes);
  CHECK(FileMaps(pattern.path).resident_bytes == PatternFile::kBytes);
  file->separate(0);
  CHECK(FileMaps(pattern.path).resident_bytes == 0);
}

TEST_CASE("loader.mapped_file.what_is_read_makes_nothing_resident", "[loader]") {
  const PatternFile pattern;
  const auto file = MappedFile::open(pattern.path);
  REQUIRE(file);
  std::vector<std::byte> out(1'000'001);
  for (const std::size_t begin : {std::size_t{0}, std::size_t{77}, PatternFile::kBytes - out.size()}) {
    REQUIRE(file->read(file->bytes().subspan(begin, out.size()), out));
    CHECK(std::memcmp(out.data(), pattern.text.data() + begin, out.size()) == 0);
  }
  CHECK(FileMaps(pattern.path).resident_bytes == 0);
}

TEST_CASE("loader.mapped_file.reading_beyond_a_new_end_is_an_error_with_the_name", "[loader]") {
  const PatternFile pattern;
  const auto file = MappedFile::open(pattern.path);
  REQUIRE(file);
  REQUIRE(::truncate(pattern.path.c_str(), 100) == 0);
  std::vector<std::byte> out(100);
  CHECK(file->read(file->bytes().first(100), out));
  const auto cut = file->read(file->bytes().subspan(1, 100), out);
  REQUIRE_FALSE(cut);
  CHECK(cut.error().file == pattern.path.string());
  CHECK(cut.error().found.find("shrank") != std::string::npos);
}

}  // namespace kvpage_test
