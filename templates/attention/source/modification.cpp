#include "templates/attention/source/modification.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/tokens.h"
#include "core/utf8.h"
#include "templates/attention/modification_params.cuh"
#include "templates/attention/source/user_source.h"
#include "tunesmith/error.h"

namespace tunesmith::attention {
namespace {

static_assert(max_aux == attention_aux_slots);

constexpr std::size_t max_source_bytes = 64 << 10;

/// One of the two user functions.
struct Function {
  std::string_view name;
  std::string_view result;
  std::string_view parameters;  ///< types alone
  std::string_view signature;
  std::string AttentionProblem::*given;
  std::string Settings::*source;
};
constexpr std::array<Function, 2> functions{
    {{"score_mod", "float", "float, int, int, int, int, const Aux&",
      "__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux)", &AttentionProblem::score_mod,
      &Settings::score_mod},
     {"mask_mod", "bool", "int, int, int, int, const Aux&",
      "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux)", &AttentionProblem::mask_mod,
      &Settings::mask_mod}}};

// Not a field of the forward problem.
constexpr Function gradient_function{
    "score_mod_grad",
    "float",
    functions[0].parameters,
    "__device__ float score_mod_grad(float score, int b, int h, int q, int k, const Aux& aux)",
    nullptr,
    nullptr};

std::string file_of(const Function& function) { return std::string(function.name) + ".cu"; }
// Names the place of errors, so it says what to do about them.
constexpr const char* dual_file = "score_mod.cu over dual numbers (give score_mod_grad if it cannot be differentiated)";
constexpr const char* elements_file =
    "score_mod.cu over dual numbers (the arrays of daux can only be indexed; leave out daux if that is not enough)";

SourceReader reader_of(const Function& function, const std::string& text) {
  return {function.name, function.signature, text};
}

void check_source(const Function& function, const std::string& source) {
  if (source.size() > max_source_bytes)
    throw Error(ErrorCode::invalid_argument, function.name, " is ", source.size(), " bytes long; allowed: up to ",
                max_source_bytes);
  if (source.find('\0') != std::string::npos)
    throw Error(ErrorCode::invalid_argument, function.name, " holds a character of code 0; expected CUDA source");
}

/// Returns the declarations of the sources' opening comments, overridden and extended by problem.aux.
std::vector<Aux> all_aux(const AttentionProblem& problem) {
  std::vector<Aux> declared;
  for (const Function& function : functions)
    for (const Aux& aux : parse_aux(aux_lines(problem.*function.given), function.name)) {
      const auto same = std::ranges::find(declared, aux.name, &Aux::name);
      if (same == declared.end())
        declared.push_back(aux);
      else if (*same != aux)
        throw Error(ErrorCode::invalid_argument, "score_mod declares ", same->text(), " and mask_mod ", aux.text(),
                    "; equal names need equal declarations");
    }
  std::vector<Aux> given;
  for (const AttentionAux& aux : problem.aux) given.push_back(Aux::of(aux));
  return merged(std::move(declared), given);
}

/// The name as characters of the problem itself, which outlive its description.
std::string_view name_in(const AttentionProblem& problem, const std::string& name) {
  for (const AttentionAux& aux : problem.aux)
    if (aux.name == name) return aux.name;
  for (const Function& function : functions) {
    const std::string_view source = problem.*function.given;
    if (const std::size_t at = source.find(name); at != std::string_view::npos) return source.substr(at, name.size());
  }
  return {};
}

std::int64_t length_or_zero(const Aux& aux, const std::vector<Dimension>& dimensions) {
  try {
    return aux.length(dimensions);
  } catch (const Error&) {
    return 0;  // check_modification() reports it
  }
}

/// Returns the name of a type in user sources.
std::string_view user_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return "float";
    case DType::f16: return "tunesmith::f16";
    case DType::bf16: return "tunesmith::bf16";
    case DType::u8:
    case DType::e4m3:
    case DType::e5m2: return "unsigned char";
    case DType::i8: return "signed char";
    case DType::i32: return "int";
    case DType::i64: return "long long";
    case DType::f64: return "double";  // user arrays have other types
  }
  return "";
}

bool is_among(const Aux& aux, const std::vector<std::string>& names) {
  return std::ranges::find(names, aux.name) != names.end();
}

/// `differentiated`: arrays whose elements are dual numbers.
std::string aux_definition(const std::vector<Aux>& all, const std::vector<std::string>& differentiated = {}) {
  std::string text = "struct Aux {\n";
  for (const Aux& aux : all) {
    const std::string type(user_type(aux.dtype));
    text += "  " +
            (is_among(aux, differentiated) ? "dual_numbers::Elements<" + type + "> "
             : aux.is_array                ? "const " + type + "* "
                                           : type + " ") +
            aux.name + ";\n";
  }
  return text + "};\n\n";
}

