#pragma once
// The loop `buckets` of tunesmith_changing_shapes.

namespace tunesmith::bench {

/// Prints how far the configuration of one length of a bucket is from the own tuning of another length in it. Needs a GPU.
void measure_buckets();

}  // namespace tunesmith::bench
