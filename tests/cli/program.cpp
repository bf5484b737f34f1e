#include "cli/program.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace kvpage_test {
namespace {

constexpr unsigned kLongestRunSeconds = 300;

/// The child's part: never returns.
[[noreturn]] void execute(std::vector<char*> arguments, const char* in, const char* out, const char* err) {
  const int files[] = {open(in, O_RDONLY), open(out, O_WRONLY), open(err, O_WRONLY)};
  for (int target = 0; target < 3; ++target) {
    if (files[target] < 0 || dup2(files[target], target) < 0) _exit(126);
  }
  alarm(kLongestRunSeconds);  // survives execv
  execv(KVPAGE_PROGRAM, arguments.data());
  _exit(127);
}

/// Anonymous memory of a kvpage at this moment. The largest resident set, which the system notes by itself, would not do: it has pages
/// of files, as many as lie in one piece of the page cache, and all that this test program had before execv. Nor would own_memory_bytes:
/// it walks every page, too slow to ask a running process again and again.
std::int64_t own_bytes(pid_t pid) {
  static const std::string program = std::filesystem::path(KVPAGE_PROGRAM).filename();
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    std::string name;
    if (word == "Name:" && status >> name && name != program) return 0;  // not yet: a copy of this test program
    std::int64_t kibibytes = 0;
    if (word == "RssAnon:" && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;  // it has just ended
}

}  // namespace

Program::Program(const std::vector<std::string>& arguments, std::string_view input) {
  const std::string in = dir_ / "in", out = dir_ / "out", err = dir_ / "err";
  write_text(in, input), write_text(out, ""), write_text(err, "");
  std::string name = KVPAGE_PROGRAM;
  std::vector<std::string> copies = arguments;
  std::vector<char*> pointers{name.data()};
  for (std::string& argument : copies) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error{"cannot fork"};
  if (pid_ == 0) execute(pointers, in.c_str(), out.c_str(), err.c_str());
}

Program::~Program() {
  if (!running_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, &status_, 0);
}

bool Program::still_runs() {
  if (!running_) return false;
  peak_own_bytes_ = std::max(peak_own_bytes_, own_bytes(pid_));
  const pid_t ended = waitpid(pid_, &status_, WNOHANG);
  if (ended < 0) throw std::runtime_error{"cannot wait for the program"};
  running_ = ended != pid_;
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return running_;
}

bool Program::wait_for_output() {
  const auto printed = [&] { return std::filesystem::file_size(dir_ / "out") != 0; };
  while (!printed()) {
    if (!still_runs()) return printed();
  }
  return true;
}

bool Program::wait_for_errors(std::string_view text) {
  const auto printed = [&] { return contains(read_text(dir_ / "err"), text); };
  while (!printed()) {
    if (!still_runs()) return printed();
  }
  return true;
}

void Program::interrupt() const { kill(pid_, SIGINT); }

Outcome Program::wait() {
  while (still_runs()) {
  }
  const int exit_code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  return {exit_code, read_text(dir_ / "out"), read_text(dir_ / "err"), peak_own_bytes_};
}

Outcome run_kvpage(const std::vector<std::string>& arguments, std::string_view input) { return Program(arguments, input).wait(); }

void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.flush()) throw std::runtime_error{"cannot write " + path.string()};
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error{"cannot read " + path.string()};
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace kvpage_test
