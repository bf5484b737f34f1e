/// \file Where tests find data and models, and how a test says that it cannot run here.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace kvpage_test {

/// Exit code that ctest reads as "skipped". Only tests labelled night, cuda, qwen1.5b or isa-* may use it.
inline constexpr int kSkipExitCode = 77;

/// Ends this test (one process per test case) as skipped, with the reason.
[[noreturn]] inline void skip(std::string_view reason) {
  std::printf("SKIPPED: %.*s\n", static_cast<int>(reason.size()), reason.data());
  std::fflush(stdout);
  std::_Exit(kSkipExitCode);
}

/// tests/data of the source tree.
inline std::filesystem::path data_dir() { return KVPAGE_TEST_DATA_DIR; }

/// True when the long-running tests were asked for (tools/test.sh --night).
inline bool night_run() {
  const char* value = std::getenv("KVPAGE_NIGHT");
  return value != nullptr && std::string_view{value} == "1";
}

/// Folder that tools/fetch_model.sh fills.
inline std::filesystem::path model_dir() {
  if (const char* dir = std::getenv("KVPAGE_MODEL_DIR")) return dir;
  const char* home = std::getenv("HOME");
  return std::filesystem::path{home != nullptr ? home : "."} / ".cache/kvpage/models";
}

/// Path of a model by its short name (smollm2, gemma3, qwen0.5b, qwen1.5b); the file may be absent.
inline std::filesystem::path model_path(std::string_view name) {
  const auto file = name == "smollm2"    ? "SmolLM2-135M-Instruct.Q4_1.gguf"
                    : name == "gemma3"   ? "gemma-3-270m-q4_k_m.gguf"
                    : name == "qwen0.5b" ? "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
                                         : "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf";
  return model_dir() / file;
}

}  // namespace kvpage_test
