#include "tests/templates/rows/matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>

#include "templates/row_program/language/parse.h"
#include "tests/random/case.h"
#include "tests/random/chance.h"
#include "tests/random/coverage.h"
#include "tests/support/covering.h"
#include "tests/templates/row_program/f64_cases.h"
#include "tests/templates/row_program/op_cases.h"
#include "tests/templates/row_program/random_programs.h"
#include "tunesmith/error.h"

namespace tunesmith::test {
namespace {

using Sizes64 = std::vector<std::int64_t>;

/// A configuration, complete or not, and sizes of problems that exercise it.
struct Schedule {
  const char* config;
  Sizes64 rows, cols;
  Sizes64 inner{1};
  std::size_t draws = 1;  ///< times as many as of others, because few problems have it
};

const Sizes64 short_rows{1, 2, 3, 7, 8, 31, 32, 33, 36, 37, 64, 100, 127, 128, 129},
    medium_rows{256, 300, 515, 781, 1000, 1024}, long_rows{1025, 1031, 1281, 1504, 1536, 2048},
    pieces{5000, 5003, 6000, 6004, 9008}, positions{2, 5, 7, 8, 12, 24, 130};

const Schedule schedules[] = {
    // As the tuner has them: the default, and one of the search space.
    {"", {19}, {1, 8, 33, 64, 128, 777, 1000, 2304, 5003, 9000}},
    {"", {3}, {1, 21, 29, 150, 1000}, positions},
    {"search", {19}, {1, 8, 33, 64, 128, 777, 1000, 2304, 5003, 9000}},
    {"search", {3}, {1, 21, 29, 150, 1000}, positions},
    // Lanes of a warp; few rows and more than there are blocks.
    {"variant=warp,threads=64,lanes=1", {23, 77}, short_rows},
    {"variant=warp,threads=128,lanes=8", {19, 131}, short_rows},
    {"variant=warp,threads=64,lanes=32", {17}, medium_rows},
    {"variant=warp,threads=256,lanes=4", {1003}, {21, 24}},
    {"variant=warp,threads=64,lanes=32,access=pairs", {23}, {37, 130, 501, 781}},
    {"variant=warp,threads=128,lanes=8,access=elements", {23}, {37, 130, 501}},
    {"variant=warp,threads=64,lanes=8,prefetch_blocks=1", {43, 300}, {37, 203, 300}},
    // Staged in shared memory: fewer rounds than lanes, as many, and more; blocks that are not full.
    {"variant=warp,access=staged,threads=32,lanes=1,rounds=1", {1, 19, 131}, {1, 2, 3, 5, 21, 30}},
    {"variant=warp,access=staged,threads=64,lanes=2,rounds=8", {77, 257}, {13, 21, 25, 31, 37, 38}},
    {"variant=warp,access=staged,threads=64,lanes=4,rounds=2,store=streaming", {64, 77}, {37, 38, 61, 77, 101}},
    {"variant=warp,access=staged,threads=128,lanes=16,rounds=4", {19, 131}, {193, 206, 255, 301, 450}},
    {"variant=warp,access=staged,threads=64,lanes=32,rounds=8,prefetch_blocks=2", {90}, {513, 701, 1001}},
    // Blocks; numbers of warps that are not powers of two.
    {"variant=block,threads=32", {19, 1003}, {24, 37, 100}},
    {"variant=block,threads=96", {9, 17}, {781, 1031, 3001}},
    {"variant=block,threads=128,registers=packed", {17}, {1536, 3001, 3008}},
    {"variant=block,threads=992", {9}, {4160, 9000}},
    {"variant=block,threads=64,access=pairs", {23}, {501, 781, 1501}},
    {"variant=block,threads=128,min_blocks=2,prefetch_blocks=3", {13, 200}, {301, 1000}},
    // Rows partly or only in shared memory.
    {"variant=hybrid,threads=64,register_vectors=1,min_blocks=2", {17}, long_rows},
    {"variant=hybrid,threads=32,register_vectors=0", {5}, {515, 1025, 1473}},
    {"variant=hybrid,threads=256,register_vectors=2,min_blocks=1", {5}, {4096, 5003, 8200}},
    {"variant=hybrid,threads=32,register_vectors=2,min_blocks=1,prefetch_blocks=1", {150}, {1001, 1024}},
    // Several blocks of a cluster or a grid: numbers that are not powers of two, blocks without columns.
    {"variant=cluster,threads=64,blocks_per_row=2,register_vectors=1,min_blocks=1", {17}, long_rows},
    {"variant=cluster,threads=96,blocks_per_row=7,min_blocks=1,register_vectors=3", {5}, {9000, 9001}},
    {"variant=cluster,threads=256,blocks_per_row=8", {17}, {8192}},
    {"variant=cluster,blocks_per_row=16", {3}, {40003}},
    {"variant=cluster,threads=64,blocks_per_row=3,min_blocks=1,prefetch_blocks=7", {9, 90}, {1003, 2048}},
    {"variant=grid,threads=64,blocks_per_row=3,register_vectors=2,min_blocks=1", {17}, long_rows},
    {"variant=grid,threads=64,blocks_per_row=66,register_vectors=1,min_blocks=1", {11}, {14008}},
    {"variant=grid,threads=32,blocks_per_row=40,register_vectors=4,min_blocks=1", {11}, {14008}},
    {"variant=grid,threads=224,blocks_per_row=6,register_vectors=1,min_blocks=2", {30}, {6000}},
    {"variant=grid,threads=64,blocks_per_row=5,register_vectors=0,min_blocks=1,stagger_bytes_per_ns=20", {9}, {2048, 9001}},
    // Rows that are read twice, alone or in slices.
    {"variant=two_pass,threads=64,unroll=2", {17}, long_rows},
    {"variant=two_pass,threads=32,unroll=1,blocks_per_sm=1", {19, 200}, {24, 200, 781}},
    {"variant=two_pass,threads=352,unroll=4", {5}, {9000, 9001}},
    {"variant=two_pass,threads=1024,unroll=4", {3}, {50257}},
    {"variant=split,threads=64,unroll=1,blocks_per_row=3", {17}, long_rows},
    {"variant=split,threads=32,unroll=1,blocks_per_row=32", {9}, {5000, 8192}},
    {"variant=split,threads=128,unroll=2,blocks_per_row=4", {9}, {5000, 9001}},
    // Rows that stream through shared memory: with the next row ahead or not, more rows than the ring holds.
    {"variant=pipeline,threads=128,blocks_per_row=2,stages=7,chunk_bytes=4096,ahead=1", {3, 23}, pieces, {1}, 5},
    {"variant=pipeline,threads=64,blocks_per_row=4,stages=3,chunk_bytes=4096,ahead=0", {9}, pieces, {1}, 5},
    {"variant=pipeline,threads=256,blocks_per_row=1,stages=8,chunk_bytes=4096,ahead=1", {23}, pieces, {1}, 5},
    {"variant=persistent,threads=64,blocks_per_row=1,stages=3,batch=2,keep_columns=0", {17, 37}, long_rows},
    {"variant=persistent,threads=32,blocks_per_row=3,stages=2,batch=1,keep_columns=1", {17}, long_rows},
    {"variant=persistent,threads=96,blocks_per_row=2,stages=2,batch=4,keep_columns=0", {17}, {1024, 2048}},
    // Kernels without variants.
    {"threads=64,unroll=2", {23}, {300, 1001}},
    {"threads=64,lanes=8,unroll=4", {5}, {29}, positions},
    // Columns that are not adjacent: one warp, several warps and lanes for a position, more threads than columns.
    {"variant=resident,threads=64,lanes=8", {3}, {22, 29, 67}, positions},
    {"variant=resident,threads=128,lanes=1", {3}, {22, 150}, positions},
    {"variant=resident,threads=128,lanes=64", {2}, {1, 33}, positions},
    {"variant=cluster,threads=64,lanes=4,blocks_per_row=3", {3}, {9, 50, 150}, positions},
    {"variant=cluster,threads=128,lanes=32,blocks_per_row=2", {2}, {29, 400}, positions},
    {"variant=two_pass,threads=64,lanes=4,unroll=2", {3}, {29, 150}, positions},
    {"variant=two_pass,threads=256,lanes=64,unroll=4", {2}, {33, 131}, positions},
    {"variant=split,threads=64,lanes=2,unroll=2,blocks_per_row=3", {3}, {29, 400}, positions},
    {"variant=split,threads=128,lanes=64,unroll=1,blocks_per_row=5", {2}, {9, 131}, positions},
};

enum class Access : std::uint8_t {
  contiguous,
  strided,  ///< strides, alignments and arrays that overwrite others, drawn
  bucket,   ///< the kernel of every width of a bucket
};
constexpr std::array access_names{"contiguous", "strided", "bucket"};

/// Operations with the folder of their kernels; those whose kernels are schedules of row/ alone are "programs".
const std::vector<std::pair<std::string, std::vector<const Op*>>>& families() {
  static const auto all = [] {
    std::vector<std::pair<std::string, std::vector<const Op*>>> found;
    for (const Op* op : all_ops()) {
      const std::vector<std::string> templates = op->templates();
      if (op->is_internal() ||
          std::ranges::none_of(templates, [](const std::string& name) { return name.starts_with("row/schedules"); }))
        continue;
      const auto own = std::ranges::find_if(
          templates, [](const std::string& name) { return name.find('/') == name.npos && name != "strided"; });
      const std::string family = own == templates.end() ? "programs" : *own;
      auto known = std::ranges::find(found, family, &std::pair<std::string, std::vector<const Op*>>::first);
      if (known == found.end()) known = found.insert(known, {family, {}});
      known->second.push_back(op);
    }
    return found;
  }();
  return all;
}

const std::vector<const Op*>& ops_of(const std::string& family) {
  return std::ranges::find(families(), family, &std::pair<std::string, std::vector<const Op*>>::first)->second;
}

const std::vector<std::string>& programs() {
  static const auto all = [] {
    std::vector<std::string> texts;
    for (const std::vector<NamedProgram>* list : {&row_programs(), &f64_row_programs()})
      for (const NamedProgram& program : *list) texts.push_back(program.text);
    return texts;
  }();
  return all;
}

/// Returns the dtype choices of the operation; a program has all that its problems may have.
std::string dtype_of(const Op& op, Chance& chance) {
  for (const FieldInfo& field : op.cached_fields())
    if (field.name == "dtype" && !field.choices.empty()) return std::string(chance.one_of(field.choices));
  return {};
}

struct Candidate {
  MatrixCase drawn;
  std::vector<std::string> features;
};

class Drawing {
 public:
  Drawing(const std::vector<DeviceInfo>& devices, std::uint64_t seed) : devices_(devices), chance_(seed) {}

