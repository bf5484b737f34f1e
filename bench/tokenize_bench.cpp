/// \file Bytes per second of the tokenizer on generated text: one JSON line per figure.
#include "engine/tokenizer/pre_tokenizer.hpp"
#include "engine/tokenizer_from_gguf.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

namespace {

using kvpage::engine::PreTokenizer;

constexpr int kRepeats = 5;

constexpr std::string_view kCommonWords[] = {
    "the",     "of",       "and",    "to",       "a",        "in",      "is",        "that",      "it",      "was",      "for",
    "on",      "are",      "with",   "as",       "be",       "at",      "one",       "have",      "this",    "from",     "or",
    "had",     "by",       "but",    "some",     "what",     "there",   "we",        "can",       "out",     "other",    "were",
    "all",     "your",     "when",   "use",      "word",     "how",     "said",      "an",        "each",    "which",    "their",
    "time",    "if",       "will",   "way",      "about",    "many",    "then",      "them",      "would",   "write",    "like",
    "so",      "these",    "her",    "long",     "make",     "thing",   "see",       "him",       "two",     "has",      "look",
    "more",    "day",      "could",  "go",       "come",     "did",     "my",        "sound",     "no",      "most",     "number",
    "who",     "over",     "know",   "water",    "than",     "call",    "first",     "people",    "may",     "down",     "side",
    "been",    "now",      "find",   "language", "model",    "memory",  "because",   "different", "system",  "between",  "important",
    "through", "question", "answer", "sentence", "machine",  "science", "beautiful", "mountain",  "village", "winter",   "government",
    "however", "although", "engine", "library",  "evidence", "history", "computer",  "simple",    "problem", "therefore"};
constexpr std::string_view kCodeLines[] = {
    "    for (int i = 0; i < count; ++i) {\n", "        total += values[i] * scale;\n", "    return result;\n}\n",
    "def load_config(path, default=None):\n",  "    if not os.path.exists(path):\n",    "#include <vector>\n",
    "const auto it = table.find(key);\n"};
constexpr std::string_view kForeign[] = {"Ünïcödé façade naïve",
                                         "Быстрая коричневая лиса",
                                         "これは日本語の文章です。",
                                         "今天天气怎么样？",
                                         "한국어 문장입니다",
                                         "नमस्ते दुनिया",
                                         "مرحبا بالعالم",
                                         "🙂👍🏽"};

/// Prose with rare words, numbers, code and other scripts, the same for every run. Invented words are drawn by rank
/// (the k-th with weight 1/k), as words of a language are.
std::string generate_text(std::size_t num_bytes) {
  std::mt19937_64 random{20240607};
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  constexpr std::string_view kSyllables[] = {"ka", "lor", "min", "tes", "ra", "vel", "on", "sti", "ur", "pha", "gen", "do"};
  std::string text;
  while (text.size() < num_bytes) {
    const auto kind = below(100);
    if (kind < 3) {
      text += kCodeLines[below(std::size(kCodeLines))];
    } else if (kind < 4) {
      text += std::string(kForeign[below(std::size(kForeign))]) + ' ';
    } else if (kind < 8) {
      text += std::to_string(below(100000)) + ' ';
    } else if (kind < 20) {
      std::mt19937_64 rare{static_cast<std::uint64_t>(std::pow(20000.0, static_cast<double>(below(1 << 20)) / (1 << 20)))};
      for (std::uint64_t left = 2 + rare() % 3; left > 0; --left) text += kSyllables[rare() % std::size(kSyllables)];
      text += ' ';
    } else {
      text += kCommonWords[std::min(below(std::size(kCommonWords)), below(std::size(kCommonWords)))];
      text += kind < 90 ? " " : kind < 95 ? ", " : kind < 99 ? ". " : ".\n\n";
    }
  }
  return text;
}

/// Best of a few runs: what the machine can do when nothing else disturbs it.
template <class Work>
double best_seconds(Work work) {
  double best = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

void print_rate(const std::string& figure, std::size_t num_bytes, double seconds) {
  const nlohmann::ordered_json line{{"figure", figure}, {"value", static_cast<double>(num_bytes) / seconds}, {"unit", "B/s"}};
  std::printf("%s\n", line.dump().c_str());
}

void measure_pre_tokenizers(const std::string& text) {
  const std::pair<PreTokenizer, const char*> kinds[] = {{PreTokenizer::kGpt2, "gpt2"},
                                                        {PreTokenizer::kSmol, "smol"},
                                                        {PreTokenizer::kDigitTriples, "digit_triples"},
                                                        {PreTokenizer::kSingleDigits, "single_digits"}};
  for (const auto& [kind, name] : kinds) {
    std::size_t words = 0;
    const double seconds = best_seconds([&, kind = kind] {
      for (std::size_t at = 0; at < text.size(); ++words) at = kvpage::engine::word_end(kind, text, at);
    });
    if (words == 0) std::exit(1);  // also keeps the loop from being optimised away
    print_rate(std::string("tokenize.words.") + name, text.size(), seconds);
  }
}

int measure_model(const std::string& name, const std::string& path, const std::string& text) {
  const auto file = kvpage::engine::Gguf::open(path);
  if (!file) return std::fprintf(stderr, "%s\n", file.error().to_string().c_str()), 1;
  const auto tokenizer = kvpage::engine::read_tokenizer(*file);
  if (!tokenizer) return std::fprintf(stderr, "%s\n", tokenizer.error().to_string().c_str()), 1;
  std::vector<kvpage::TokenId> ids;
  kvpage::engine::EncodeScratch scratch;
  const double seconds = best_seconds([&] {
    ids.clear();
    tokenizer->encode(text, {}, scratch, ids);
  });
  // U+2581 is a space to some vocabularies, others compose texts; up to that every text must come back.
  const std::string_view wanted = tokenizer->composes() ? kvpage::engine::to_nfc(text, scratch.nfc) : std::string_view(text);
  if (text.find("\u2581") == text.npos && tokenizer->decode(ids, {.show_special = true}) != wanted) {
    return std::fprintf(stderr, "%s: the ids do not give the text back\n", path.c_str()), 1;
  }
  print_rate("tokenize.encode." + name, text.size(), seconds);
  std::string decoded;
  print_rate("tokenize.decode." + name, text.size(), best_seconds([&] { decoded = tokenizer->decode(ids); }));
  return 0;
}

int usage() {
  std::fputs(
      "usage: tokenize_bench [--bytes N | --text FILE] [--write-text FILE] [NAME=MODEL.gguf ...]\n"
      "example: tokenize_bench smollm2=~/.cache/kvpage/models/SmolLM2-135M-Instruct.Q4_1.gguf\n"
      "--write-text stores the generated text, so that another program can be measured on it\n",
      stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::string text = generate_text(8 << 20);
  std::vector<std::pair<std::string, std::string>> models;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto equals = argument.find('=');
    if (!argument.starts_with("--") && equals != argument.npos) {
      models.emplace_back(argument.substr(0, equals), argument.substr(equals + 1));
      continue;
    }
    if (i + 1 == argc) return usage();
    const std::string value = argv[++i];
    if (argument == "--bytes") {
      text = generate_text(static_cast<std::size_t>(std::strtoull(value.c_str(), nullptr, 10)));
    } else if (argument == "--text") {
      std::ifstream file(value, std::ios::binary);
      if (!file) return std::fprintf(stderr, "%s: cannot be read\n", value.c_str()), 3;
      text.assign(std::istreambuf_iterator<char>(file), {});
    } else if (argument == "--write-text") {
      if (!(std::ofstream(value, std::ios::binary) << text)) return std::fprintf(stderr, "%s: cannot be written\n", value.c_str()), 3;
    } else {
      return usage();
    }
  }
  if (text.empty()) return usage();
  measure_pre_tokenizers(text);
  for (const auto& [name, path] : models) {
    if (const int status = measure_model(name, path, text); status != 0) return status;
  }
  return 0;
}
