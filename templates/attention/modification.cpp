#include "templates/attention/modification.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/hash.h"
#include "templates/attention/text.h"
#include "tunesmith/error.h"

namespace tunesmith::attention {
namespace {

constexpr std::array<std::string_view, 10> reserved_names{
    "q", "k", "v", "o", "lse", "alibi_slopes", "sinks", "cu_seqlens_q", "cu_seqlens_kv", "mask_tiles"};
constexpr std::size_t most_text_bytes = 64 << 10;

/// One of the two functions that a user may write.
struct Function {
  std::string_view name;
  std::string_view result;
  std::string_view parameters;  ///< types alone
  std::string_view signature;
  std::string Settings::*text;
};
constexpr std::array<Function, 2> functions{
    {{"score_mod", "float", "float, int, int, int, int, const Aux&",
      "__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux)", &Settings::score_mod},
     {"mask_mod", "bool", "int, int, int, int, const Aux&",
      "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux)", &Settings::mask_mod}}};

std::string file_of(const Function& function) { return std::string(function.name) + ".cu"; }

TextReader reader_of(const Function& function, const std::string& text) { return {function.name, function.signature, text}; }

std::string read_text(const Problem& problem, const Function& function) {
  if (!problem.fields.contains(function.name)) return {};
  const std::string& text = problem.fields.word(function.name);
  if (text.size() > most_text_bytes)
    throw Error(ErrorCode::invalid_argument, function.name, " is ", text.size(), " bytes long; allowed: up to ",
                most_text_bytes);
  if (text.find('\0') != std::string::npos)
    throw Error(ErrorCode::invalid_argument, function.name, " holds a character of code 0; expected CUDA text");
  return text;
}

/// As the user's text sees it.
std::string_view device_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return "float";
    case DType::f16: return "tunesmith::f16";
    case DType::bf16: return "tunesmith::bf16";
    case DType::u8: return "unsigned char";
    case DType::i32: return "int";
    case DType::i64: return "long long";
  }
  return "";
}

std::string aux_definition(const std::vector<Aux>& all) {
  std::string text = "struct Aux {\n";
  for (const Aux& aux : all)
    text += "  " + std::string(aux.is_array ? "const " : "") + std::string(device_type(aux.dtype)) +
            (aux.is_array ? "* " : " ") + aux.name + ";\n";
  return text + "};\n\n";
}

std::string aux_value(const Aux& aux, std::size_t slot) {
  const std::string word = "slots[" + std::to_string(slot) + "]", type(device_type(aux.dtype));
  if (aux.is_array) return "reinterpret_cast<const " + type + "*>(" + word + ")";
  if (aux.dtype == DType::f32) return "tunesmith::float_of(static_cast<tunesmith::uint32>(" + word + "))";
  return "static_cast<" + type + ">(" + word + ")";
}

/// Mistakes in the function's head show where the function is called: that is made to be where the user wrote it.
std::string line_mark(const Function& function, int line) {
  return "#line " + std::to_string(line) + " \"" + file_of(function) + "\"\n";
}

constexpr const char* line_here = "#line here\n";  // see SourceParts

std::string text_definition(const Function& function, const std::string& text) {
  std::string definition = "namespace of_" + std::string(function.name) + " {\n" + line_mark(function, 1) + text;
  if (!definition.ends_with('\n')) definition += '\n';
  definition += line_mark(function, reader_of(function, text).line_of_function());
  definition += "static_assert(tunesmith::is_same<decltype(&" + std::string(function.name) + "), " +
                std::string(function.result) + " (*)(" + std::string(function.parameters) + ")>, \"expected " +
                std::string(function.signature) + "\");\n";
  return definition + line_here + "}  // namespace of_" + std::string(function.name) + "\n\n";
}

std::string member_definition(const Function& function, const std::string& text) {
  const bool score = function.name == "score_mod";
  const std::string arguments = std::string(score ? "score, " : "") + "b, h, q, k, aux_of(slots)";
  return "  static __device__ __forceinline__ " + std::string(function.result) +
         (score ? " score(float score, " : " keeps(") + "int b, int h, int q, int k, const Slots& slots) {\n" +
         line_mark(function, reader_of(function, text).line_of_function()) + "    return of_" + std::string(function.name) +
         "::" + std::string(function.name) + "(" + arguments + ");\n" + line_here + "  }\n";
}

// Must agree with ModificationParams in attention_modification.cuh; the generated source asserts the size.
struct Params {
  std::uint64_t aux[most_aux];
  std::uint64_t places, scores;
  std::int64_t rows, keys, stride;
};

}  // namespace

void read_modification(const Problem& problem, Settings& settings) {
  std::vector<Aux> declared;
  for (const Function& function : functions) {
    settings.*function.text = read_text(problem, function);
    for (const Aux& aux : parse_aux(aux_lines(settings.*function.text), function.name, reserved_names)) {
      const auto same = std::ranges::find(declared, aux.name, &Aux::name);
      if (same == declared.end())
        declared.push_back(aux);
      else if (*same != aux)
        throw Error(ErrorCode::invalid_argument, "score_mod declares ", same->text(), " and mask_mod ", aux.text(),
                    "; what both read must be the same");
    }
  }
  if (problem.fields.contains("aux")) {
    if (!settings.modified())
      throw Error(ErrorCode::invalid_argument, "aux is given without score_mod or mask_mod, which alone would read it");
    declared = merged(std::move(declared), parse_aux(problem.fields.word("aux"), "aux", reserved_names));
  }
  if (declared.size() > most_aux)
    throw Error(ErrorCode::invalid_argument, "aux declares ", declared.size(), " arrays and numbers; allowed: up to ",
                most_aux);
  settings.aux = std::move(declared);
}