  /// `text`: the program; empty: the next one, or a random one.
  std::optional<Candidate> draw(const Op& op, const Schedule& schedule, const std::string& text = {}) {
    const auto first = static_cast<std::size_t>(chance_.below(static_cast<std::int64_t>(devices_.size())));
    const auto access = static_cast<Access>(chance_.below(std::size(access_names)));
    Fields fixed;
    const auto has = [&](std::string_view name) {
      return std::ranges::any_of(op.cached_fields(), [&](const FieldInfo& field) { return field.name == name; });
    };
    fixed.set("rows", chance_.one_of(schedule.rows));
    if (has("cols")) fixed.set("cols", chance_.one_of(schedule.cols));
    const std::int64_t inner = chance_.one_of(schedule.inner);
    if (inner > 1) fixed.set("inner", inner);
    if (const std::string dtype = dtype_of(op, chance_); !dtype.empty()) fixed.set("dtype", dtype);
    std::string program;
    if (has("program")) {
      const bool is_random = text.empty() && chance_.with(0.2);
      program = is_random       ? row_program::random_program(chance_.bits() % 100'000)
                : !text.empty() ? text
                                : programs()[turn_++ % programs().size()];
      fixed.set("program", program);
      if (const std::string numbers = numbers_for(program); !numbers.empty())
        fixed.set("numbers", numbers.substr(numbers.find('=') + 1));
      if (is_random) program = "random";
      if (const std::int64_t group = row_program::parse(fixed.string("program")).group; group > 1)
        fixed.set("cols", (fixed.integer("cols") + group - 1) / group * group);
    }
    constexpr Sizes sizes{3000, 8e6, 1e9};
    ParsedProblemPtr problem;
    try {
      problem = draw_rest(op, fixed, access == Access::strided, chance_.bits(), sizes, devices_[first]);
    } catch (const Error&) {  // the program has no such dtype
    }
    if (problem == nullptr || !fits(*problem, sizes)) return std::nullopt;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const std::size_t at = (first + i) % devices_.size();
      try {
        Config config = config_of(*problem, schedule, devices_[at]);
        if (access == Access::bucket && !in_bucket(*problem, config, devices_[at])) return std::nullopt;
        Candidate made{{{problem->problem(), std::move(config)}, at, program}, {}};
        add_features(made, schedule, *problem, access, program, fixed);
        return made;
      } catch (const Error& error) {  // the problem has no such schedule, or the device has none
        if (error.code() != ErrorCode::invalid_argument && error.code() != ErrorCode::unsupported) throw;
      }
    }
    return std::nullopt;
  }

