/// \file The texts of special tokens, with the sources of each.
#include "engine/tokenizer/special_texts.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

namespace kvpage::engine {
namespace {

/// A text that ends an answer. Some are words of other vocabularies (Gemma and Qwen have `<s>` and `</s>` as words of HTML):
/// those count where the file types them as control tokens, or where `bos`, their counterpart, is the BOS.
struct EndText {
  std::string_view text;
  std::string_view bos = {};
};

constexpr std::array kEndTexts{
    EndText{"<|im_end|>"},                   // ChatML; chat templates and generation_config.json of Qwen, SmolLM2, Yi
    EndText{"<|endoftext|>"},                // GPT-2's encoder.json; generation_config.json of Qwen 2 and 2.5 and of Phi-3
    EndText{"<|eot_id|>"},                   // Llama 3 to 3.3: "special tokens" of the prompt format, generation_config.json
    EndText{"<|eom_id|>"},                   // Llama 3.1: end of message, behind a call of a built-in tool
    EndText{"<|end_of_text|>"},              // Llama 3; Granite 3
    EndText{"<|eot|>"},                      // Llama 4: prompt format
    EndText{"<|eom|>"},                      // Llama 4
    EndText{"<end_of_turn>"},                // Gemma 1 to 3: "formatting and system instructions"
    EndText{"<eos>", "<bos>"},               // Gemma: tokenizer.json
    EndText{"<|end|>"},                      // Phi-3: model card; see kOpensAgain
    EndText{"<|return|>"},                   // gpt-oss: the harmony format, end of the last message
    EndText{"<|call|>"},                     // gpt-oss: end of a call
    EndText{"</s>", "<s>"},                  // Llama 1 and 2, Mistral: tokenizer.model
    EndText{"<EOT>"},                        // Refact: tokenizer.json; llama.cpp's list of end tokens
    EndText{"_<EOT>"},                       // llama.cpp's list
    EndText{"\u2581<EOT>"},                  // Code Llama: eot_token of CodeLlamaTokenizer
    EndText{"<|EOT|>"},                      // DeepSeek Coder: tokenizer_config.json
    EndText{"<\uFF5Cend\u2581of\u2581sentence\uFF5C>"},  // DeepSeek V2, V3, R1: tokenizer_config.json
    EndText{"<|end_of_turn|>"},              // OpenChat 3.5: model card
    EndText{"<|END_OF_TURN_TOKEN|>"},        // Command R: model card
    EndText{"[|endofturn|]"},                // EXAONE 3: model card
    EndText{"<|endofturn|>"},                // HyperCLOVA X SEED: model card
    EndText{"<end_of_utterance>"},           // SmolVLM, Idefics: chat template
    EndText{"[EOT]"},                        // Kimi K2: tokenizer_config.json
    EndText{"[EOS]", "[BOS]"},               // Kimi K2
    EndText{"<|fim_pad|>"},                  // Qwen 2.5 Coder: behind a filled hole; this and the next two are llama.cpp's fim_pad,
    EndText{"<|repo_name|>"},                // fim_rep and fim_sep, which end generation there
    EndText{"<|file_sep|>"},
};

/// In the harmony format `<|end|>` ends a message, not the answer: the next one follows. Its vocabulary has both others.
constexpr std::string_view kOpensAgain = "<|end|>";
constexpr std::array<std::string_view, 2> kEndsInstead{"<|return|>", "<|call|>"};

/// Markers of turns without a shape of their own. Sources: Gemma's formatting page; tokenizers of Mistral from v3 on; tokenizer of GLM-4.
constexpr std::array<std::string_view, 13> kTurnTexts{
    "<start_of_turn>", "<bos>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[gMASK]", "<sop>"};

const EndText* find_end_text(std::string_view text) noexcept {
  const auto row = std::find_if(kEndTexts.begin(), kEndTexts.end(), [&](const EndText& end) { return end.text == text; });
  return row == kEndTexts.end() ? nullptr : row;
}

/// `<|name|>`, `[|name|]` or the first with U+FF5C for bars: what converters to GGUF take for control tokens as well
/// (llama.cpp, convert_hf_to_gguf.py, does_token_look_special).
bool has_marker_shape(std::string_view text) noexcept {
  constexpr std::array<std::array<std::string_view, 2>, 3> kShapes{{{"<|", "|>"}, {"[|", "|]"}, {"<\uFF5C", "\uFF5C>"}}};
  return std::any_of(kShapes.begin(), kShapes.end(), [&](const auto& shape) {
    const auto& [open, close] = shape;
    if (text.size() <= open.size() + close.size() || !text.starts_with(open) || !text.ends_with(close)) return false;
    return text.substr(open.size(), text.size() - open.size() - close.size()).find_first_of("<>[]| \t\r\n") == std::string_view::npos;
  });
}

bool in_brackets(std::string_view text) noexcept {
  return text.size() > 2 && ((text.front() == '<' && text.back() == '>') || (text.front() == '[' && text.back() == ']'));
}

/// "<0xNN>".
bool is_byte_piece(std::string_view piece) noexcept {
  constexpr std::string_view kHexDigits = "0123456789ABCDEFabcdef";
  return piece.size() == 6 && piece.starts_with("<0x") && piece[5] == '>' &&
         piece.substr(3, 2).find_first_not_of(kHexDigits) == std::string_view::npos;
}

/// Types the bytes and the unknown token of an SPM vocabulary whose file types no byte.
void add_byte_types(TokenizerData& data) {
  if (std::find(data.types.begin(), data.types.end(), TokenType::kByte) != data.types.end()) return;
  for (std::size_t id = 0; id < data.pieces.size(); ++id) {
    if (data.types[id] == TokenType::kNormal && is_byte_piece(data.pieces[id])) data.types[id] = TokenType::kByte;
  }
  if (data.unk && data.types[*data.unk] == TokenType::kNormal) data.types[*data.unk] = TokenType::kUnknown;
}

/// Those of `texts` that a merge makes.
std::unordered_set<std::string_view> made_by_merges(const TokenizerData& data, const std::unordered_set<std::string_view>& texts) {
  std::unordered_set<std::string_view> made;
  std::string joined;
  for (const std::string_view merge : data.merges) {
    if (merge.empty() || (merge.back() != '>' && merge.back() != ']')) continue;  // as all of them end
    joined = merge;
    if (const std::size_t space = joined.find(' ', 1); space != std::string::npos) joined.erase(space, 1);
    if (const auto text = texts.find(joined); text != texts.end()) made.insert(*text);
  }
  return made;
}

}  // namespace

void correct_special_types(TokenizerData& data, std::span<const TokenId> named) {
  if (data.types.empty()) data.types.assign(data.pieces.size(), TokenType::kNormal);
  if (data.types.size() != data.pieces.size()) return;  // Tokenizer::create says so
  if (data.kind == TokenizerKind::kSpm) add_byte_types(data);
  const std::string_view bos = data.bos ? data.pieces[*data.bos] : std::string_view{};
  const auto is_special = [&](TokenId id, std::string_view text) {
    if (!text.ends_with('>') && !text.ends_with(']')) return false;
    if (const EndText* end = find_end_text(text)) return end->bos.empty() || end->bos == bos;
    if (has_marker_shape(text) || std::find(kTurnTexts.begin(), kTurnTexts.end(), text) != kTurnTexts.end()) return true;
    return in_brackets(text) && std::find(named.begin(), named.end(), id) != named.end();
  };
  std::vector<TokenId> wrong;
  std::unordered_set<std::string_view> texts;
  for (TokenId id = 0; id < data.pieces.size(); ++id) {
    const TokenType type = data.types[id];
    if (type == TokenType::kControl || type == TokenType::kUnknown || type == TokenType::kByte) continue;
    if (!is_special(id, data.pieces[id])) continue;
    wrong.push_back(id);
    texts.insert(data.pieces[id]);
  }
  if (wrong.empty()) return;
  const auto made = made_by_merges(data, texts);
  for (const TokenId id : wrong) {
    if (!made.contains(data.pieces[id])) data.types[id] = TokenType::kControl;
  }
}

std::vector<TokenId> find_end_texts(const Tokenizer& tokenizer) {
  const Vocab& vocab = tokenizer.vocab();
  std::vector<TokenId> ids;
  std::optional<TokenId> opens_again;
  std::size_t num_ends_instead = 0;
  for (TokenId id = 0; id < vocab.size(); ++id) {
    if (vocab.type(id) != TokenType::kControl && vocab.type(id) != TokenType::kUnknown) continue;
    const std::string_view text = vocab.bytes(id);
    if (find_end_text(text) == nullptr) continue;
    ids.push_back(id);
    if (text == kOpensAgain) opens_again = id;
    if (std::find(kEndsInstead.begin(), kEndsInstead.end(), text) != kEndsInstead.end()) ++num_ends_instead;
  }
  if (opens_again && num_ends_instead >= kEndsInstead.size()) std::erase(ids, *opens_again);
  return ids;
}

}  // namespace kvpage::engine
