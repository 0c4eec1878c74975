#pragma once
// A normalized problem over rows as plain numbers, and values derived from them. Internal to templates/.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "templates/row/capacity.h"
#include "templates/row/cost.h"
#include "templates/row/options.h"

namespace tunesmith::row {

/// Static shared memory that the partial results of a row program may take, in bytes: CUDA allows a kernel 48 KiB.
inline constexpr std::int64_t max_exchanged_bytes = 46 << 10;

/// Largest partial result, in floats, for which a grid has room (GridGroup::max_words in device/group.cuh).
inline constexpr int max_floats_of_grid = 8;

inline constexpr std::int64_t line_bytes = 128;  ///< of a cache line

/// One array of rows.
struct Rows {
  std::int64_t stride = 0;       ///< elements
  std::int64_t alignment = 0;    ///< bytes, of the base address
  std::optional<DType> dtype{};  ///< absent: Shape::input, or Shape::output
};

struct Shape {
  std::int64_t rows = 0, cols = 0;
  /// Columns of the problem, if `cols` is the capacity of a kernel for any width from min_cols to `cols`; otherwise 0.
  std::int64_t actual_cols = 0;
  std::int64_t min_cols = 0;
  DType input = DType::f32, output = DType::f32;
  int inputs = 1;  ///< number of input arrays: x, or dy and y
  std::array<Rows, 4> in;
  Rows out;
  int more_outputs = 0;  ///< number of outputs after `out`
  std::array<Rows, 3> more_out{};
  ProgramCost cost{};            ///< of a composed program: `input` and `output` are the widest dtypes
  bool computes_in_f64 = false;  ///< an array is of f64, which may be any
  bool in_place = false;         ///< an output overwrites an input
  bool out_is_apart = false;     ///< in_place, but `out` does not overwrite in[0]
  int staged_rows = 0;           ///< rows of a block whose rows pass through shared memory; 0: none
  int widest = 16;  ///< maximum elements per vector, which a configuration chooses for rows that are not vector-aligned
  Options options;

  /// Returns whether a kernel of its own reads two arrays.
  bool reads_two() const noexcept { return inputs == 2 && !cost.composed; }
  bool is_masked() const noexcept { return options.mask != Mask::none; }
  /// Returns whether the kernel writes few long rows: the number of blocks for each of them then decides how many
  /// multiprocessors work.
  bool few_and_long() const noexcept;
  /// Returns whether the kernel reads long rows once and there may be fewer rows than multiprocessors.
  bool few_read_once() const noexcept;
  /// Returns whether elements are f64. Values and sums of a row are double then, as large as two floats.
  bool wide() const noexcept { return input == DType::f64 || computes_in_f64; }
  /// Returns the registers that a value of a row takes.
  int words_of_value() const noexcept { return wide() ? 2 : 1; }
  DType input_dtype(int index) const noexcept { return in[static_cast<std::size_t>(index)].dtype.value_or(input); }
  DType more_output_dtype(int index) const noexcept {
    return more_out[static_cast<std::size_t>(index)].dtype.value_or(output);
  }
  /// Returns whether an array has elements of one byte.
  bool has_bytes() const noexcept;
  /// Returns the elements per vector: 16 bytes of the widest dtype, or less if only less is aligned in all arrays.
  int vector() const noexcept { return access().vector; }
  /// Returns whether rows are not vector-aligned. Their offset is the same in all arrays, so one shift aligns all.
  bool shifted() const noexcept { return access().shifted; }
  /// Returns the alignment, in elements, of the position from which columns of a shifted row count: a 128-byte line of the
  /// first input, so that a warp touches as few lines as possible; a vector for short rows. 0: not shifted.
  int line() const noexcept { return line_of(access()); }
  /// Returns the mask elements per load.
  int mask_vector() const noexcept { return shifted() ? 1 : static_cast<int>(options.mask_vector(vector())); }
  std::int64_t vectors_per_row() const noexcept { return vectors_per_row(cols); }
  /// Returns the same for a row of `width` columns in the kernel for this shape.
  std::int64_t vectors_per_row(std::int64_t width) const noexcept;
  /// Returns the resident bytes per element over all inputs, as float32 with an additive mask.
  std::int64_t resident_element_bytes() const noexcept;
  /// Returns the resident bytes per element of the input with the fewest.
  std::int64_t min_resident_bytes() const noexcept;
  /// Returns the most columns of the bucket that the problem is in. A vector holds the columns before which a row that is
  /// not vector-aligned starts, so that its bucket ends that many columns earlier.
  std::int64_t capacity() const noexcept;
  /// Returns the same problem with vectors of at most `elements`: a configuration may choose narrow accesses.
  Shape with_vectors_of(int elements) const;
  /// Returns whether rows start and end at pairs of elements.
  bool starts_at_pairs() const noexcept { return !with_vectors_of(2).shifted(); }
  /// Returns the problem of the kernel for its bucket.
  Shape with_capacity() const;
  /// Returns the rows for which the kernel of a capacity is chosen: a power of two, so that few kernels serve all numbers.
  /// Of few long rows, whose number decides the blocks for each of them, there are up to eight buckets an octave:
  /// few_and_long() and few_read_once().
  std::int64_t rows_bucket() const noexcept;
  /// Returns the bucket of rows that tuning is keyed on: from 65536 rows on, every GPU is full for every configuration.
  std::int64_t tuned_rows_bucket() const noexcept;
  /// Returns whether a vector may cross the end of a row.
  bool crosses_ends() const noexcept {
    return vector() > 1 && (shifted() || (actual_cols == 0 ? cols : actual_cols) % vector() != 0);
  }
  /// Returns whether the number of contributing columns differs between rows.
  bool ragged() const noexcept { return options.causal || options.valid_cols; }
  /// Returns whether rows may pass through shared memory: they follow each other in every array, which starts at 16 bytes.
  bool without_gaps() const noexcept;
  /// Returns the bytes read and written, without masks.
  std::int64_t traffic_bytes() const noexcept;
  /// Returns everything except rows and cols that affects the generated source or the fastest configuration.
  std::string problem_class() const;
  /// Returns the same for kernels of a capacity, with the bucket of rows and how rows end.
  std::string capacity_class() const;

 private:
  /// Returns the resident bytes of the narrowest row of the bucket. Rules use it so that all widths of the bucket have the
  /// same result.
  std::int64_t min_row_bytes() const noexcept;

  /// How all arrays are accessed.
  struct Access {
    int vector;    ///< elements
    bool shifted;  ///< rows start between two vectors, at the same offset in all arrays
  };
  Access access() const noexcept;
  int line_of(const Access& access) const noexcept;
  std::int64_t widest_vector() const noexcept;
  /// Returns whether rows start at the same offset from vectors of this many elements in all arrays.
  bool offsets_agree(std::int64_t vector) const noexcept;
};

}  // namespace tunesmith::row