void check_modification(const Settings& settings) {
  for (const Function& function : functions) {
    const std::string& text = settings.*function.text;
    if (text.empty()) continue;
    const TextReader reader = reader_of(function, text);
    (void)reader.line_of_function();
    reader.check_brackets();
  }
  (void)aux_bits(settings);
  for (const Aux& aux : settings.aux)
    if (aux.is_array) (void)aux_info(settings, aux);
}

bool mask_may_use(const Settings& settings, MaskPlace place) {
  const Function& mask_mod = functions[1];
  return reader_of(mask_mod, settings.mask_mod).may_use(static_cast<std::size_t>(place), 5);
}

std::string modification_key(const Settings& settings) {
  std::string key;
  for (const Function& function : functions)
    if (const std::string& text = settings.*function.text; !text.empty())
      key += "," + std::string(function.name) + "=" + hash_hex(text).substr(0, 16);
  std::string types;
  for (const Aux& aux : settings.aux) types += (types.empty() ? ",aux=" : ";") + aux.type_text();
  return key + types;
}

ArrayInfo aux_info(const Settings& settings, const Aux& aux) {
  return {.name = aux.name,
          .input = true,
          .dtype = aux.dtype,
          .shape = {aux.length(settings.dimensions())},
          .strides = {1},
          .alignment = size_of(aux.dtype)};
}

std::array<std::uint64_t, most_aux> aux_bits(const Settings& settings) {
  std::array<std::uint64_t, most_aux> bits{};
  const std::vector<Dimension> dimensions = settings.dimensions();
  for (std::size_t i = 0; i < settings.aux.size(); ++i)
    if (!settings.aux[i].is_array) bits[i] = settings.aux[i].bits(dimensions);
  return bits;
}

std::string modification_type(const Settings& settings) {
  return settings.modified() ? "user_text::Modification" : "tunesmith::NoModification";
}

std::string modification_definition(const Settings& settings) {
  if (!settings.modified()) return {};
  std::string text = "// The user's text, and what it reads.\nnamespace user_text {\n\nusing tunesmith::to_float;\n\n" +
                     aux_definition(settings.aux),
              members;
  for (const Function& function : functions) {
    if ((settings.*function.text).empty()) continue;
    text += text_definition(function, settings.*function.text);
    members += member_definition(function, settings.*function.text);
  }
  text += "struct Modification {\n  using Slots = tunesmith::uint64[tunesmith::attention_aux_slots];\n";
  text += "  static __device__ __forceinline__ Aux aux_of(const Slots& slots) {\n    return {";
  for (std::size_t i = 0; i < settings.aux.size(); ++i)
    text += (i == 0 ? "" : ",\n            ") + aux_value(settings.aux[i], i);
  return text + "};\n  }\n" + members + "};\n\n}  // namespace user_text\n\n";
}

std::string modification_entry(const Settings& settings) {
  if (!settings.modified()) return {};
  return "\n// For whoever judges results: the user's text alone.\n"
         "static_assert(sizeof(tunesmith::ModificationParams) == " +
         std::to_string(sizeof(Params)) +
         ", \"the host fills the parameters by this layout\");\n"
         "extern \"C\" __global__ void __launch_bounds__(tunesmith::modification_threads)\n"
         "attention_modification(const __grid_constant__ tunesmith::ModificationParams params) {\n"
         "  tunesmith::evaluate_modification<shape, user_text::Modification>(params);\n}\n";
}

LaunchPlan modification_plan(const Settings& settings, std::int64_t rows, std::int64_t keys) {
  constexpr std::int64_t threads = 128, most_blocks = 1024;
  Params params{};
  std::ranges::copy(aux_bits(settings), params.aux);
  const std::int64_t blocks = std::clamp<std::int64_t>((rows * keys + threads - 1) / threads, 1, most_blocks);
  params.rows = rows;
  params.keys = keys;
  params.stride = blocks * threads;
  LaunchPlan plan;
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  for (std::size_t i = 0; i < settings.aux.size(); ++i) {
    if (!settings.aux[i].is_array) continue;
    const ArrayInfo info = aux_info(settings, settings.aux[i]);
    plan.pointers.push_back({info.name, static_cast<std::uint32_t>(offsetof(Params, aux) + i * sizeof(std::uint64_t)),
                             static_cast<std::uint32_t>(info.alignment), info.extent_bytes(), false, false, -1});
  }
  plan.pointers.push_back({"places", offsetof(Params, places), 4, rows * 5 * 4, false, false, -1});
  plan.pointers.push_back({"scores", offsetof(Params, scores), 4, rows * keys * 4, true, false, -1});
  KernelLaunch launch;
  launch.entry = "attention_modification";
  launch.grid = {static_cast<std::uint32_t>(blocks), 1, 1};
  launch.block = {threads, 1, 1};
  plan.kernels.push_back(launch);
  return plan;
}

}  // namespace tunesmith::attention