 private:
  Config config_of(const ParsedProblem& problem, const Schedule& schedule, const DeviceInfo& device) {
    if (schedule.config != std::string_view("search"))
      return problem.complete_config(device, Config{parse_fields(schedule.config, "config")});
    return chance_.one_of(problem.search_space(device, Effort::full));
  }

  bool in_bucket(const ParsedProblem& problem, Config& config, const DeviceInfo& device) {
    if (problem.capacity() == 0) return false;
    config.fields.set("capacity", problem.capacity());
    Config sized = config;
    sized.fields.set("sized_by_row", std::int64_t{1});
    if (chance_.with(0.5) && problem.why_invalid(device, sized).empty()) config = sized;
    return problem.why_invalid(device, config).empty();
  }

  static void add_features(Candidate& made, const Schedule& schedule, const ParsedProblem& problem, Access access,
                           const std::string& program, const Fields& fixed) {
    const Case& c = made.drawn.c;
    const std::string columns = fixed.contains("inner") ? "positions in " : "columns in ",
                      variant = columns + (c.config.fields.contains("variant") ? c.config.variant() : "tiles"),
                      pattern = access_names[static_cast<std::size_t>(access)], device = std::to_string(made.drawn.device),
                      dtype = fixed.contains("dtype") ? fixed.string("dtype") : "";
    std::vector<std::string>& features = made.features;
    features = {std::string("schedule ") + schedule.config + columns,
                c.problem.op + " in " + variant,
                dtype + " in " + variant,
                pattern + " in " + variant,
                pattern + " of " + dtype,
                pattern + " of " + c.problem.op,
                device + " has " + variant,
                device + " has " + dtype,
                "program " + program};
    for (const std::string& name : class_names({c.problem, c.config, Values::edge_cases, 1, {}}, problem, c.config))
      features.push_back(c.problem.op + " with " + name);
    for (const auto& [name, value] : c.problem.fields)
      if (value == Value(std::int64_t{1}) || (std::holds_alternative<std::string>(value) && name != "program")) {
        const std::string chosen = text(value);  // or "x=4;y=0" of several arrays
        features.push_back(variant + " with " + name + (chosen.find('=') == chosen.npos ? "=" + chosen : ""));
      }
    for (const auto& [name, value] : c.config.fields) features.push_back(variant + " has " + name + "=" + text(value));
  }

