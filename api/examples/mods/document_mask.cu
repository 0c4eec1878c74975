// Documents packed into one sequence: a query sees the keys of its own document. Which document a position belongs to is
// given for queries and keys of every sequence; for attention within a sequence, the same array twice. Beside causal=... it
// is the mask of packed training data.
//
// aux: query_document:i32[batch*seq_q]; key_document:i32[batch*seq_kv]; queries:i32=seq_q; keys:i32=seq_kv

__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) {
  return aux.query_document[b * aux.queries + q] == aux.key_document[b * aux.keys + k];
}