std::string aux_value(const Aux& aux, std::size_t slot) {
  const std::string word = "slots[" + std::to_string(slot) + "]", type(user_type(aux.dtype));
  if (aux.is_array) return "reinterpret_cast<const " + type + "*>(" + word + ")";
  if (aux.dtype == DType::f32) return "tunesmith::float_of(static_cast<tunesmith::uint32>(" + word + "))";
  return "static_cast<" + type + ">(" + word + ")";
}

/// Mistakes in the function's signature are reported at its call, so the call gets the function's line.
std::string line_mark(const std::string& file, int line) { return "#line " + std::to_string(line) + " \"" + file + "\"\n"; }
std::string line_mark(const Function& function, int line) { return line_mark(file_of(function), line); }

constexpr const char* line_here = "#line here\n";  // see SourceParts

/// Returns the user source, whose macros end with it: they must not change what follows.
std::string own_text(const Function& function, const std::string& file, const std::string& text) {
  std::string before, after;
  for (const std::string& macro : reader_of(function, text).macros()) {
    before += "#pragma push_macro(\"" + macro + "\")\n";
    after += "#undef " + macro + "\n#pragma pop_macro(\"" + macro + "\")\n";
  }
  return before + line_mark(file, 1) + std::string(without_mark(text)) + (text.ends_with('\n') ? "" : "\n") + after;
}

std::string text_definition(const Function& function, const std::string& text) {
  std::string definition =
      "namespace of_" + std::string(function.name) + " {\n" + own_text(function, file_of(function), text);
  definition += line_mark(function, reader_of(function, text).line_of_function());
  definition += "static_assert(tunesmith::is_same<decltype(&" + std::string(function.name) + "), " +
                std::string(function.result) + " (*)(" + std::string(function.parameters) + ")>, \"expected " +
                std::string(function.signature) + "\");\n";
  return definition + line_here + "}  // namespace of_" + std::string(function.name) + "\n\n";
}

std::string call_of(const Function& function, const std::string& arguments) {
  return "of_" + std::string(function.name) + "::" + std::string(function.name) + "(" + arguments +
         "b, h, q, k, aux_of(slots))";
}

std::string member_definition(const Function& function, const std::string& text) {
  const bool score = function.name == "score_mod";
  return "  static __device__ __forceinline__ " + std::string(function.result) +
         (score ? " score(float score, " : " keeps(") + "int b, int h, int q, int k, const Slots& slots) {\n" +
         line_mark(function, reader_of(function, text).line_of_function()) + "    return " +
         call_of(function, score ? "score, " : "") + ";\n" + line_here + "  }\n";
}

/// Returns score_mod over dual numbers: the same source with another `float`.
std::string dual_source(const std::string& score_mod, const char* file) {
  return "#define float dual_numbers::Dual\n" + own_text(functions[0], file, score_mod) + line_here + "#undef float\n";
}
std::string dual_definition(const std::string& score_mod) {
  return "// The same over dual numbers.\nnamespace over_dual {\n" + dual_source(score_mod, dual_file) +
         "}  // namespace over_dual\n\n";
}
/// Returns the same with arrays of dual numbers.
std::string elements_definition(const Settings& settings, const std::vector<std::string>& arrays) {
  return "// The same with arrays of dual numbers.\nnamespace over_elements {\n\n" + aux_definition(settings.aux, arrays) +
         dual_source(settings.score_mod, elements_file) + "}  // namespace over_elements\n\n";
}

/// Returns the member that computes the value and the derivative of score_mod.
std::string derivative_member(bool over_dual) {
  return "  static __device__ __forceinline__ dual_numbers::Dual differentiated(float score, int b, int h, int q, int k,\n"
         "                                                                      const Slots& slots) {\n    return " +
         (over_dual ? "over_dual::score_mod({score, 1.0f}, b, h, q, k, aux_of(slots))"
                    : "{" + call_of(functions[0], "score, ") + ", " + call_of(gradient_function, "score, ") + "}") +
         ";\n  }\n";
}

/// Returns the member that computes the derivative of score_mod by one of the elements that it reads.
std::string elements_member(const Settings& settings, const std::vector<std::string>& arrays) {
  std::string members;
  for (std::size_t i = 0; i < settings.aux.size(); ++i) {
    const Aux& aux = settings.aux[i];
    const std::string value = aux_value(aux, i);
    members += (i == 0 ? "" : ",\n                           ") +
               (is_among(aux, arrays) ? "{" + value + ", first[" + std::to_string(i) + "], &reads}" : value);
  }
  return "  static __device__ __forceinline__ dual_numbers::Term aux_term(\n"
         "      float score, int b, int h, int q, int k, const Slots& slots,\n"
         "      const tunesmith::int64 (&first)[tunesmith::attention_aux_slots], int wanted) {\n"
         "    dual_numbers::Reads reads = {wanted, 0, -1};\n    const over_elements::Aux aux = {" +
         members +
         "};\n    const float derivative = over_elements::score_mod(score, b, h, q, k, aux).derivative;\n"
         "    return {derivative, reads.element, reads.count};\n  }\n";
}

}  // namespace

