// Fields of an attention problem, their checks, and the typed form.

#include "templates/attention/problem.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "templates/attention/mask_tiles.h"
#include "templates/attention/modification.h"
#include "templates/attention/op.h"
#include "templates/row/fields.h"
#include "tunesmith/error.h"

namespace tunesmith {

using namespace attention;

namespace {

constexpr std::int64_t most_positions = 1 << 30, most_heads = 1 << 20, most_stride = std::int64_t{1} << 48;
constexpr std::array<const char*, 4> batch_stride_fields{"q_batch_stride", "k_batch_stride", "v_batch_stride",
                                                         "o_batch_stride"};
constexpr std::array<const char*, 4> seq_stride_fields{"q_seq_stride", "k_seq_stride", "v_seq_stride", "o_seq_stride"};
constexpr std::array<const char*, 4> head_stride_fields{"q_head_stride", "k_head_stride", "v_head_stride", "o_head_stride"};
constexpr std::array<const char*, 4> alignment_fields{"q_alignment", "k_alignment", "v_alignment", "o_alignment"};

const Words causal_words{"none", "top-left", "bottom-right"}, layout_words{"bshd", "bhsd"};
const Words mask_tiles_words{"internal", "write", "read"};

std::int64_t head_dim_field(const Problem& problem, std::string_view field, std::int64_t fallback) {
  const std::int64_t value = row::integer_between(problem, field, fallback, 8, 256);
  if (value % 8 != 0) throw Error(ErrorCode::invalid_argument, field, " is ", value, "; allowed: 8 to 256 in steps of 8");
  return value;
}

/// As the layout has them without gaps.
Tensor dense(const Settings& settings, Side side) {
  const std::int64_t width = settings.width(side), heads = settings.heads_of(side), positions = settings.positions(side);
  Tensor tensor;
  const bool heads_inside = settings.layout == AttentionLayout::bshd;
  tensor.head_stride = heads_inside ? width : positions * width;
  tensor.seq_stride = heads_inside ? heads * width : width;
  tensor.batch_stride = settings.varlen ? 0 : heads * positions * width;
  return tensor;
}

void check_extent(const Settings& settings, Side side) {
  const Tensor& tensor = settings.tensor(side);
  const auto reach = [](std::int64_t count, std::int64_t stride) {
    return static_cast<double>(std::max<std::int64_t>(count - 1, 0)) * static_cast<double>(stride);
  };
  const double elements = reach(settings.batch, tensor.batch_stride) + reach(settings.positions(side), tensor.seq_stride) +
                          reach(settings.heads_of(side), tensor.head_stride);
  if (elements > 0x1p55)
    throw Error(ErrorCode::invalid_argument, side_names[static_cast<std::size_t>(side)],
                " would span more than 2^55 elements; lengths and strides are too large");
}

/// Elements of an output must not share memory.
void check_apart(const Settings& settings) {
  const Tensor& o = settings.tensor(Side::o);
  std::array<std::pair<std::int64_t, std::int64_t>, 3> dimensions{{{o.seq_stride, settings.positions(Side::o)},
                                                                   {o.head_stride, settings.heads},
                                                                   {o.batch_stride, settings.varlen ? 1 : settings.batch}}};
  std::ranges::sort(dimensions);
  std::int64_t inner = settings.head_dim_v;
  for (const auto& [stride, count] : dimensions) {
    if (count <= 1) continue;
    if (stride < inner)
      throw Error(ErrorCode::invalid_argument, "a stride of o is ", stride,
                  ", and rows of o would share memory; it must be at least ", inner);
    inner = stride * count;
  }
}

void read_tensor(const Problem& problem, Settings& settings, Side side) {
  const auto at = static_cast<std::size_t>(side);
  Tensor tensor = dense(settings, side);
  const auto stride = [&](const char* field, std::int64_t& value) {
    const std::int64_t given = row::integer_between(problem, field, 0, 0, most_stride);
    if (given != 0) value = given;
  };
  if (settings.varlen && problem.fields.contains(batch_stride_fields[at]))
    throw Error(ErrorCode::invalid_argument, batch_stride_fields[at],
                " is given, but sequences of varlen=1 are packed and have no batch stride");
  stride(batch_stride_fields[at], tensor.batch_stride);
  stride(seq_stride_fields[at], tensor.seq_stride);
  stride(head_stride_fields[at], tensor.head_stride);
  tensor.alignment = row::alignment_field(problem, alignment_fields[at], settings.dtype);
  settings.tensors[at] = tensor;
  check_extent(settings, side);
}

Settings read(const Problem& problem) {
  constexpr std::int64_t most = most_positions;
  Settings settings;
  settings.batch = row::integer_between(problem, "batch", 1, 0, most_heads);
  settings.heads = row::integer_between(problem, "heads", 1, 1, most_heads);
  settings.kv_heads = row::integer_between(problem, "kv_heads", settings.heads, 1, most_heads);
  if (settings.heads % settings.kv_heads != 0)
    throw Error(ErrorCode::invalid_argument, "heads is ", settings.heads, " and kv_heads is ", settings.kv_heads,
                "; heads must be a multiple of kv_heads");
  settings.seq_q = row::integer_between(problem, "seq_q", 1, 0, most);
  settings.seq_kv = row::integer_between(problem, "seq_kv", std::max<std::int64_t>(settings.seq_q, 1), 1, most);
  settings.head_dim = head_dim_field(problem, "head_dim", 64);
  settings.head_dim_v = head_dim_field(problem, "head_dim_v", settings.head_dim);
  settings.dtype = row::float_dtype_field(problem, "dtype", DType::bf16);
  settings.layout = static_cast<AttentionLayout>(row::word_at(problem, "layout", layout_words, 0));
  settings.causal = static_cast<Causal>(row::word_at(problem, "causal", causal_words, 0));
  settings.window_left = row::integer_between(problem, "window_left", -1, -1, most);
  settings.window_right = row::integer_between(problem, "window_right", -1, -1, most);
  if (settings.causal != Causal::none) settings.window_right = -1;  // a causal mask hides those keys whatever it is
  settings.scale = row::real_between(problem, "scale", 1 / std::sqrt(static_cast<double>(settings.head_dim)), 1e-6, 1e6);
  settings.softcap = row::real_between(problem, "softcap", 0, 0, 1e6);
  settings.alibi = row::integer_between(problem, "alibi", 0, 0, 1) == 1;
  settings.sinks = row::integer_between(problem, "sinks", 0, 0, 1) == 1;
  settings.varlen = row::integer_between(problem, "varlen", 0, 0, 1) == 1;
  if (settings.varlen) {
    settings.total_q = row::integer_between(problem, "total_q", settings.batch * settings.seq_q, 0, most);
    settings.total_kv = row::integer_between(problem, "total_kv", settings.batch * settings.seq_kv, 0, most);
    const auto check = [&](const char* name, std::int64_t total, const char* longest, std::int64_t length) {
      if (total > settings.batch * length)
        throw Error(ErrorCode::invalid_argument, name, " is ", total, ", but ", settings.batch, " sequences of at most ",
                    longest, " = ", length, " have no more than ", settings.batch * length);
    };
    check("total_q", settings.total_q, "seq_q", settings.seq_q);
    check("total_kv", settings.total_kv, "seq_kv", settings.seq_kv);
  } else if (problem.fields.contains("total_q") || problem.fields.contains("total_kv")) {
    throw Error(ErrorCode::invalid_argument, "total_q and total_kv are for packed sequences; give varlen=1 with them");
  }
  for (const Side side : {Side::q, Side::k, Side::v, Side::o}) read_tensor(problem, settings, side);
  check_apart(settings);
  read_modification(problem, settings);
  settings.mask_tiles = static_cast<MaskTiles>(row::word_at(problem, "mask_tiles", mask_tiles_words, 0));
  if (settings.mask_tiles != MaskTiles::internal && settings.mask_mod.empty())
    throw Error(ErrorCode::invalid_argument, "mask_tiles is ",
                mask_tiles_words[static_cast<std::size_t>(settings.mask_tiles)],
                " without mask_mod, which alone leaves tiles out; give mask_mod, or leave mask_tiles out");
  return settings;
}

}  // namespace

namespace attention {

Settings Settings::of(const Problem& problem) { return read(problem); }

std::int64_t Settings::positions(Side side) const noexcept {
  const bool query = side == Side::q || side == Side::o;
  if (varlen) return query ? total_q : total_kv;
  return query ? seq_q : seq_kv;
}

int Settings::vector(Side side) const noexcept {
  const Tensor& strides = tensor(side);
  std::int64_t widest = std::min<std::int64_t>(16, strides.alignment) / size_of(dtype);
  const auto divides = [&](std::int64_t count, std::int64_t stride) {
    while (count > 1 && widest > 1 && stride % widest != 0) widest /= 2;
  };
  divides(varlen ? 1 : batch, strides.batch_stride);
  divides(positions(side), strides.seq_stride);
  divides(heads_of(side), strides.head_stride);
  return static_cast<int>(std::max<std::int64_t>(widest, 1));
}

std::vector<Dimension> Settings::dimensions() const {
  std::vector<Dimension> all{{"batch", batch},   {"heads", heads},       {"kv_heads", kv_heads},    {"seq_q", seq_q},
                             {"seq_kv", seq_kv}, {"head_dim", head_dim}, {"head_dim_v", head_dim_v}};
  if (varlen) all.insert(all.end(), {{"total_q", total_q}, {"total_kv", total_kv}});
  return all;
}

double Settings::visible_pairs() const noexcept {
  double pairs = 0;
  const std::int64_t shift = offset(seq_q, seq_kv);
  if (!bounded_left() && !bounded_right()) return static_cast<double>(seq_q) * static_cast<double>(seq_kv);
  for (std::int64_t i = 0; i < seq_q; ++i) {
    const std::int64_t begin = bounded_left() ? std::max<std::int64_t>(0, i + shift - window_left) : 0;
    const std::int64_t end = bounded_right() ? std::min(seq_kv, i + shift + right() + 1) : seq_kv;
    pairs += static_cast<double>(std::max<std::int64_t>(end - begin, 0));
  }
  return pairs;
}

ArrayInfo tensor_info(const Settings& settings, Side side) {
  const Tensor& tensor = settings.tensor(side);
  const std::int64_t positions = settings.positions(side), heads = settings.heads_of(side), width = settings.width(side);
  ArrayInfo info{.name = side_names[static_cast<std::size_t>(side)],
                 .input = side != Side::o,
                 .output = side == Side::o,
                 .dtype = settings.dtype,
                 .shape = {positions, heads, width},
                 .strides = {tensor.seq_stride, tensor.head_stride, 1},
                 .alignment = tensor.alignment};
  if (settings.layout == AttentionLayout::bhsd) {
    std::swap(info.shape[0], info.shape[1]);
    std::swap(info.strides[0], info.strides[1]);
  }
  if (!settings.varlen) {
    info.shape.insert(info.shape.begin(), settings.batch);
    info.strides.insert(info.strides.begin(), tensor.batch_stride);
  }
  return info;
}

}  // namespace attention

std::vector<FieldInfo> AttentionOp::problem_fields() const {
  std::vector<FieldInfo> fields{
      {"batch", "sequences, from 0", "1", {}},
      {"heads", "heads of the queries", "1", {}},
      {"kv_heads", "heads of keys and values, which neighbouring query heads share", "heads", {}},
      {"seq_q", "queries of a sequence, from 0", "", {}},
      {"seq_kv", "keys of a sequence, from 1", "seq_q", {}},
      {"head_dim", "elements of a query and a key, 8 to 256 in steps of 8; kernels are specialized for it", "", {}},
      {"head_dim_v", "elements of a value and an output, likewise", "head_dim", {}},
      {"dtype", "element type of q, k, v and o", "bf16", {"f32", "f16", "bf16"}},
      {"layout", "order of batch, sequence, heads and head_dim in q, k, v and o", "bshd", layout_words},
      {"causal",
       "keys behind a query's place are hidden; top-left: query i stands at key i; bottom-right: the last at the last",
       "none", causal_words},
      {"window_left", "keys before its place that a query sees, -1: all", "-1", {}},
      {"window_right", "keys behind its place that a query sees, -1: all", "-1", {}},
      {"scale", "positive factor of the dot products", "1 / sqrt(head_dim)", {}},
      {"softcap", "scores become softcap * tanh(scores / softcap); 0: they do not", "0", {}},
      {"alibi", "1: a float32 array alibi_slopes of one slope a head", "0", {}, true},
      {"sinks", "1: a float32 array sinks of one logit a head, which has no value", "0", {}, true},
      {"varlen", "1: sequences are packed; int32 arrays cu_seqlens_q and cu_seqlens_kv say where they start", "0", {}, true},
      {"total_q", "varlen: queries of all sequences", "batch * seq_q", {}, true},
      {"total_kv", "varlen: keys of all sequences", "batch * seq_kv", {}, true},
      {"score_mod",
       "CUDA text of float score_mod(float score, int b, int h, int q, int k, const Aux& aux)",
       "none",
       {},
       false,
       true},
      {"mask_mod", "CUDA text of bool mask_mod(int b, int h, int q, int k, const Aux& aux)", "none", {}, false, true},
      {"aux",
       "what they read, such as slopes:f32[heads];window:i64=128",
       "as lines '// aux: ...' of the texts declare it",
       {},
       true,
       true},
      {"mask_tiles", "what mask_mod leaves of tiles: found out, and written to or read from an array of that name",
       "internal", mask_tiles_words, true}};
  for (std::size_t i = 0; i < 4; ++i)
    fields.push_back({batch_stride_fields[i], "elements between batch entries", "that of the layout", {}, true});
  for (std::size_t i = 0; i < 4; ++i)
    fields.push_back({seq_stride_fields[i], "elements between positions", "that of the layout", {}, true});
  for (std::size_t i = 0; i < 4; ++i)
    fields.push_back({head_stride_fields[i], "elements between heads", "that of the layout", {}, true});
  for (std::size_t i = 0; i < 4; ++i)
    fields.push_back({alignment_fields[i], "bytes that the address is a multiple of", "16", {}, true});
  return fields;
}

Problem AttentionOp::normal(const Problem& problem) const {
  row::check_names({std::string(name()), problem.fields}, problem_fields(), {"seq_q", "head_dim"});
  const Settings settings = read(problem);
  check_modification(settings);
  Problem normal{std::string(name()),
                 {{"batch", settings.batch},
                  {"heads", settings.heads},
                  {"kv_heads", settings.kv_heads},
                  {"seq_q", settings.seq_q},
                  {"seq_kv", settings.seq_kv},
                  {"head_dim", settings.head_dim},
                  {"head_dim_v", settings.head_dim_v},
                  {"dtype", std::string(tunesmith::name(settings.dtype))},
                  {"layout", std::string(layout_words[static_cast<std::size_t>(settings.layout)])}}};
  Fields& fields = normal.fields;
  const auto integer = [&](std::string_view field, std::int64_t value, std::int64_t fallback) {
    if (value != fallback) fields.set(field, value);
  };
  if (settings.causal != Causal::none)
    fields.set("causal", std::string(causal_words[static_cast<std::size_t>(settings.causal)]));
  integer("window_left", settings.window_left, -1);
  integer("window_right", settings.window_right, -1);
  if (settings.scale != 1 / std::sqrt(static_cast<double>(settings.head_dim))) fields.set("scale", settings.scale);
  if (settings.softcap != 0) fields.set("softcap", settings.softcap);
  integer("alibi", settings.alibi ? 1 : 0, 0);
  integer("sinks", settings.sinks ? 1 : 0, 0);
  if (settings.varlen) {
    integer("varlen", 1, 0);
    fields.set("total_q", settings.total_q);
    fields.set("total_kv", settings.total_kv);
  }
  if (!settings.score_mod.empty()) fields.set("score_mod", settings.score_mod);
  if (!settings.mask_mod.empty()) fields.set("mask_mod", settings.mask_mod);
  if (!settings.aux.empty()) fields.set("aux", text_of(settings.aux));
  if (settings.mask_tiles != MaskTiles::internal)
    fields.set("mask_tiles", std::string(mask_tiles_words[static_cast<std::size_t>(settings.mask_tiles)]));
  for (const Side side : {Side::q, Side::k, Side::v, Side::o}) {
    const auto at = static_cast<std::size_t>(side);
    const Tensor plain = dense(settings, side), &tensor = settings.tensor(side);
    integer(batch_stride_fields[at], tensor.batch_stride, plain.batch_stride);
    integer(seq_stride_fields[at], tensor.seq_stride, plain.seq_stride);
    integer(head_stride_fields[at], tensor.head_stride, plain.head_stride);
    integer(alignment_fields[at], tensor.alignment, 16);
  }
  return normal;
}

std::vector<ArrayInfo> AttentionOp::arrays(const Problem& problem) const {
  const Settings settings = Settings::of(problem);
  std::vector<ArrayInfo> arrays;
  for (const Side side : {Side::q, Side::k, Side::v}) arrays.push_back(tensor_info(settings, side));
  const auto input = [&](bool there, const char* name, DType dtype, std::int64_t count) {
    if (there)
      arrays.push_back(
          {.name = name, .input = true, .dtype = dtype, .shape = {count}, .strides = {1}, .alignment = size_of(dtype)});
  };
  input(settings.alibi, "alibi_slopes", DType::f32, settings.heads);
  input(settings.sinks, "sinks", DType::f32, settings.heads);
  input(settings.varlen, "cu_seqlens_q", DType::i32, settings.batch + 1);
  input(settings.varlen, "cu_seqlens_kv", DType::i32, settings.batch + 1);
  for (const Aux& aux : settings.aux)
    if (aux.is_array) arrays.push_back(aux_info(settings, aux));
  if (settings.mask_tiles != MaskTiles::internal) arrays.push_back(mask_tiles_info(settings));
  arrays.push_back(tensor_info(settings, Side::o));
  ArrayInfo lse{.name = "lse",
                .output = true,
                .optional = true,
                .dtype = DType::f32,
                .shape = {settings.batch, settings.heads, settings.seq_q},
                .strides = {settings.heads * settings.seq_q, settings.seq_q, 1},
                .alignment = 4};
  if (settings.varlen) {
    lse.shape = {settings.heads, settings.total_q};
    lse.strides = {settings.total_q, 1};
  }
  arrays.push_back(std::move(lse));
  return arrays;
}

Problem to_problem(const AttentionProblem& problem) {
  Problem general{"attention",
                  {{"batch", problem.batch},
                   {"heads", problem.heads},
                   {"seq_q", problem.seq_q},
                   {"head_dim", problem.head_dim},
                   {"dtype", std::string(name(problem.dtype))},
                   {"layout", std::string(layout_words[static_cast<std::size_t>(problem.layout)])}}};
  const auto integer = [&](std::string_view field, std::int64_t value, std::int64_t fallback) {
    if (value != fallback) general.fields.set(field, value);
  };
  integer("kv_heads", problem.kv_heads, 0);
  integer("seq_kv", problem.seq_kv, 0);
  integer("head_dim_v", problem.head_dim_v, 0);
  if (problem.causal != Causal::none)
    general.fields.set("causal", std::string(causal_words[static_cast<std::size_t>(problem.causal)]));
  integer("window_left", problem.window_left, -1);
  integer("window_right", problem.window_right, -1);
  if (problem.scale != 0) general.fields.set("scale", problem.scale);
  if (problem.softcap != 0) general.fields.set("softcap", problem.softcap);
  integer("alibi", problem.alibi ? 1 : 0, 0);
  integer("sinks", problem.sinks ? 1 : 0, 0);
  if (problem.varlen) {
    general.fields.set("varlen", std::int64_t{1});
    general.fields.set("total_q", problem.total_q);
    general.fields.set("total_kv", problem.total_kv);
  }
  if (!problem.score_mod.empty()) general.fields.set("score_mod", problem.score_mod);
  if (!problem.mask_mod.empty()) general.fields.set("mask_mod", problem.mask_mod);
  std::string declarations;
  for (const AttentionAux& aux : problem.aux)
    declarations += (declarations.empty() ? "" : ";") + aux.name + ":" + std::string(name(aux.dtype)) +
                    (aux.length ? "[" + std::to_string(*aux.length) + "]" : "=" + text(aux.value));
  if (!declarations.empty()) general.fields.set("aux", declarations);
  if (problem.mask_tiles != MaskTiles::internal)
    general.fields.set("mask_tiles", std::string(mask_tiles_words[static_cast<std::size_t>(problem.mask_tiles)]));
  const std::array<const AttentionArrayStrides*, 4> strides{&problem.q_strides, &problem.k_strides, &problem.v_strides,
                                                            &problem.o_strides};
  const std::array<std::int64_t, 4> alignments{problem.q_alignment, problem.k_alignment, problem.v_alignment,
                                               problem.o_alignment};
  for (std::size_t i = 0; i < 4; ++i) {
    integer(batch_stride_fields[i], strides[i]->batch, 0);
    integer(seq_stride_fields[i], strides[i]->seq, 0);
    integer(head_stride_fields[i], strides[i]->head, 0);
    integer(alignment_fields[i], alignments[i], 16);
  }
  return general;
}

std::int64_t mask_tiles_size(const AttentionProblem& problem) {
  return MaskTilesLayout::of(Settings::of(find_op("attention").normalize(to_problem(problem)))).elements();
}

}  // namespace tunesmith
