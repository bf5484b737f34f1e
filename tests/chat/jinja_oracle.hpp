/// \file The oracle: python3-jinja2, run on a file of requests.
#pragma once

#include "chat/chats.hpp"
#include "support/environment.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace kvpage_test {

struct TemplateCase {
  std::string name;
  std::string source;
  Json inputs;
};

/// A new folder that is removed in the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvpage-chat-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// What Jinja2 makes of each case: {"rendered": text} or {"error": text}.
inline std::vector<Json> jinja_answers(const std::vector<TemplateCase>& cases) {
  const TemporaryFolder folder;
  const auto requests = folder.path() / "requests.jsonl", answers = folder.path() / "answers.jsonl";
  {
    std::ofstream out(requests, std::ios::binary);
    for (const TemplateCase& item : cases) out << Json{{"template", item.source}, {"inputs", item.inputs}}.dump() << '\n';
  }
  const auto script = data_dir().parent_path() / "chat" / "jinja_oracle.py";
  const std::string command = "/usr/bin/python3 '" + script.string() + "' < '" + requests.string() + "' > '" + answers.string() + "'";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("the oracle failed (is python3-jinja2 installed?): " + command);
  std::vector<Json> result;
  std::ifstream in(answers, std::ios::binary);
  for (std::string line; std::getline(in, line);) result.push_back(Json::parse(line));
  if (result.size() != cases.size()) throw std::runtime_error("the oracle answered " + std::to_string(result.size()) + " cases");
  return result;
}

/// What a script of this folder prints: cases with the answers of Jinja2, {"template", "inputs"} and "rendered" or "error".
template <class Visit>
void for_each_answer_of(const std::string& script, const std::string& arguments, Visit visit) {
  const TemporaryFolder folder;
  const auto answers = folder.path() / "answers.jsonl";
  const auto path = data_dir().parent_path() / "chat" / script;
  const std::string command = "/usr/bin/python3 -B '" + path.string() + "' " + arguments + " > '" + answers.string() + "'";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("the oracle failed (is python3-jinja2 installed?): " + command);
  std::ifstream in(answers, std::ios::binary);
  for (std::string line; std::getline(in, line);) visit(line);
}

/// True when ours equals the oracle's answer: the same bytes, or an error on both sides.
inline bool agrees(const Rendering& ours, const Json& oracle) {
  return ours.ok ? oracle.contains("rendered") && oracle["rendered"].get<std::string>() == ours.text : oracle.contains("error");
}

}  // namespace kvpage_test