void complete_modification(AttentionProblem& problem) {
  for (const Function& function : functions) check_source(function, problem.*function.given);
  if (!problem.aux.empty() && problem.score_mod.empty() && problem.mask_mod.empty())
    throw Error(ErrorCode::invalid_argument, "aux is given, but there is no score_mod or mask_mod to read it");
  const std::vector<Aux> all = all_aux(problem);
  if (all.size() > max_aux)
    throw Error(ErrorCode::invalid_argument, "aux declares ", all.size(), " arrays and numbers; allowed: up to ", max_aux);
  problem.aux.clear();
  for (const Aux& aux : all) problem.aux.push_back(aux.typed());
}

void check_modification(const Settings& settings) {
  for (const Function& function : functions) {
    const std::string& source = settings.*function.source;
    if (source.empty()) continue;
    const SourceReader reader = reader_of(function, source);
    (void)reader.line_of_function();
    reader.check_brackets();
  }
  (void)aux_bits(settings);
  for (const Aux& aux : settings.aux)
    if (aux.is_array) (void)aux.length(settings.dimensions());
}

void check_score_mod_grad(const std::string& score_mod_grad) {
  check_source(gradient_function, score_mod_grad);
  const SourceReader reader = reader_of(gradient_function, score_mod_grad);
  (void)reader.line_of_function();
  reader.check_brackets();
}

void check_differentiable(const Settings& settings, bool has_gradient) {
  const SourceReader reader = reader_of(functions[0], settings.score_mod);
  const char* const remedy = has_gradient
                                 ? "write it without, or leave out daux: score_mod_grad is the derivative by the score alone"
                                 : "write it without, or give score_mod_grad, which returns the derivative of score_mod";
  for (const std::string_view word : {"union", "reinterpret_cast", "bit_cast", "__builtin_bit_cast", "memcpy",
                                      "__builtin_memcpy", "asm", "__asm", "__asm__", "double"})
    if (reader.has_word(word))
      throw Error(ErrorCode::invalid_argument, "score_mod uses '", word,
                  "', and only float's arithmetic and functions can be differentiated; ", remedy);
  if (reader.has_cast_of_address())
    throw Error(ErrorCode::invalid_argument,
                "score_mod casts an address or a reference to integers, and the bits of a float have no derivative; ",
                remedy);
}

bool mask_may_use(const std::string& mask_mod, MaskPlace place) {
  return reader_of(functions[1], mask_mod).may_use(static_cast<std::size_t>(place), 5);
}

std::string modification_key(const Settings& settings) {
  std::string key;
  for (const Function& function : functions)
    if (const std::string& text = settings.*function.source; !text.empty())
      key += "," + std::string(function.name) + "=" + token_digest(text).substr(0, 16);
  std::string types;
  for (const Aux& aux : settings.aux) types += (types.empty() ? ",aux=" : ";") + aux.type_text();
  return key + types;
}

std::array<std::uint64_t, max_aux> aux_bits(const Settings& settings) {
  std::array<std::uint64_t, max_aux> bits{};
  const std::vector<Dimension> dimensions = settings.dimensions();
  for (std::size_t i = 0; i < settings.aux.size(); ++i)
    if (!settings.aux[i].is_array) bits[i] = settings.aux[i].bits(dimensions);
  return bits;
}

std::string modification_type(const Settings& settings) {
  return settings.modified() ? "user_text::Modification" : "tunesmith::NoModification";
}

std::string modification_definition(const Settings& settings, const Derivatives* derivatives) {
  if (!settings.modified()) return {};
  std::string text = "// The user functions, and what they read.\nnamespace user_text {\n\nusing tunesmith::to_float;\n\n" +
                     aux_definition(settings.aux),
              members;
  for (const Function& function : functions) {
    if ((settings.*function.source).empty()) continue;
    text += text_definition(function, settings.*function.source);
    members += member_definition(function, settings.*function.source);
  }
  if (derivatives != nullptr && !settings.score_mod.empty()) {
    const std::string& given = derivatives->score_mod_grad;
    text += given.empty() ? dual_definition(settings.score_mod) : text_definition(gradient_function, given);
    members += derivative_member(given.empty());
    if (!derivatives->aux.empty()) {
      text += elements_definition(settings, derivatives->aux);
      members += elements_member(settings, derivatives->aux);
    }
  }
  text += "struct Modification {\n  using Slots = tunesmith::uint64[tunesmith::attention_aux_slots];\n";
  text += "  static __device__ __forceinline__ Aux aux_of(const Slots& slots) {\n    return {";
  for (std::size_t i = 0; i < settings.aux.size(); ++i)
    text += (i == 0 ? "" : ",\n            ") + aux_value(settings.aux[i], i);
  return text + "};\n  }\n" + members + "};\n\n}  // namespace user_text\n\n";
}

