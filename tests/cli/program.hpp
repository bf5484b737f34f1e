/// \file Program: the built kvpage, started with arguments and input; its output, errors and exit code.
#pragma once

#include "loader/temp_dir.hpp"

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage_test {

/// What a program that has ended left behind.
struct Outcome {
  int exit_code = 0;  ///< 128 + the signal's number if a signal ended it
  std::string out, err;
  std::int64_t peak_own_bytes = 0;  ///< most anonymous memory that was seen; not pages of files, which depend on the page cache
};

/// A running kvpage. A program that hangs is killed after five minutes.
class Program {
 public:
  explicit Program(const std::vector<std::string>& arguments, std::string_view input = {});
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  /// Waits until something was printed on standard output; false if the program ended without.
  bool wait_for_output();
  /// Waits until standard error holds `text`; false if the program ended without.
  bool wait_for_errors(std::string_view text);
  void interrupt() const;
  Outcome wait();

 private:
  TempDir dir_;
  pid_t pid_ = -1;
  /// False once the program has ended. Looks at its memory, and waits a moment.
  bool still_runs();

  bool running_ = true;
  int status_ = 0;
  std::int64_t peak_own_bytes_ = 0;
};

/// Runs kvpage to its end.
Outcome run_kvpage(const std::vector<std::string>& arguments, std::string_view input = {});

/// Writes a file for a program to read.
void write_text(const std::filesystem::path& path, std::string_view text);
std::string read_text(const std::filesystem::path& path);

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace kvpage_test
