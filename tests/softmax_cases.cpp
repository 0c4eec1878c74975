#include "tests/softmax_cases.h"

#include <algorithm>
#include <random>
#include <set>

namespace tunesmith::test {

std::vector<Problem> edge_problems(std::int64_t rows) {
  const Op& op = find_op("softmax");
  std::vector<Problem> problems;
  const auto add = [&](std::int64_t cols, DType in, DType out, std::int64_t x_pad, std::int64_t y_pad,
                       std::int64_t x_alignment, std::int64_t y_alignment, bool in_place) {
    SoftmaxProblem problem;
    problem.rows = rows;
    problem.cols = cols;
    problem.dtype = in;
    problem.out_dtype = out;
    problem.x_row_stride = cols + x_pad;
    problem.y_row_stride = cols + y_pad;
    problem.x_alignment = x_alignment;
    problem.y_alignment = y_alignment;
    problem.in_place = in_place;
    problems.push_back(op.normalize(to_problem(problem)));
  };
  constexpr DType dtypes[] = {DType::f32, DType::f16, DType::bf16};
  int turn = 0;
  for (const std::int64_t cols :
       {1, 2, 3, 7, 8, 31, 32, 33, 64, 100, 127, 128, 129, 256, 781, 1000, 1024, 1025, 2048, 4096, 5003, 8192, 12672}) {
    const DType in = dtypes[turn % 3], out = dtypes[turn / 3 % 3];
    ++turn;
    add(cols, in, out, 0, 0, 16, 16, false);
    add(cols, in, in, 0, 0, 16, 16, true);
    if (cols % 3 == 0 || cols % 5 == 0) add(cols, out, in, 3, 5, size_of(out), size_of(in), false);  // nothing aligned
    if (cols % 2 == 1) add(cols, in, out, 16 - cols % 16, 16 - cols % 16, 16, 16, false);  // aligned rows with a ragged end
  }
  for (const DType in : dtypes)
    for (const DType out : dtypes) {
      add(777, in, out, 0, 8, 8, 4, false);
      add(2304, in, out, 0, 0, 16, 16, false);
    }
  return problems;
}

std::vector<Config> sample_space(const Problem& problem, const DeviceInfo& device, std::size_t count, std::uint64_t seed) {
  std::vector<Config> space = find_op("softmax").search_space(problem, device, Effort::full);
  std::mt19937_64 random(seed);
  std::shuffle(space.begin() + 1, space.end(), random);
  std::vector<Config> sample{space.front()};
  std::set<std::string> variants{space.front().variant()};
  for (const Config& config : space)
    if (variants.insert(config.variant()).second) sample.push_back(config);
  for (const Config& config : space)
    if (sample.size() < count && std::ranges::find(sample, config) == sample.end()) sample.push_back(config);
  return sample;
}

}  // namespace tunesmith::test
