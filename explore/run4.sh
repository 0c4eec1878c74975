cd "$(dirname "$0")"; export PYTHONUNBUFFERED=1
b="timeout 40 python3 bench.py"
( $b check d128_defer d128_merge d128_merge1 d128_merge_causal > $OUT/c1 2>&1 ) & ( $b check d128_apart d128_apart_causal d128_apart3 d128_apartred > $OUT/c2 2>&1 ) &
( $b check d64_defer d64_merge > $OUT/c3 2>&1 ) & ( $b check d64_apart d64_apartred > $OUT/c4 2>&1 ) & wait
cat $OUT/c1 $OUT/c2 $OUT/c3 $OUT/c4 | grep -v cudnn
{
R=:rotate=2
$b time 128 8192 0 d128_two$R d128_defer$R d128_merge$R d128_merge1$R d128_mergenoexp$R 
$b time 128 8192 0 d128_two$R d128_apart$R d128_apart3$R d128_apartred$R d128_apartnone
$b time 128 8192 1 d128_merge_causal d128_apart_causal
$b time 64 8192 0 d64_bulk d64_defer d64_merge
$b time 64 8192 0 d64_bulk d64_apart d64_apartred
} 2>&1 | tee $OUT/times
