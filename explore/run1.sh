cd "$(dirname "$0")"; export PYTHONUNBUFFERED=1
b="timeout 50 python3 bench.py"
( $b check d128_red d128_red_causal > $OUT/c1 2>&1 ) & ( $b check d128_bulk d128_bulk_causal > $OUT/c2 2>&1 ) &
( $b check d64_red d64_red_causal > $OUT/c3 2>&1 ) & ( $b check d64_bulk d64_bulk_causal > $OUT/c4 2>&1 ) & wait
cat $OUT/c1 $OUT/c2 $OUT/c3 $OUT/c4
{
$b time 128 8192 0 d128_red d128_bulk d128_red:rotate=2 d128_bulk:rotate=2 d128_none d128_noexp d128_none_noexp d128_red:parts=2 d128_red:parts=5 d128_red:section=64
$b time 128 8192 1 d128_red_causal d128_bulk_causal d128_bulk_causal:section=2 d128_bulk_causal:section=8
$b time 64 8192 0 d64_red d64_bulk d64_red:rotate=1 d64_bulk:rotate=1 d64_none d64_noexp d64_red:parts=2
$b time 64 8192 1 d64_red_causal d64_bulk_causal
$b time 128 2048 0 d128_red d128_bulk d128_red:parts=2 d128_red:parts=5
$b time 128 512 0 d128_red d128_bulk d128_red:parts=2 d128_red:parts=5
} 2>&1 | tee $OUT/times
