#include "templates/row/schedules/staged.h"

#include <algorithm>

#include "templates/row/config.h"
#include "templates/row/prefetch.h"
#include "templates/source_text.h"

namespace tunesmith::row {

Shape staged_view(Shape shape, int rows) {
  shape.widest = 2;
  if (shape.shifted()) shape.widest = 1;
  shape.staged_rows = rows;
  return shape;
}

namespace {

std::int64_t bytes_in_vectors(std::int64_t elements, DType dtype) {
  constexpr std::int64_t vector = 16;
  return (elements * size_of(dtype) + vector - 1) / vector * vector;
}

}  // namespace

std::int64_t StagedArrays::bytes_of(std::int64_t elements) const {
  std::int64_t end = 0;
  for (const std::vector<StagedArray>* const arrays : {&inputs, &outputs})
    for (const StagedArray& array : *arrays) end = std::max(end, array.offset + bytes_in_vectors(elements, array.dtype));
  return end;
}

StagedArrays staged_arrays(const Shape& shape) {
  StagedArrays arrays{};
  const auto with_room = [&](DType dtype) {
    const StagedArray array{dtype, arrays.bytes};
    arrays.bytes += bytes_in_vectors(shape.staged_rows * shape.cols, dtype);
    return array;
  };
  for (int i = 0; i < shape.inputs; ++i) arrays.inputs.push_back(with_room(shape.input_dtype(i)));
  std::vector<StagedArray> free = arrays.inputs;  // inputs that no output replaces
  const auto add_output = [&](DType dtype) {
    const auto replaced =
        std::ranges::find_if(free, [&](const StagedArray& input) { return size_of(input.dtype) == size_of(dtype); });
    if (replaced == free.end()) {
      arrays.outputs.push_back(with_room(dtype));
    } else {
      arrays.outputs.push_back({dtype, replaced->offset});
      free.erase(replaced);
    }
  };
  if (shape.cost.writes) add_output(shape.out.dtype.value_or(shape.output));
  for (int i = 0; i < shape.more_outputs; ++i) add_output(shape.more_output_dtype(i));
  return arrays;
}

std::string why_not_staged(const TypedConfig& config, const Shape& shape) {
  if (config.variant != Variant::warp) return "access staged is for variant warp";
  if (!shape.without_gaps())
    return "access staged copies the rows of a block at once, which needs arrays without gaps between rows that start at "
           "multiples of 16 bytes";
  if (shape.wide()) return "access staged is not for f64";
  if (shape.cost.lanes_of_group > 1 || shape.cost.sums_rows())
    return "access staged has no groups of columns and no sums over the rows";
  if (config.load != LoadHint::plain) return "access staged copies rows to shared memory; its load must be plain";
  std::int64_t least = size_of(shape.cost.writes ? shape.out.dtype.value_or(shape.output) : shape.input);
  for (int i = 0; i < shape.inputs; ++i) least = std::min(least, size_of(shape.input_dtype(i)));
  for (int i = 0; i < shape.more_outputs; ++i) least = std::min(least, size_of(shape.more_output_dtype(i)));
  const int rows = config.rows_of_block();
  const std::int64_t step = 16 / least;
  if (rows % step != 0)
    return "a block has " + std::to_string(rows) + " rows (threads / lanes * rounds); access staged needs a multiple of " +
           std::to_string(step) + ", so that every block's rows start at a multiple of 16 bytes";
  return {};
}

RowAddresses addresses_of(const Shape& shape, const std::string& params) {
  const std::string row = params == "RowParams" ? "" : "row.";
  RowAddresses addresses;
  for (int i = 0; i < shape.inputs; ++i) addresses.inputs.push_back(row + "input[" + std::to_string(i) + "]");
  if (shape.cost.writes) addresses.outputs = {row + "output"};
  return addresses;
}

std::string staged_kernel(const TypedConfig& config, const StagedRowsOf& rows, const std::string& params,
                          const std::string& call) {
  const StagedArrays arrays = staged_arrays(rows.shape);
  const std::string row = params == "RowParams" ? "params" : "params.row";
  std::string text = "  auto staged = params;\n  auto rows = tunesmith::StagedRows<shape, Group>(" + row + ");\n";
  std::string prefetches, results, writes;
  for (std::size_t i = 0; i < rows.addresses.inputs.size(); ++i) {
    const auto& [dtype, offset] = arrays.inputs.at(i);
    const std::string& address = rows.addresses.inputs[i];
    text.append("  staged." + address + " = rows.request<" + device_type(dtype));
    text.append(">(params." + address + ", " + std::to_string(offset) + ");\n");
    if (config.prefetch_blocks > 0)
      prefetches.append("  tunesmith::prefetch_staged_rows<" + device_type(dtype) + ", shape, " +
                        prefetch_arguments(config, rows.shape) + ">(" + row + ", params." + address + ");\n");
  }
  for (std::size_t i = 0; i < rows.addresses.outputs.size(); ++i) {
    const auto& [dtype, offset] = arrays.outputs.at(i);
    const std::string& address = rows.addresses.outputs[i];
    results.append("  staged." + address + " = rows.results(" + std::to_string(offset) + ");\n");
    writes.append("  rows.write<" + device_type(dtype) + ", " + source_name(config.store));
    writes.append(">(params." + address + ", " + std::to_string(offset) + ");\n");
  }
  if (!writes.empty()) writes = "  rows.computed();\n" + writes;
  if (!rows.addresses.near.empty())
    text.append("  rows.bring_near<" + rows.addresses.near_type + ">(params." + rows.addresses.near + ");\n");
  return text + prefetches + results + "  rows.arrived();\n  " + call + "(staged);\n" + writes;
}

}  // namespace tunesmith::row