std::string modification_entry(const Settings& settings) {
  if (!settings.modified()) return {};
  return "\n// Evaluates the user functions alone, for the check against the reference.\n"
         "static_assert(sizeof(tunesmith::ModificationParams) == " +
         std::to_string(sizeof(ModificationParams)) +
         ", \"the host fills the parameters by this layout\");\n"
         "extern \"C\" __global__ void __launch_bounds__(tunesmith::modification_threads)\n"
         "attention_modification(const __grid_constant__ tunesmith::ModificationParams params) {\n"
         "  tunesmith::evaluate_modification<shape, user_text::Modification>(params);\n}\n";
}

std::string score_gradient_entry(const Settings& settings) {
  if (settings.score_mod.empty()) return {};
  return "\n// Evaluates the derivative of score_mod alone, likewise.\n"
         "extern \"C\" __global__ void __launch_bounds__(tunesmith::modification_threads)\n"
         "attention_score_gradient(const __grid_constant__ tunesmith::ModificationParams params) {\n"
         "  tunesmith::evaluate_score_gradient<shape, user_text::Modification>(params);\n}\n";
}

LaunchPlan modification_plan(const Settings& settings, ModificationEntry entry, std::int64_t rows, std::int64_t keys) {
  constexpr std::int64_t threads = 128, max_blocks = 1024;
  ModificationParams params{};
  std::ranges::copy(aux_bits(settings), params.aux);
  const std::int64_t blocks = std::clamp<std::int64_t>((rows * keys + threads - 1) / threads, 1, max_blocks);
  params.rows = rows;
  params.keys = keys;
  params.stride = blocks * threads;
  LaunchPlan plan;
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  for (std::size_t i = 0; i < settings.aux.size(); ++i) {
    if (!settings.aux[i].is_array) continue;
    const Aux& aux = settings.aux[i];
    const std::int64_t element = size_of(aux.dtype);
    plan.pointers.push_back(
        {aux.name, static_cast<std::uint32_t>(offsetof(ModificationParams, aux) + i * sizeof(std::uint64_t)),
         static_cast<std::uint32_t>(element), aux.length(settings.dimensions()) * element, false, false, -1});
  }
  plan.pointers.push_back({"places", offsetof(ModificationParams, places), 4, rows * 5 * 4, false, false, -1});
  plan.pointers.push_back({"scores", offsetof(ModificationParams, scores), 4, rows * keys * 4, true, false, -1});
  KernelLaunch launch;
  launch.entry = entry == ModificationEntry::scores ? "attention_modification" : "attention_score_gradient";
  launch.grid = {static_cast<std::uint32_t>(blocks), 1, 1};
  launch.block = {threads, 1, 1};
  plan.kernels.push_back(launch);
  return plan;
}

}  // namespace tunesmith::attention

namespace tunesmith {

std::vector<AttentionAuxArray> attention_aux_arrays(const AttentionProblem& problem) {
  using namespace attention;
  std::vector<Aux> all;
  try {
    all = all_aux(problem);
  } catch (const Error&) {
    return {};  // complete_modification() reports it
  }
  if (all.size() > max_aux) return {};
  const std::vector<Dimension> dimensions = dimensions_of(problem);
  std::vector<AttentionAuxArray> arrays;
  for (const Aux& aux : all)
    if (aux.is_array) arrays.push_back({name_in(problem, aux.name), aux.dtype, length_or_zero(aux, dimensions)});
  return arrays;
}

void adopt(const AttentionProblem& problem, const AttentionArrays& arrays) { check_aux_given(problem, arrays.aux); }

void check_aux_given(const AttentionProblem& problem, const std::array<const void*, 8>& aux) {
  std::size_t given = aux.size();
  while (given > 0 && aux[given - 1] == nullptr) --given;
  if (given == 0) return;
  const bool modified = !problem.score_mod.empty() || !problem.mask_mod.empty();
  const std::size_t read = modified ? attention_aux_arrays(problem).size() : 0;
  if (given > read)
    throw Error(ErrorCode::invalid_argument, "aux[", given - 1, "] is given, but score_mod and mask_mod read ", read,
                read == 1 ? " array" : " arrays", "; expected null pointers after them");
}

}  // namespace tunesmith
