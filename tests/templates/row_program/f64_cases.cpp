#include "tests/templates/row_program/f64_cases.h"

#include <array>

namespace tunesmith::test {
namespace {

const std::vector<NamedProgram> programs{
    {"f64 types", R"(
in  x : f64[row, col]
in  a : f32[row, col]
in  b : bf16[row, col]
in  c : e4m3[row, col]
in  w : f64[col]
in  v : f16[col]
in  u : i8[col]
in  s : f32[row]
in  k : i32[row]
in  q : f64[]
num eps : f64 = 1e-300
h : bf16 = x * w
sum t = x * a + b
out y : f64[row, col] = h * v + c * u + t * 0.1 + eps
out z : f32[row, col] = x * s + k
out n : e5m2[row, col] = a * q
out total : f64[row] = t
out narrow : f16[row] = t / 3
)"},
    {"f64 of narrow rows", R"(
in  x : f16[row, col]
in  scale : f64[row]
mean m = x * scale
out y : bf16[row, col] = x * scale - m
out z : i8[row, col] = 10 * x
out mean_out : f64[row] = m
)"},
    {"f64 in the sums", R"(
in  x : f32[row, col]
in  dy : bf16[row, col]
max m = x
out p : f32[row, col] = exp(x - m)
colsum dw : f64[col] = x * dy
colsum db : f32[col] = dy
)"},
    {"f64 in the totals", R"(
in  x : f32[row, col]
in  w : f64[col]
mean m = x
colsum t : f64[] = x * w
colsum u : f32[] = m * m
)"},
    {"f64 functions", R"(
in  x : f64[row, col]
num top : f32 = 2.1
a = exp2(min(x, 4)) + log1p(abs(x)) + tanh(x) + erf(x / 3)
b = floor(x) + round(x * 0.5) + square(min(x, top)) + log(abs(x) + 1e-40) + sqrt(abs(x))
c = relu(x) - gelu_tanh(x) + gelu(x) + clamp(x, -1, 1) + silu(x) + f32(col) + pi
out y : f64[row, col] = a + b * 0.25
out z : f64[row, col] = c + uniform(7, 1)
)"},
    {"f64 groups", R"(
in  x : f64[row, col]
in  scale : f32[row, col/32]
monoid largest(a, b) = max(a, b) identity -inf
mean[32] g = x * scale
lse[32] l = x
moments[32] m, v = x
argmin[32] i = x
count[32] n = x > 0
reduce[32] top = largest(abs(x))
out a : f64[row, col/32] = g + l
out b : f64[row, col/32] = v
out c : f32[row, col/32] = select(n > 16, i, n)
out y : f64[row, col] = x - m + top / 3
)"},
    {"f64 own reduction", R"(
in x : f64[row, col]
fn scaled(s, m, top) = select(m == top, s, s * exp(m - top))
monoid online((a, b), (c, d)) = (max(a, c), scaled(b, a, max(a, c)) + scaled(d, c, max(a, c))) identity (-inf, 0)
reduce m, s = online(x, 1)
out y : f64[row, col] = exp(x - m) / s
)"},
    {"f64 chosen", R"(
in  x : f64[row, col]
in  bonus : f32[row, 6]
topk[6] v, i, a, b = x, x / 3, x + 1
mean m = v * bonus
argmax best = a + bonus
moments mu, variance = b
out value  : f64[row, 6] = select(rank == best, 0, a - m)
out narrow : f32[row, 6] = v
out column : i32[row, 6] = i
out spread : f64[row] = variance - mu
out y : f64[row, col] = scatter(i, exp(v - m))
)"},
    {"f64 long list", R"(
in x : f64[row, col]
topk[40] v, i = x
out value : f64[row, 40] = v
out column : i32[row, 40] = i
)"},
};

}  // namespace

const std::vector<NamedProgram>& f64_row_programs() { return programs; }

std::vector<Case> f64_row_program_cases(const DeviceInfo& device) {
  const std::vector<const char*> configs{
      "variant=block",
      "variant=warp,lanes=32",
      "variant=two_pass,threads=64,unroll=2",
      "variant=hybrid,threads=64,register_vectors=1,min_blocks=1",
      "variant=cluster,threads=64,blocks_per_row=2,register_vectors=1,min_blocks=1",
      "variant=grid,threads=64,blocks_per_row=3,register_vectors=2,min_blocks=1",
      "variant=warp,lanes=8",
      "variant=persistent,threads=64,blocks_per_row=1,stages=3,batch=2,keep_columns=0",
      "variant=persistent,threads=32,blocks_per_row=3,stages=2,batch=1,keep_columns=1",
      "variant=persistent,threads=96,blocks_per_row=2,stages=2,batch=4,keep_columns=0",
  };
  constexpr std::array layouts{"rows=17,cols=256", "rows=17,cols=515", "rows=18,cols=391", "rows=17,cols=1024"};
  std::vector<Case> cases;
  std::size_t turn = 0;
  const auto add = [&](const NamedProgram& program, std::size_t count) {
    if (program.text.find("[128]") != std::string::npos) return;  // a group is at most 32 vectors of 2
    const bool grouped = program.text.find("col/") != std::string::npos || program.text.find("[32]") != std::string::npos;
    const std::size_t layout = grouped ? turn % 2 * 3 : turn % layouts.size();
    std::vector<const char*> some;
    for (std::size_t k = 0; k < count; ++k) some.push_back(configs[(turn + 3 * k) % configs.size()]);
    ++turn;
    for (Case& c : row_program_cases(program.text, std::string(layouts[layout]) + ",dtype=f64", device, some))
      cases.push_back(std::move(c));
  };
  for (int i = 0; i < 2; ++i)
    for (const NamedProgram& program : programs) add(program, 4);
  for (const NamedProgram& program : row_programs()) add(program, program.name.starts_with("shipped") ? 2 : 3);
  return cases;
}

std::vector<Case> f64_strided_row_program_cases(const DeviceInfo& device) {
  const std::vector<const char*> configs{"variant=resident,threads=32,lanes=8",
                                         "variant=two_pass,threads=64,lanes=4,unroll=2",
                                         "variant=split,threads=64,lanes=4,unroll=2,blocks_per_row=3",
                                         "variant=cluster,threads=64,lanes=4,blocks_per_row=3",
                                         "variant=resident,threads=64,lanes=64",
                                         "variant=split,threads=128,lanes=64,unroll=1,blocks_per_row=5",
                                         "variant=two_pass,threads=256,lanes=64,unroll=2"};
  constexpr std::array layouts{"rows=3,cols=50,inner=12", "rows=7,cols=43,inner=7", "rows=2,cols=61,inner=100"};
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const std::vector<NamedProgram>* list : {&programs, &row_programs()})
    for (const NamedProgram& program : *list) {
      if (program.text.find("col/") != std::string::npos || program.text.find("[128]") != std::string::npos ||
          program.text.find("[32]") != std::string::npos)
        continue;
      const std::vector<const char*> some{configs[turn % configs.size()], configs[(turn + 3) % configs.size()]};
      for (Case& c :
           row_program_cases(program.text, std::string(layouts[turn % layouts.size()]) + ",dtype=f64", device, some))
        cases.push_back(std::move(c));
      ++turn;
    }
  return cases;
}

}  // namespace tunesmith::test
