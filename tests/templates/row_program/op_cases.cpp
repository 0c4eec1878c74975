#include "tests/templates/row_program/op_cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "templates/row_program/language/parse.h"
#include "templates/row_program/language/programs.h"
#include "tuner/device_memory.h"
#include "tunesmith/error.h"

namespace tunesmith::test {
namespace {

const std::vector<NamedProgram> own_programs{
    {"rms_norm", R"(
in  x : float[row, col]
in  w : float[col]
num eps : f32 = 1e-6
sum ss = x * x
out y : float[row, col] = x * rsqrt(ss / cols + eps) * w
)"},
    {"softmax", R"(
in  x : float[row, col]
max m = x
e = exp(x - m)
sum s = e
out y : float[row, col] = e / s
)"},
    {"add_rms_norm_e4m3", R"(
in  x, r : float[row, col]
in  w    : f32[col]
num eps  : f32 = 1e-6
h : float = x + r
sum ss = h * h
y = h * rsqrt(ss / cols + eps) * (1 + w)
max a = abs(y)
q = max(a, 1e-12) / 448
out res   : float[row, col] = h
out scale : f32[row]        = q
out z     : e4m3[row, col]  = y / q
)"},
    {"norm_blocks", R"(
in  x : float[row, col]
num eps  : f32 = 1e-6
sum ss = x * x
y = x * rsqrt(ss / cols + eps)
max[32] a = abs(y)
q = max(a, 1e-12) / 448
out scale : f32[row, col/32] = q
out z     : e4m3[row, col] = y / q
)"},
    {"layer_norm", R"(
in  x : float[row, col]
in  w, b : f32[col]
num eps  : f32 = 1e-5
moments mu, v = x
r = rsqrt(v + eps)
out center : f32[row] = mu
out rstd   : f32[row] = r
out y : float[row, col] = (x - mu) * r * w + b
)"},
    {"swiglu", R"(
in  gate, up : float[row, col]
out y : float[row, col] = gate * sigmoid(gate) * up
)"},
    {"quantize", R"(
in  x : float[row, col]
max a = abs(x)
q = max(a, 1e-12) / 127
out scale : f32[row]     = q
out z     : i8[row, col] = x / q
)"},
    {"dequantize", R"(
in  z : i8[row, col]
in  scale : f32[row]
out y : float[row, col] = z * scale
)"},
    {"dequantize_blocks", R"(
in z : e4m3[row, col]
in scale : f32[row, col/32]
in x : float[row, col]
y = z * scale / (abs(scale) + 1)
max[32] a = abs(x) * scale
out y_out : float[row, col] = y + x / (a + scale)
out top : f32[row, col/32] = a * scale
)"},
    {"groups_of_rows", R"(
in x : float[row, col]
in scale : f32[row, col/32]
count c = x > 0
q = c / (abs(scale) + 0.5)
max m = x * q
out y : float[row, col] = x + q * m
)"},
    {"choices", R"(
in  x : float[row, col]
in  t : i32[row]
argmax i = x
argmin k = x
count c = x > 0
out best  : i32[row] = i
out worst : i32[row] = k
out some  : i32[row] = c
out y : float[row, col] = select(col == t, x, 0)
)"},
    {"conditions", R"(
in  x : float[row, col]
lse l = x
any p = x > 3
all n = x < 3
min lo = x
out y   : float[row, col] = select(n, x, lo)
out low : f32[row] = select(p, lo, 7)
out sum_of_exponentials : f32[row] = l
)"},
    {"overflow", R"(
in  x : float[row, col]
sum s = x
moments m, v = x
out y : float[row, col] = x
out total : f32[row] = s
out mean_out : f32[row] = m
out variance : f32[row] = v
)"},
    {"own_reduction", R"(
in x : float[row, col]
monoid both((a, b), (c, d)) = (a + c, max(b, d)) identity (0, -inf)
reduce s, m = both(abs(x), x)
out y : float[row, col] = x / max(s, 1) + m
)"},
};

// Of the chosen columns: the golden sources of others do not depend on how many there are.
const std::vector<NamedProgram> programs_of_chosen_columns{
    {"top_columns", R"(
in  x : float[row, col]
topk[5] v, i = x
out value  : float[row, 5] = v
out column : i32[row, 5] = i
)"},
    {"top_of_none", R"(
in  x : float[row, col]
topk[1] v = abs(x)
sum s = x
out y : float[row, col] = x * scatter(i32(v * 0), v) + s
)"},
    {"top_scatter", R"(
in  x : float[row, col]
topk[3] v, i = x
lse l, m, s = v
out y : float[row, col] = scatter(i, exp(v - m) / s)
)"},
    {"top_of_chosen", R"(
in  x : float[row, col]
in  w : f32[col]
in  bonus : f32[row, 6]
num least : f32 = 0.5
h : bf16 = x * w
topk[6] v, i, a, b = h, x, w + x
mean m = v * bonus
argmax best = a + bonus
count c = v > least
moments mu, variance = b
out value  : bf16[row, 6] = select(rank == best, 0, a - m)
out column : i32[row, 6] = i + c
out spread : f32[row] = variance - mu
out one    : f32[row, 6] = m
)"},
    {"top_stages", R"(
in  x : float[row, col]
mean m = x
topk[4] v, i, a = abs(x - m), x
min low = v
sum below = select(abs(x - m) < low, x, 0)
out y : f32[row, 4] = a + below
out z : e4m3[row, col] = x + scatter(i, below)
)"},
};

// Integers and booleans in arrays with columns.
const std::vector<NamedProgram> programs_of_integers{
    {"integers", R"(
in  i, j : i32[row, col]
in  p : i32[col]
in  x : float[row, col]
in  t : i32[row]
out moved : i32[row, col] = select(i < j, i, max(j, p))
out own   : i32[row, col] = select(i == col, row, select(p != t, p, 16777217))
out y     : float[row, col] = select(p <= i && j > -16777219, x, 0.5)
)"},
    {"integers in arithmetic", R"(
in  i : i32[row, col]
in  x : float[row, col]
sum s = i
max m = abs(i) * x
out n : i32[row, col] = i * 2 + 1
out y : float[row, col] = x * i - s / cols
out top : f32[row] = m
)"},
    {"booleans", R"(
in  keep, other : bool[row, col]
in  c : bool[col]
in  r : bool[row]
in  x : float[row, col]
any some = keep && !other
count n = keep == c
sum s = select(keep, x, 0)
out kept : bool[row, col] = (keep || other) != c
out big  : bool[row, col] = x > 1 && r
out few  : bool[row] = n < 100
out y    : float[row, col] = select(keep && c || r, x, select(some, s, -1))
)"},
    {"integers of groups", R"(
in  x : float[row, col]
in  i : i32[row, col]
in  g : i32[row, col/32]
in  b : bool[row, col/32]
argmax[32] k = x
any[32] a = x > 2
out place : i32[row, col/32] = select(k < g, g, k)
out flag  : bool[row, col/32] = a && b
out same  : i32[row, col] = select(b && g != i, i, g)
)"},
    {"booleans of chosen", R"(
in  x : float[row, col]
in  allowed : bool[row, 4]
in  every : bool[]
topk[4] v, i = x
out positive : bool[row, 4] = v > 0 && allowed || every
out column : i32[row, 4] = i
out chosen : bool[row, col] = scatter(i, 1) > 0
)"},
    {"kept integers", R"(
in  x : float[row, col]
in  i : i32[row, col]
max m = x
e = exp(x - m)
sum s = e
out y : float[row, col] = e / s
out n : i32[row, col] = i
)"},
};

// What of the language the others do not have (coverage_test.cpp).
const std::vector<NamedProgram> programs_of_the_language{
    {"language_functions", R"(
in  x : float[row, col]
num top : f32 = 2
a = exp2(min(x, 4)) + log1p(abs(x)) + tanh(x)
b = floor(x) + round(x * 0.5) + square(min(x, top))
c = relu(x) - gelu_tanh(x) + clamp(x, -1, 1)
out y : f32[row, col] = a + b * 0.25
out z : float[row, col] = c
)"},
    {"language_types", R"(
in  a : f16[row, col]
in  b : bf16[row, col]
in  c : e5m2[row, col]
in  d : i32[row]
out p : f16[row, col] = a * 0.5 + c
out q : bf16[row, col] = b + a * d
)"},
    {"language_booleans", R"(
in  x : float[row, col]
in  s : f32[]
low = x < s
keep = low && x > -1 || !low && x != 2
out e : e5m2[row, col] = f16(x) + e5m2(x * s)
out y : float[row, col] = select(keep, x, row + rows)
)"},
    {"language_groups", R"(
in  x : float[row, col]
monoid largest(a, b) = max(a, b) identity -inf
mean[32] g = x
min[32] low = x
lse[32] l = x
moments[32] m, v = x
argmin[32] i = x
any[32] some = x > 2
all[32] each = x < 2
count[32] n = x > 0
reduce[32] top = largest(abs(x))
out a : f32[row, col/32] = g + low + l
out b : f32[row, col/32] = v
out c : f32[row, col/32] = select(n > 16, i, n)
out d : f32[row, col/32] = select(some, top, select(each, 1, 2))
out y : float[row, col] = x - m
)"},
    {"language_chosen", R"(
in  x : float[row, col]
monoid largest(a, b) = max(a, b) identity -inf
topk[4] v, i = x
max a = v
argmin b = v
any some = v > 3
all each = v > -3
reduce e = largest(abs(v))
out r : f32[row] = select(some, a + e, select(each, a, e))
out place : i32[row] = b
out y : float[row, 4] = v - a
)"},
};

// Sums of one element: with sums of columns and without, of every kind of value.
const std::vector<NamedProgram> programs_of_totals{
    {"totals", R"(
in  x : float[row, col]
in  w : f32[col]
in  r : f32[row]
sum s = x * w
out y : float[row, col] = x * s
colsum squares : f32[] = x * x
colsum dw : float[col] = x * s
colsum of_rows : f32[] = s * r
colsum of_columns : float[] = w * 0.125
)"},
    {"total_alone", R"(
in  x : float[row, col]
in  t : i32[row]
lse l = x
sum picked = select(col == t, x, 0)
colsum loss : f32[] = select(t < 0, 0, l - picked) / rows
)"},
    {"totals_of_groups", R"(
in  x : float[row, col]
in  scale : f32[row, col/32]
max[32] a = abs(x)
colsum largest : f32[] = a / (1 + abs(scale))
colsum all_scales : f32[] = scale
)"},
    {"totals_of_chosen", R"(
in  x : float[row, col]
topk[3] v, i = x
colsum best : f32[] = v
out column : i32[row, 3] = i
)"},
};

}  // namespace

const std::vector<NamedProgram>& row_programs() {
  static const std::vector<NamedProgram> all = [] {
    std::vector<NamedProgram> programs = own_programs;
    for (const auto& [name, text] : row_program::shipped_programs())
      programs.push_back({"shipped " + std::string(name), std::string(text)});
    for (const auto& [name, text] : row_program::shipped_programs()) {
      if (name == "gumbel_sampling") continue;  // an argmax has no gradient
      const std::string gradient = std::string(name) + "_gradient";
      programs.push_back({"shipped " + gradient, row_program::shipped_program(gradient)});
    }
    programs.insert(programs.end(), programs_of_chosen_columns.begin(), programs_of_chosen_columns.end());
    programs.insert(programs.end(), programs_of_the_language.begin(), programs_of_the_language.end());
    programs.insert(programs.end(), programs_of_integers.begin(), programs_of_integers.end());
    programs.insert(programs.end(), programs_of_totals.begin(), programs_of_totals.end());
    return programs;
  }();
  return all;
}

const std::string& row_program_text(const std::string& name) {
  for (const NamedProgram& program : row_programs())
    if (program.name == name) return program.text;
  throw std::runtime_error("no program " + name);
}

Problem row_program_problem(const std::string& text, const std::string& fields) {
  Problem problem{"row_program", parse_fields(fields, "fields")};
  problem.fields.set("program", text);
  if (text.find("num seed") != std::string::npos && !problem.fields.contains("numbers"))
    problem.fields.set("numbers", std::string("seed=7"));
  return find_op("row_program").normalize(problem);
}

std::string numbers_for(const std::string& text) {
  std::string values;
  for (const row_program::Number& number : row_program::parse(text).numbers)
    if (!number.value)
      values += (values.empty() ? "" : ";") + number.name + (number.type == row_program::Type::i32 ? "=3" : "=0.5");
  return values.empty() ? "" : ",numbers=" + values;
}

std::vector<Case> row_program_cases(const std::string& text, const std::string& fields, const DeviceInfo& device,
                                    const std::vector<const char*>& configs) {
  std::vector<Case> cases;
  const Problem problem = row_program_problem(text, fields);
  for (const char* config : configs) {
    try {
      cases.push_back(case_of(problem, device, config));
    } catch (const Error&) {
      // Not every variant has room for every row, or the device lacks clusters.
    }
  }
  return cases;
}

std::vector<Case> softmax_program_cases(const std::string& fields, const DeviceInfo& device) {
  const std::vector<const char*> adjacent{"variant=warp,lanes=32",
                                          "variant=block,threads=96",
                                          "variant=hybrid,threads=64,register_vectors=1",
                                          "variant=two_pass,threads=64",
                                          "variant=cluster,threads=64,blocks_per_row=2",
                                          "variant=grid,threads=64,blocks_per_row=2",
                                          "variant=persistent,threads=64,blocks_per_row=1,stages=2,batch=2"},
      strided{"variant=resident", "variant=two_pass", "variant=split,threads=64,lanes=2,blocks_per_row=3",
              "variant=cluster,threads=64,lanes=2,blocks_per_row=3"};
  const bool is_strided = fields.find("inner=") != std::string::npos;
  return row_program_cases(row_program_text("shipped softmax"), fields, device, is_strided ? strided : adjacent);
}

double error_of_softmax(const std::string& fields, const Executable& executable, Device& device, InputKind kind) {
  const Problem problem = normalized("softmax", fields);
  const ParsedProblemPtr softmax = find_op("softmax").parse(problem);
  std::vector<HostArray> arrays;
  std::vector<std::vector<float>> host;
  std::vector<DeviceMemory> memory;
  std::vector<void*> addresses;
  for (const ArrayInfo& info : softmax->arrays()) {
    host.emplace_back(static_cast<std::size_t>(info.elements()), std::numeric_limits<float>::quiet_NaN());
    arrays.push_back({info, reinterpret_cast<std::byte*>(host.back().data())});
    memory.emplace_back(device, host.back().size() * sizeof(float));
    addresses.push_back(memory.back().get());
  }
  constexpr std::uint64_t seed = 3;
  softmax->fill_inputs(seed, kind, arrays);
  const std::size_t bytes = host[0].size() * sizeof(float);
  device.copy_to_device(addresses[0], host[0].data(), bytes);
  device.copy_to_device(addresses[1], host[1].data(), bytes);
  executable.enqueue(addresses, nullptr);
  device.synchronize(nullptr);
  device.copy_to_host(host[1].data(), addresses[1], bytes);

  const auto cols = static_cast<std::size_t>(problem.fields.integer("cols"));
  const auto inner =
      static_cast<std::size_t>(problem.fields.contains("inner") ? problem.fields.integer("inner") : std::int64_t{1});
  double largest = 0;
  for (std::size_t row = 0; row < host[0].size() / cols; ++row) {
    const auto at = [&](std::size_t column) { return (row / inner * cols + column) * inner + row % inner; };
    double maximum = -INFINITY, sum = 0;
    for (std::size_t c = 0; c < cols; ++c) {
      const auto x = static_cast<double>(host[0][at(c)]);
      maximum = std::isnan(x) || std::isnan(maximum) ? NAN : std::max(maximum, x);
    }
    if (!std::isfinite(maximum)) continue;
    for (std::size_t c = 0; c < cols; ++c) sum += std::exp(static_cast<double>(host[0][at(c)]) - maximum);
    for (std::size_t c = 0; c < cols; ++c) {
      const double exact = std::exp(static_cast<double>(host[0][at(c)]) - maximum) / sum;
      const double unit = exact < 0x1p-126 ? 0x1p-126 : std::ldexp(1, std::ilogb(exact) - 23);
      const double error = std::abs(static_cast<double>(host[1][at(c)]) - exact) / unit;
      largest = std::max(largest, std::isnan(error) ? INFINITY : error);
    }
  }
  return largest;
}

}  // namespace tunesmith::test
