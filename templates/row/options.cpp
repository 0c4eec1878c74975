#include "templates/row/options.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "templates/row/fields.h"
#include "tunesmith/error.h"

namespace tunesmith::row {
namespace {

constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t max_stride = std::int64_t{1} << 50;
// As float32 has them: what is accepted stays accepted when it has been rounded.
constexpr double least_scale = 1e-30, most_scale = static_cast<double>(1e30F);

bool is_mask_field(std::string_view field) { return field.starts_with("mask_"); }

}  // namespace

std::int64_t Options::mask_vector(int widest) const noexcept {
  if (mask == Mask::none) return 1;
  std::int64_t elements = mask_alignment / size_of(mask_dtype);
  for (const std::int64_t stride : {mask_row_stride, mask_middle_stride, mask_outer_stride})
    elements = std::gcd(elements, stride);
  const std::int64_t most = std::min<std::int64_t>(widest, 16 / size_of(mask_dtype));
  return std::gcd(std::max<std::int64_t>(elements, 1), most);
}

std::vector<FieldInfo> option_fields(bool backward) {
  const auto option = [](std::string_view name, std::string_view meaning, std::string_view fallback,
                         std::vector<std::string_view> words = {}) {
    FieldInfo info{name, meaning, fallback, std::move(words)};
    info.option = true;
    return info;
  };
  std::vector<FieldInfo> fields{option("scale", "positive factor of x", "1"),
                                option("causal", "1: row r of a square matrix takes part in columns 0 .. r % cols", "0"),
                                option("valid_cols", "1: an int32 array says how many leading columns a row has", "0"),
                                option("valid_cols_group", "neighbouring rows that share an entry of valid_cols", "1")};
  if (backward) {
    fields.push_back(option("mask", "keep: a uint8 array, 0 masks an element out", "none", {"none", "keep"}));
  } else {
    fields.push_back(option("mask", "add: an array added to scale * x; keep: a uint8 array, 0 masks an element out", "none",
                            {"none", "add", "keep"}));
    fields.push_back(option("mask_dtype", "element type of an add mask", "that of x", {"f32", "f16", "bf16"}));
  }
  fields.push_back(option("mask_inner", "rows of the mask's innermost level, 0: all", "0"));
  fields.push_back(option("mask_middle", "inner groups in one outer entry of the mask", "1"));
  fields.push_back(option("mask_row_stride", "mask elements between inner rows, 0: the same for all", "cols"));
  fields.push_back(option("mask_middle_stride", "mask elements between middle entries", "0"));
  fields.push_back(option("mask_outer_stride", "mask elements between outer entries", "0"));
  fields.push_back(option("mask_alignment", "bytes that the address of the mask is a multiple of", "16"));
  fields.push_back(option("safe", "1: a row that is wholly masked gives zeros instead of NaN", "0"));
  return fields;
}

Options parse_options(const Problem& problem, std::int64_t rows, std::int64_t cols, DType dtype, bool backward) {
  Options options;
  if (problem.fields.contains("scale")) options.scale = problem.fields.real("scale");
  if (!(options.scale >= least_scale && options.scale <= most_scale))
    throw Error(ErrorCode::invalid_argument, "scale is ", options.scale, "; allowed: ", least_scale, " to 1e+30");
  options.scale = static_cast<double>(static_cast<float>(options.scale));  // what the kernel multiplies with
  options.causal = integer_between(problem, "causal", 0, 0, 1) != 0;
  options.valid_cols = integer_between(problem, "valid_cols", 0, 0, 1) != 0;
  options.valid_cols_group = integer_between(problem, "valid_cols_group", 1, 1, any);
  if (!options.valid_cols && problem.fields.contains("valid_cols_group"))
    throw Error(ErrorCode::invalid_argument, "valid_cols_group is ", options.valid_cols_group,
                ", but valid_cols is 0; allowed with valid_cols=1");
  options.safe = integer_between(problem, "safe", 0, 0, 1) != 0;

  const std::string word = problem.fields.contains("mask") ? problem.fields.word("mask") : "none";
  if (word == "keep")
    options.mask = Mask::keep;
  else if (word == "add" && !backward)
    options.mask = Mask::add;
  else if (word == "add")
    throw Error(ErrorCode::invalid_argument, "mask is 'add', which ", problem.op,
                " has no use for: y holds its effect; allowed: none, keep");
  else if (word != "none")
    throw Error(ErrorCode::invalid_argument, "mask is '", word, "'; allowed: ", backward ? "none, keep" : "none, add, keep");
  if (options.mask == Mask::none) {
    for (const auto& [field, value] : problem.fields)
      if (is_mask_field(field))
        throw Error(ErrorCode::invalid_argument, field, " is ", text(value),
                    ", but mask is none; allowed with mask=", backward ? "keep" : "add or mask=keep");
    return options;
  }

  options.mask_dtype = options.mask == Mask::keep ? DType::u8 : float_dtype_field(problem, "mask_dtype", dtype);
  if (options.mask == Mask::keep && problem.fields.contains("mask_dtype") && problem.fields.word("mask_dtype") != "u8")
    throw Error(ErrorCode::invalid_argument, "mask_dtype is '", problem.fields.word("mask_dtype"),
                "', but mask is keep; allowed: u8");
  options.mask_inner = integer_between(problem, "mask_inner", 0, 0, any);
  if (options.mask_inner >= rows) options.mask_inner = 0;
  options.mask_middle = integer_between(problem, "mask_middle", 1, 1, any);
  options.mask_row_stride = integer_between(problem, "mask_row_stride", cols, 0, max_stride);
  options.mask_middle_stride = integer_between(problem, "mask_middle_stride", 0, 0, max_stride);
  options.mask_outer_stride = integer_between(problem, "mask_outer_stride", 0, 0, max_stride);
  options.mask_alignment = alignment_field(problem, "mask_alignment", options.mask_dtype);
  check_extent("mask", rows, std::max({options.mask_row_stride, options.mask_middle_stride, options.mask_outer_stride}),
               options.mask_dtype);
  return options;
}

void append_options(const Options& options, std::int64_t cols, Fields& fields) {
  const auto integer = [&](std::string_view field, std::int64_t value, std::int64_t fallback) {
    if (value != fallback) fields.set(field, value);
  };
  if (options.scaled()) fields.set("scale", options.scale);
  integer("causal", options.causal ? 1 : 0, 0);
  integer("valid_cols", options.valid_cols ? 1 : 0, 0);
  integer("valid_cols_group", options.valid_cols_group, 1);
  if (options.mask != Mask::none) {
    fields.set("mask", std::string(options.mask == Mask::add ? "add" : "keep"));
    if (options.mask == Mask::add) fields.set("mask_dtype", std::string(name(options.mask_dtype)));
    integer("mask_inner", options.mask_inner, 0);
    integer("mask_middle", options.mask_middle, 1);
    integer("mask_row_stride", options.mask_row_stride, cols);
    integer("mask_middle_stride", options.mask_middle_stride, 0);
    integer("mask_outer_stride", options.mask_outer_stride, 0);
    integer("mask_alignment", options.mask_alignment, 16);
  }
  integer("safe", options.safe ? 1 : 0, 0);
}

void append_arrays(const Options& options, std::int64_t rows, std::int64_t cols, std::vector<ArrayInfo>& arrays) {
  if (options.mask != Mask::none) {
    // Rows as they are numbered: (outer, middle, inner); fewer levels where fewer are used.
    const std::int64_t inner = std::max<std::int64_t>(options.mask_inner == 0 ? rows : options.mask_inner, 1);
    const std::int64_t groups = (rows + inner - 1) / inner;
    const std::int64_t outer = (groups + options.mask_middle - 1) / options.mask_middle;
    ArrayInfo mask;
    mask.name = "mask";
    mask.input = true;
    mask.dtype = options.mask_dtype;
    mask.alignment = options.mask_alignment;
    const auto level = [&](std::int64_t extent, std::int64_t stride) {
      // A level whose entries are all the same array is one entry: a file need not repeat it.
      mask.shape.push_back(stride == 0 ? std::min<std::int64_t>(extent, 1) : extent);
      mask.strides.push_back(stride);
    };
    if (groups > 1) {
      level(outer, options.mask_outer_stride);
      level(options.mask_middle, options.mask_middle_stride);
    }
    level(inner, options.mask_row_stride);
    mask.shape.push_back(rows == 0 ? 0 : cols);
    mask.strides.push_back(1);
    arrays.push_back(std::move(mask));
  }
  if (options.valid_cols)
    arrays.push_back({.name = "valid_cols",
                      .input = true,
                      .dtype = DType::i32,
                      .shape = {(rows + options.valid_cols_group - 1) / options.valid_cols_group},
                      .strides = {1},
                      .alignment = 4});
}

}  // namespace tunesmith::row
