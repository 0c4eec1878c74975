#include "tests/random/layout.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

namespace tunesmith::test {
namespace {

/// A dimension whose stride a field holds; for fields that are texts, the stride of one array in it.
struct Dimension {
  std::string field;
  std::size_t index = 0;
  std::int64_t extent = 1, stride = 0;
};

struct Layout {
  ArrayInfo array;
  std::vector<Dimension> dimensions;
};

void draw_strides(Chance& chance, Layout& layout) {
  std::int64_t step = 1;
  for (std::size_t i = 0; i < layout.array.shape.size(); ++i)
    if (std::ranges::none_of(layout.dimensions, [&](const Dimension& d) { return d.index == i; }))
      step = std::max(step, layout.array.strides[i] * std::max<std::int64_t>(layout.array.shape[i], 1));
  std::ranges::reverse(layout.dimensions);  // the innermost first
  const auto kind = chance.below(20);
  if (kind >= 12) chance.shuffle(layout.dimensions);
  const std::int64_t pad = chance.one_of(std::array<std::int64_t, 7>{0, 0, 1, 3, 8, 16, 64});
  for (Dimension& dimension : layout.dimensions) {
    const std::int64_t padded = chance.with(0.5) ? step + pad : step;
    dimension.stride = pad >= 8 ? (padded + pad - 1) / pad * pad : padded;
    if (kind >= 10 && kind <= 13 && (layout.array.input || chance.with(0.1)) && chance.with(0.5)) {
      dimension.stride = 0;
      continue;
    }
    if (kind == 19) dimension.stride = chance.octave(0, 2 * step);  // may overlap
    step = std::max(step, dimension.stride * std::max<std::int64_t>(dimension.extent, 1));
  }
}

/// Finds the dimensions by giving every field a stride of its own.
std::vector<Layout> layouts_of(const Op& op, const Fields& given, const std::vector<std::string>& fields) {
  constexpr std::int64_t first = 1'000'003;
  Fields marked = given;
  for (std::size_t i = 0; i < fields.size(); ++i) marked.set(fields[i], first + static_cast<std::int64_t>(i));
  std::vector<Layout> layouts;
  for (const ArrayInfo& array : op.describe_arrays(marked)) {
    Layout layout{array, {}};
    for (std::size_t d = 0; d < array.strides.size(); ++d) {
      const std::int64_t mark = array.strides[d] - first;
      if (mark >= 0 && mark < static_cast<std::int64_t>(fields.size()))
        layout.dimensions.push_back({fields[static_cast<std::size_t>(mark)], d, array.shape[d]});
    }
    if (!layout.dimensions.empty()) layouts.push_back(layout);
  }
  return layouts;
}

/// Outputs that overwrite an input have its strides.
void copy_in_place(std::vector<Layout>& layouts) {
  for (Layout& output : layouts)
    for (const Layout& input : layouts)
      if (!output.array.in_place_of.empty() && output.array.in_place_of == input.array.name)
        for (Dimension& dimension : output.dimensions)
          for (const Dimension& other : input.dimensions)
            if (other.index == dimension.index) dimension.stride = other.stride;
}

/// Fields such as row_strides: "x=4104;y=0".
void draw_texts(Chance& chance, const Op& op, Fields& given, const std::vector<std::string>& fields) {
  std::vector<Layout> layouts;
  const bool columns = chance.with(0.5) || (given.contains("inner") && given.integer("inner") > 1);
  for (const ArrayInfo& array : op.describe_arrays(given)) {
    if (array.shape.size() < 2 || array.dims.empty() || array.dims[1] != "cols" || chance.with(0.3)) continue;
    Layout layout{array, {}};
    for (std::size_t d = 0; d < fields.size() && d < array.shape.size(); ++d)
      if (d == 0 || columns) layout.dimensions.push_back({fields[d], d, array.shape[d]});
    draw_strides(chance, layout);
    layouts.push_back(layout);
  }
  if (chance.with(0.8)) copy_in_place(layouts);
  std::map<std::string, std::string> texts;
  for (const Layout& layout : layouts)
    for (const Dimension& dimension : layout.dimensions) {
      std::string& text = texts[dimension.field];
      text += (text.empty() ? "" : ";") + layout.array.name + "=" + std::to_string(dimension.stride);
    }
  for (const auto& [field, text] : texts) given.set(field, text);
}

}  // namespace

void draw_layout(Chance& chance, const Op& op, Fields& given) {
  std::vector<std::string> numbers, texts;
  const std::vector<ArrayInfo> arrays = op.describe_arrays(given);
  const bool columns = chance.with(0.5);
  for (const DescribedField& field : op.describe_fields(given)) {
    if (!is_stride(field.name) || !field.facts.only_with.holds) continue;
    if (field.kind == FieldKind::text) texts.emplace_back(field.name);
    if (field.kind != FieldKind::integer) continue;
    // A stride between columns that are adjacent so far makes the arrays ones of three dimensions.
    Fields marked = given;
    marked.set(field.name, std::int64_t{1'000'003});
    const std::vector<ArrayInfo> changed = op.describe_arrays(marked);
    bool same_ranks = true;
    for (std::size_t i = 0; i < arrays.size(); ++i)
      same_ranks = same_ranks && arrays[i].shape.size() == changed[i].shape.size();
    if (same_ranks || columns) numbers.emplace_back(field.name);
  }
  if (!texts.empty()) draw_texts(chance, op, given, texts);
  if (numbers.empty()) return;
  std::vector<Layout> layouts = layouts_of(op, given, numbers);
  std::erase_if(layouts, [&](const Layout&) { return chance.with(0.3); });
  for (Layout& layout : layouts) draw_strides(chance, layout);
  if (chance.with(0.8)) copy_in_place(layouts);
  for (const Layout& layout : layouts)
    for (const Dimension& dimension : layout.dimensions) given.set(dimension.field, dimension.stride);
}

}  // namespace tunesmith::test
