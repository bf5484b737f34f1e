/// \file Several processes and one cache folder: nobody sees half a file, whoever is killed or refused by the system.
#include "packed_cache/cache_case.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace kvpage_test {
namespace {

constexpr std::size_t kTwoWrites = std::size_t{20} << 20;

/// Runs `body` in a process of its own.
pid_t start(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) ::_exit(body());
  return pid;
}

/// Its exit code, or 128 + its signal.
int wait_for(pid_t pid) {
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// A process that stores and, in the midst of it, does `then`.
pid_t start_store(CacheCase& c, const std::function<void()>& then) {
  return start([&] {
    c.work.progress = [&](const kvpage::engine::Progress& report) {
      if (report.stage == "writing" && report.done_bytes < report.total_bytes) then();
    };
    c.store();
    return c.notes.empty() ? 0 : 1;
  });
}

/// Waits until the folder has files, and gives their number.
std::size_t wait_for_files(const CacheCase& c) {
  while (!std::filesystem::exists(c.folder) || c.files().empty()) ::usleep(1000);
  return c.files().size();
}

}  // namespace

TEST_CASE("packed_cache.processes.may_write_and_read_at_once", "[packed_cache]") {
  CacheCase c(std::size_t{1} << 20);
  std::vector<pid_t> writers;
  for (int i = 0; i < 3; ++i) {
    writers.push_back(start([&] {
      for (int round = 0; round < 25; ++round) c.store();
      return c.notes.empty() ? 0 : 1;
    }));
  }
  std::size_t restored = 0;
  for (int round = 0; round < 100; ++round) restored += c.restores();
  for (const pid_t pid : writers) CHECK(wait_for(pid) == 0);
  CHECK(c.restores());
  CHECK(c.take_notes().empty());  // some rounds may have been before the first file, but none saw a bad one
  CHECK(c.files().size() == 1);
  INFO(restored);
}

TEST_CASE("packed_cache.processes.one_that_is_killed_leaves_nothing_that_counts", "[packed_cache]") {
  CacheCase c(kTwoWrites);
  CHECK(wait_for(start_store(c, [] { ::raise(SIGKILL); })) == 128 + SIGKILL);
  CHECK(c.files().size() == 1);
  CHECK_FALSE(std::filesystem::exists(c.path()));
  CHECK_FALSE(c.restores());
  c.store();
  CHECK(c.restores());
  CHECK(c.take_notes().empty());
  CHECK(c.files() == std::vector<std::string>{c.path().filename().string()});
  // A file that is there stays there.
  CHECK(wait_for(start_store(c, [] { ::raise(SIGKILL); })) == 128 + SIGKILL);
  CHECK(c.files().size() == 2);
  CHECK(c.restores());
}

TEST_CASE("packed_cache.processes.one_that_still_writes_is_left_alone", "[packed_cache]") {
  CacheCase c(kTwoWrites);
  const pid_t writer = start_store(c, [] { ::raise(SIGSTOP); });
  CHECK(wait_for_files(c) == 1);
  int status = 0;
  REQUIRE(::waitpid(writer, &status, WUNTRACED) == writer);
  c.store();
  CHECK(c.files().size() == 2);
  ::kill(writer, SIGCONT);
  CHECK(wait_for(writer) == 0);
  CHECK(c.files().size() == 1);
  CHECK(c.restores());
}

TEST_CASE("packed_cache.processes.no_room_is_a_note", "[packed_cache]") {
  CacheCase c(kTwoWrites);
  for (const rlim_t limit : {rlim_t{0}, rlim_t{4096}, rlim_t{kTwoWrites / 2}, rlim_t{kTwoWrites}}) {
    const pid_t pid = start([&] {
      const rlimit size{limit, limit};
      if (::setrlimit(RLIMIT_FSIZE, &size) != 0) return 2;
      c.store();
      return c.notes.size() == 1 && c.notes[0].find("not written: File too large") != std::string::npos ? 0 : 1;
    });
    CHECK(wait_for(pid) == 0);
    CHECK(c.files().empty());
  }
}

TEST_CASE("packed_cache.processes.a_folder_that_cannot_be_written_is_a_note", "[packed_cache]") {
  CacheCase c(5000);
  c.store();
  const auto denied = [&](const std::string& what) {
    return c.notes.size() == 1 && c.notes[0].find(what + "Permission denied") != std::string::npos;
  };
  const auto without_rights = [&](const std::function<bool()>& body) {
    return wait_for(start([&] {
      if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return 2;
      return body() ? 0 : 1;
    }));
  };
  for (const auto& folder : {c.folder.parent_path(), c.model.path().parent_path()}) REQUIRE(::chmod(folder.c_str(), 0755) == 0);
  REQUIRE(::chmod(c.folder.c_str(), 0555) == 0);
  CHECK(without_rights([&] { return c.restores() && c.notes.empty(); }) == 0);  // reading needs no rights
  CHECK(without_rights([&] {
          c.store();
          return denied("not written: ");
        }) == 0);
  REQUIRE(::chmod(c.path().c_str(), 0) == 0);
  CHECK(without_rights([&] { return !c.restores() && denied(": "); }) == 0);
  REQUIRE(::chmod(c.folder.c_str(), 0755) == 0);
}

TEST_CASE("packed_cache.processes.what_is_no_file_is_a_note", "[packed_cache]") {
  CacheCase c(5000);
  std::filesystem::create_directories(c.path());
  CHECK_FALSE(c.restores());
  c.store();
  CHECK(c.take_notes().size() == 2);
  CHECK(std::filesystem::is_directory(c.path()));
  std::filesystem::remove(c.path());
  REQUIRE(::mkfifo(c.path().c_str(), 0644) == 0);
  CHECK_FALSE(c.restores());
  CHECK(c.take_notes().size() == 1);
  c.store();
  CHECK(c.restores());
  // A file where the folder should be.
  c.folder = c.path();
  c.store();
  const auto notes = c.take_notes();
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].find("not written: Not a directory") != std::string::npos);
}

}  // namespace kvpage_test