  const std::vector<DeviceInfo>& devices_;
  Chance chance_;
  std::size_t turn_ = 0;
};

}  // namespace

std::vector<std::string> row_families() {
  std::vector<std::string> names;
  for (const auto& [name, ops] : families()) names.push_back(name);
  return names;
}

std::vector<MatrixCase> row_matrix(const std::string& family, const std::vector<DeviceInfo>& devices, std::uint64_t seed) {
  const std::vector<const Op*>& ops = ops_of(family);
  const std::size_t draws = 64 / ops.size();  // in each schedule
  Drawing drawing(devices, seed);
  std::vector<Candidate> candidates;
  for (const Schedule& schedule : schedules) {
    const std::size_t before = candidates.size();
    for (std::size_t i = 0; i < draws * schedule.draws * ops.size(); ++i)
      if (std::optional<Candidate> made = drawing.draw(*ops[i % ops.size()], schedule))
        candidates.push_back(std::move(*made));
    // Few problems have a schedule such as streamed rows, and no problem of some operations.
    for (std::size_t i = 0; candidates.size() == before && i < 2000; ++i)
      if (std::optional<Candidate> made = drawing.draw(*ops[i % ops.size()], schedule))
        candidates.push_back(std::move(*made));
  }
  // Programs that few schedules have.
  std::set<std::string> drawn;
  for (const Candidate& candidate : candidates) drawn.insert(candidate.drawn.program);
  for (const std::string& program : programs())
    for (std::size_t i = 0; ops.back()->name() == "row_program" && !drawn.contains(program) && i < 5 * std::size(schedules);
         ++i)
      if (std::optional<Candidate> made = drawing.draw(*ops.back(), schedules[i % std::size(schedules)], program)) {
        candidates.push_back(std::move(*made));
        drawn.insert(program);
      }
  std::vector<std::vector<std::string>> features;
  for (const Candidate& candidate : candidates) features.push_back(candidate.features);
  std::vector<MatrixCase> chosen;
  for (const std::size_t i : covering_features(features)) chosen.push_back(candidates[i].drawn);
  std::printf("%zu of %zu cases cover all pairs\n", chosen.size(), candidates.size());
  return chosen;
}

void expect_complete(const std::string& family, const std::vector<MatrixCase>& cases) {
  // Fields of configurations are described once for all operations over rows.
  const std::string_view variant_of_others = family == "programs" ? "pipeline" : "persistent";
  std::set<std::string> found, expected;
  for (const MatrixCase& each : cases) {
    const Case& c = each.c;
    if (c.config.fields.contains("variant")) found.insert(c.config.variant());
    if (c.problem.fields.contains("dtype")) found.insert(c.problem.op + " " + c.problem.fields.string("dtype"));
    if (c.config.fields.contains("capacity")) found.insert(c.problem.op + " bucket");
    found.insert(each.program);
  }
  for (const Op* op : ops_of(family)) {
    const std::string name(op->name());
    if (name == "row_program") expected.insert(programs().begin(), programs().end());
    for (const FieldInfo& field : op->config_fields()) {
      if (field.name == "capacity") expected.insert(name + " bucket");
      if (field.name == "variant") expected.insert(field.choices.begin(), field.choices.end());
    }
    for (const FieldInfo& field : op->cached_fields())
      if (field.name == "dtype")
        for (const std::string_view choice : field.choices) expected.insert(name + " " + std::string(choice));
  }
  expected.erase(std::string(variant_of_others));
  for (const std::string& each : expected) EXPECT_TRUE(found.contains(each)) << "no case of " << each;
}

void expect_accurate(const std::string& family, const LargestErrors& errors) {
  EXPECT_GT(errors.share(), 0.05) << "the check found no rounding errors";
  // Units in the last place of f32: two exponentials' and a sum's 1.24, and half a unit for its additions and for the
  // quotient (templates/softmax/reference.cpp).
  constexpr double of_softmax = 2 * 1.24 + 1.24 + 0.5 + 0.5, of_softmax_f64 = 6, of_loss_f64 = 0x1.0p-48;
  for (const Op* op : ops_of(family)) {
    if (family == "softmax") {
      EXPECT_GT(errors.float32(op->name()), 0.3) << op->name();
      EXPECT_LE(errors.float32(op->name()), of_softmax) << op->name();
      EXPECT_LE(errors.float64(op->name()), of_softmax_f64) << op->name();
    }
    if (family == "cross_entropy") {
      EXPECT_LE(errors.float64(op->name()), of_loss_f64) << op->name();
    }
  }
}

}  // namespace tunesmith::test
