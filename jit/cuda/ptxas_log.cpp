#include "jit/cuda/ptxas_log.h"

#include <charconv>
#include <optional>

namespace tunesmith {
namespace {

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// Returns the number before `unit`: 32 for " registers" in "Used 32 registers, ...".
std::optional<int> number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int number = 0;
  const auto [rest, error] = std::from_chars(line.data() + begin, line.data() + end, number);
  if (error != std::errc() || rest != line.data() + end) return std::nullopt;
  return number;
}

std::optional<std::string_view> text_after(std::string_view line, std::string_view mark) {
  const std::size_t at = line.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  return line.substr(at + mark.size());
}

std::string_view without_end_blanks(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::map<std::string, KernelResources> parse_ptxas_log(std::string_view log) {
  std::map<std::string, KernelResources> resources;
  KernelResources* entry = nullptr;
  std::string_view entry_name;
  bool in_entry = false;  // false within the properties of a function that the entry calls
  while (!log.empty()) {
    const std::string_view line = take_line(log);
    if (const auto name = text_after(line, "Compiling entry function '")) {
      entry_name = name->substr(0, name->find('\''));
      entry = &resources[std::string(entry_name)];
      in_entry = true;
    } else if (const auto function = text_after(line, "Function properties for ")) {
      in_entry = without_end_blanks(*function) == entry_name;
    } else if (entry != nullptr && in_entry) {
      if (const auto bytes = number_before(line, " bytes stack frame")) entry->local_bytes = *bytes;
      if (const auto bytes = number_before(line, " bytes spill stores")) entry->spill_store_bytes = *bytes;
      if (const auto bytes = number_before(line, " bytes spill loads")) entry->spill_load_bytes = *bytes;
    }
    // The "Used" line belongs to the entry, even after other functions were listed.
    if (entry != nullptr && line.find(": Used ") != std::string_view::npos) {
      if (const auto count = number_before(line, " registers")) entry->registers = *count;
      if (const auto bytes = number_before(line, " bytes smem")) entry->static_smem_bytes = *bytes;
    }
  }
  return resources;
}

std::string without_timings(std::string_view log) {
  std::string kept;
  while (!log.empty()) {
    const std::string_view line = take_line(log);
    if (line.find("Compile time = ") != std::string_view::npos) continue;
    kept.append(line).push_back('\n');
  }
  return kept;
}

}  // namespace tunesmith
