// Default configurations: they equal the results of full tuning on an H200 and have no performance cliffs between adjacent
// numbers of columns.

#include <gtest/gtest.h>

#include "templates/row/defaults/model.h"
#include "tests/templates/softmax/defaults.h"

namespace tunesmith {
namespace {

using test::default_of;
using test::default_of_bucket;
using test::expect;
using test::h100;

// Two exceptions: for 12672 columns the default has 288 threads with 11 vectors each, which the tuner did not try; it chose
// 256. Clusters of small blocks are not in these records: they are faster or level on an H100 and an H200 (row/NOTES.md,
// "Clusters of small blocks, 32 KiB to a MiB").
TEST(SoftmaxDefault, EqualsTheResultOfFullTuningOnAnH200) {
  expect(default_of, "",
         {
             {"softmax", "rows=65536,cols=128", "variant=warp,threads=64,lanes=8,"},
             {"softmax", "rows=16384,cols=512", "variant=warp,threads=64,lanes=32,"},
             {"softmax", "rows=4096,cols=2048", "variant=block,threads=64,min_blocks=16,registers=float32,"},
             {"softmax", "rows=4096,cols=4096", "variant=block,threads=128,min_blocks=8,registers=float32,"},
             {"softmax", "rows=4096,cols=6144", "variant=block,threads=128,min_blocks=6,registers=float32,"},
             {"softmax", "rows=4096,cols=8192", "variant=block,threads=256,min_blocks=4,registers=float32,"},
             {"softmax", "rows=4096,cols=12672", "variant=block,threads=288,min_blocks=3,registers=float32,"},
             {"softmax", "rows=4096,cols=16384", "variant=block,threads=512,min_blocks=2,registers=float32,"},
             {"softmax", "rows=4096,cols=32768",
              "variant=cluster,threads=128,blocks_per_row=4,register_vectors=8,min_blocks=8,registers=float32,"},
             {"softmax", "rows=4096,cols=65536",
              "variant=cluster,threads=128,blocks_per_row=8,register_vectors=8,min_blocks=8,registers=float32,"},
             {"softmax", "rows=131072,cols=128,dtype=bf16", "variant=warp,threads=128,lanes=8,"},
             {"softmax", "rows=65536,cols=256,dtype=bf16", "variant=warp,threads=128,lanes=16,"},
             {"softmax", "rows=4096,cols=8192,dtype=bf16", "variant=block,threads=128,min_blocks=8,registers=packed,"},
             {"softmax", "rows=4096,cols=32768,dtype=bf16", "variant=block,threads=512,min_blocks=2,registers=packed,"},
             {"softmax", "rows=4096,cols=65536,dtype=bf16",
              "variant=cluster,threads=128,blocks_per_row=4,register_vectors=3,min_blocks=7,registers=float32,"},
             {"softmax", "rows=4096,cols=131072,dtype=bf16",
              "variant=pipeline,threads=512,blocks_per_row=4,stages=13,chunk_bytes=16384,ahead=1,"},
         });
}

// 16 registers of a thread hold elements and their masks as loaded. Wider rows are not in the shipped records: at most 32
// values of a thread in registers.
TEST(SoftmaxDefault, MaskedRowsHaveTheThreadsOfTheFastestRecords) {
  expect(default_of, "rows=16384,",
         {
             {"softmax", "cols=4096,mask=keep", "variant=block,threads=256,min_blocks=4,registers=float32,load=evict_last,"},
             {"softmax", "cols=4096,mask=keep,mask_row_stride=0",
              "variant=block,threads=256,min_blocks=4,registers=float32,load=evict_last,"},
             {"softmax", "cols=4096,mask=add", "variant=block,threads=512,min_blocks=2,registers=float32,load=evict_last,"},
             {"softmax", "cols=4096,dtype=bf16,mask=add,mask_dtype=bf16",
              "variant=block,threads=256,min_blocks=4,registers=float32,"},
             {"softmax", "cols=8192,mask=keep", "variant=block,threads=512,min_blocks=2,registers=float32,"},
             {"softmax", "cols=1024,mask=keep", "variant=block,threads=64,min_blocks=16,registers=float32,"},
             {"softmax", "cols=16384,mask=keep",
              "variant=hybrid,threads=512,register_vectors=6,min_blocks=2,registers=float32,"},
         });
}

// The fastest of all lanes and accesses on an H200, for 64 to 600 MB (row/NOTES.md, "Short rows: lanes"). Rows with gaps are
// not staged.
TEST(SoftmaxDefault, ShortRowsWithoutAlignmentHaveTheFastestLanes) {
  expect(default_of, "rows=262144,",
         {
             {"softmax", "cols=30,dtype=bf16", "variant=warp,threads=64,lanes=1,access=staged,rounds=4,"},
             {"softmax", "cols=47,dtype=bf16", "variant=warp,threads=64,lanes=1,access=staged,rounds=2,"},
             {"softmax", "cols=141,dtype=bf16", "variant=warp,threads=128,lanes=16,access=staged,rounds=4,"},
             {"softmax", "cols=701,dtype=bf16", "variant=warp,threads=128,lanes=32,access=staged,rounds=2,"},
             {"softmax", "cols=21", "variant=warp,threads=64,lanes=1,access=staged,rounds=2,"},
             {"softmax_backward", "cols=77,dtype=bf16", "variant=warp,threads=64,lanes=8,access=staged,rounds=4,"},
             {"cross_entropy", "cols=30,dtype=bf16", "variant=warp,threads=64,lanes=1,access=staged,rounds=4,"},
             {"cross_entropy", "cols=141,dtype=bf16", "variant=warp,threads=64,lanes=4,access=staged,rounds=2,"},
             {"cross_entropy", "cols=1002", "variant=warp,threads=128,lanes=32,load="},
             {"cross_entropy", "cols=77,dtype=bf16,gradient=in_place",
              "variant=warp,threads=64,lanes=8,access=staged,rounds=8,"},
             {"cross_entropy", "cols=301,dtype=bf16,gradient=in_place",
              "variant=warp,threads=64,lanes=32,access=staged,rounds=8,"},
             {"cross_entropy", "cols=77,gradient=in_place", "variant=warp,threads=64,lanes=8,access=staged,rounds=4,"},
             {"cross_entropy", "cols=194,gradient=in_place", "variant=warp,threads=64,lanes=16,access=pairs,"},
             {"cross_entropy", "cols=403,gradient=in_place", "variant=warp,threads=128,lanes=32,access=elements,"},
             {"cross_entropy", "cols=850,dtype=bf16,gradient=in_place",
              "variant=block,threads=32,min_blocks=32,registers=float32,access=pairs,"},
             {"softmax", "cols=402", "variant=block,threads=32,min_blocks=32,registers=float32,access=pairs,"},
             {"softmax", "cols=403", "variant=block,threads=32,min_blocks=32,registers=float32,access=elements,"},
             {"softmax_backward", "cols=402,dtype=bf16", "variant=warp,threads=64,lanes=32,access=pairs,"},
             {"layer_norm", "cols=403", "variant=warp,threads=128,lanes=32,access=staged,rounds=2,"},
             {"softmax", "cols=30,dtype=bf16,x_row_stride=38", "variant=warp,threads=128,lanes=4,access=pairs,"},
             {"softmax", "cols=47,dtype=bf16,x_row_stride=55", "variant=warp,threads=128,lanes=8,access=elements,"},
             {"softmax", "cols=701,dtype=bf16,x_row_stride=709", "variant=warp,threads=64,lanes=32,access=pairs,"},
             {"softmax", "cols=21,x_row_stride=25", "variant=warp,threads=128,lanes=4,access=elements,"},
         });
}

// Rows of more than 1024 columns without alignment: blocks that access pairs, or elements where columns have weights.
TEST(SoftmaxDefault, LongerRowsWithoutAlignmentHaveNarrowAccesses) {
  expect(default_of, "rows=8192,",
         {
             {"softmax", "cols=3082,dtype=bf16", "variant=block,threads=64,min_blocks=12,registers=float32,access=pairs,"},
             {"softmax", "cols=10002", "variant=block,threads=256,min_blocks=3,registers=float32,access=pairs,"},
             {"softmax", "cols=3083,dtype=bf16", "variant=block,threads=32,min_blocks=24,registers=packed,"},
             {"softmax", "cols=20002", "variant=block,threads=320,min_blocks=2,registers=float32,load="},
             {"softmax_backward", "cols=6006", "variant=block,threads=256,min_blocks=4,registers=float32,access=pairs,"},
             {"cross_entropy", "cols=3082,gradient=in_place",
              "variant=block,threads=64,min_blocks=10,registers=float32,access=pairs,"},
             {"cross_entropy", "cols=6006,dtype=bf16,gradient=in_place",
              "variant=block,threads=64,min_blocks=12,registers=packed,"},
             {"rms_norm", "cols=6006,weight=1", "variant=block,threads=512,min_blocks=2,registers=float32,access=pairs,"},
             {"layer_norm", "cols=6007", "variant=block,threads=512,min_blocks=2,registers=float32,access=elements,"},
         });
}

// Few vectors in each lane, or a row of an odd number of 16 bytes begins in the middle of a sector (row/NOTES.md, "Short
// rows: lanes"). Losses exchange more, and so take more; with their gradient and up to 2048 columns they are blocks of 64
// threads.
TEST(SoftmaxDefault, ShortAlignedRowsHaveFewVectorsInEachLane) {
  expect(default_of, "rows=262144,",
         {
             {"softmax", "cols=72,dtype=bf16", "variant=warp,threads=128,lanes=4,"},
             {"softmax", "cols=104,dtype=bf16", "variant=warp,threads=128,lanes=8,"},
             {"softmax", "cols=16,dtype=bf16", "variant=warp,threads=128,lanes=2,"},
             {"softmax", "cols=36", "variant=warp,threads=64,lanes=4,"},
             {"softmax_backward", "cols=48,dtype=bf16", "variant=warp,threads=128,lanes=2,"},
             {"softmax_backward", "cols=168,dtype=bf16", "variant=warp,threads=128,lanes=8,"},
             {"softmax_backward", "cols=332,dtype=bf16", "variant=warp,threads=64,lanes=32,access=pairs,"},
             {"log_softmax", "cols=24,dtype=bf16", "variant=warp,threads=128,lanes=1,"},
             {"log_softmax", "cols=64,dtype=bf16", "variant=warp,threads=128,lanes=4,"},
             {"log_softmax", "cols=104,dtype=bf16", "variant=warp,threads=128,lanes=4,"},
             {"add_rms_norm", "cols=104,dtype=bf16", "variant=warp,threads=128,lanes=16,"},
             {"add_layer_norm", "cols=104,dtype=bf16", "variant=warp,threads=128,lanes=8,"},
             {"rms_norm", "cols=64,dtype=bf16,weight=1", "variant=warp,threads=128,lanes=4,"},
             {"layer_norm", "cols=64,dtype=bf16", "variant=warp,threads=128,lanes=4,"},
             {"cross_entropy", "cols=32", "variant=warp,threads=128,lanes=2,"},
             {"cross_entropy", "cols=128,dtype=bf16", "variant=warp,threads=128,lanes=4,"},
             {"cross_entropy", "cols=16,dtype=bf16", "variant=warp,threads=128,lanes=1,"},
             {"cross_entropy", "cols=128,dtype=bf16,gradient=in_place", "variant=warp,threads=128,lanes=4,"},
             {"cross_entropy", "cols=32,dtype=bf16,gradient=in_place", "variant=warp,threads=128,lanes=2,"},
             {"cross_entropy", "cols=24,dtype=bf16,gradient=in_place", "variant=warp,threads=128,lanes=1,"},
             {"cross_entropy", "cols=72,dtype=bf16,gradient=in_place", "variant=warp,threads=128,lanes=4,"},
             {"cross_entropy", "cols=56,gradient=in_place", "variant=warp,threads=64,lanes=4,"},
             {"cross_entropy", "cols=2000,dtype=bf16,gradient=in_place",
              "variant=block,threads=64,min_blocks=16,registers=float32,"},
         });
}

// The grid is persistent, so that its blocks have to be resident at once: min_blocks bounds their registers.
TEST(SoftmaxDefault, RowsWithSumsOverRowsHaveResidentBlocks) {
  expect(default_of, "rows=100000,",
         {
             {"layer_norm_gradient", "cols=128,dtype=bf16", "variant=warp,threads=128,lanes=8,min_blocks=4,"},
             {"layer_norm_gradient", "cols=96,dtype=bf16", "variant=warp,threads=128,lanes=4,min_blocks=3,"},
             {"layer_norm_gradient", "cols=128", "variant=warp,threads=128,lanes=16,min_blocks=6,"},
             {"layer_norm_gradient", "cols=512", "variant=warp,threads=128,lanes=32,min_blocks=4,"},
             {"rms_norm_gradient", "cols=192,dtype=bf16", "variant=warp,threads=128,lanes=8,min_blocks=4,"},
             {"rms_norm_gradient", "cols=100,dtype=bf16", "variant=warp,threads=128,lanes=8,min_blocks=4,"},
             {"rms_norm_gradient", "cols=77,dtype=bf16", "variant=warp,threads=256,lanes=16,min_blocks=4,"},
             {"rms_norm_gradient", "cols=1024,dtype=bf16", "variant=warp,threads=128,lanes=32,min_blocks=3,"},
             {"layer_norm_gradient", "cols=1024,dtype=bf16", "variant=persistent,threads=128,"},
             {"layer_norm_gradient", "cols=333", "variant=block,threads=32,min_blocks=20,"},
             {"rms_norm_gradient", "cols=1030", "variant=block,threads=64,min_blocks=8,"},
             {"rms_norm_gradient", "cols=3001,dtype=bf16", "variant=block,threads=128,min_blocks=4,"},
         });
}

// Seven blocks of 128 threads on a multiprocessor, six of float32; rows that are read again by a second stage stay float32.
TEST(SoftmaxDefault, LongNormsAreClustersOfSmallBlocks) {
  expect(default_of, "rows=1024,",
         {
             {"rms_norm", "cols=32768,dtype=bf16,weight=1",
              "variant=cluster,threads=128,blocks_per_row=2,register_vectors=4,min_blocks=7,registers=packed,"},
             {"rms_norm", "cols=131072,dtype=bf16,weight=1",
              "variant=cluster,threads=128,blocks_per_row=8,register_vectors=4,min_blocks=7,registers=packed,"},
             {"rms_norm", "cols=32768,weight=1",
              "variant=cluster,threads=128,blocks_per_row=4,register_vectors=4,min_blocks=6,registers=float32,"},
             {"layer_norm", "cols=65536,dtype=bf16",
              "variant=cluster,threads=128,blocks_per_row=4,register_vectors=3,min_blocks=7,registers=float32,"},
             {"layer_norm", "cols=32768,dtype=bf16", "variant=cluster,threads=128,blocks_per_row=2,"},
             {"layer_norm", "cols=16384,dtype=bf16", "variant=block,"},
             // Programs like softmax have its clusters.
             {"softmin", "cols=65536",
              "variant=cluster,threads=128,blocks_per_row=8,register_vectors=8,min_blocks=8,registers=float32,"},
             {"softmin", "cols=20000,dtype=bf16", "variant=cluster,threads=128,blocks_per_row=2,"},
             {"rms_norm", "cols=8192,dtype=bf16,weight=1", "variant=block,"},
         });
}

// Measured on an H100: within 12% of the kernel for the width (row/NOTES.md, "Kernels for buckets of widths").
TEST(SoftmaxDefault, BucketsOfLossesAndMasksHaveKernelsWithoutLateLoads) {
  expect(default_of_bucket, "rows=20000,",
         {
             {"cross_entropy", "cols=1163,dtype=bf16",
              "variant=block,threads=32,min_blocks=32,registers=packed,load=streaming,"},
             {"cross_entropy", "cols=1806,dtype=bf16",
              "variant=block,threads=32,min_blocks=32,registers=packed,load=streaming,"},
             {"cross_entropy", "cols=1480,dtype=bf16,gradient=in_place",
              "variant=block,threads=64,min_blocks=18,registers=float32,"},
             {"cross_entropy", "cols=80,dtype=bf16,gradient=in_place", "variant=warp,threads=128,lanes=4,"},
             {"cross_entropy", "cols=528,dtype=bf16,gradient=in_place", "variant=warp,threads=128,lanes=16,"},
             {"softmax", "cols=1023,dtype=bf16,mask=keep", "variant=warp,threads=64,lanes=32,access=elements,"},
             {"softmax", "cols=77,dtype=bf16,mask=keep", "variant=warp,threads=128,lanes=8,access=staged,"},
         });
}

// Of the widest width of the bucket; rows with gaps: of the narrowest, or of the middle of an octave.
TEST(SoftmaxDefault, BucketsOfShortRowsHaveLanesForTheirRows) {
  expect(default_of_bucket, "rows=65536,",
         {
             {"softmax", "cols=23", "variant=warp,threads=64,lanes=1,access=staged,"},
             {"softmax", "cols=31,dtype=bf16", "variant=warp,threads=64,lanes=1,access=staged,"},
             {"softmax", "cols=183", "variant=warp,threads=128,lanes=16,access=staged,"},
             {"softmax", "cols=501", "variant=block,threads=32,min_blocks=32,registers=float32,access=elements,"},
             {"softmax", "cols=37,x_row_stride=41", "variant=warp,threads=128,lanes=8,access=elements,"},
             {"softmax", "cols=49,dtype=bf16,x_row_stride=57", "variant=warp,threads=128,lanes=8,access=pairs,"},
             {"softmax", "cols=183,x_row_stride=187", "variant=warp,threads=128,lanes=16,access=elements,"},
         });
}

// Powers of two, with up to 42 KiB of a row in each block; longer rows have blocks of 256 threads.
TEST(SoftmaxDefault, UsesTheSmallestClusterThatHoldsTheRow) {
  expect(default_of, "rows=4096,",
         {{"softmax", "cols=131072", "variant=cluster,threads=128,blocks_per_row=16,"},
          {"softmax", "cols=262144", "variant=cluster,threads=256,blocks_per_row=16,"},
          {"log_softmax", "cols=163840,dtype=bf16", "variant=cluster,threads=128,blocks_per_row=8,"},
          {"log_softmax", "cols=262144,dtype=bf16", "variant=cluster,threads=128,blocks_per_row=16,"}});
}

// Of gradients of 16 bits, blocks with most of a row in shared memory are faster between two and four times L2 (50 MB) only;
// with rows in registers, at least 84 KiB are in flight if arrays almost fit into L2.
TEST(SoftmaxDefault, GradientsHaveEnoughRowsInFlight) {
  const std::string hybrid = "variant=hybrid,threads=128,register_vectors=1,min_blocks=8,registers=packed,";
  expect(
      default_of, "",
      {
          {"softmax_backward", "rows=8192,cols=4096,dtype=bf16", hybrid},
          {"softmax_backward", "rows=4664,cols=6432,dtype=bf16", hybrid},
          {"softmax_backward", "rows=4664,cols=6433,dtype=bf16", "variant=block,"},
          {"softmax_backward", "rows=2048,cols=4096,dtype=bf16", "variant=block,"},
          {"softmax_backward", "rows=16087,cols=4144,dtype=bf16", "variant=block,"},
          {"softmax_backward", "rows=1120,cols=3081", "variant=block,threads=160,min_blocks=4,registers=float32,"},
          {"softmax_backward", "rows=833,cols=4001", "variant=block,threads=256,min_blocks=3,registers=float32,"},
          {"softmax_backward", "rows=1110,cols=6001,dtype=bf16", "variant=block,threads=128,min_blocks=5,registers=packed,"},
      });
}

// Of few rows, more blocks than they need share each, unless these would hold too little. Where few blocks of the largest
// clusters would be on a multiprocessor, it has larger blocks or a grid. Many rows that a block holds stay in one.
TEST(SoftmaxDefault, BlocksOfLongRowsAreSmall) {
  expect(default_of, "",
         {{"softmax", "rows=1316,cols=20952,dtype=bf16", "variant=cluster,threads=128,blocks_per_row=2,"},
          {"softmax", "rows=100,cols=40000,dtype=bf16", "variant=cluster,threads=128,blocks_per_row=8,"},
          {"softmax", "rows=60,cols=50257,dtype=bf16", "variant=cluster,threads=256,blocks_per_row=8,"},
          {"softmax", "rows=16,cols=262144,dtype=bf16", "variant=grid,"},
          {"layer_norm", "rows=20,cols=262144,dtype=bf16", "variant=cluster,threads=256,blocks_per_row=16,"},
          {"softmax", "rows=8000,cols=32768,dtype=bf16", "variant=block,"},
          {"softmax_backward", "rows=1500,cols=16384,dtype=bf16", "variant=cluster,threads=128,blocks_per_row=2,"},
          {"softmax_backward", "rows=189,cols=101631", "variant=cluster,threads=256,blocks_per_row=8,"},
          {"cross_entropy", "rows=300,cols=120000,dtype=bf16,gradient=in_place",
           "variant=cluster,threads=128,blocks_per_row=8,"},
          {"cross_entropy", "rows=116,cols=312061,gradient=in_place", "variant=cluster,threads=128,blocks_per_row=16,"},
          {"cross_entropy", "rows=329,cols=250084,gradient=in_place", "variant=pipeline,"}});
}

// Streamed rows win for gradients and for results of 16 bits, where there are rows enough for all clusters.
TEST(SoftmaxDefault, LongRowsStreamWhereThatIsFaster) {
  expect(default_of, "",
         {{"softmax", "rows=1024,cols=131072,dtype=bf16", "variant=pipeline,threads=512,blocks_per_row=4,"},
          {"softmax_backward", "rows=1024,cols=131072", "variant=pipeline,threads=256,blocks_per_row=16,"},
          {"softmax_backward", "rows=1024,cols=262144",
           "variant=pipeline,threads=256,blocks_per_row=16,stages=13,chunk_bytes=8192,ahead=0,"},
          {"log_softmax_backward", "rows=1024,cols=65536,dtype=bf16", "variant=pipeline,threads=512,blocks_per_row=4,"},
          {"softmax", "rows=1024,cols=131072", "variant=cluster,"},
          {"log_softmax", "rows=1024,cols=131072,dtype=bf16", "variant=cluster,"},
          {"softmax_backward", "rows=20,cols=131072", "variant=grid,"},
          {"softmax_backward", "rows=1024,cols=131073", "variant=cluster,"},
          {"softmax", "rows=1024,cols=131072,dtype=bf16,mask=keep", "variant=cluster,"}});
}

// A lane that holds a row of several vectors streams them only where the rows are few enough for L2.
TEST(SoftmaxDefault, RowsOfOneLane) {
  expect(default_of, "reduction=none,dtype=bf16,",
         {{"cross_entropy", "rows=400000,cols=40", "variant=warp,threads=128,lanes=1,load=streaming,"},
          {"cross_entropy", "rows=3000000,cols=40", "variant=warp,threads=128,lanes=1,load=plain,"},
          {"cross_entropy", "rows=3000000,cols=16", "variant=warp,threads=128,lanes=1,load=streaming,"}});
  expect(default_of_bucket, "reduction=none,dtype=bf16,",
         {{"cross_entropy", "rows=400000,cols=40", "variant=warp,threads=64,lanes=2,load=streaming,"},
          {"cross_entropy", "rows=3000000,cols=40", "variant=warp,threads=128,lanes=1,load=plain,"}});
}

TEST(SoftmaxDefault, HasNoCliffsBetweenAdjacentColumns) {
  constexpr std::int64_t array_bytes = 64 << 20, step = 64;
  // Gradients keep two arrays in registers, so one register or block less matters twice as much. Warps may have idle lanes:
  // twice as many with few vectors each are as fast.
  for (const auto& [op, least] : {std::pair{std::string_view("softmax"), 0.87}, {"softmax_backward", 0.76}})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      row::Expectation before;
      for (std::int64_t cols = step; cols <= 16384; cols += step) {
        row::Shape shape;
        shape.rows = array_bytes / (cols * size_of(dtype));
        shape.cols = cols;
        shape.input = shape.output = dtype;
        shape.inputs = op.ends_with("backward") ? 2 : 1;
        shape.in = {row::Rows{cols, 16}, row::Rows{cols, 16}};
        shape.out = {cols, 16};
        const std::string fields =
            "rows=" + std::to_string(shape.rows) + ",cols=" + std::to_string(cols) + ",dtype=" + std::string(name(dtype));
        const Config config = find_op(op).parse(test::normalized(op, fields))->default_config(h100());
        if (config.variant() == "hybrid") break;  // the model only covers registers
        const row::Expectation now = row::expectation(row::TypedConfig::parse(config), shape, h100());
        // Between warps and blocks, the bytes in flight increase, so the share may decrease.
        EXPECT_TRUE(now.value() >= before.value() * least || now.bytes >= before.bytes)
            << op << " " << fields << " " << config.text() << ": " << before.value() << " to " << now.value();
        EXPECT_GE(now.bytes, 32 << 10) << op << " " << fields << " " << config.text();
        before = now;
      }
      EXPECT_GT(before.value(), 0.7) << op;
    }
}

}  // namespace
}  // namespace tunesmith
